"""Entries: lines that come back as they went, packed texts that unpack, sums that no order changes."""

import itertools
import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewise.errors import BadChoice, BrokenFile
from gatewise.recordings.calls import Reply, Request
from gatewise.recordings.entries import (
    Entry,
    Tally,
    dictionary_of,
    export_lines,
    flaw_of,
    packed,
    raw_bytes,
    raw_digest,
    raw_text,
    read_lines,
    require_keyless,
    unpacked,
)

ENDPOINT = "http://localhost/v1/chat/completions"
ANY = st.text(st.characters(codec=None, exclude_categories=()))  # lone surrogates too


def entry(n=0, raw="said", **more):
    return Entry.of(Request(ENDPOINT, {"model": "m", "n": n}, **more), Reply(raw, 1e9 + n, 0.25))


@given(ANY, ANY, st.integers(0, 9), st.one_of(st.none(), st.floats(0, 4e9)))
def test_a_line_gives_back_the_entry_whatever_was_said(said, asked, attempt, started):
    one = Entry.of(Request(ENDPOINT, {"text": asked, asked: [1.5, None]}, attempt), Reply(said, started, None))
    (line,) = export_lines([one])
    assert line.isascii()
    assert line.count(b"\n") == 1
    assert list(read_lines([line])) == [one]


@pytest.mark.parametrize(
    "change",
    [
        lambda row: row["body"].update(n=7),
        lambda row: row.update(attempt=1),
        lambda row: row.update(endpoint="elsewhere"),
        lambda row: row.update(key="0" * 64),
        lambda row: row.update(raw=None),
        lambda row: row.update(raw={"choices": []}),
        lambda row: row.pop("started"),
        lambda row: row.update(started="yesterday"),
        lambda row: row.update(body=[1]),
        lambda row: row.update(attempt="0"),
        lambda row: row.update(attempt=False),
    ],
)
def test_a_line_that_was_changed_is_refused_by_its_number(change):
    first, second = export_lines([entry(0), entry(1)])
    row = json.loads(second)
    change(row)
    with pytest.raises(BrokenFile, match=r"line 2 of x.jsonl.*Export the ledger again"):
        list(read_lines([first, json.dumps(row).encode()], "x.jsonl"))


@pytest.mark.parametrize("line", [b"", b"\n", b"{}", b"[]", b"null", b"{", b"\xff\xfe", b'"text"', b"[" * 100_000])
def test_a_line_of_something_else_is_refused(line):
    with pytest.raises(BrokenFile, match="line 1"):
        list(read_lines([line]))


def test_a_line_cut_short_is_refused():
    (line,) = export_lines([entry()])
    for end in range(0, len(line) - 2, 7):
        with pytest.raises(BrokenFile):
            list(read_lines([line[:end]]))


@given(ANY)
def test_a_reply_is_stored_as_bytes_and_comes_back(raw):
    assert raw_text(raw_bytes(raw)) == raw


@given(st.binary(max_size=3000), st.lists(ANY, min_size=1, max_size=3))
def test_what_is_packed_unpacks_to_the_same(content, raws):
    words = dictionary_of(entry(n, raw) for n, raw in enumerate(raws))
    assert unpacked(packed(content, words), words) == content


def test_a_dictionary_reads_no_more_entries_than_it_needs():
    endless = (entry(n, "x" * 1000) for n in itertools.count())
    assert len(dictionary_of(endless)) == 1 << 15
    assert dictionary_of([]) == b""


def test_what_was_not_packed_so_is_refused():
    whole = packed(b"content" * 100, b"words")
    for content, words in ((whole, b"other"), (whole[:-3], b"words"), (b"", b"words"), (b"text", b"words")):
        with pytest.raises(ValueError, match=r"\w"):
            unpacked(content, words)
    assert unpacked(zlib.compress(b"plain"), b"words") == b"plain"


@pytest.mark.parametrize(
    "name", ["https://me:canary@h/v1", "https://h/v1?key=canary", "https://h/v1#canary", "a://b@"]
)
def test_an_endpoint_that_could_hold_a_key_is_refused_and_not_shown(name):
    with pytest.raises(BadChoice, match="without user, key or query") as caught:
        require_keyless(name)
    assert "canary" not in str(caught.value)


def test_other_endpoints_are_taken():
    for name in (ENDPOINT, "local:qwen-0.5b@sha256:0123456789ab", "https://h:8080/v1/@x", "judge"):
        require_keyless(name)


def test_a_changed_entry_has_a_flaw():
    one = entry()
    digest = raw_digest(b"said")
    assert flaw_of(one, digest) == ""
    assert "digest" in flaw_of(one, raw_digest(b"Said"))
    changed = Entry(one.key, one.endpoint, one.body + " ", one.attempt, one.kind, one.raw, one.started, one.latency)
    assert "key" in flaw_of(changed, digest)


def reply(**usage):
    return json.dumps({"choices": [], "usage": usage})


def test_a_tally_counts_by_endpoint_model_and_kind():
    tally = Tally()
    tally.add(entry(0, reply(prompt_tokens=10, completion_tokens=2, cost=0.1)))
    tally.add(entry(1, reply(prompt_tokens=10, completion_tokens=3, cost=0.2), attempt=1))
    tally.add(entry(2, "not JSON"))
    tally.add(entry(3, reply(prompt_tokens=4), kind="verdict"))
    assert list(tally.counts) == [(ENDPOINT, "m", "answer"), (ENDPOINT, "m", "verdict")]
    one, other = tally.counts.values()
    assert (one.calls, one.again, one.input_tokens, one.output_tokens, one.without_usage) == (3, 1, 20, 5, 1)
    assert (float(one.cost), one.without_cost, float(one.latency)) == (0.30000000000000004, 1, 0.75)
    assert (other.calls, other.input_tokens, other.without_cost) == (1, 4, 1)
    assert (tally.first, tally.last) == (1e9, 1e9 + 3)


@pytest.mark.parametrize(
    "raw",
    ["", "null", "[1]", "{", '{"usage": null}', '{"usage": [1]}', '{"usage": {"prompt_tokens": "many"}}',
     '{"usage": {"prompt_tokens": -1, "cost": NaN}}', '{"usage": {"prompt_tokens": true}}', "[" * 100_000,
     '{"usage": {"prompt_tokens": 1e999}}'],
)  # fmt: skip
def test_a_tally_takes_no_number_from_a_reply_without_one(raw):
    tally = Tally()
    tally.add(entry(0, raw))
    (one,) = tally.counts.values()
    assert (one.calls, one.input_tokens, one.without_usage, one.cost) == (1, 0, 1, 0)


def test_a_sum_does_not_depend_on_the_order():
    entries = [entry(n, reply(prompt_tokens=1, cost=10.0**-n)) for n in range(20)]
    sums = set()
    for order in (entries, entries[::-1], entries[1::2] + entries[::2]):
        tally = Tally()
        for one in order:
            tally.add(one)
        sums.add(tally.counts[ENDPOINT, "m", "answer"].cost)
    assert len(sums) == 1
