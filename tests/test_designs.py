import json
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewise.errors import BrokenFile
from gatewise.recordings.endpoints import Prices, Settings
from gatewise.replays.summaries import THRESHOLDS
from gatewise.studies.designs import SECTIONS, Data, Gates, Planning, read_design

SMALL = """
[study]
name = "small"

[[data]]
dataset = "worldfacts"

[[models]]
name = "qwen"
local = "qwen-1.5b"
"""


def read(text, folder="/base"):
    return read_design(text, Path(folder))


def problems(text):
    with pytest.raises(BrokenFile) as found:
        read(text)
    return str(found.value).split("\n  ")[1:]


def test_a_study_of_three_sections_has_defaults_for_the_rest():
    design = read(SMALL)
    assert design.data == (Data("worldfacts"),)
    assert design.plan == Planning()
    assert design.gates == Gates(0.3, 0.7, 3, "isotonic", THRESHOLDS)
    assert (design.models[0].name, design.models[0].backend, design.judge.name) == ("qwen", "local", "exact")
    assert design.out == Path("/base/small")
    assert design.ledger == Path("/base/small/ledger.sqlite")
    assert design.report_folder == Path("/base/small/report")
    assert design.plans_path(design.data[0]) == Path("/base/small/plans/worldfacts.jsonl")
    assert design.traces_path(design.models[0]) == Path("/base/small/traces/qwen.parquet")
    assert hash(design.plan) == hash(Planning())


def test_a_whole_study_is_read():
    design = read("""
        [study]
        name = "whole"
        out = "results"
        ledger = "/keep/ledger.sqlite"
        [[data]]
        dataset = "hotpotqa"
        file = "hotpot.json"
        skip = ["no-support"]
        splits = ["calibration", "test"]
        limit = 100
        [[data]]
        dataset = "mine"
        file = "mine.jsonl"
        format = "readers:mine"
        [plan]
        order = "retriever"
        slices = 2
        similarity = "lexical+dense"
        embedder = "https://host/v1"
        key_env = "EMBEDDING_KEY"
        [[models]]
        name = "a"
        url = "https://host/v1"
        model = "org/a"
        key_env = "OPENROUTER_API_KEY"
        prompt = "small"
        p_true = true
        prices = {input = 0.1, output = 0.4}
        extra = {reasoning = {effort = "low"}}
        requests_per_minute = 500
        [[models]]
        name = "b"
        transformer = "org/b"
        [judge]
        kind = "model"
        url = "https://host/v1"
        model = "google/gemini-2.5-flash-lite"
        [gates]
        lo = 0.2
        map = "none"
        thresholds = [0.5, 1]
        [report]
        out = "report"
        plans = false
    """)
    assert design.out == Path("/base/results")
    assert design.ledger == Path("/keep/ledger.sqlite")
    assert design.report_folder == Path("/base/report")
    assert design.data[0].file == Path("/base/hotpot.json")
    assert design.models[0].prices == Prices(0.1, 0.4)
    assert design.models[0].extra == {"reasoning": {"effort": "low"}}
    assert [one.backend for one in design.models] == ["url", "transformer"]
    assert design.judge.name == "model:google/gemini-2.5-flash-lite"
    assert design.gates.thresholds == (0.5, 1.0)


@pytest.mark.parametrize(
    ("judge", "name"),
    [
        ('kind = "f1"', "f1@0.8"),
        ('kind = "f1"\nthreshold = 1', "f1@1"),
        ('kind = "own"\nfunction = "mine:strict"', "mine:strict"),
        ('kind = "model"\nlocal = "qwen-1.5b"', "model:qwen-1.5b"),
    ],
)
def test_a_judge_has_the_name_that_the_trace_table_keeps(judge, name):
    assert read(f"{SMALL}[judge]\n{judge}\n").judge.name == name


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("[plan]\nslises = 3", r"line 12, [plan] slises: no such key (did you mean slices?)"),
        ("[plan]\nslices = 0", "slices: expected a number from 1, found 0"),
        ('[plan]\norder = "papers"', "order: expected one of paper, retriever"),
        ("[plan]\nshares = [0.8, 0.4]", "shares: expected two shares that add up to at most 1"),
        ('[plan]\nsplit = "fold"', "split: expected source, random or column:NAME"),
        ('[plan]\norder = "retriever"\ndistractors = 3', "distractors: expected none with order retriever"),
        ('[plan]\nembedder = "https://a:b@host/v1"', "embedder: expected an address"),
        ("[plans]", "plans: no such section (did you mean plan?)"),
        ('[[data]]\ndataset = "Worldfacts"', "[[data]] 2 dataset: expected a name that stands once"),
        ('[[data]]\ndataset = "a/b"', "dataset: expected a name of letters"),
        ('[[data]]\ndataset = ".."', "dataset: expected a name of letters"),
        ('[[data]]\ndataset = "x"\nsplits = []', "splits: expected splits among calibration"),
        ('[[data]]\ndataset = "x"\nsplits = ["tests"]', "splits: expected a list, each of it one of calibration"),
        ("[[data]]\nlimit = 3", "[[data]] 2: expected the key dataset, found none"),
        ('[[models]]\nname = "qwen"\nlocal = "x"', "[[models]] 2 name: expected a name that stands once"),
        ('[[models]]\nname = "b"', "expected one of url, local, transformer, found none"),
        ('[[models]]\nname = "b"\nurl = "https://h/v1"', "expected the key model, as the endpoint calls it"),
        ('[[models]]\nname = "b"\nurl = "host/v1"\nmodel = "m"', "url: expected an address"),
        ('[[models]]\nname = "b"\nurl = "https://h:99999/v1"\nmodel = "m"', "url: expected an address"),
        ('[[models]]\nname = "b"\nlocal = "m"\nprices = {input = 1}', "prices: expected a table of input and output"),
        ('[[models]]\nname = "b"\nlocal = "m"\ntimeout = 0', "timeout: expected a number above 0"),
        ('[judge]\nkind = "own"', "[judge]: expected the key function"),
        ('[judge]\nkind = "model"', "[judge]: expected one of url, local, transformer, found none"),
        ("[judge]\nthreshold = 0.5", "[judge] threshold: expected it with kind 'f1' alone, found kind 'exact'"),
        ('[judge]\nurl = "https://h/v1"', "[judge] url: expected it with kind 'model' alone"),
        ('[[models]]\nname = "b"\nlocal = "m"\nprices = {input = -1, output = 1}', "prices: expected prices from 0"),
        (
            '[[models]]\nname = "b"\nlocal = "m"\nprompt = "papr"',
            "or a prompt file named .toml (did you mean paper?)",
        ),
        ('[[models]]\nname = "b"\nlocal = "m"\nextra = {n = 2}', "extra: expected a body without n"),
        ('[[models]]\nname = "b"\nlocal = "m"\nextra = {a = 2026-01-01}', "extra: expected values that JSON knows"),
        ('[[models]]\nname = "b"\nlocal = "m"\nextra = {a = [nan]}', "extra: expected values that JSON knows"),
        ('[plan]\nsimilarity = "lexical+dens"', "joined by + (did you mean dense?), found 'lexical+dens'"),
        ('[plan]\nembedder = "minilmm"', "address of an endpoint (did you mean minilm?)"),
        ('[[data]]\ndataset = "x"\nformat = "musik"', "or module:name (did you mean musique?)"),
        ('[[data]]\ndataset = "x"\nskip = ["no-suport"]', "skip: expected a list, each of it one of malformed"),
        ('[gates]\nsignal = "p_true"', "signal: expected p_true = true for model qwen"),
        ('[gates]\nsignal = "token_probability"', "signal: expected logprobs = true for model qwen"),
        ("[gates]\nlo = 0.8", "lo: expected lo ≤ hi, found lo 0.8 and hi 0.7"),
        ("[gates]\nhi = 1.5", "hi: expected a number from 0 to 1, found 1.5"),
        ('[gates]\nmap = "platt"', "map: expected one of isotonic, isotonic-by-depth, none"),
        ("[[gates]]\nlo = 0.1", "[[gates]] 1: expected one section [gates], found a list"),
    ],
)
def test_what_breaks_a_rule_is_named_with_its_section_and_key(more, said):
    found = problems(f"{SMALL}{more}\n")
    assert len(found) == 1
    assert said in found[0]


def test_every_setting_of_an_endpoint_can_be_said_in_a_study_file():
    ours = {"model": "org/a", "url": "https://h/v1", "key_env": "KEY", "temperature": 0.5, "max_tokens": 7, "seed": 1,
            "extra": {"a": 1}, "logprobs": True, "top_logprobs": 2, "prices": Prices(1.0, 2.0), "concurrency": 3,
            "requests_per_minute": 4.0, "tokens_per_minute": 5.0, "timeout": 6.0, "overall": 9.0, "proxy": "none",
            "ca": "/base/ca.pem"}  # fmt: skip
    text = """
        model = "org/a"
        url = "https://h/v1"
        key_env = "KEY"
        temperature = 0.5
        max_tokens = 7
        seed = 1
        extra = {a = 1}
        logprobs = true
        top_logprobs = 2
        prices = {input = 1, output = 2}
        concurrency = 3
        requests_per_minute = 4
        tokens_per_minute = 5
        timeout = 6
        overall = 9
        proxy = "none"
        ca = "ca.pem"
    """
    model = read(SMALL.replace('local = "qwen-1.5b"', text)).models[0]
    assert {name: getattr(model, name) for name in ours} == {**ours, "ca": Path("/base/ca.pem")}
    assert {one.name for one in fields(Settings)} - {"largest_reply"} == set(ours)


def test_an_empty_file_says_all_that_it_lacks():
    assert problems("") == [
        "[study]: expected the key name, found none.",
        "[[data]]: expected one or more, found none.",
        "[[models]]: expected one or more, found none.",
    ]


def test_all_violations_are_listed_together():
    text = (
        SMALL.replace('"worldfacts"', "3")
        + '[plan]\nslices = 0\n[gates]\nlo = 2\nhii = 1\n[[models]]\nname = "QWEN"\n'
    )
    found = problems(text)
    assert [one.partition(":")[0] for one in found] == [
        "line 6, [[data]] 1 dataset",
        "line 12, [plan] slices",
        "line 14, [gates] lo",
        "line 15, [gates] hii",
        "line 16, [[models]] 2",
        "line 17, [[models]] 2 name",
    ]


@pytest.mark.parametrize(
    "value",
    [
        "sk-or-v1-0123456789abcdef",
        "0123456789abcdef0123456789abcdef",
        "abcdef0123456789abcdef0123456789",
        "a b",
        "A-B",
    ],
)
def test_a_key_in_the_place_of_its_variable_is_refused_unshown(value):
    found = problems(f'{SMALL}key_env = "{value}"\n')
    assert len(found) == 1
    assert "key_env" in found[0]
    assert value not in found[0]


@pytest.mark.parametrize("field", ["url", "proxy"])
def test_an_address_with_a_user_is_refused_unshown(field):
    found = problems(f'{SMALL}{field} = "http://me:canary@host/v1"\n')
    assert "canary" not in "".join(found)


values = st.recursive(
    st.one_of(
        st.integers(-3, 3),
        st.booleans(),
        st.floats(),
        st.text(max_size=8),
        st.sampled_from(["paper", "small", "model", "own", "https://h/v1", "test", "dense", "sk-abcdefghijklmnop"]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=2)),
    max_leaves=5,
)


def toml(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value).replace("\\u007f", "x").replace("\x7f", "x")
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {toml(one)}' for key, one in value.items())}}}"
    return repr(value)


KEYS = sorted({one.name for kind in SECTIONS.values() for one in fields(kind)} | {"slises", "api_key"})
parts = st.tuples(
    st.sampled_from([*(f"[{name}]" for name in SECTIONS), "[[data]]", "[[models]]", "[modles]"]),
    st.dictionaries(st.sampled_from(KEYS), values, max_size=6),
)


@given(st.lists(parts, max_size=5))
def test_any_file_is_a_study_or_says_why_not(sections):
    text = "".join(
        f"{head}\n" + "".join(f"{key} = {toml(v)}\n" for key, v in part.items()) for head, part in sections
    )
    said = ""
    try:
        assert read(SMALL + text).models[0].name == "qwen"
    except BrokenFile as broken:
        said = str(broken)
    assert "sk-abcdef" not in said
    assert all(line.isprintable() for line in said.split("\n"))


@given(st.text(max_size=60))
def test_any_text_is_refused_in_words(text):
    with pytest.raises(BrokenFile):
        read(text)
