import io
import json
import os
import zipfile
from dataclasses import replace

import pytest

from gatewise.errors import BrokenFile, Unavailable
from gatewise.files import digest_of
from gatewise.questions.sources import SOURCES, Mirror, Source
from gatewise.recordings.retries import Patience
from gatewise.studies.fetching import dataset_path, fetch_dataset
from server import Reply, Server, closed_port, hosted, redirect

QUICK = Patience(attempts=2, first_wait=0.01, longest_wait=1, silence=0.2)
MEMBER = "dev.json"


def question(name):
    sentences = [f"The {name} is a made-up thing. " * 20]
    return {
        "_id": name,
        "question": f"What is the {name}?",
        "answer": "a thing",
        "context": [["Right", sentences], ["Wrong", ["Nothing to see."]]],
        "supporting_facts": [["Right", 0]],
    }


ROWS = [question(f"q{place}") for place in range(60)]
WHOLE = json.dumps(ROWS).encode()
OTHER = json.dumps([*ROWS[:30], {**ROWS[30], "answer": "another"}, *ROWS[31:]]).encode()


@pytest.fixture
def server():
    with Server() as one:
        yield one


def source(*mirrors, **known):
    settings = {"rows": 60, "first": "q0", "last": "q59", "file": "made_up.json", "name": "hotpotqa"} | known
    return Source(
        title="Made-up questions",
        licence="CC0",
        home="https://example.org/home",
        mirrors=tuple(one if isinstance(one, Mirror) else Mirror(one) for one in mirrors),
        **settings,
    )


def fetch(one, cache, **settings):
    return fetch_dataset(one, cache, **{"patience": QUICK, **settings})


def refused(one, cache):
    with pytest.raises(Unavailable) as caught:
        fetch(one, cache)
    return str(caught.value)


def left(cache):
    return sorted(one.name for one in (cache / "datasets").iterdir())


def packed(*members, method=zipfile.ZIP_DEFLATED):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", method) as out:
        for name, content in members:
            out.writestr(name, content)
    return archive.getvalue()


# From a mirror into the cache


def test_a_data_set_is_fetched_whole_verified_and_noted(server, tmp_path):
    url = server.on("/d", hosted(WHOLE))
    found = fetch(source(url), tmp_path)
    assert found.path == dataset_path(source(url), tmp_path) == tmp_path / "datasets" / "made_up.json"
    assert found.path.read_bytes() == WHOLE
    assert (found.rows, found.origin, found.sha256) == (60, url, digest_of(found.path))
    assert left(tmp_path) == ["made_up.json", "made_up.json.sha256"]
    assert (tmp_path / "datasets" / "made_up.json.sha256").read_text() == f"{found.sha256}  made_up.json\n"


def test_what_is_in_the_cache_is_not_fetched_again(server, tmp_path):
    one = source(server.on("/d", hosted(WHOLE)))
    first = fetch(one, tmp_path)
    note = tmp_path / "datasets" / "made_up.json.sha256"
    before = note.stat()
    again = fetch(one, tmp_path)
    assert len(server.seen) == 1
    assert again == replace(first, origin="")
    after = note.stat()  # a cache that nobody may write is as good
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_a_cut_download_is_continued_in_the_run_and_in_the_next(server, tmp_path):
    one = source(server.on("/d", hosted(WHOLE, cuts=[20_000, 5_000, 7_000])))
    with pytest.raises(Unavailable) as caught:
        fetch(one, tmp_path, patience=Patience(attempts=1))
    assert "broke off after 20,000 bytes" in str(caught.value)
    found = fetch(one, tmp_path)
    assert found.path.read_bytes() == WHOLE
    assert [seen.start for seen in server.seen] == [None, 20_000, 25_000, 32_000]
    assert left(tmp_path) == ["made_up.json", "made_up.json.sha256"]


def test_a_file_that_changed_between_two_runs_is_fetched_anew(server, tmp_path):
    one = source(server.on("/d", hosted(OTHER, cuts=[20_000]), hosted(WHOLE, tag='"two"')))
    with pytest.raises(Unavailable):
        fetch(one, tmp_path, patience=Patience(attempts=1))
    assert fetch(one, tmp_path).path.read_bytes() == WHOLE


def test_a_part_of_one_mirror_is_never_continued_from_another(server, tmp_path):
    cut = server.on("/cut", hosted(OTHER, ranges=False, cuts=[20_000] * 9))
    found = fetch(source(cut, server.on("/good", hosted(WHOLE))), tmp_path)
    assert found.path.read_bytes() == WHOLE
    assert server.seen[-1].start is None


def test_progress_of_a_download_and_of_its_check_only_grows(server, tmp_path):
    told = []
    one = source(server.on("/d", hosted(WHOLE, cuts=[20_000])))
    fetch(one, tmp_path, progress=lambda *step: told.append(step))
    for what in ("downloading", "checking"):
        done = [step[1] for step in told if step[0] == what]
        assert done
        assert done == sorted(done)
    assert ("downloading", len(WHOLE), len(WHOLE)) in told
    assert {step[0] for step in told} == {"downloading", "checking"}


# Other mirrors, and none

BAD = {
    "gone": Reply(404),
    "forbidden": Reply(403),
    "broken": Reply(500),
    "asks too long a wait": Reply(429, headers={"Retry-After": "3600"}),
    "loops": redirect("/bad"),
    "hangs up": Reply(raw=b""),
    "stalls": Reply(200, WHOLE, stall=100),
    "empty": hosted(b""),
    "page": hosted(b"<!DOCTYPE html>\n<html><body>Sign in to go on</body></html>\n"),
    "error as JSON": hosted(b'{"error": "not found"}'),
    "error as a row": hosted(b'[{"error": "not found"}]'),
    "plain text": hosted(b"moved\n" * 60),
    "array of numbers": hosted(json.dumps(list(range(60))).encode()),
    "empty array": hosted(b"[]"),
    "cut JSON": hosted(WHOLE[:-1000]),
    "cut in its length too": Reply(200, WHOLE[:-1000], length=len(WHOLE)),
    "binary": hosted(bytes(range(256)) * 100),
    "too few rows": hosted(json.dumps(ROWS[:59]).encode()),
    "too many rows": hosted(json.dumps([*ROWS, question("q60")]).encode()),
    "another first": hosted(json.dumps([question("x"), *ROWS[1:]]).encode()),
    "another last": hosted(json.dumps([*ROWS[:-1], question("x")]).encode()),
    "another order": hosted(json.dumps(ROWS[::-1]).encode()),
    "no question first": hosted(json.dumps([{"_id": "q0"}, *ROWS[1:]]).encode()),
    "no question last": hosted(json.dumps([*ROWS[:-1], {"_id": "q59"}]).encode()),
    "more after its end": hosted(WHOLE + b"]"),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_mirror_without_the_whole_file_gives_way_to_the_next(server, tmp_path, bad):
    good = server.on("/good", hosted(WHOLE))
    found = fetch(source(server.on("/bad", BAD[bad]), good), tmp_path)
    assert found.origin == good
    assert found.path.read_bytes() == WHOLE
    assert left(tmp_path) == ["made_up.json", "made_up.json.sha256"]


@pytest.mark.parametrize("bad", BAD)
def test_where_no_mirror_has_it_the_message_says_which_file_to_put_where(server, tmp_path, bad):
    one = source(server.on("/bad", BAD[bad]), server.on("/gone", Reply(404)))
    said = refused(one, tmp_path)
    assert server.url("/bad") in said
    assert server.url("/gone") in said
    assert f"\n  expected {server.url('/gone')}, found: HTTP 404" in said  # an address once, not twice
    assert "CC0" in said
    assert said.endswith(
        f"get made_up.json from https://example.org/home on another machine and put it at "
        f"{tmp_path / 'datasets' / 'made_up.json'}."
    )
    assert not any(
        name in ("made_up.json", "made_up.json.sha256", "fetching-made_up.json") for name in left(tmp_path)
    )


def test_wrong_content_is_said_with_what_was_expected_and_found(server, tmp_path):
    assert "expected 60 rows in made_up.json, found 59" in refused(
        source(server.on("/a", BAD["too few rows"])), tmp_path
    )
    said = refused(source(server.on("/b", BAD["another last"])), tmp_path)
    assert "expected q59 as its last id in made_up.json, found x" in said


def test_json_lines_with_a_broken_line_in_the_middle_are_not_taken(server, tmp_path):
    lines = [json.dumps(row).encode() for row in ROWS]
    broken = b"\n".join([*lines[:30], lines[30][:50], *lines[31:]])
    one = source(server.on("/d", hosted(broken)), file="made_up.jsonl")
    assert "row 31" in refused(one, tmp_path)
    one = source(server.on("/d", hosted(b"\n".join(lines))), file="made_up.jsonl")
    assert fetch(one, tmp_path).rows == 60


def test_ids_that_are_not_known_are_not_asked_for(server, tmp_path):
    assert fetch(source(server.on("/d", hosted(WHOLE)), first="", last=""), tmp_path).rows == 60


def test_offline_the_message_names_every_mirror_and_the_place_of_the_file(tmp_path):
    port = closed_port()
    said = refused(source(f"http://127.0.0.1:{port}/a", f"http://127.0.0.1:{port}/b"), tmp_path)
    assert f":{port}/a" in said
    assert f":{port}/b" in said
    assert str(tmp_path / "datasets" / "made_up.json") in said


# The cache, and what others do to it


def test_a_file_put_there_by_hand_is_verified_noted_and_makes_no_request(server, tmp_path):
    one = source(server.on("/d", Reply(404)))
    path = dataset_path(one, tmp_path)
    path.parent.mkdir()
    path.write_bytes(WHOLE)
    found = fetch(one, tmp_path)
    assert (found.rows, found.origin) == (60, "")
    assert found.sha256 in (tmp_path / "datasets" / "made_up.json.sha256").read_text()
    assert server.seen == []


def test_a_wrong_file_put_there_by_hand_is_refused_and_leaves_no_note_behind(server, tmp_path):
    one = source(server.on("/d", hosted(WHOLE)))
    path = dataset_path(one, tmp_path)
    path.parent.mkdir()
    for wrong in (WHOLE[:-1000], b"<html>\n", b"", json.dumps(ROWS[:7]).encode()):
        path.write_bytes(wrong)
        with pytest.raises(BrokenFile) as caught:
            fetch(one, tmp_path)
        assert str(path) in str(caught.value)
    assert server.seen == []
    path.write_bytes(WHOLE)  # the right one after all
    assert fetch(one, tmp_path).rows == 60


def test_a_file_that_changed_in_the_cache_is_refused(server, tmp_path):
    one = source(server.on("/d", hosted(WHOLE)))
    path = fetch(one, tmp_path).path
    path.write_bytes(OTHER)  # the same rows, the same ids, another answer
    with pytest.raises(BrokenFile) as caught:
        fetch(one, tmp_path)
    said = str(caught.value)
    assert digest_of(path) in said
    assert "first downloaded" in said
    assert len(server.seen) == 1


def test_a_source_that_changed_since_the_first_download_is_refused_until_the_note_is_removed(server, tmp_path):
    one = source(server.on("/d", hosted(WHOLE), hosted(OTHER)))
    path = fetch(one, tmp_path).path
    path.unlink()
    said = refused(one, tmp_path)
    note = path.with_name("made_up.json.sha256")
    assert f"remove {note}" in said
    assert not path.exists()
    note.unlink()
    assert fetch(one, tmp_path).path.read_bytes() == OTHER


def test_a_mirror_with_another_file_gives_way_to_one_with_the_first(server, tmp_path):
    first = server.on("/a", hosted(WHOLE), hosted(OTHER))
    one = source(first, server.on("/b", hosted(WHOLE)))
    path = fetch(one, tmp_path).path
    path.unlink()
    assert fetch(one, tmp_path).origin == server.url("/b")


@pytest.mark.parametrize("cache", ["taken", "taken/deeper"])
def test_a_cache_that_cannot_be_a_folder_is_said(server, tmp_path, cache):
    (tmp_path / "taken").write_text("a file, no folder")
    for one in (source(server.on("/d", hosted(WHOLE))), source(Mirror(server.url("/d"), MEMBER))):
        said = refused(one, tmp_path / cache)
        assert "expected to write" in said
        assert str(tmp_path / "taken") in said


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_cache_that_may_not_be_written_is_said(server, tmp_path):
    (tmp_path / "datasets").mkdir(mode=0o500)
    assert "Permission denied" in refused(source(server.on("/d", hosted(WHOLE))), tmp_path)


# ZIP archives


@pytest.mark.parametrize("name", [MEMBER, f"data/{MEMBER}", f"a/b/c/{MEMBER}"])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_the_member_of_an_archive_is_taken_from_whatever_folder_it_stands_in(server, tmp_path, name, method):
    archive = packed(
        ("README.md", "text"), (f"{name}.bak", "x"), (f"other-{MEMBER}", "y"), (name, WHOLE), method=method
    )
    url = server.on("/z", hosted(archive))
    found = fetch(source(Mirror(url, MEMBER)), tmp_path)
    assert found.path.read_bytes() == WHOLE
    assert found.origin == url
    assert left(tmp_path) == ["made_up.json", "made_up.json.sha256"]


def test_a_cut_archive_is_continued(server, tmp_path):
    archive = packed((MEMBER, WHOLE))
    url = server.on("/z", hosted(archive, cuts=[len(archive) // 2]))
    assert fetch(source(Mirror(url, MEMBER)), tmp_path).path.read_bytes() == WHOLE
    assert server.seen[1].start == len(archive) // 2


def damaged(archive, place):
    return archive[:place] + bytes([archive[place] ^ 255]) + archive[place + 1 :]


def locked(archive):
    """Set the bit of every header that says that the member is encrypted."""
    content = bytearray(archive)
    content[6] |= 1
    content[content.rindex(b"PK\x01\x02") + 8] |= 1
    return bytes(content)


def of_unknown_method(archive):
    content = bytearray(archive)
    content[8] = 77
    content[content.rindex(b"PK\x01\x02") + 10] = 77
    return bytes(content)


GOOD_ZIP = packed((f"data/{MEMBER}", WHOLE))
BAD_ZIPS = {
    "without the member": packed(("other.json", WHOLE)),
    "with the member twice": packed((f"a/{MEMBER}", WHOLE), (f"b/{MEMBER}", WHOLE)),
    "empty": packed(),
    "truncated": GOOD_ZIP[:-50],
    "without its beginning": GOOD_ZIP[50:],
    "damaged in the middle": damaged(GOOD_ZIP, len(GOOD_ZIP) // 2),
    "damaged, stored": damaged(packed((MEMBER, WHOLE), method=zipfile.ZIP_STORED), 5000),
    "damaged, bzip2": damaged(packed((MEMBER, WHOLE), method=zipfile.ZIP_BZIP2), 300),
    "damaged, lzma": damaged(packed((MEMBER, WHOLE), method=zipfile.ZIP_LZMA), 300),
    "locked": locked(GOOD_ZIP),
    "of unknown method": of_unknown_method(GOOD_ZIP),
    "no archive": b"<html>Sign in</html>",
    "nothing": b"",
    "with another file of that name": packed((MEMBER, WHOLE[:-700])),
}


@pytest.mark.parametrize("bad", BAD_ZIPS)
def test_an_archive_without_the_whole_member_gives_way_to_the_next(server, tmp_path, bad):
    url = server.on("/bad", hosted(BAD_ZIPS[bad]))
    said = refused(source(Mirror(url, MEMBER)), tmp_path)
    assert "expected" in said
    assert not list((tmp_path / "datasets").glob("*.json"))
    assert not list((tmp_path / "datasets").glob(".*"))
    good = server.on("/good", hosted(GOOD_ZIP))
    assert fetch(source(Mirror(url, MEMBER), Mirror(good, MEMBER)), tmp_path).origin == good
    assert left(tmp_path) == ["made_up.json", "made_up.json.sha256"]


# The sources that are shipped


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_that_is_shipped_has_mirrors_a_licence_and_a_home(name):
    one = SOURCES[name]
    assert one.name == name
    assert one.rows > 0
    assert one.licence
    assert one.home.startswith("https://")
    assert len(one.mirrors) >= 2
    assert all(mirror.url.startswith(("http://", "https://")) for mirror in one.mirrors)
