"""Numbers in bulk: the kinds of array used here, distinct levels, and sums that are exact."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Labels = npt.NDArray[np.int8]  # 1 right, 0 wrong, -1 no verdict
Bools = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.unsignedinteger[Any]]
Texts = npt.NDArray[np.object_]  # str, or None where null

UNKNOWN = -1  # the label of a state without a verdict


@dataclass(frozen=True, eq=False)
class Coded:
    """A text column by its distinct values: sorted values, and one code a row (-1 for null)."""

    codes: Ints
    values: Texts

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> "Coded":
        return Coded(self.codes[rows], self.values)

    def texts(self) -> Texts:
        """Return the text of every row, None where null."""
        with_null = objects([*self.values.tolist(), None])
        texts: Texts = with_null[self.codes]
        return texts

    @staticmethod
    def of(texts: Iterable[str | None]) -> "Coded":
        """Code a column of texts.

        >>> Coded.of(["b", None, "a"]).codes.tolist()
        [1, -1, 0]
        """
        rows = list(texts)
        values = sorted({text for text in rows if text is not None})
        place: dict[str | None, int] = {text: code for code, text in enumerate(values)}
        codes = np.fromiter((place.get(text, -1) for text in rows), np.int64, len(rows))
        return Coded(codes, objects(values))


def objects(values: Sequence[object]) -> Texts:
    """Return a one-dimensional object array, whatever the values are."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def hundredths(values: Floats) -> npt.NDArray[np.uint8] | None:
    """Return k for each value k/100 of [0, 1] and 101 for NaN, or None if any value stands between.

    Stated confidences are such values, and need no sort and no search.
    """
    absent = np.isnan(values)
    with np.errstate(invalid="ignore", over="ignore"):
        grid = np.rint(values * 100)
        on_grid = (grid / 100 == values) & (grid >= 0) & (grid <= 100)
    if not (on_grid | absent).all():
        return None
    grid[absent] = 101
    return grid.astype(np.uint8)


def levels(values: Floats) -> tuple[Floats, Codes]:
    """Return the sorted distinct values, and for each value its place among them counted from 1.

    NaN is no level and gets 0.

    >>> found, codes = levels(np.array([0.7, np.nan, 0.2, 0.7]))
    >>> found.tolist(), codes.tolist()
    ([0.2, 0.7], [2, 0, 1, 2])
    """
    cells = hundredths(values)
    if cells is not None:
        present = np.bincount(cells.ravel(order="K"), minlength=102)[:101] > 0
        place = np.append(np.cumsum(present), 0).astype(np.uint8)
        return np.flatnonzero(present) / 100, place[cells]
    found, inverse = np.unique(values, return_inverse=True)
    if np.isnan(found[-1]):
        found = found[:-1]
    codes = np.empty_like(values, dtype=np.min_scalar_type(len(found)))
    codes[...] = np.where(np.isnan(values), 0, inverse.reshape(values.shape) + 1)
    return found + 0.0, codes  # adding zero turns -0.0 into 0.0


def exact_sum(values: npt.NDArray[Any]) -> float:
    """Return the sum rounded once, so that it depends on no order.

    >>> exact_sum(np.array([1e16, 1.0, -1e16]))
    1.0
    """
    return math.fsum(values.ravel().tolist())


def ratio(part: float, whole: float) -> float | None:
    """Return part / whole, and None for a ratio of nothing.

    >>> ratio(1, 4), ratio(0, 0)
    (0.25, None)
    """
    return part / whole if whole else None


_LIMB = 26  # bits: 2²⁷ limbs still add up exactly in a double, which is what a weighted bincount adds in


def exact_histogram(places: npt.NDArray[Any], weights: Floats, size: int) -> dict[int, Ints]:
    """Return the exact sum of the weights at every place, as integers on a fixed binary grid.

    The value of a sum is Σ sums[j] · 2^(26 j). The grid is absolute, so tables of different data add up.

    >>> [float(total) for total in rounded(exact_histogram(np.array([0, 1, 1]), np.array([1.0, 0.1, 0.2]), 2))]
    [1.0, 0.30000000000000004]
    """
    fraction, exponent = np.frexp(weights)
    mantissa = np.ldexp(fraction, 53).astype(np.int64)
    limb, shift = np.divmod(exponent.astype(np.int64) - 53, _LIMB)
    low_bits = np.int64((1 << _LIMB) - 1)
    low = (mantissa & low_bits) << shift
    carry = (low >> _LIMB) + ((mantissa >> _LIMB) << shift)
    pieces = (low & low_bits, carry & low_bits, carry >> _LIMB)
    sums: dict[int, Ints] = {}
    for first in np.unique(limb[weights != 0]).tolist():
        here = limb == first
        for offset, piece in enumerate(pieces):
            part = np.bincount(places[here], weights=piece[here], minlength=size).astype(np.int64)
            if part.any():
                sums[first + offset] = sums.get(first + offset, 0) + part
    return sums or {0: np.zeros(size, np.int64)}


def rounded(sums: dict[int, Ints]) -> Floats:
    """Return the sums of an exact histogram as doubles, each rounded once."""
    if set(sums) == {0}:
        return sums[0].astype(np.float64)
    base = min(*sums, 0)
    whole = sum(part.astype(object) << _LIMB * (limb - base) for limb, part in sums.items())
    unit = 1 << _LIMB * -base
    return np.array([int(total) / unit for total in np.atleast_1d(whole)], np.float64)
