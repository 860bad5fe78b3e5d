import asyncio
import json

import numpy as np
import pytest

from gatewise import BadChoice
from gatewise.errors import BrokenQuestions
from gatewise.files import read_plans, write_plans
from gatewise.questions.similarity import bm25, lexical
from gatewise.studies.planning import (
    Ranking,
    Recipe,
    Source,
    counted,
    embedding,
    fingerprint,
    header,
    plans,
    survey,
    take_census,
)


def rows(count=8):
    return [
        {
            "id": f"q{n}",
            "question": f"Which river is number {n}?",
            "answers": [f"river {n}"],
            "passages": [
                {"title": f"River {n}", "text": f"It is number {n}.", "supporting": True},
                {"title": "Hill", "text": "A hill."},
                {"title": "Lake", "text": f"Which lake is number {n}?"},
            ],
            "fold": ["calibration", "validation", "test"][n % 3],
        }
        for n in range(count)
    ]


@pytest.fixture
def source(tmp_path):
    def write(values, **options):
        path = tmp_path / "questions.jsonl"
        path.write_text("".join(json.dumps(value) + "\n" for value in values))
        return Source(path, "mine", **options)

    return write


def made(source, recipe=None, ranking=None):
    recipe, ranking = recipe or Recipe(), ranking or Ranking()
    with asyncio.Runner() as run:
        found = survey(source, recipe)
        return header(source, recipe, ranking, found, run), list(plans(source, recipe, ranking, found.splits, run))


def test_plans_carry_the_split_of_source_order(source):
    _, planned = made(source(rows(9)))
    assert [one.question.split for one in planned] == ["calibration"] * 4 + ["validation"] * 2 + ["test"] * 3


def test_a_split_may_be_random_or_named_by_a_column(source):
    written = source(rows(9))
    _, planned = made(written, Recipe(split="column:fold"))
    assert [one.question.split for one in planned] == [row["fold"] for row in rows(9)]
    _, planned = made(written, Recipe(split="random", seed=3))
    by_id = {one.question.id: one.question.split for one in planned}
    _, backwards = made(source(rows(9)[::-1]), Recipe(split="random", seed=3))
    assert {one.question.id: one.question.split for one in backwards} == by_id
    assert sorted(by_id.values()) == ["calibration"] * 4 + ["test"] * 3 + ["validation"] * 2
    with pytest.raises(BadChoice, match="source, random or column:NAME"):
        survey(written, Recipe(split="radnom"))
    with pytest.raises(BadChoice, match="'nothing'"):
        survey(written, Recipe(split="column:nothing"))


def test_the_same_question_in_two_splits_is_a_warning(source):
    values = rows(8)
    values[7]["question"] = values[0]["question"].upper()
    found = survey(source(values), Recipe())
    assert found.shared_texts == 1
    assert "1 normalized question texts" in found.warnings[0]
    assert survey(source(rows(8)), Recipe()).warnings == ()


def test_a_broken_row_is_found_before_anything_is_planned(source):
    values = rows(8)
    values[6]["question"] = " "
    with pytest.raises(BrokenQuestions, match="row 7, column question"):
        made(source(values))


def test_the_header_says_what_made_the_plans_and_the_file_verifies(source, tmp_path):
    written = source(rows())
    said, planned = made(written, Recipe(order="retriever", slices=2))
    assert said["questions"] == 8
    assert said["recipe"]["order"] == "retriever"
    assert said["similarity"] == [{"name": "lexical", "digest": fingerprint(lexical)}]
    assert str(tmp_path) not in json.dumps(said)
    write_plans(said, planned, tmp_path / "plans.jsonl")
    first = (tmp_path / "plans.jsonl").read_bytes()
    again, walk = read_plans(tmp_path / "plans.jsonl")
    assert list(walk) == planned
    again.pop("schema")
    write_plans(again, planned, tmp_path / "plans.jsonl")
    assert (tmp_path / "plans.jsonl").read_bytes() == first


def test_a_fingerprint_tells_similarities_apart():
    assert fingerprint(lexical) != fingerprint(bm25)
    assert fingerprint(bm25) == fingerprint(lambda question, passages: bm25(question, passages) + 1e-9)


class Letters:
    """Embeds a text by its letters, and notes what it was asked."""

    name, digest = "letters", ""

    def __init__(self):
        self.asked = []

    async def __call__(self, texts):
        self.asked.append(list(texts))
        return np.array([[text.lower().count(letter) + 0.0 for letter in "aeiou"] for text in texts], np.float32)


def test_a_dense_similarity_asks_for_each_distinct_text_of_a_batch_once(source):
    by = Letters()
    said, planned = made(source(rows(40)), ranking=Ranking.of("lexical+dense", by))
    probe, first, second = by.asked
    assert len(probe) == 5
    assert len(set(first)) == len(first)
    assert len(first) == 32 * 3 + 1  # the hill stands in every question
    assert len(second) == 8 * 3 + 1
    assert [one["name"] for one in said["similarity"]] == ["lexical", "dense"]
    assert said["similarity"][1]["embedder"] == "letters"
    assert len(planned) == 40


def test_a_known_digest_of_weights_stands_in_the_header(source):
    by = Letters()
    by.digest = "abc"
    said, _ = made(source(rows(2)), ranking=Ranking.of("dense", by))
    assert said["similarity"] == [{"name": "dense", "embedder": "letters", "digest": "abc"}]


@pytest.mark.parametrize("scores", [[1.0], [1.0, 2.0, float("nan")], [[1.0], [2.0], [3.0]]])
def test_a_similarity_of_yours_that_gives_no_number_a_passage_is_refused(source, scores):
    def mine(question, passages):
        return scores if len(passages) == 3 else [0.0] * len(passages)

    with pytest.raises(BadChoice, match="finite scores of similarity my:own"):
        made(source(rows(2)), ranking=Ranking.of("my:own", None, lambda name: mine))


def test_an_unknown_similarity_or_embedder_is_refused_with_the_nearest_name(tmp_path):
    with pytest.raises(BadChoice, match="did you mean lexical"):
        Ranking.of("lexcal")
    with asyncio.Runner() as run:
        with embedding("lexical", "nonsense", "", str, tmp_path, run) as by:
            assert by is None
        for name, said in (("minilmm", "did you mean minilm"), ("minilm", "gatewise fetch model minilm")):
            with pytest.raises(BadChoice, match=said), embedding("dense", name, "", str, tmp_path, run):
                pass


def test_plans_are_counted_as_they_pass(source):
    _, planned = made(source(rows(8)))
    counts = {}
    assert list(counted(planned, counts)) == planned
    assert {name: one.questions for name, one in counts.items()} == {"calibration": 4, "validation": 2, "test": 2}


def test_a_census_counts_what_a_question_has(source):
    values = rows(5)
    values[1]["passages"] = values[1]["passages"][:1]
    values[2]["answers"] = ["a", "b"]
    values[3]["question"] = values[0]["question"]
    values[4]["answers"] = []
    found = take_census(source(values, skip=("no-answer",))).as_json()
    assert found["rows"] == 5
    assert found["questions"] == 4
    assert found["skipped"] == {"no-answer": 1}
    assert found["repeated_texts"] == 1
    assert found["passages"] == {"fewest": 1, "most": 3, "total": 10}
    assert found["references"] == {"fewest": 1, "most": 2, "total": 5}


def test_an_unknown_format_is_refused_with_the_nearest_name(source):
    with pytest.raises(BadChoice, match="did you mean own"):
        take_census(source(rows(1), format="owm"))
