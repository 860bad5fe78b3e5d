import doctest
import importlib
import pkgutil

import pytest

import gatewise
from gatewise.wording import markers, normalized, tokens, whole


def test_normalizing_keeps_lower_cased_ascii_runs():
    assert normalized("  Who's ÉMILE_2? ") == "who s mile 2"
    assert normalized("¿…?") == ""


def test_tokens_are_ascii_runs_of_either_case():
    assert tokens("Don't stop, A-1 é") == ["Don", "t", "stop", "A", "1"]


def test_markers_count_once_each_as_substrings():
    assert markers("Which WHICH which") == 1
    assert markers("bothered, whosever") == 2


MODULES = [m.name for m in pkgutil.walk_packages(gatewise.__path__, "gatewise.") if not m.name.endswith("__main__")]


@pytest.mark.parametrize("name", MODULES)
def test_every_example_in_a_docstring_runs(name):
    module = importlib.import_module(name)
    import numpy as np

    failed, _ = doctest.testmod(module, extraglobs={"np": np})
    assert failed == 0


def test_halves_of_a_character_are_joined_and_a_lone_one_is_replaced():
    assert whole("a\ud83d\ude00b\ud800c") == "a\U0001f600b\ufffdc"
    assert whole("plain é \x00 \u202e") == "plain é \x00 \u202e"
