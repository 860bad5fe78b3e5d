from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest

from gatewise.errors import BrokenFile
from gatewise.studies.sections import Sections, convert, looks_secret, require_fit, safe


@dataclass(frozen=True)
class Pair:
    left: float
    right: int


@dataclass(frozen=True)
class Part:
    name: str
    size: Annotated[int, lambda value: "" if value else "a number but 0"] | None = None
    where: Path | None = None


def read(text, kind=Part, name="part"):
    sections = Sections(text, Path("/base"), "a.toml")
    sections.require_known([name])
    found = sections.one(name, kind)
    require_fit(sections.found, "a.toml")
    return found


@pytest.mark.parametrize(
    ("hint", "value", "expected"),
    [
        (str, "x", "x"),
        (int, 3, 3),
        (float, 3, 3.0),
        (float, 0.25, 0.25),
        (bool, True, True),
        (int | None, 3, 3),
        (tuple[str, ...], ["a", "b"], ("a", "b")),
        (tuple[float, float], [1, 0.5], (1.0, 0.5)),
        (Mapping[str, Any], {"a": 1}, {"a": 1}),
        (Path | None, "data/x.jsonl", Path("/base/data/x.jsonl")),
        (Path, "/else/x.jsonl", Path("/else/x.jsonl")),
        (Pair | None, {"left": 1, "right": 2}, Pair(1.0, 2)),
    ],
)
def test_a_value_is_read_as_its_type_says(hint, value, expected):
    fit, problem = convert(hint, value, Path("/base"))
    assert (fit, problem) == (expected, "")
    assert type(fit) is type(expected)


@pytest.mark.parametrize(
    ("hint", "value", "expected"),
    [
        (str, 3, "text in quotes"),
        (int, 3.0, "a whole number"),
        (int, True, "a whole number"),
        (float, "3", "a finite number"),
        (float, float("nan"), "a finite number"),
        (float, float("inf"), "a finite number"),
        (float, True, "a finite number"),
        (bool, 1, "true or false"),
        (bool, "yes", "true or false"),
        (tuple[str, ...], "a", "a list"),
        (tuple[str, ...], ["a", 1], "a list, each of it text in quotes"),
        (tuple[float, float], [1], "a list of 2"),
        (Mapping[str, Any], [1], "a table such as"),
        (Path, "", "a path"),
        (Pair, {"left": 1}, "a table of left and right"),
        (Pair, {"left": 1, "right": 1.5}, "a whole number as right"),
    ],
)
def test_a_value_of_another_type_says_what_was_expected(hint, value, expected):
    _, problem = convert(hint, value, Path("/base"))
    assert problem.startswith(expected)


def test_everything_that_is_wrong_is_listed_in_the_order_of_the_file_with_its_line():
    text = '\n[part]\nsize = 0\nwhere = 1\n# wrong = 1\nnmae = "x"\n\n[prt]\n'
    with pytest.raises(BrokenFile) as found:
        read(text)
    assert str(found.value).split("\n  ") == [
        "the study file a.toml breaks its rules in 5 places:",
        "line 2, [part]: expected the key name, found none.",
        "line 3, [part] size: expected a number but 0, found 0.",
        "line 4, [part] where: expected a path, found 1.",
        "line 6, [part] nmae: no such key (did you mean name?). This section knows name, size, where.",
        "line 8, prt: no such section (did you mean part?). Sections are part.",
    ]


def test_a_key_is_found_in_its_own_section_and_never_in_a_text():
    text = '[part]\nname = """\nsize = 3\n[part]\n"""\nsize = "x"\n'
    with pytest.raises(BrokenFile, match=r"1 place:\n  line 6, \[part\] size"):
        read(text)


def test_a_key_before_the_first_section_is_no_section():
    with pytest.raises(BrokenFile, match=r"line 1, \[part\]: expected one section \[part\], found 'x'"):
        read('part = "x"\n')
    with pytest.raises(BrokenFile, match=r"line 1, nam: no such key outside a section"):
        read('nam = "x"\n[part]\nname = "x"\n')


@pytest.mark.parametrize("text", ["[part", "a = ", "a = 1\na = 2\n", "x" * 10, "a = [" * 5000, "\x00"])
def test_what_is_no_toml_is_refused(text):
    with pytest.raises(BrokenFile, match="expected TOML in the study file"):
        read(text)


SECRETS = [
    "sk-or-v1-0123456789abcdef0123456789abcdef",
    "sk-proj-abcdefghijklmnop",
    "hf_abcdefghijklmnopqrst",
    "AKIAIOSFODNN7EXAMPLE",
    "AIzaSyA1234567890abcdefghij",
    "Bearer abcdefghijklmnop",
    "gsk_abcdefgh12345678",
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "line",
    [
        'name = "{}"',
        'where = "{}"',
        'size = "{}"',
        'nmae = "{}"',
        'name = "x"\nmore = {{deep = ["a", {{b = "{}"}}]}}',
        "{}",
        'name = "{}',
        '"{}" = 1',
    ],
)
def test_what_looks_like_a_key_is_refused_and_never_shown(line, secret):
    with pytest.raises(BrokenFile) as found:
        read("[part]\n" + line.format(secret))
    assert secret[:12] not in str(found.value)
    assert secret[-8:] not in str(found.value)


@pytest.mark.parametrize(
    "name", ["api_key", "key", "token", "Authorization", "client_secret", "password", "x-api-key"]
)
def test_a_field_that_is_called_a_key_is_refused_wherever_it_stands(name):
    for text in (f'[part]\nname = "x"\n"{name}" = "hunter2"', f'[part]\nname = "x"\nmore = {{"{name}" = "hunter2"}}'):
        with pytest.raises(BrokenFile, match="Keys never stand in a file") as found:
            read(text)
        assert "hunter2" not in str(found.value)


def test_names_and_words_do_not_look_like_keys():
    for text in (
        "OPENROUTER_API_KEY",
        "gpt-oss-120b",
        "qwen3-235b-a22b-2507",
        "mistralai/mistral-small-2603",
        "risk-averse",
    ):
        assert not looks_secret(text)
    assert safe("\x1b[31m") == "'\\x1b[31m'"
    assert safe("https://u:p@host") == "an address with more in it (not shown)"
