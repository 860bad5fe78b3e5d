"""Similarity: a question and its passages → scores, by which distractors (or all passages) are ranked.

A similarity is any callable `(question, passages) -> scores`, one number a passage, higher is closer. Vectors
come in as values: what turns text into them is elsewhere.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gatewise.errors import BadChoice
from gatewise.types import Passage
from gatewise.wording import normalized

Floats = npt.NDArray[np.float64]
Similarity = Callable[[str, Sequence[Passage]], Floats]


def lexical(question: str, passages: Sequence[Passage]) -> Floats:
    """Return the share of the question's distinct normalized tokens that occur in each title and text (Section 2).

    >>> lexical("Who wrote Ulysses?", [Passage("Ulysses", "Joyce wrote it."), Passage("Paris", "A city.")]).tolist()
    [0.6666666666666666, 0.0]
    """
    asked = set(normalized(question).split())
    if not asked:
        return np.zeros(len(passages))
    shared = [len(asked.intersection(normalized(passage_text(passage)).split())) for passage in passages]
    return np.array(shared, np.float64) / len(asked)


def passage_text(passage: Passage) -> str:
    """Return the text by which a passage is compared: title, one space, text."""
    return f"{passage.title} {passage.text}"


def bm25(question: str, passages: Sequence[Passage]) -> Floats:
    """Return BM25 (Lucene's variant, k1 1.5, b .75) of the question against each of its passages, as the corpus.

    Tokens are the method's lower-cased `[a-z0-9]+` runs, nothing stemmed and nothing stopped.
    """
    try:
        import bm25s
    except ImportError:
        raise BadChoice("expected the library bm25s, found none. Install gatewise[bm25].") from None
    corpus = [normalized(passage_text(passage)).split() for passage in passages]
    asked = sorted(set(normalized(question).split()).intersection(*[set().union(*corpus)]))
    if not asked:
        return np.zeros(len(passages))
    index = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    index.index(corpus, show_progress=False)
    return np.asarray(index.get_scores(asked), np.float64)


def cosine(question: npt.NDArray[Any], passages: npt.NDArray[Any]) -> Floats:
    """Return the cosine of a question's vector (d,) and each passage's (n, d); a zero vector is close to nothing.

    >>> cosine(np.array([1.0, 0.0]), np.array([[2.0, 0.0], [0.0, 1.0], [0.0, 0.0]])).tolist()
    [1.0, 0.0, 0.0]
    """
    asked, told = np.asarray(question, np.float64), np.asarray(passages, np.float64)
    lengths = np.linalg.norm(told, axis=1) * np.linalg.norm(asked)
    # One product a row rather than one for all: a row's cosine must not depend on its neighbours.
    products = np.array([np.dot(row, asked) for row in told], np.float64)
    near: Floats = np.divide(products, lengths, out=np.zeros(len(told)), where=lengths > 0)
    return near


def minmax(scores: Floats) -> Floats:
    """Return scores stretched to [0, 1]; a constant column is all 0.

    >>> minmax(np.array([2.0, 4.0, 3.0])).tolist(), minmax(np.array([5.0, 5.0])).tolist()
    ([0.0, 1.0, 0.5], [0.0, 0.0])
    """
    spread = scores.max(initial=-np.inf) - scores.min(initial=np.inf)
    stretched: Floats = (scores - scores.min()) / spread if spread > 0 else np.zeros(len(scores))
    return stretched


def ranked(columns: Sequence[Floats], among: Sequence[int]) -> list[int]:
    """Return places by the mean of their min–max scores over those places, the highest first (Section 2).

    Two columns are the paper's r = 0.5·minmax(lexical) + 0.5·minmax(dense). Ties keep source order.

    >>> ranked([np.array([0.1, 0.9, 0.9, 0.5])], [0, 1, 2, 3])
    [1, 2, 3, 0]
    """
    places = np.array(among, np.int64)
    if not len(places):
        return []
    r = np.zeros(len(places))
    for column in columns:
        r += minmax(np.asarray(column, np.float64)[places]) / len(columns)
    order: list[int] = places[np.argsort(-r, kind="stable")].tolist()
    return order


SIMILARITIES: dict[str, Similarity] = {"lexical": lexical, "bm25": bm25}
