"""Files written whole or not at all, and known by what is in them."""

import hashlib
import os
import stat
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from gatewise.errors import BadChoice, BrokenFile


def replace_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    write_pieces(path, [content])


def write_pieces(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a file piece by piece, and put it in its place only when all of it is there."""
    with draft(path) as out:
        out.writelines(pieces)


@contextmanager
def draft(path: Path) -> Iterator[IO[bytes]]:
    """Yield a stream to write a file to, which takes its place when all of it is there."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():  # a pipe or a device takes what it is given
            with path.open("wb") as out:
                yield out
            return
        target = Path(os.path.realpath(path))  # a link stays, and what it leads to is replaced
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~_umask()
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as out:
                yield out
            os.chmod(name, mode)
            os.replace(name, target)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise BrokenFile(f"expected to write {path}, found: {reason}. Choose another place.") from None


def make_folder(path: Path) -> None:
    """Make a folder, and those that lead to it, where there is none."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise BrokenFile(f"expected to make the folder {path}, found: {reason}. Choose another place.") from None


def require_apart(output: Path | None, inputs: Iterable[Path]) -> None:
    """Raise where an output is one of the files that are read, by whatever name."""
    for path in inputs:
        if output and os.path.exists(output) and os.path.exists(path) and os.path.samefile(output, path):
            raise BadChoice(f"expected an output apart from what is read, found {path} as both. Choose another -o.")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise BrokenFile(f"expected a file at {path}, found: {error.strerror}. Check the path.") from None


LONGEST_LINE = 1 << 30


def read_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file as they are."""
    try:
        with path.open("rb") as stream:
            while line := stream.readline(LONGEST_LINE):
                if len(line) == LONGEST_LINE:
                    raise BrokenFile(f"expected lines of text in {path}, found one without an end. Check the file.")
                yield line
    except OSError as error:
        raise BrokenFile(f"expected a file at {path}, found: {error.strerror}. Check the path.") from None


def starts_with(path: Path, head: bytes) -> bool:
    """Return whether a file begins with these bytes."""
    try:
        with path.open("rb") as stream:
            return stream.read(len(head)) == head
    except OSError as error:
        raise BrokenFile(f"expected a file at {path}, found: {error.strerror}. Check the path.") from None


def unpack(archive: Path, member: str, path: Path) -> None:
    """Write the one file of a ZIP archive that has this name, in whatever folder it stands, to a path."""
    write_pieces(path, _unpacked(archive, member))


def _unpacked(archive: Path, member: str) -> Iterator[bytes]:
    try:
        with zipfile.ZipFile(archive) as opened:
            names = [name for name in opened.namelist() if name.rpartition("/")[2] == member]
            if len(names) != 1:
                raise BrokenFile(f"expected one {member} in the archive, found {len(names)}. Choose another source.")
            with opened.open(names[0]) as stream:
                yield from iter(lambda: stream.read(1 << 20), b"")
    except BrokenFile:
        raise
    except Exception as error:  # noqa: BLE001 -- every method of compression has errors of its own
        raise BrokenFile(
            f"expected a ZIP archive that holds {member}, found: {error}. Choose another source."
        ) from None
