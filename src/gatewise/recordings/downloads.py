"""Downloads: a file fetched to a path, that goes on where an earlier try broke off."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import aiohttp

from gatewise.errors import Unavailable
from gatewise.recordings.client import CHUNK, address_of, refuse, require_address, session
from gatewise.recordings.retries import Hiccup, Patience, patiently, reason_of

Progress = Callable[[int, int | None], None]  # bytes done, of how many where known


async def download(
    url: str,
    path: Path,
    *,
    size: int | None = None,
    patience: Patience | None = None,
    progress: Progress = lambda done, total: None,
) -> None:
    """Fetch a file to a path; what an earlier try left beside it, as `.part`, is continued where the server allows.

    The part is continued only if the server says that the file is still the same one. `size` is the length that the
    file must have, where it is known.
    """
    require_address(url)
    patience = patience or Patience()
    furthest = 0  # of all attempts: what only comes as far again is no progress
    part, note = path.with_name(path.name + ".part"), path.with_name(path.name + ".part.json")
    async with session(patience) as opened:

        async def attempt() -> None:
            nonlocal furthest
            have, tag = _resumable(part, note, url)
            headers = {"Accept-Encoding": "identity"}
            if have:
                headers |= {"Range": f"bytes={have}-", "If-Range": tag}
            async with opened.get(url, headers=headers) as reply:
                if reply.status == 416:  # nothing after what is there, or another file
                    part.unlink(missing_ok=True)
                    raise Hiccup("the server does not know the part that is already here", 0.0)
                refuse(reply.status, reply.reason, reply.headers, url, "Choose another source.")
                start, total = _extent(reply, have)
                if start and _tag(reply.headers) not in ("", tag):  # whatever If-Range asked for
                    part.unlink()
                    raise Hiccup("the file has changed since its first part", 0.0)
                if size is not None and total is not None and total != size:
                    raise Unavailable(
                        f"expected {size:,} bytes at {address_of(url)}, found {total:,}. Choose another source."
                    )
                if not start:
                    part.unlink(missing_ok=True)  # before another tag stands beside it
                    note.write_text(json.dumps({"url": url, "tag": _tag(reply.headers)}), "utf-8")
                done = start
                try:
                    with part.open("r+b" if start else "wb") as out:
                        out.seek(start)
                        out.truncate()
                        async for chunk in reply.content.iter_chunked(CHUNK):
                            out.write(chunk)
                            done += len(chunk)
                            progress(done, total)
                            if size is not None and done > size:
                                break
                except (aiohttp.ClientError, TimeoutError) as error:
                    reason = f"the connection broke off after {done:,} bytes ({reason_of(error)})"
                    progressed, furthest = done > furthest, max(done, furthest)
                    raise Hiccup(reason, progressed=progressed) from None
            if done != (total if total is not None else done) or (size is not None and done != size):
                part.unlink()
                raise Hiccup(f"{done:,} bytes where {(total if size is None else size):,} were expected")

        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            await patiently(attempt, patience, address_of(url))
            part.replace(path)
            note.unlink(missing_ok=True)
        except OSError as error:
            raise Unavailable(f"expected to write {path}, found: {error.strerror}. Choose another place.") from None


def _resumable(part: Path, note: Path, url: str) -> tuple[int, str]:
    """Return how much of a file is there, and the tag by which the server knows it; (0, "") if it must start anew."""
    try:
        noted = json.loads(note.read_text("utf-8"))
        have = part.stat().st_size
    except (OSError, ValueError):
        return 0, ""
    same = isinstance(noted, dict) and noted.get("url") == url and isinstance(noted.get("tag"), str)
    return (have, noted["tag"]) if same and noted["tag"] and have else (0, "")


def _tag(headers: Mapping[str, str]) -> str:
    """Return what a server knows a file's bytes by, "" where it does not say."""
    tag = headers.get("ETag", "")
    if tag.startswith("W/") or not tag:  # a weak tag does not promise the same bytes
        return headers.get("Last-Modified", "")
    return tag


def _extent(reply: aiohttp.ClientResponse, have: int) -> tuple[int, int | None]:
    """Return where a reply starts in the file, and how long the whole file is, where it says so."""
    if reply.status != 206:
        return 0, reply.content_length
    unit, _, rest = reply.headers.get("Content-Range", "").partition(" ")
    span, _, total = rest.partition("/")
    start = span.partition("-")[0]
    if unit != "bytes" or start != str(have):
        raise Hiccup("the server answered with another part than was asked for")
    return have, int(total) if total.isdecimal() else None
