"""Fetching: a public data set from one of its homes into the cache, whole, and the same as the first time."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gatewise.errors import BrokenFile, Mistake, Unavailable, Unfit, shown
from gatewise.files import digest_of, read_rows
from gatewise.files.disk import replace_file, unpack
from gatewise.questions.datasets import READERS, read
from gatewise.questions.sources import Mirror, Source
from gatewise.recordings.client import address_of
from gatewise.recordings.downloads import download
from gatewise.recordings.retries import Patience

Progress = Callable[[str, int, int | None], None]  # what, bytes done, of how many where known


@dataclass(frozen=True)
class Fetched:
    """A data set in the cache, and how it came there."""

    path: Path
    sha256: str
    rows: int
    origin: str  # the mirror, or "" where it was there already


def dataset_path(source: Source, cache: Path) -> Path:
    """Return where a data set stands in the cache."""
    return cache / "datasets" / source.file


def fetch_dataset(
    source: Source,
    cache: Path,
    *,
    patience: Patience | None = None,
    progress: Progress = lambda what, done, total: None,
) -> Fetched:
    """Return a data set's file in the cache, fetched from the first mirror that has it whole.

    Its digest is noted when it first arrives, and compared ever after.
    """
    path = dataset_path(source, cache)
    if path.is_file():
        rows, digest = _require_whole(source, path, progress), digest_of(path)
        _note(path, digest)  # after it was found whole: what was put there by hand is noted as it is
        return Fetched(path, digest, rows, "")
    failures = []
    for mirror in source.mirrors:
        fresh = path.with_name(f"fetching-{path.name}")
        try:
            _bring(mirror, fresh, patience, progress)
            rows, digest = _require_whole(source, fresh, progress), digest_of(fresh)
            _note(path, digest)
            fresh.replace(path)
            return Fetched(path, digest, rows, mirror.url)
        except Mistake as mistake:
            address = address_of(mirror.url)  # what failed on the way names it already
            failures.append(str(mistake) if address in str(mistake) else f"{address}: {mistake}")
            if fresh.is_file():
                fresh.unlink()
    reasons = "\n  ".join(failures)
    raise Unavailable(
        f"expected {source.title} ({source.licence}) from one of its homes, found:\n  {reasons}\n"
        f"Without a network: get {source.official} from {source.home} on another machine and put it at {path}."
    )


def _bring(mirror: Mirror, path: Path, patience: Patience | None, progress: Progress) -> None:
    """Download a mirror's file, or the member of its archive."""

    def advance(done: int, total: int | None) -> None:
        progress("downloading", done, total)

    if not mirror.member:
        asyncio.run(download(mirror.url, path, patience=patience, progress=advance))
        return
    archive = path.with_name(path.name + ".zip")
    asyncio.run(download(mirror.url, archive, patience=patience, progress=advance))
    try:
        unpack(archive, mirror.member, path)
    finally:
        archive.unlink(missing_ok=True)


def _require_whole(source: Source, path: Path, progress: Progress) -> int:
    """Return the number of rows if the file is all that it should be, read as questions from its first row on."""
    rows, first, last = 0, "", ""
    reader = READERS[source.name]
    walk = read_rows(path, lambda done, total: progress("checking", done, total))
    row: Any = None
    try:
        for rows, row in enumerate(walk, 1):
            if isinstance(row, Unfit):
                raise row
            if rows == 1:
                first = read(row, reader).id
        last = read(row, reader).id
    except Unfit as unfit:
        raise BrokenFile(
            f"expected {source.title} in {source.file}, found in row {rows}: {unfit.problem}, value "
            f"{shown(unfit.value)}: it is broken, or another file. Remove {path} and fetch it again."
        ) from None
    for what, expected, found in (
        ("rows", source.rows, rows),
        ("as its first id", source.first or first, first),
        ("as its last id", source.last or last, last),
    ):
        if expected != found:
            raise BrokenFile(
                f"expected {expected} {what} in {source.file}, found {found}: it is cut short, or another file. "
                f"Remove {path} and fetch it again."
            )
    return rows


def _notes(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _note(path: Path, digest: str) -> None:
    """Keep the digest of the first download; a later one must have the same."""
    known = _noted(path)
    if known and known != digest:
        raise BrokenFile(
            f"expected the file that was first downloaded (SHA-256 {known}), found another ({digest}). If the source "
            f"has changed on purpose, remove {_notes(path)} and fetch again."
        )
    if not known:
        replace_file(_notes(path), f"{digest}  {path.name}\n".encode())


def _noted(path: Path) -> str:
    notes = _notes(path)
    return notes.read_text("utf-8").partition(" ")[0] if notes.is_file() else ""
