"""How long plans take: reading, ranking and planning a HotpotQA-size file, embedding, and BM25 beside a peer.

python benchmarks/plans.py          (bm25 peer: pip install rank-bm25)
"""

import asyncio
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from sides import best, line

from gatewise.cli.terminal import cache_folder
from gatewise.errors import Mistake
from gatewise.questions.similarity import bm25, lexical
from gatewise.recordings.embedders import MiniLM
from gatewise.recordings.weights import MODELS, fetch_model
from gatewise.types import Passage
from gatewise.wording import normalized

ROWS = 7405
PROGRAM = """
import resource, sys, time
from gatewise.cli import app
start = time.perf_counter()
app(["plan", "--dataset", "hotpotqa", "--file", sys.argv[1], "-o", sys.argv[2]], standalone_mode=False)
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""


def made_row(place: int, rng: np.random.Generator, words: list[str]) -> dict[str, object]:
    """Return a row as long as HotpotQA's: ten paragraphs of about four sentences and ninety words."""

    def sentence(count: int) -> str:
        return " ".join(words[word] for word in rng.zipf(1.3, count) % len(words)) + "."

    titles = [f"{words[rng.integers(len(words))]} {number}" for number in range(10)]
    context = [[title, [f" {sentence(22)}" for _ in range(4)]] for title in titles]
    supports = [[titles[2], 0], [titles[7], 1]]
    return {"_id": f"q{place}", "question": sentence(16)[:-1] + "?", "answer": "yes", "context": context,
            "supporting_facts": supports, "type": "bridge", "level": "hard"}  # fmt: skip


def write_rows(path: Path, count: int) -> None:
    """Write a JSON array in the official structure."""
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("etaoinshrdlu"), rng.integers(2, 10))) for _ in range(20_000)]
    with path.open("w") as out:
        for place in range(count):
            out.write("[" if not place else ",\n")
            json.dump(made_row(place, rng, words), out)
        out.write("]")


def planned(path: Path) -> tuple[float, float]:
    """Return the seconds of planning a file in a process of its own, and the megabytes that it held at most."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", PROGRAM, str(path), f"{folder}/plans.jsonl"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr.split()
    return float(said[-2]), int(said[-1]) / 1024


def reading() -> None:
    """Plan one and three times HotpotQA's size: time and the most memory held."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.json"
        for times in (1, 3):
            write_rows(path, times * ROWS)
            seconds, held = planned(path)
            size = path.stat().st_size / 1e6
            line(
                f"{times * ROWS:,} made questions, {size:.0f} MB: read, ranked, planned",
                seconds,
                f"{held:.0f} MB held",
            )
    data = os.environ.get("GATEWISE_DATA")
    if data:
        seconds, held = planned(Path(data) / "hotpot_dev_full_context_subset.jsonl")
        line("1,772 real HotpotQA questions", seconds, f"{held:.0f} MB held")


def ranking() -> None:
    """BM25 of a question against ten passages, beside a peer and beside lexical overlap."""
    rng = np.random.default_rng(1)
    words = [f"w{number}" for number in range(5_000)]

    def text(count: int) -> str:
        return " ".join(words[word] for word in rng.zipf(1.3, count) % len(words))

    rows = [(text(16), [Passage(text(2), text(90)) for _ in range(10)]) for _ in range(200)]
    ours = best(lambda: [bm25(*row) for row in rows], 3)
    line("200 questions × 10 passages, BM25 (bm25s)", ours)
    line("the same, lexical overlap", best(lambda: [lexical(*row) for row in rows], 3))
    if importlib.util.find_spec("rank_bm25") is None:
        print("  rank-bm25 is not installed: no peer")
        return
    from rank_bm25 import BM25Okapi

    def peer() -> None:
        for question, passages in rows:
            index = BM25Okapi([normalized(f"{p.title} {p.text}").split() for p in passages])
            index.get_scores(normalized(question).split())

    seconds = best(peer, 3)
    line("the same, rank-bm25 (Okapi)", seconds, f"{seconds / ours:.2f} × ours")


def embedding() -> None:
    """Passages a second of the embedded embedder."""
    rng = np.random.default_rng(2)
    words = [
        "the",
        "river",
        "flows",
        "through",
        "a",
        "city",
        "in",
        "the",
        "north",
        "of",
        "a",
        "country",
        "and",
        "into",
        "a",
        "sea",
        "near",
        "an",
        "old",
        "port",
    ]
    texts = [" ".join(rng.choice(words, 130)) for _ in range(64)]
    try:
        asyncio.run(fetch_model(MODELS["minilm"], cache_folder()))
        embedder = MiniLM(cache_folder())
    except Mistake as mistake:
        print(f"  no embedder: {mistake}")
        return
    seconds = best(lambda: asyncio.run(_vectors(embedder, texts)), 2)
    line("64 passages of 150 tokens, all-MiniLM-L6-v2 int8", seconds, f"{len(texts) / seconds:.0f} passages/s")


async def _vectors(embedder: MiniLM, texts: list[str]) -> None:
    await embedder(texts)


def main() -> None:
    """Print all three."""
    reading()
    ranking()
    embedding()
    print(f"  this program held {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB at most")


if __name__ == "__main__":
    main()
