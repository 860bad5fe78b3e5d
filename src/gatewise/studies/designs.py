"""Designs: a study file → one frozen value that says data, plan, models, judge, gates and report.

Each step of a study is known by a digest of what it reads, so that `gatewise run` does again only what has changed.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any

from gatewise.errors import BrokenFile, nearest
from gatewise.questions.datasets import READERS, RULES
from gatewise.questions.plans import ORDERS, UNLABELLED
from gatewise.questions.similarity import SIMILARITIES
from gatewise.questions.splits import SHARES, SPLITS
from gatewise.recordings.calls import as_sent
from gatewise.recordings.endpoints import OURS, Prices
from gatewise.recordings.judges import F1, MODEL
from gatewise.recordings.prompts import PROMPTS
from gatewise.replays.summaries import THRESHOLDS
from gatewise.studies.sections import Check, Sections, looks_secret, require_fit

MAPS = ("isotonic", "isotonic-by-depth", "none")
BACKENDS = ("url", "local", "transformer")
JUDGES = ("exact", "f1", "model", "own")


def _among(*known: str) -> Check:
    return lambda value: "" if value in known else f"one of {', '.join(known)}"


def _from(low: float, high: float | None = None) -> Check:
    range_ = f"a number from {low:g}" + (f" to {high:g}" if high is not None else "")
    return lambda value: "" if low <= value and (high is None or value <= high) else range_


def _positive(value: float) -> str:
    return "" if value > 0 else "a number above 0"


def _fits(pattern: str, expected: str) -> Check:
    return lambda value: "" if re.fullmatch(pattern, value) else expected


_ADDRESS = re.compile(r"https?://(?:\[[0-9A-Fa-f:.]+\]|[\w.-]+)(?::(\d{1,5}))?(?:/[^\s?#@]*)?")


def _address(value: str) -> str:
    parts = _ADDRESS.fullmatch(value)
    fit = parts and 0 < int(parts[1] or 1) < 1 << 16
    return "" if fit else "an address without user, query and fragment, such as https://host/v1"


def _variable(value: str) -> str:
    fit = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", value) and not looks_secret(value)
    random = re.search(r"(?=[A-Za-z]*\d)[A-Za-z0-9]{20,}", value)
    return "" if fit and not random else "the name of an environment variable, such as OPENROUTER_API_KEY"


def _prompt(value: str) -> str:
    known = ", ".join(PROMPTS)
    fit = value in PROMPTS or value.endswith(".toml")
    return "" if fit else f"one of {known}, or a prompt file named .toml{nearest(value, list(PROMPTS))}"


def _priced(value: Prices) -> str:
    return "" if min(value.input, value.output) >= 0 else "prices from 0"


def _body(value: Mapping[str, Any]) -> str:
    touched = [name for name in OURS if name in value]
    if touched:
        return f"a body without {' and '.join(touched)}, which gatewise writes itself"
    try:
        as_sent(value)
    except (TypeError, ValueError):  # TOML knows dates and infinities, JSON does not
        return "values that JSON knows: texts, finite numbers, true, false, lists and tables"
    return ""


def _similarity(value: str) -> str:
    known = [*SIMILARITIES, "dense"]
    wrong = [name for name in value.split("+") if name not in known and not _FUNCTION.fullmatch(name)]
    return f"{', '.join(known)} or module:name, joined by +{nearest(wrong[0], known)}" if wrong else ""


def _embedder(value: str) -> str:
    if "://" in value:
        return _address(value)
    known = ("minilm", "sentence-transformers")
    return "" if value in known else f"{', '.join(known)} or the address of an endpoint{nearest(value, known)}"


def _format(value: str) -> str:
    known = list(READERS)
    fit = value in known or _FUNCTION.fullmatch(value)
    return "" if fit else f"{', '.join(known)} or module:name{nearest(value, known)}"


_FUNCTION = re.compile(r"[\w.]+:\w+")

Name = Annotated[str, _fits(r"\w[\w.@+-]*", "a name of letters, digits and . _ - @ +")]
Variable = Annotated[str, _variable]
Address = Annotated[str, _address]
Function = Annotated[str, _fits(_FUNCTION.pattern, "module:name")]
Count = Annotated[int, _from(1)]
Share = Annotated[float, _from(0, 1)]


@dataclass(frozen=True)
class Study:
    """[study]: the name, and where everything is put."""

    name: Name
    out: Path | None = None  # default: a folder of the study's name
    ledger: Path | None = None  # default: ledger.sqlite in it


@dataclass(frozen=True)
class Data:
    """[[data]]: one file of questions."""

    dataset: Name
    file: Path | None = None
    format: Annotated[str, _format] = ""
    skip: tuple[Annotated[str, _among(*RULES)], ...] = ()
    splits: tuple[Annotated[str, _among(*SPLITS)], ...] = SPLITS
    limit: Count | None = None


@dataclass(frozen=True)
class Planning:
    """[plan]: which passages each depth reveals."""

    order: Annotated[str, _among(*ORDERS)] = "paper"
    slices: Count = 3
    distractors: Annotated[int, _from(0)] | None = None
    seed: int = 0
    split: Annotated[str, _fits("source|random|column:.+", "source, random or column:NAME")] = "source"
    shares: tuple[Share, Share] = SHARES
    similarity: Annotated[str, _similarity] = "lexical"
    embedder: Annotated[str, _embedder] = "minilm"
    embedding_model: str = "BAAI/bge-m3"
    key_env: Variable = "GATEWISE_API_KEY"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Whoever is asked: an endpoint, or a model in this process; one of url, local and transformer."""

    url: Address = ""
    local: str = ""
    transformer: str = ""
    model: str = ""
    key_env: Variable = ""
    prompt: Annotated[str, _prompt] = "paper"
    attempts: Count = 3
    temperature: Annotated[float, _from(0)] = 0.0
    max_tokens: Count = 400
    seed: int | None = None
    extra: Annotated[Mapping[str, Any], _body] = field(default_factory=dict)
    prices: Annotated[Prices, _priced] | None = None
    concurrency: Count = 8
    requests_per_minute: Annotated[float, _positive] | None = None
    tokens_per_minute: Annotated[float, _positive] | None = None
    timeout: Annotated[float, _positive] = 120.0
    overall: Annotated[float, _positive] = 900.0
    proxy: Annotated[str, lambda value: "" if value == "none" else _address(value)] = ""
    ca: Path | None = None
    threads: Count | None = None
    context: Count = 4096
    device: str = ""
    batch: Count = 8

    @property
    def backend(self) -> str:
        """Which of url, local and transformer is named; empty where it is none of them, or not one alone."""
        named = [name for name in BACKENDS if getattr(self, name)]
        return named[0] if len(named) == 1 else ""


@dataclass(frozen=True, kw_only=True)
class Model(Asked):
    """[[models]]: one model whose states are recorded; `name` is its label in the trace table."""

    name: Name
    logprobs: bool = False
    top_logprobs: Annotated[int, _from(0, 20)] = 5
    p_true: bool = False


@dataclass(frozen=True, kw_only=True)
class Judging(Asked):
    """[judge]: who says whether an answer is right."""

    kind: Annotated[str, _among(*JUDGES)] = "exact"
    threshold: Annotated[float, _positive, _from(0, 1)] = 0.8
    function: Function = ""

    @property
    def name(self) -> str:
        """The judge's name in the trace table."""
        names = {"f1": f"{F1}{self.threshold:g}", "model": f"{MODEL}{self.label}", "own": self.function}
        return names.get(self.kind, self.kind)

    @property
    def label(self) -> str:
        """What the judge model is called."""
        return self.model or self.local or self.transformer


@dataclass(frozen=True)
class Gates:
    """[gates]: the map and the gate that are replayed."""

    lo: Share = 0.3
    hi: Share = 0.7
    budget: Annotated[int, _from(0)] = 3
    map: Annotated[str, _among(*MAPS)] = "isotonic"
    thresholds: tuple[Share, ...] = THRESHOLDS
    signal: str = "confidence"
    cost: str = "cost"
    by: str = ""
    allow_leak: bool = False


@dataclass(frozen=True)
class Reporting:
    """[report]: where the report goes, and whether it carries the evidence."""

    out: Path | None = None  # default: report in the study's folder
    plans: bool = True


@dataclass(frozen=True)
class Design:
    """A whole study, as its file says."""

    study: Study
    data: tuple[Data, ...]
    plan: Planning
    models: tuple[Model, ...]
    judge: Judging
    gates: Gates
    report: Reporting
    folder: Path  # of the study file: paths in it start there

    @property
    def out(self) -> Path:
        """The folder that every step writes into."""
        return self.study.out or self.folder / self.study.name

    @property
    def ledger(self) -> Path:
        """The file that holds every paid call."""
        return self.study.ledger or self.out / "ledger.sqlite"

    @property
    def report_folder(self) -> Path:
        """Where the report goes."""
        return self.report.out or self.out / "report"

    def plans_path(self, data: Data) -> Path:
        """Where the plans of a data set stand."""
        return self.out / "plans" / f"{data.dataset}.jsonl"

    def recorded_path(self, model: Model) -> Path:
        """Where the recorded states of a model stand before they are judged."""
        return self.out / "recorded" / f"{model.name}.parquet"

    def traces_path(self, model: Model) -> Path:
        """Where the trace table of a model stands, all data sets together."""
        return self.out / "traces" / f"{model.name}.parquet"

    def map_path(self, model: Model) -> Path:
        """Where the map of a model stands."""
        return self.out / "maps" / f"{model.name}.json"

    def replay_path(self, model: Model) -> Path:
        """Where the replay of a model stands."""
        return self.out / "replays" / f"{model.name}.json"


SECTIONS: dict[str, type[Any]] = {
    "study": Study,
    "data": Data,
    "plan": Planning,
    "models": Model,
    "judge": Judging,
    "gates": Gates,
    "report": Reporting,
}


def read_design(text: str, folder: Path, *, file: str = "study.toml") -> Design:
    """Return the design that a study file says, or raise everything that is wrong with it.

    Paths in it start at `folder`, where the file stands.
    """
    sections = Sections(text, folder, file)
    sections.require_known(list(SECTIONS))
    study, plan = sections.one("study", Study), sections.one("plan", Planning)
    judge, gates, report = (
        sections.one("judge", Judging),
        sections.one("gates", Gates),
        sections.one("report", Reporting),
    )
    data, models = sections.many("data", Data), sections.many("models", Model)
    if plan:
        _check_plan(sections, plan)
    _check_names(sections, [(where, "dataset", one.dataset) for where, one in data])
    _check_names(sections, [(where, "name", one.name) for where, one in models])
    for where, one in data:
        if sections.fit(where, "splits") and len(set(one.splits)) != max(len(one.splits), 1):
            sections.wrong(where, "splits", f"expected splits among {', '.join(SPLITS)}, each once")
    for where, asked in models:
        _check_asked(sections, where, asked)
    if judge:
        _check_judge(sections, judge)
    if gates:
        _check_gates(sections, gates, models)
    require_fit(sections.found, file)
    if not (study and plan and judge and gates and report):
        raise BrokenFile(f"expected a whole study in {file}, found a part of one.")  # not reached: found says why
    return Design(
        study=study,
        data=tuple(one for _, one in data),
        plan=plan,
        models=tuple(one for _, one in models),
        judge=judge,
        gates=gates,
        report=report,
        folder=folder,
    )


def read_study(path: Path) -> Design:
    """Return the design in a study file; paths in it start where it stands."""
    return read_design(read_text(path, "a study file"), path.parent, file=str(path))


def read_text(path: Path, what: str) -> str:
    """Return the text of a small file that people write."""
    try:
        return path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise BrokenFile(f"expected {what} at {path}, found: {error.strerror}. Check the path.") from None
    except UnicodeDecodeError as error:
        raise BrokenFile(f"expected UTF-8 text in {path}, found: {error.reason}. Convert it.") from None


def _check_plan(sections: Sections, plan: Planning) -> None:
    where = ("plan", 0)
    if sum(plan.shares) > 1:
        sections.wrong(where, "shares", "expected two shares that add up to at most 1; what is left is test")
    if plan.distractors is not None and plan.order in UNLABELLED:
        sections.wrong(where, "distractors", f"expected none with order {plan.order}, which reads no labels")


def _check_gates(sections: Sections, gates: Gates, models: Sequence[tuple[tuple[str, int], Model]]) -> None:
    where = ("gates", 0)
    if sections.fit(where, "lo", "hi") and gates.lo > gates.hi:
        sections.wrong(where, "lo", f"expected lo ≤ hi, found lo {gates.lo:g} and hi {gates.hi:g}")
    key = {"p_true": "p_true", "token_probability": "logprobs"}.get(gates.signal)
    for _, model in models if key else ():
        if key and not getattr(model, key):
            sections.wrong(
                where, "signal", f"expected {key} = true for model {model.name}, or no such signal is recorded"
            )


def _check_names(sections: Sections, names: Sequence[tuple[tuple[str, int], str, str]]) -> None:
    """Find names that stand twice: files are called after them, on systems that read A as a, too."""
    seen: set[str] = set()
    for where, key, name in names:
        if name.casefold() in seen:
            sections.wrong(where, key, f"expected a name that stands once, found {name!r} again")
        seen.add(name.casefold())


def _check_asked(sections: Sections, where: tuple[str, int], asked: Asked) -> None:
    if not asked.backend and sections.fit(where, *BACKENDS):
        found = " and ".join(name for name in BACKENDS if getattr(asked, name)) or "none"
        sections.wrong(where, "", f"expected one of {', '.join(BACKENDS)}, found {found}")
    if asked.url and not asked.model and sections.fit(where, "model"):
        sections.wrong(where, "", "expected the key model, as the endpoint calls it, found none")


def _check_judge(sections: Sections, judge: Judging) -> None:
    where = ("judge", 0)
    given = set(sections.values.get("judge", {}))
    if judge.kind == "model":
        _check_asked(sections, where, judge)
    if judge.kind == "own" and not judge.function and sections.fit(where, "function"):
        sections.wrong(where, "", "expected the key function, as module:name, found none")
    of = {"kind": JUDGES, "threshold": ("f1",), "function": ("own",)}
    for key in given & {one.name for one in fields(Judging)} if sections.fit(where, "kind") else ():
        kinds = of.get(key, ("model",))
        if judge.kind not in kinds:
            sections.wrong(where, key, f"expected it with kind {kinds[0]!r} alone, found kind {judge.kind!r}")
