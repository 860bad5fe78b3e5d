"""Model files of llama.cpp: what a GGUF file says of itself before its weights begin."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from gatewise.errors import BrokenFile

LONGEST = 1 << 24  # bytes of one text, entries of one list: what claims more is no model

_NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_TEXT, _LIST = 8, 9
_CONTROL = 3  # the kind of a token that steers: the end of a turn, the start of another role


@dataclass(frozen=True)
class Card:
    """What a model file says of itself."""

    title: str
    context: int  # tokens it was trained to read; 0 where it does not say
    controls: tuple[str, ...]  # the spellings of its control tokens, longest first


def read_card(path: Path) -> Card:
    """Return what a GGUF file says of itself; a file of another kind is refused."""
    try:
        with path.open("rb") as stream:
            found = dict(_fields(stream))
    except OSError as error:
        raise BrokenFile(f"expected a model file at {path}, found: {error.strerror}. Check the path.") from None
    except (struct.error, ValueError, OverflowError):
        raise BrokenFile(
            f"expected a model in the GGUF format at {path}, found another file. Choose another."
        ) from None
    words, kinds = found.get("tokenizer.ggml.tokens", []), found.get("tokenizer.ggml.token_type", [])
    controls = {word for word, kind in zip(words, kinds, strict=False) if kind == _CONTROL and len(word) > 1}
    context = found.get(f"{found.get('general.architecture')}.context_length", 0)
    return Card(
        str(found.get("general.name", path.stem)),
        context if isinstance(context, int) else 0,
        tuple(sorted(controls, key=lambda word: (-len(word), word))),
    )


def _fields(stream: BinaryIO) -> Iterator[tuple[str, Any]]:
    """Yield names and values up to the tokens' kinds, behind which only merges and the template stand."""
    if stream.read(4) != b"GGUF" or _number(stream, "<I") not in (2, 3):
        raise ValueError("no GGUF")
    _number(stream, "<Q")  # tensors
    for _ in range(_number(stream, "<Q")):
        name = _text(stream)
        yield name, _value(stream, _number(stream, "<I"))
        if name == "tokenizer.ggml.token_type":
            return


def _value(stream: BinaryIO, kind: int) -> Any:
    if kind == _TEXT:
        return _text(stream)
    if kind != _LIST:
        if kind not in _NUMBERS:
            raise ValueError("no GGUF")
        return _number(stream, _NUMBERS[kind])
    inner, count = _number(stream, "<I"), _number(stream, "<Q")
    if count > LONGEST or inner == _LIST:
        raise ValueError("no GGUF")
    if inner in _NUMBERS:
        one = struct.Struct(_NUMBERS[inner])
        return [value for (value,) in one.iter_unpack(_bytes(stream, count * one.size))]
    return [_value(stream, inner) for _ in range(count)]


def _text(stream: BinaryIO) -> str:
    size = _number(stream, "<Q")
    if size > LONGEST:
        raise ValueError("no GGUF")
    return _bytes(stream, size).decode("utf-8", "replace")


def _number(stream: BinaryIO, form: str) -> Any:
    return struct.unpack(form, stream.read(struct.calcsize(form)))[0]


def _bytes(stream: BinaryIO, size: int) -> bytes:
    found = stream.read(size)
    if len(found) != size:
        raise ValueError("cut short")
    return found
