"""Splits: which questions a map may be fitted on, which choose a threshold, and which test; and what leaks across."""

import hashlib
from collections.abc import Iterable, Sequence

from gatewise.errors import BadChoice, shown

SPLITS = ("calibration", "validation", "test")
SHARES = (0.5, 0.25)


def in_order(n: int, shares: Sequence[float] = SHARES) -> list[str]:
    """Return the split of each of n questions in source order: `int(.5 n)`, `int(.25 n)`, the rest (Section 1).

    >>> in_order(5)
    ['calibration', 'calibration', 'validation', 'test', 'test']
    """
    first, second = shares
    if not (0 <= first <= 1 and 0 <= second <= 1 and first + second <= 1):
        raise BadChoice(
            f"expected two shares from 0 that add up to at most 1, found {first:g} and {second:g}. "
            "What is left is test."
        )
    sizes = (int(first * n), int(second * n))
    return [SPLITS[0]] * sizes[0] + [SPLITS[1]] * sizes[1] + [SPLITS[2]] * (n - sum(sizes))


def at_random(ids: Sequence[str], seed: int, shares: Sequence[float] = SHARES) -> list[str]:
    """Return a seeded random split of the same sizes: questions stand in the order of a keyed hash of their ids.

    So it depends on neither the order of the rows nor the version of any library.
    """
    order = shuffled(ids, f"split {seed}")
    splits = [""] * len(ids)
    for place, split in zip(order, in_order(len(ids), shares), strict=True):
        splits[place] = split
    return splits


def shuffled(names: Iterable[str], key: str) -> list[int]:
    """Return the places of names in the order of a keyed hash; equal names keep their order.

    >>> sorted(shuffled(["a", "b", "c"], "any key"))
    [0, 1, 2]
    """
    salt = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    hashes = [hashlib.blake2b(name.encode("utf-8", "surrogatepass"), key=salt).digest() for name in names]
    return sorted(range(len(hashes)), key=hashes.__getitem__)


def named(value: object, column: str, id: str) -> str:  # noqa: A002 -- the question's
    """Return the split that a question names, or raise if it is none.

    >>> named("test", "fold", "q1")
    'test'
    """
    if not isinstance(value, str) or value not in SPLITS:
        raise BadChoice(
            f"expected one of {', '.join(SPLITS)} in column {column!r} of question {id!r}, found {shown(value)}. "
            "Name the split of every question, or split by source order or at random."
        )
    return value


def leaks(keys: Iterable[object], splits: Iterable[str]) -> int:
    """Return how many distinct keys stand in more than one split; a key of None never matches.

    >>> leaks(["a", "b", "a", None, None], ["test", "test", "calibration", "test", "calibration"])
    1
    """
    first: dict[object, str] = {}
    torn = {
        key
        for key, split in zip(keys, splits, strict=True)
        if key is not None and first.setdefault(key, split) != split
    }
    return len(torn)
