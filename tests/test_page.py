"""The page as text; what it does in a browser stands in test_browser."""

import base64
import hashlib
import html.parser
import json
import re
import zlib

import numpy as np
import pytest

from gatewise import Isotonic, Threshold, Traces, calibrate
from gatewise.files import reconstruction
from gatewise.reports.page import page_text
from gatewise.reports.snippets import Origin
from gatewise.studies.reporting import Choices, page_of
from gatewise.types import Passage, Plan, Question

MODELS = ["gpt-oss-120b", "mistral-small-2603", "qwen3-235b-a22b-2507"]
HOSTILE = ["<script>alert(1)</script>", "</script><!--", "\u2028\u202e\ud800", "{{title}} %%data%%"]


def small(**more):
    ids = ["a", "a", "b"]
    columns = {"trace_id": ids, "depth": [0, 1, 0], "confidence": [0.4, 0.9, None], "correct": [False, True, None]}
    return Traces.from_columns({**columns, **more})


class Parts(html.parser.HTMLParser):
    """The scripts, styles and metas of a page, as a parser of HTML finds them."""

    def __init__(self, text):
        super().__init__()
        self.scripts, self.styles, self.metas, self.title, self.tags, self._open = [], [], [], "", [], None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self._open = tag
        if tag == "script":
            self.scripts.append([dict(attributes), ""])
        if tag == "style":
            self.styles.append("")

    def handle_endtag(self, tag):
        self._open = None

    def handle_data(self, data):
        if self._open == "script":
            self.scripts[-1][1] += data
        elif self._open == "style":
            self.styles[-1] += data
        elif self._open == "title":
            self.title += data


def header(text):
    packed = json.loads(Parts(text).scripts[0][1])
    content = zlib.decompress(base64.b64decode(packed))
    return json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])


def digest(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_the_page_lets_nothing_run_or_load_but_its_own_script_and_style():
    text = page_text(small())
    parts = Parts(text)
    policy = next(one["content"] for tag, one in parts.tags if one.get("http-equiv") == "Content-Security-Policy")
    assert policy == (
        f"default-src 'none'; script-src {digest(parts.scripts[2][1])}; style-src {digest(parts.styles[0])}; "
        "base-uri 'none'; form-action 'none'"
    )
    assert [one[0].get("type") for one in parts.scripts] == ["application/json", "application/json", None]
    for _, attributes in parts.tags:
        assert not {"src", "href", "style", "srcset", "action"} & set(attributes)
        assert not any(name.startswith("on") for name in attributes)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(", text)


def test_text_goes_into_the_document_as_text_alone():
    script = Parts(page_text(small())).scripts[2][1]
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|Function\(", script)
    assert not re.search(r"setAttribute\(\"(style|href|src|on)", script)


def test_hostile_markup_is_data_and_adds_no_element():
    plain = Parts(
        page_text(small(model=["m"] * 3, question=["q", "q", "r"], answer=["x", "y", "z"], kind=["k", "k", "l"]))
    )
    for evil in HOSTILE:
        text = page_text(
            small(model=[evil] * 3, question=[evil, evil, None], answer=[evil] * 3, kind=[evil, evil, "x"]),
            title=evil,
        )
        text.encode("utf-8")
        parts = Parts(text)
        assert [tag for tag, _ in parts.tags] == [tag for tag, _ in plain.tags]
        assert "<!--" not in text
        assert header(text)["title"] == evil
        assert evil in header(text)["texts"]


def test_the_page_says_why_a_column_or_map_is_not_there_by_leaving_it_out():
    one = header(page_text(small(kind=["k", "k", "l"])))["sets"][0]
    assert [grouping["column"] for grouping in one["groupings"]] == ["kind"]
    assert list(one["scores"]) == ["raw"]


def test_traces_of_several_models_stand_in_sets_of_their_own_each_with_its_map():
    traces = small(model=["m", "m", None])
    found = header(page_text(traces, maps={"m": Isotonic((0.0, 1.0), (0.0, 1.0))}))["sets"]
    assert [(one["model"], one["n"], list(one["scores"])) for one in found] == [
        ("m", 1, ["raw", "calibrated"]),
        (None, 1, ["raw"]),
    ]


@pytest.mark.parametrize("model", MODELS)
def test_the_test_part_of_a_reconstruction_makes_a_page_well_under_its_limit_and_the_same_bytes_again(model):
    traces = reconstruction(model)
    maps = {model: calibrate(traces)}
    text = page_text(traces.split("test"), maps=maps)
    assert len(text.encode()) < 400_000
    assert page_text(traces.split("test"), maps=maps) == text


def test_a_page_of_real_valued_scores_and_long_texts_stays_within_a_megabyte_and_a_half():
    rng = np.random.default_rng(0)
    n = 2457
    words = np.array(["".join(rng.choice(list("etaoinshrdlu"), 7)) for _ in range(4000)])
    text = [" ".join(rng.choice(words, 14)) for _ in range(n)]
    columns = {
        "trace_id": np.repeat([f"{place:024x}" for place in range(n)], 4).tolist(),
        "depth": list(range(4)) * n,
        "confidence": rng.random(4 * n).tolist(),
        "correct": (rng.random(4 * n) < 0.6).tolist(),
        "question": np.repeat(text, 4).tolist(),
        "answer": [" ".join(rng.choice(words, 3)) for _ in range(4 * n)],
        "dataset": np.repeat(rng.choice(["one", "two"], n), 4).tolist(),
        "hops": np.repeat(rng.integers(2, 6, n), 4).tolist(),
    }
    traces = Traces.from_columns(columns)
    assert len(page_text(traces, maps={None: Isotonic((0.0, 1.0), (0.1, 0.9))}).encode()) < 1_500_000


def planned(id_, dataset, *texts):
    passages = tuple(Passage(f"title of {one}", one, place == 0) for place, one in enumerate(texts))
    return Plan(Question(id_, "Who?", ("A",), passages, dataset=dataset), tuple((at,) for at in range(len(texts))))


def test_evidence_beyond_the_cap_stays_out_and_the_page_says_where_to_see_it():
    plans = [planned("a", "d", "one"), planned("b", "d", "two")]
    inside, outside = page_text(small(), plans=plans), page_text(small(), plans=plans, cap=10)
    assert header(inside)["evidence"] is True
    assert header(inside)["note"] == ""
    assert header(outside)["evidence"] is False
    assert "gatewise explore" in header(outside)["note"]
    assert json.loads(Parts(outside).scripts[1][1]) == []


def contrast(one, other):
    """The contrast of two colours as the accessibility guidelines define it."""

    def light(colour):
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


def test_every_colour_of_words_can_be_read_on_its_ground_in_both_schemes():
    style = Parts(page_text(small())).styles[0]
    schemes = re.findall(r"(?<=\{)\s*color-scheme: (\w+);([^}]+)\}", style)
    assert [name for name, _ in schemes[:3]] == ["light", "dark", "dark"]
    assert schemes[1] == schemes[2]
    for _, body in schemes[:3]:
        colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", body))
        for words in ("ink", "soft", "raw", "calibrated", "right", "wrong"):
            for ground in ("ground", "card", "faint", "chosen"):
                assert contrast(colours[words], colours[ground]) >= 4.5, (words, ground)


def test_the_page_of_a_report_begins_at_its_gate():

    choices = Choices(gate=Threshold(lo=0.1, hi=0.8), budget=1)
    made, _ = page_of(small(), [], choices, origin=Origin())
    assert header(made())["start"] == {"lo": 0.1, "hi": 0.8, "budget": 1}
