"""Files written whole or not at all, and known by what is in them."""

import hashlib
import os
import tempfile
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path

from gatewise.errors import BrokenFile


def replace_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    write_pieces(path, [content])


def write_pieces(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a file piece by piece, and put it in its place only when all of it is there."""
    try:
        handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as out:
                for piece in pieces:
                    out.write(piece)
            os.chmod(draft, 0o666 & ~_umask())
            os.replace(draft, path)
        except BaseException:
            os.unlink(draft)
            raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise BrokenFile(f"expected to write {path}, found: {reason}. Choose another place.") from None


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


def unpack(archive: Path, member: str, path: Path) -> None:
    """Write the one file of a ZIP archive that has this name, in whatever folder it stands, to a path."""
    try:
        with zipfile.ZipFile(archive) as opened:
            names = [name for name in opened.namelist() if name.rpartition("/")[2] == member]
            if len(names) != 1:
                raise BrokenFile(f"expected one {member} in the archive, found {len(names)}. Choose another source.")
            with opened.open(names[0]) as stream:
                write_pieces(path, iter(lambda: stream.read(1 << 20), b""))
    except (zipfile.BadZipFile, zlib.error, OSError) as error:
        raise BrokenFile(
            f"expected a ZIP archive that holds {member}, found: {error}. Choose another source."
        ) from None
