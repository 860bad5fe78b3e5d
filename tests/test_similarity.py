import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles
from gatewise import BadChoice
from gatewise.questions.similarity import bm25, cosine, lexical, minmax, ranked
from gatewise.types import Passage

WORDS = st.sampled_from(["the", "Rhine", "rhine", "of", "1879", "É", "", "a-b", "Which", "river?"])
TEXTS = st.lists(WORDS, max_size=8).map(" ".join)
PASSAGES = st.lists(st.builds(lambda title, text: {"title": title, "text": text}, TEXTS, TEXTS), max_size=6)
LEVELS = st.sampled_from([0.0, 0.1, 0.3, 0.5, 1.0, -0.25])


@given(question=TEXTS, passages=PASSAGES)
def test_lexical_overlap_is_the_share_of_the_questions_tokens(question, passages):
    found = lexical(question, [Passage(**one) for one in passages])
    assert found.tolist() == [oracles.lexical_of(question, one) for one in passages]


def test_lexical_overlap_reads_title_space_text_and_counts_distinct_tokens():
    assert lexical("ab AB cd", [Passage("ab", "cd"), Passage("abcd", ""), Passage("a", "b")]).tolist() == [1, 0, 0]


@given(st.lists(st.tuples(LEVELS, LEVELS), min_size=1, max_size=9), st.data())
def test_ranking_is_the_mean_of_min_max_and_ties_keep_source_order(rows, data):
    columns = [[row[place] for row in rows] for place in range(2)]
    places = data.draw(st.lists(st.integers(0, len(rows) - 1), unique=True).map(sorted))
    assert ranked([np.array(column) for column in columns], places) == oracles.ranked_of(columns, places)
    assert ranked([np.array(columns[0])], places) == oracles.ranked_of(columns[:1], places)


def test_a_constant_column_says_nothing():
    assert minmax(np.array([0.4, 0.4])).tolist() == [0, 0]
    assert ranked([np.array([0.4, 0.4, 0.4]), np.array([0.1, 0.3, 0.2])], [0, 1, 2]) == [1, 2, 0]
    assert ranked([np.array([7.0, 7.0, 7.0])], [0, 1, 2]) == [0, 1, 2]


def test_min_max_runs_over_the_ranked_passages_alone():
    scores = [np.array([100.0, 0.0, 1.0]), np.array([0.0, 1.0, 0.8])]  # passage 0 is a support
    assert ranked(scores, [1, 2]) == oracles.ranked_of(scores, [1, 2])


@given(st.lists(st.lists(st.floats(-2, 2), min_size=3, max_size=3), min_size=1, max_size=5))
def test_cosine_does_not_depend_on_neighbours_or_length(rows):
    vectors = np.array(rows)
    found = cosine(vectors[0], vectors)
    for place, row in enumerate(rows):
        assert found[place] == pytest.approx(oracles.cosine_of(rows[0], row), abs=1e-9)
        assert cosine(vectors[0], vectors[place : place + 1])[0] == found[place]


def test_bm25_ranks_rare_words_above_common_ones_and_knows_nothing_of_unknown_ones():
    passages = [Passage("Seine", "A river in the north of France."), Passage("Paris", "The city is in France.")]
    scores = bm25("Which river?", passages)
    assert scores[0] > scores[1]
    assert bm25("zebra", passages).tolist() == [0, 0]
    assert bm25("", passages).tolist() == [0, 0]
    assert bm25("river", []).tolist() == []
    assert bm25("river", [Passage("!", "?")]).tolist() == [0]


def test_bm25_equals_its_formula():
    passages = [Passage("a", "b b c"), Passage("b", "d"), Passage("e", "f g h i")]
    corpus = [["a", "b", "b", "c"], ["b", "d"], ["e", "f", "g", "h", "i"]]
    mean = sum(map(len, corpus)) / 3
    expected = []
    for words in corpus:
        score = 0.0
        for token in ("b", "d"):
            seen = sum(token in other for other in corpus)
            weight = np.log(1 + (3 - seen + 0.5) / (seen + 0.5))
            often = words.count(token)
            score += weight * often / (often + 1.5 * (1 - 0.75 + 0.75 * len(words) / mean))
        expected.append(score)
    assert bm25("d b", passages) == pytest.approx(expected, rel=1e-6)


def test_bm25_without_its_library_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "bm25s", None)
    with pytest.raises(BadChoice, match=r"gatewise\[bm25\]"):
        bm25("a", [Passage("a", "b")])
