"""Every code block of the documents runs, every example runs, every link leads somewhere, the picture is current."""

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("benchmarks/*.md")])
BLOCKS = [
    pytest.param(block, id=f"{path.relative_to(ROOT)}-{place}")
    for path in DOCUMENTS
    for place, block in enumerate(re.findall(r"^```python\n(.*?)^```", path.read_text(), re.M | re.S))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_a_code_block_runs(block, capsys):
    exec(compile(block, "block", "exec"), {"__name__": "block"})
    assert capsys.readouterr().out


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


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_file(path):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), target


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
