import hashlib
import io
import os
import threading
import zipfile

import pytest

from gatewise.errors import BrokenFile
from gatewise.files.disk import digest_of, replace_file, unpack, write_pieces


def failing(*pieces, error):
    yield from pieces
    raise error


def test_pieces_are_written_in_order(tmp_path):
    write_pieces(tmp_path / "out.bin", iter([b"one ", b"", b"two"]))
    assert (tmp_path / "out.bin").read_bytes() == b"one two"
    write_pieces(tmp_path / "out.bin", [])
    assert (tmp_path / "out.bin").read_bytes() == b""
    replace_file(tmp_path / "out.bin", b"three")
    assert (tmp_path / "out.bin").read_bytes() == b"three"
    assert os.listdir(tmp_path) == ["out.bin"]


@pytest.mark.parametrize("error", [RuntimeError("midway"), KeyboardInterrupt(), BrokenFile("row 3")])
@pytest.mark.parametrize("before", [[], ["out.bin"]])
def test_an_exception_midway_leaves_the_old_file_and_nothing_else(tmp_path, error, before):
    for name in before:
        (tmp_path / name).write_bytes(b"old")
    with pytest.raises(type(error)):
        write_pieces(tmp_path / "out.bin", failing(b"x" * 100_000, error=error))
    assert os.listdir(tmp_path) == before
    for name in before:
        assert (tmp_path / name).read_bytes() == b"old"


def test_the_old_file_stands_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "out.bin"
    path.write_bytes(b"old")

    def pieces():
        yield b"new"
        assert path.read_bytes() == b"old"
        yield b"er"

    write_pieces(path, pieces())
    assert path.read_bytes() == b"newer"


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664), (0o027, 0o640)])
def test_permissions_are_those_of_any_new_file(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        write_pieces(tmp_path / "out.bin", [b"x"])
        assert os.umask(mask) == mask  # asking for the mask has not changed it
    finally:
        os.umask(before)
    assert (tmp_path / "out.bin").stat().st_mode & 0o777 == mode


def test_a_place_that_cannot_be_written_is_a_broken_file(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"")
    for path in (
        tmp_path / "none" / "out.bin",
        tmp_path / "folder",
        tmp_path / "file" / "out.bin",
        tmp_path / ("x" * 300),
    ):
        with pytest.raises(BrokenFile, match=r"expected to write .*, found: .*Choose another place"):
            write_pieces(path, [b"x"])
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]
    assert os.listdir(tmp_path / "folder") == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_a_broken_file(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(BrokenFile, match="Permission denied"):
        write_pieces(tmp_path / "out.bin", [b"x"])
    tmp_path.chmod(0o700)


def test_a_pipe_is_written_into_and_never_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    heard = []
    listener = threading.Thread(target=lambda: heard.append(pipe.read_bytes()), daemon=True)
    listener.start()
    write_pieces(pipe, [b"one ", b"two"])
    listener.join(5)
    assert heard == [b"one two"]
    assert pipe.is_fifo()
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_digest_is_the_sha_256_of_the_bytes(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    assert digest_of(tmp_path / "a") == hashlib.sha256(b"abc").hexdigest()
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(BrokenFile, match=r"expected a file at .*Check the path"):
            digest_of(path)


def zipped(members, method=zipfile.ZIP_DEFLATED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return out.getvalue()


CONTENT = os.urandom(50_000) + b"x" * 2_000_000


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("name", ["dev.json", "data/dev.json", "a/b/dev.json"])
def test_the_one_member_is_unpacked_from_whatever_folder(tmp_path, method, name):
    others = [
        ("train.json", b"t"),
        ("old_dev.json", b"o"),
        ("dev.json/", b""),
        ("dev.jsonl", b"l"),
        ("a/._dev.json", b"m"),
    ]
    (tmp_path / "a.zip").write_bytes(zipped([*others, (name, CONTENT)], method))
    unpack(tmp_path / "a.zip", "dev.json", tmp_path / "out.json")
    assert (tmp_path / "out.json").read_bytes() == CONTENT


def cut(whole):
    return whole[: len(whole) // 2]


def bent(whole):
    changed = bytearray(whole)
    changed[2000] ^= 0xFF
    return bytes(changed)


def locked(whole):
    """Return the archive with the flag of an encrypted member, in its local and its central header."""
    changed = bytearray(whole)
    changed[6] |= 1
    changed[changed.index(b"PK\x01\x02") + 8] |= 1
    return bytes(changed)


def unknown_method(whole):
    changed = bytearray(whole)
    changed[8] = changed[changed.index(b"PK\x01\x02") + 10] = 97
    return bytes(changed)


METHODS = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]


@pytest.mark.parametrize(
    "archive",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"<html>404</html>", id="page"),
        pytest.param(zipped([]), id="no member"),
        pytest.param(zipped([("train.json", b"x")]), id="other member"),
        pytest.param(zipped([("a/dev.json", b"x"), ("b/dev.json", b"y")]), id="two of them"),
        *(pytest.param(cut(zipped([("dev.json", CONTENT)], method)), id=f"cut {method}") for method in METHODS),
        *(pytest.param(bent(zipped([("dev.json", CONTENT)], method)), id=f"bent {method}") for method in METHODS),
        pytest.param(locked(zipped([("dev.json", CONTENT)])), id="encrypted"),
        pytest.param(unknown_method(zipped([("dev.json", CONTENT)])), id="unknown method"),
    ],
)
def test_an_archive_without_the_whole_member_is_refused_and_nothing_is_written(tmp_path, archive):
    (tmp_path / "a.zip").write_bytes(archive)
    with pytest.raises(BrokenFile, match=r"expected .*dev\.json.*Choose another source\."):
        unpack(tmp_path / "a.zip", "dev.json", tmp_path / "out.json")
    assert os.listdir(tmp_path) == ["a.zip"]


def test_an_archive_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(BrokenFile, match="Choose another source"):
        unpack(tmp_path / "none.zip", "dev.json", tmp_path / "out.json")
