import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewise.errors import BadChoice
from gatewise.files import read_plans
from gatewise.questions.splits import SPLITS, at_random, in_order, leaks, named, shuffled
from gatewise.studies.planning import Recipe, Source, survey, text_key

IDS = st.lists(st.text(max_size=6), unique=True, max_size=40)
SHARES = st.tuples(st.floats(0, 1), st.floats(0, 1)).filter(lambda pair: sum(pair) <= 1)


def sizes(splits):
    return tuple(splits.count(name) for name in SPLITS)


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (7405, (3702, 1851, 1852)),
        (2417, (1208, 604, 605)),
        (1, (0, 0, 1)),
        (2, (1, 0, 1)),
        (4, (2, 1, 1)),
        (0, (0, 0, 0)),
    ],
)
def test_source_order_gives_the_sizes_of_the_paper(n, expected):
    splits = in_order(n)
    assert sizes(splits) == expected
    assert splits == sorted(splits, key=SPLITS.index)
    assert sizes(at_random([str(i) for i in range(n)], 0)) == expected


def test_both_data_sets_together_have_the_published_sizes():
    pairs = zip(sizes(in_order(7405)), sizes(in_order(2417)), strict=True)
    assert tuple(map(sum, pairs)) == (4910, 2455, 2457)


@given(n=st.integers(0, 300), shares=SHARES)
def test_every_question_has_one_split_and_shares_are_rounded_down(n, shares):
    splits = in_order(n, shares)
    assert len(splits) == n
    assert sizes(splits)[:2] == (int(shares[0] * n), int(shares[1] * n))


@pytest.mark.parametrize(
    "shares",
    [
        (-0.1, 0.5),
        (0.5, -0.1),
        (0.8, 0.3),
        (1.1, 0),
        (0, 2),
        (float("nan"), 0.2),
        (0.5, float("nan")),
        (float("inf"), 0),
    ],
)
def test_shares_that_do_not_add_up_are_refused(shares):
    with pytest.raises(BadChoice, match=r"expected two shares .* found .*What is left is test"):
        in_order(10, shares)
    with pytest.raises(BadChoice, match="two shares"):
        at_random(["a", "b"], 1, shares)


@given(ids=IDS, seed=st.integers(), data=st.data())
def test_a_random_split_depends_on_ids_and_seed_and_not_on_the_order_of_rows(ids, seed, data):
    splits = dict(zip(ids, at_random(ids, seed), strict=True))
    other = data.draw(st.permutations(ids))
    assert dict(zip(other, at_random(other, seed), strict=True)) == splits
    assert sizes(list(splits.values())) == sizes(in_order(len(ids)))


def test_a_random_split_is_the_same_for_ever_and_another_for_another_seed():
    ids = [f"q{i}" for i in range(12)]
    short = ["".join(split[0] for split in at_random(ids, seed)) for seed in range(3)]
    assert short == ["tctctvcvcccv", "ccvvtctctvcc", "vtcvtcccctvc"]
    many = [f"q{i}" for i in range(1000)]
    same = sum(a == b for a, b in zip(at_random(many, 1), at_random(many, 2), strict=True))
    assert 300 < same < 450  # by chance 3 in 8


@given(names=st.lists(st.text(max_size=3), max_size=30), key=st.text(max_size=3))
def test_a_shuffle_holds_every_place_once_and_keeps_equal_names_in_order(names, key):
    order = shuffled(names, key)
    assert sorted(order) == list(range(len(names)))
    for name in set(names):
        places = [place for place in order if names[place] == name]
        assert places == sorted(places)
    assert shuffled(iter(names), key) == order


def test_odd_ids_are_shuffled_too():
    assert sorted(shuffled(["\ud800", "", "é", "\x00"], "\udfff")) == [0, 1, 2, 3]


@pytest.mark.parametrize("value", ["train", "dev", "Test", "", None, 1, True, ["test"], "test "])
def test_a_column_that_names_no_split_is_refused_with_question_and_remedy(value):
    with pytest.raises(BadChoice, match=r"column 'fold' of question 'q7', found .*Name the split of every question"):
        named(value, "fold", "q7")


def test_leaks_counts_each_key_once_that_stands_in_several_splits():
    a, b, c = SPLITS
    assert leaks([], []) == 0
    assert leaks("xyz", [a, b, c]) == 0
    assert leaks("xxx", [a, b, c]) == 1
    assert leaks("xxyyzz", [a, a, a, c, c, b]) == 2
    assert leaks([None, None, ""], [a, b, c]) == 0
    assert leaks([1, "1"], [a, b]) == 0


@given(st.lists(st.tuples(st.sampled_from([None, "x", "y", "z"]), st.sampled_from(SPLITS)), max_size=20))
def test_leaks_agrees_with_counting_every_pair(rows):
    keys, splits = [key for key, _ in rows], [split for _, split in rows]
    torn = {one for one, here in rows for other, there in rows if one is not None and one == other and here != there}
    assert leaks(keys, splits) == len(torn)


def test_two_texts_are_one_question_when_their_words_are_the_same():
    assert text_key("Who wrote  'Faust'?") == text_key("WHO wrote: faust!!")
    assert text_key("Who wrote Faust?") != text_key("Who wrote Faust II?")
    assert text_key("  ?!  ") is text_key("") is text_key("谁?") is None


def write(path, texts, folds=None):
    lines = []
    for place, text in enumerate(texts):
        fold = f', "fold": "{folds[place]}"' if folds else ""
        passages = '[{"text": "t", "supporting": true}]'
        lines.append(f'{{"id": "q{place}", "question": "{text}", "answers": ["A"], "passages": {passages}{fold}}}\n')
    path.write_text("".join(lines), "utf-8")
    return Source(path, "own")


def test_a_text_asked_in_two_splits_is_a_warning_and_a_text_without_words_is_none(tmp_path):
    source = write(tmp_path / "q.jsonl", ["Who?", "What?", "???", "who", "谁", "WHO!"])
    found = survey(source, Recipe())
    assert found.splits == in_order(6)
    assert found.shared_texts == 1
    assert "1 normalized question texts stand in more than one split" in found.warnings[0]
    apart = survey(write(tmp_path / "r.jsonl", ["Who?", "who", "a", "b", "???", "谁"]), Recipe())
    assert (apart.shared_texts, apart.warnings) == (0, ())


def test_a_column_names_the_splits(tmp_path):
    folds = ["test", "validation", "test", "calibration"]
    source = write(tmp_path / "q.jsonl", ["a", "b", "c", "d"], folds)
    assert survey(source, Recipe(split="column:fold")).splits == folds
    with pytest.raises(BadChoice, match=r"column 'split' of question 'q0', found ''"):
        survey(source, Recipe(split="column:split"))
    with pytest.raises(BadChoice, match="expected a split of source, random or column:NAME, found 'sorted'"):
        survey(source, Recipe(split="sorted"))


def test_a_random_split_of_a_file_does_not_depend_on_the_order_of_its_rows(tmp_path, gatewise):
    write(tmp_path / "q.jsonl", [f"text {i}" for i in range(30)])
    lines = (tmp_path / "q.jsonl").read_text().splitlines()
    (tmp_path / "r.jsonl").write_text("\n".join(reversed(lines)))
    found = []
    for name in ("q", "r"):
        made = tmp_path / f"{name}.plans"
        done = gatewise(
            "plan",
            "--dataset",
            "x",
            "--file",
            tmp_path / f"{name}.jsonl",
            "--split",
            "random",
            "--seed",
            7,
            "-o",
            f"{made}.jsonl",
        )
        assert done[0] == 0
        _, plans = read_plans(f"{made}.jsonl")
        found.append({one.question.id: one.question.split for one in plans})
    assert found[0] == found[1]
    assert sizes(list(found[0].values())) == (15, 7, 8)
