"""The joint histogram of the frontier, compiled; loaded only with the `fast` extra and only where it pays."""

from typing import Any

import numba
import numpy as np

from gatewise.replays.arrays import Codes, Ints, Labels

BLOCK = 2048  # episodes whose maxima are kept at hand
SPILL = 61_440  # episodes before 16-bit counters are emptied; fewer than 2¹⁶, so none overflows


def joint(codes: Codes, labels: Labels, size: int, low: int, kinds: int) -> Ints:
    """Return the histogram of (maximum before, maximum, side of lo, label) for each depth, as `_joint` does."""
    # The maximum never falls, so half of the square stays empty: counting in the triangle halves the table.
    triangle = np.zeros((codes.shape[1], (size + 1) * (size + 2) // 2, 2 * kinds), np.int64)
    _count(codes, labels.view(np.uint8), np.uint32(low), np.uint32(kinds), triangle.reshape(len(triangle), -1))
    at, before = np.tril_indices(size + 1)
    square = np.zeros((codes.shape[1], size + 1, size + 1, 2 * kinds), np.int64)
    square[:, before, at] = triangle
    return square.reshape(len(square), -1)


@numba.njit(nogil=True, boundscheck=False)
def _count(codes: Any, labels: Any, low: Any, kinds: Any, table: Any) -> None:  # pragma: no cover -- compiled
    n, depths = codes.shape
    size = table.shape[1]
    small = np.zeros((depths, size), np.uint16)
    maximum = np.zeros(BLOCK, np.uint8)
    index = np.zeros(BLOCK, np.uint32)
    seen = 0
    for start in range(0, n, BLOCK):
        stop = min(n, start + BLOCK)
        length = stop - start
        maximum[:] = 0
        for depth in range(depths):
            code, label = codes[start:stop, depth], labels[start:stop, depth]
            counters = small[depth]
            for i in range(length):
                before = np.uint32(maximum[i])
                here = np.uint32(code[i])
                at = max(before, here)
                side = np.uint32((here > 0) & (here <= low))
                cell = (((at * (at + np.uint32(1))) >> np.uint32(1)) + before) * np.uint32(2) + side
                index[i] = cell * kinds + min(np.uint32(label[i]), np.uint32(2))
                maximum[i] = at
            for i in range(length):
                counters[index[i]] += np.uint16(1)
        seen += length
        if seen + BLOCK >= SPILL or stop == n:
            for depth in range(depths):
                for i in range(size):
                    table[depth, i] += small[depth, i]
                    small[depth, i] = 0
            seen = 0
