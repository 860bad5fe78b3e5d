"""The page on study files says every key with its type and default, and the studies that ship are fit."""

import re
import types
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Union, get_args, get_origin, get_type_hints

import pytest

from gatewise.studies.designs import SECTIONS, Asked, Judging, read_study
from gatewise.studies.running import STEPS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "studies.md").read_text()
PARTS = dict(re.findall(r"^## `\[+(\w+)\]+`[^\n]*\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S))


def kind_of(hint):
    """Return what the page calls a type."""
    if get_origin(hint) is Annotated:
        return kind_of(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        return kind_of(get_args(hint)[0])
    if get_origin(hint) is tuple:
        many = kind_of(get_args(hint)[0])
        count = "" if get_args(hint)[-1] is Ellipsis else f"{len(get_args(hint))} "
        return f"list of {count}{many}s"
    names = {str: "text", int: "whole number", float: "number", bool: "true or false", Path: "path"}
    return names.get(hint, "table" if get_origin(hint) or is_dataclass(hint) else None)


def default_of(field):
    """Return what the page says of a default."""
    if field.default is MISSING and field.default_factory is MISSING:
        return "needed"
    if field.default is MISSING or field.default in (None, "", ()):
        return "–"
    value = list(field.default) if isinstance(field.default, tuple) else field.default
    text = str(value).lower() if isinstance(value, bool) else repr(value).replace("'", '"')
    return f"`{text}`"


@pytest.mark.parametrize("name", SECTIONS)
def test_the_page_says_every_key_its_type_and_its_default(name):
    hints = get_type_hints(SECTIONS[name], include_extras=True)
    shared = {one.name for one in fields(Asked)} if SECTIONS[name] is Judging else set()
    expected = {
        one.name: (kind_of(hints[one.name]), default_of(one))
        for one in fields(SECTIONS[name])
        if one.name not in shared
    }
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \| [^|]+ \|$", PARTS[name], re.M)
    assert {key: (kind, default) for key, kind, default in rows} == expected


def test_the_page_has_no_section_that_is_none():
    assert set(PARTS) == set(SECTIONS)
    for step in STEPS:
        assert f"`{step}`" in PAGE


@pytest.mark.parametrize("path", sorted((ROOT / "experiments").glob("*.toml")), ids=lambda path: path.name)
def test_a_study_that_ships_is_fit(path):
    design = read_study(path)
    assert design.study.name == path.stem


def test_the_published_study_is_the_published_one():
    import json

    design = read_study(ROOT / "experiments" / "paper.toml")
    published = json.loads((ROOT / "src" / "gatewise" / "data" / "published.json").read_text())
    assert [one.name for one in design.models] == list(published["table"])
    assert [one.dataset for one in design.data] == list(published["n_test"])
    assert (design.plan.order, design.plan.slices, design.plan.similarity) == ("paper", 3, "lexical+dense")
    assert {(one.temperature, one.max_tokens) for one in design.models} == {(0.0, 4096)}
    assert (design.gates.lo, design.gates.hi, design.gates.budget) == (0.3, 0.7, 3)
    assert design.judge.name == "model:google/gemini-2.5-flash-lite"


def test_the_example_on_the_page_is_fit(tmp_path):
    (block,) = re.findall(r"^```toml\n(.*?)^```", PAGE, re.M | re.S)
    (tmp_path / "study.toml").write_text(block)
    assert read_study(tmp_path / "study.toml").models


def test_the_script_of_the_published_study_fetches_runs_and_hands_its_options_on(tmp_path):
    import os
    import shutil
    import subprocess

    (tmp_path / "experiments").mkdir()
    (tmp_path / "bin").mkdir()
    script = shutil.copy(ROOT / "experiments" / "paper.sh", tmp_path / "experiments")
    stub = tmp_path / "bin" / "gatewise"
    stub.write_text('#!/bin/sh\necho "$@"\n')
    stub.chmod(0o755)
    told = subprocess.run(
        ["bash", script, "--dry-run"],
        env={"PATH": f"{stub.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    study = tmp_path / "experiments" / "paper.toml"
    assert told.splitlines() == ["fetch hotpotqa", "fetch musique", f"run {study} --dry-run"]
