import subprocess
import sys

import matplotlib
import pytest

from gatewise import BadChoice
from gatewise.reports.panels import FONT, Figure, drawing, lettered, written


def test_settings_hold_inside_and_nowhere_else():
    matplotlib.rcParams["font.size"] = 33
    try:
        before = dict(matplotlib.rcParams)
        with drawing():
            assert matplotlib.rcParams["font.size"] == 7
            assert matplotlib.rcParams["text.parse_math"] is False
            assert matplotlib.rcParams["svg.fonttype"] == "path"
        assert dict(matplotlib.rcParams) == before
    finally:
        matplotlib.rcdefaults()


def test_nothing_of_pyplot_is_loaded():
    code = "import gatewise.reports.plots, sys; print('matplotlib.pyplot' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
    )


def test_without_matplotlib_the_remedy_is_named():
    code = "import sys; sys.modules['matplotlib'] = None; import gatewise.reports.plots"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "BadChoice" in done.stderr
    assert "gatewise[plots]" in done.stderr


def test_an_unknown_kind_is_refused():
    with pytest.raises(BadChoice, match="'jpg'"):
        written(Figure(), "jpg")


def test_a_name_is_drawn_letter_by_letter_and_fits():
    assert FONT == "DejaVu Sans"
    assert lettered("$x_1$", 3, 8) == "$x_1$"
    assert lettered("a\nb", 3, 8) == "a\\nb"
    assert lettered("漢", 3, 8) == "\\u6f22"
    assert lettered("\u202eabc", 3, 8) == "\\u202eabc"
    assert lettered("x" * 200, 1, 8) == "xxxxxxx…xxxxxx"
