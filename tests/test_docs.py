"""Every block of code runs, every example runs, every link leads somewhere, the picture is current."""

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("benchmarks/*.md")])

# A block of code, and the note before it: why it is not run, or the name it is saved under.
BLOCK = re.compile(r"(?:^<!-- (not run|saved as)[: ] *([^\n]+) -->\n\n?)?^```(\w*)\n(.*?)^```$", re.M | re.S)


def blocks(path):
    """The blocks of code of a document: kind of note, note, language, text."""
    return BLOCK.findall(path.read_text())


WITH_CODE = [path for path in DOCUMENTS if any(language in ("python", "sh") for _, _, language, _ in blocks(path))]
NAMED = {"ids": lambda path: str(path.relative_to(ROOT))}


@pytest.fixture
def commands(tmp_path):
    """A folder with `gatewise` and `python` as programs, for shell blocks."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, arguments in (("gatewise", "-m gatewise"), ("python", "")):
        (folder / name).write_text(f'#!/bin/sh\nexec {sys.executable} {arguments} "$@"\n')
        (folder / name).chmod(0o755)
    return folder


@pytest.mark.parametrize("path", WITH_CODE, **NAMED)
def test_every_code_block_runs_in_its_place(path, tmp_path, monkeypatch, capsys, commands):
    """A reader who runs the blocks of a page from the top, in an empty folder, meets no error."""
    place = tmp_path / "reader"
    place.mkdir()
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(place)
    environment = {
        **os.environ,
        "PATH": f"{commands}:{os.environ['PATH']}",
        "GATEWISE_CACHE": str(tmp_path / "cache"),
    }
    printed = None
    for kind, note, language, text in blocks(path):
        if kind == "not run":
            assert len(note) > 10, "say why the block is not run"
            printed = None
        elif kind:
            (place / note).write_text(text)
        elif language == "python":
            exec(compile(text, "block", "exec"), {"__name__": "block"})
            printed = capsys.readouterr().out
            assert printed, text
        elif language == "sh":
            done = subprocess.run(
                ["sh", "-eu", "-c", text], env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{text}\n{done.stderr}"
            printed = done.stdout
        elif language == "text" and printed is not None:  # what a page shows of it is what was printed
            for line in text.splitlines():
                assert line in printed.splitlines(), f"{line!r} is not what was printed:\n{printed}"


@pytest.mark.parametrize("path", DOCUMENTS, **NAMED)
def test_a_block_of_settings_or_data_is_what_it_says(path, tmp_path):
    import json
    import tomllib

    from gatewise.recordings.prompts import read_prompt
    from gatewise.studies.designs import read_study

    for _, _, language, text in blocks(path):
        assert language in ("", "python", "sh", "toml", "json", "text", "csv"), f"{path.name}: ```{language}"
        if language == "json":
            json.loads(text)
        elif language == "toml":
            found = tomllib.loads(text)
            if "study" in found:
                (tmp_path / "study.toml").write_text(text)
                assert read_study(tmp_path / "study.toml").data
            else:
                assert read_prompt(text, "prompt.toml").system


def said_commands(path):
    """Every line of a document's blocks, fenced or indented, that runs gatewise."""
    text = re.sub(r"\\\n\s*", "", path.read_text())
    for line in re.findall(r"^(?: {4})?(?:\.venv/bin/)?(gatewise .*)$", text, re.M):
        yield re.split(r"\s+[#|>]\s", f"{line} ")[0]


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if any(said_commands(path))], **NAMED)
def test_every_command_in_a_block_is_one_that_exists(path):
    import shlex

    from typer.main import get_command

    from gatewise.cli import app

    for line in said_commands(path):
        command, words = get_command(app), shlex.split(line)[1:]
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        if "--help" not in words:
            assert command.make_context("gatewise", words), line


def test_the_figures_in_the_readme_are_what_it_prints(capsys):
    block = next(iter(re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)))
    exec(compile(block, "block", "exec"), {"__name__": "block"})
    printed = capsys.readouterr().out.splitlines()
    stated = re.findall(r"# (0\.\d+|\d+)[: ]", block)
    assert [f"{float(printed[0]):.3f}", f"{float(printed[1]):.3f}", printed[2]] == stated


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_an_example_runs(path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(path)])
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out


def anchors(path):
    """The places of a document: its headings, as a site or a code host names them."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, **NAMED)
def test_every_link_leads_to_a_file_and_a_place_in_it(path):
    for target, place in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", path.read_text()):
        if "://" in target or target.startswith("reference/"):  # written when the site is built, and held there
            continue
        found = path.parent / target if target else path
        assert found.exists(), target
        assert not place or place in anchors(found), f"{target}#{place}"


def test_the_picture_is_drawn_from_the_numbers_as_they_are(tmp_path):
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "picture.py", tmp_path / "docs")
    subprocess.run([sys.executable, tmp_path / "docs" / "picture.py"], check=True)
    assert (tmp_path / "docs" / "picture.svg").read_bytes() == (ROOT / "docs" / "picture.svg").read_bytes()


def test_the_documents_name_every_command_and_option():
    from typer.main import get_command

    from gatewise.cli import app

    text = "\n".join(path.read_text() for path in DOCUMENTS)

    def walk(command, name):
        for word, one in getattr(command, "commands", {}).items():
            walk(one, f"{name} {word}")
        if not hasattr(command, "commands"):
            assert name in text, f"no document names {name}"
        assert command.help, f"{name} has no help"
        for parameter in command.params:
            assert parameter.help, f"{name} {parameter.name} has no help"

    walk(get_command(app), "gatewise")


def test_no_fence_of_code_escapes_the_tests():
    for path in DOCUMENTS:
        assert 2 * len(blocks(path)) == len(re.findall(r"^```", path.read_text(), re.M)), path.name
        assert len(re.findall("^<!-- ", path.read_text(), re.M)) == sum(bool(kind) for kind, *_ in blocks(path)), (
            path.name
        )


def in_navigation(entries):
    for entry in entries:
        for one in entry.values():
            yield from [one] if isinstance(one, str) else in_navigation(one)


def test_every_page_has_its_place_on_the_site():
    import tomllib

    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import reference
    finally:
        sys.path.pop(0)
    named = sorted(in_navigation(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]))
    written = {path.name for path in ROOT.glob("docs/*.md")} | {f"reference/{name}.md" for name in reference.pages()}
    assert named == sorted(written), "give every page of docs/ its place in zensical.toml, once"


def test_every_page_can_be_reached_from_the_readme():
    told = (ROOT / "README.md").read_text() + "".join(path.read_text() for path in ROOT.glob("docs/*.md"))
    for path in ROOT.glob("docs/*.md"):
        assert re.search(rf"\]\((docs/)?{re.escape(path.name)}[#)]", told), f"no page links to {path.name}"


def test_the_documents_name_every_schema():
    sources = "".join(path.read_text() for path in (ROOT / "src" / "gatewise").rglob("*.py"))
    text = "".join(path.read_text() for path in DOCUMENTS)
    for schema in sorted(set(re.findall(r"\bgatewise\.[a-z-]+/\d", sources))):
        assert f"`{schema}`" in text, f"no document says what {schema} is"


@pytest.mark.parametrize("path", sorted(ROOT.glob("docs/*.md")), **NAMED)
def test_commands_stand_in_blocks_that_are_run_or_say_why_not(path):
    assert not re.findall(r"^ {4}(?:gatewise|pip|python3?|make|bash) .*", path.read_text(), re.M)
