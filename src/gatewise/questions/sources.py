"""Sources: where the public data sets live, under which licence, and how a whole copy is recognised."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mirror:
    """One address of a file, or of a ZIP archive that holds it."""

    url: str
    member: str = ""  # the end of its name inside the archive


@dataclass(frozen=True)
class Source:
    """One data set's development file: what is known of a whole copy, and where copies are."""

    name: str
    title: str
    file: str
    licence: str
    home: str
    mirrors: tuple[Mirror, ...]
    rows: int
    first: str = ""  # id of the first row, where known
    last: str = ""

    @property
    def official(self) -> str:
        """What its home calls the file, where that is not what the cache calls it."""
        return next((mirror.member for mirror in self.mirrors if mirror.member), "") or self.file


_HUB = "https://huggingface.co/datasets"

SOURCES = {
    source.name: source
    for source in (
        Source(
            name="hotpotqa",
            title="HotpotQA dev, distractor setting",
            file="hotpot_dev_distractor_v1.json",
            licence="CC BY-SA 4.0",
            home="https://hotpotqa.github.io",
            mirrors=(
                Mirror("http://curtis.ml.cmu.edu/datasets/hotpot/hotpot_dev_distractor_v1.json"),
                Mirror(f"{_HUB}/namlh2004/hotpotqa/resolve/main/hotpot_dev_distractor_v1.json"),
            ),
            rows=7405,
            first="5a8b57f25542995d1e6f1371",
            last="5ac132a755429964131be17c",
        ),
        Source(
            name="musique",
            title="MuSiQue dev, answerable",
            file="musique_ans_v1.0_dev.jsonl",
            licence="CC BY 4.0",
            home="https://github.com/StonyBrookNLP/musique",
            mirrors=(
                Mirror(f"{_HUB}/dgslibisey/MuSiQue/resolve/main/musique_ans_v1.0_dev.jsonl"),
                Mirror(f"{_HUB}/bdsaglam/musique/resolve/main/musique_ans_v1.0_dev.jsonl"),
                Mirror(f"{_HUB}/voidful/MuSiQue/resolve/main/musique_v1.0.zip", "musique_ans_v1.0_dev.jsonl"),
            ),
            rows=2417,
            first="2hop__460946_294723",
            last="3hop2__30152_107291_20999",
        ),
        Source(
            name="2wiki",
            title="2WikiMultihopQA dev",
            file="2wikimultihopqa_dev.json",
            licence="Apache-2.0",
            home="https://github.com/Alab-NII/2wikimultihop",
            mirrors=(
                Mirror("https://www.dropbox.com/s/ms2m13252h6xubs/data_ids_april7.zip?dl=1", "dev.json"),
                Mirror(f"{_HUB}/voidful/2WikiMultihopQA/resolve/main/dev.json"),
                Mirror(f"{_HUB}/kamelliao/2wikimultihopqa/resolve/main/data/dev.json"),
            ),
            rows=12576,
        ),
    )
}
