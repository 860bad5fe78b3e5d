"""Packing: numbers and texts → one short ASCII string that a page unpacks by itself.

A pack is deflated and in base64: the length of a JSON header, the header, then little-endian arrays. Every text
stands once in a pool and is referred to by its place.
"""

import array
import base64
import json
import sys
import zlib
from collections.abc import Iterable
from typing import Any

import numpy.typing as npt

Reference = list[Any]  # [kind, first byte, length], and for counts the width of a row


class Pack:
    """Collects arrays and texts and gives each a place that the header can name."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._pool: dict[str, int] = {}

    def array(self, values: npt.NDArray[Any], kind: str) -> Reference:
        """Keep an array as u1, u2, u4, i1, i4 or f8, row by row, and return where it stands."""
        return self._keep(values.astype(f"<{kind}").tobytes(), kind)

    def ranks(self, values: npt.NDArray[Any]) -> Reference:
        """Keep whole numbers from 0 in as few bytes as hold them."""
        largest = int(values.max(initial=0))
        return self.array(values, "u1" if largest < 1 << 8 else "u2" if largest < 1 << 16 else "u4")

    def counts(self, values: npt.NDArray[Any]) -> Reference:
        """Keep rows of counts as the steps between them, which deflate well; what is no count is kept as it is."""
        whole = bool((values == values.round()).all()) and abs(values).max(initial=0) < 1 << 31
        if not whole:
            return [*self.array(values, "f8"), 0]
        steps = values.astype("i8")
        steps[:, 1:] -= values[:, :-1].astype("i8")
        return [*self.array(steps, "i4"), values.shape[1]]

    def texts(self, values: Iterable[str | None]) -> Reference:
        """Keep texts by their places in the pool, from 1; None is 0."""
        pool = self._pool
        return self.whole([0 if text is None else pool.setdefault(text, len(pool) + 1) for text in values])

    def whole(self, values: Iterable[int]) -> Reference:
        """Keep whole numbers from 0 to 2³² that stand in no array."""
        places = array.array("I", values)
        if sys.byteorder == "big":
            places.byteswap()
        return self._keep(places.tobytes(), "u4")

    def _keep(self, piece: bytes, kind: str) -> Reference:
        padding = bytes(-self._size % 8)
        self._pieces.append(padding + piece)
        self._size += len(padding) + len(piece)
        return [kind, self._size - len(piece), len(piece) // int(kind[1])]

    def packed(self, header: dict[str, Any]) -> str:
        """Return header, pool and arrays as one string."""
        head = json.dumps({**header, "texts": list(self._pool)}, allow_nan=False, separators=(",", ":")).encode()
        head += b" " * (-(8 + len(head)) % 8)
        return deflated(len(head).to_bytes(8, "little") + head + b"".join(self._pieces))


def deflated(content: bytes) -> str:
    """Return bytes deflated and in base64."""
    return base64.b64encode(zlib.compress(content, 6)).decode("ascii")
