import contextlib
import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from gatewise import BadChoice
from gatewise.cli import terminal
from gatewise.files.bundled import DATA
from gatewise.reports.tables import text
from test_tables import BEST


class Screen(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_appears_only_after_two_seconds_and_only_where_somebody_watches(monkeypatch):
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    with terminal.progress() as advance:
        advance("counting", 1, 10)
    assert screen.getvalue() == ""
    with terminal.progress() as advance:
        advance("counting", 3, 10)
        time.sleep(2.2)
        advance("counting", 7, 10)
        time.sleep(0.4)
    assert "counting" in screen.getvalue()
    assert "7/10" in screen.getvalue()
    assert "/s" in screen.getvalue()
    quiet = io.StringIO()
    monkeypatch.setattr(sys, "stderr", quiet)
    with terminal.progress() as advance:
        advance("counting", 1, 10)
        time.sleep(2.2)
    assert quiet.getvalue() == ""


def test_the_cache_is_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("GATEWISE_CACHE", str(tmp_path))
    assert terminal.cache_folder() == tmp_path
    monkeypatch.delenv("GATEWISE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert terminal.cache_folder() == tmp_path / "gatewise"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert terminal.cache_folder() == Path.home() / ".cache" / "gatewise"


@pytest.mark.parametrize("name", ["nowhere:at_all", "json:nothing", "json:__name__", "json:JSONDecoder"])
def test_what_cannot_be_called_by_module_and_name_is_refused(name):
    with pytest.raises(BadChoice, match=name.partition(":")[0]):
        terminal.own(name, "policy", "View -> actions")


@pytest.mark.parametrize(
    ("no_color", "term", "bold"), [("", "xterm", True), ("1", "xterm", False), ("", "dumb", False)]
)
def test_tables_are_bold_on_a_terminal_that_shows_it_and_wants_it(monkeypatch, no_color, term, bold):
    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("COLUMNS", "60")
    terminal.print_tables([BEST])
    assert ("\x1b" in screen.getvalue()) is bold
    assert "12.0*" in screen.getvalue()


def test_tables_in_a_pipe_are_plain_whatever_the_terminal_is(monkeypatch, capsys):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "20")
    terminal.print_tables([BEST])
    assert capsys.readouterr().out == f"\n{text(BEST)}\n"


@pytest.mark.parametrize(("width", "no_color"), [(60, ""), (120, "1")])
def test_a_command_keeps_to_a_real_terminal(width, no_color):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    command = [sys.executable, "-m", "gatewise", "replay", DATA / "reconstructions" / "gpt-oss-120b.parquet"]
    running = subprocess.Popen(
        command, stdout=theirs, stderr=theirs, stdin=theirs, env=environment | {"TERM": "xterm", "NO_COLOR": no_color}
    )
    os.close(theirs)
    said = b""
    with contextlib.suppress(OSError):  # a terminal that everybody has left
        while piece := os.read(ours, 1 << 16):
            said += piece
    os.close(ours)
    assert running.wait() == 0
    shown = said.decode()
    assert ("\x1b[1m" in shown) is not bool(no_color)
    lines = re.sub(r"\x1b\[\d*m", "", shown).splitlines()
    assert max(map(len, lines)) <= width
    assert any(re.match(r"  fixed RAG@3 .*89\.3\*", line) for line in lines)
