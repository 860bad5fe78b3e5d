"""What ships with the package can be read, and is what it says."""

import subprocess
import sys
from pathlib import Path

import pytest

from gatewise.files import QUESTIONS, published, reconstruction
from gatewise.studies.planning import Source
from gatewise.wording import normalized

MODELS = ["mistral-small-2603", "gpt-oss-120b", "qwen3-235b-a22b-2507"]


@pytest.fixture(scope="module")
def questions():
    return list(Source(QUESTIONS, "worldfacts").questions())


def test_the_published_numbers_name_every_model():
    numbers = published()
    for part in ("table", "oa_cost", "risk_coverage", "transitions", "ece_pp", "top_bin_depth3"):
        assert set(MODELS) <= set(numbers[part]), part


@pytest.mark.parametrize("model", MODELS)
def test_every_reconstruction_is_read(model):
    assert set(reconstruction(model).splits.tolist()) == {"calibration", "test"}


def test_our_own_questions_are_many_and_each_keeps_every_rule(questions):
    assert len(questions) >= 600


def test_no_two_of_our_questions_have_one_id_or_one_text(questions):
    assert len({one.id for one in questions}) == len(questions)
    assert len({normalized(one.text) for one in questions}) == len(questions)


def test_each_of_our_questions_has_ten_passages_and_two_to_four_supports(questions):
    assert {len(one.passages) for one in questions} == {10}
    assert {len(one.supports) for one in questions} <= {2, 3, 4}
    for one in questions:
        assert len({passage.text for passage in one.passages}) == 10, one.id
        assert all(passage.title.strip() and passage.text.strip() for passage in one.passages), one.id


def test_the_answers_of_our_questions_are_short_and_some_have_aliases(questions):
    for one in questions:
        assert all(len(answer) <= 60 for answer in one.references), one.id
    assert any(len(one.references) > 1 for one in questions)


def test_the_bundled_questions_are_what_their_script_makes():
    script = Path(__file__).parents[1] / "experiments" / "worldfacts" / "make.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
