"""Rows of every format → questions, and every way in which a question file can be broken → what to do about it."""

import csv
import gzip
import io
import json
import os
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from gatewise.errors import BadChoice, BrokenQuestions, Unfit
from gatewise.files import read_rows
from gatewise.questions.datasets import READERS, RULES, Intake, hotpotqa, musique, own, read, take_in, two_wiki
from gatewise.types import Passage

FOLDER = os.environ.get("GATEWISE_DATA", "")
needs_data = pytest.mark.skipif(not FOLDER, reason="GATEWISE_DATA does not name the folder of the real rows")


def hotpot_row(**changes):
    return {
        "_id": "h1",
        "question": "Who?",
        "answer": "Ann",
        "type": "bridge",
        "level": "hard",
        "supporting_facts": [["A", 0], ["C", 1]],
        "context": [["A", ["Ann did.", " It was", " good."]], ["B", ["Bob."]], ["C", ["Cy."]]],
        **changes,
    }


def musique_row(**changes):
    paragraphs = [
        {"idx": 0, "title": "A", "paragraph_text": "a", "is_supporting": True},
        {"idx": 1, "title": "B", "paragraph_text": "b", "is_supporting": False},
        {"idx": 2, "title": "C", "paragraph_text": "c", "is_supporting": True},
    ]
    steps = [
        {"id": 1, "question": "A >> x", "answer": "x", "paragraph_support_idx": 0},
        {"id": 2, "question": "#1 >> y", "answer": "Ann", "paragraph_support_idx": 2},
    ]
    row = {"id": "2hop__1_2", "paragraphs": paragraphs, "question": "Who?", "question_decomposition": steps}
    return {
        **row,
        "answer": "Ann",
        "answer_aliases": ["Anna", "Ann", "A.", "Anna", " "],
        "answerable": True,
        **changes,
    }


def own_row(**changes):
    passages = [{"title": "A", "text": "a", "supporting": True}, {"text": "b"}]
    return {"id": "q1", "question": "Who?", "answers": ["Ann"], "passages": passages, **changes}


def without(row, *names):
    return {name: value for name, value in row.items() if name not in names}


# HotpotQA and 2WikiMultihopQA


def test_hotpotqa_joins_sentences_with_nothing_and_marks_named_titles():
    question = hotpotqa(hotpot_row())
    assert question.id == "h1"
    assert question.passages == (
        Passage("A", "Ann did. It was good.", True),
        Passage("B", "Bob.", False),
        Passage("C", "Cy.", True),
    )
    assert question.references == ("Ann",)
    assert question.about == {"type": "bridge", "level": "hard"}


def test_hotpotqa_reads_null_sentence_ids_and_whole_paragraphs():
    row = hotpot_row(supporting_facts=[["A", None], ["C", None]], context=[["A", "Ann did."], ["B", ""], ["C", []]])
    assert hotpotqa(row).passages == (Passage("A", "Ann did.", True), Passage("B", ""), Passage("C", "", True))


def test_hotpotqa_marks_every_passage_of_a_title_that_stands_twice():
    row = hotpot_row(context=[["A", ["one"]], ["A", ["two"]], ["C", ["c"]]])
    assert hotpotqa(row).supports == (0, 1, 2)


@pytest.mark.parametrize("reader", [hotpotqa, two_wiki])
def test_column_wise_copies_are_the_same_questions(reader):
    columns = hotpot_row(
        context={"title": ["A", "B", "C"], "sentences": [text for _, text in hotpot_row()["context"]]},
        supporting_facts={"sent_id": [0, 1], "title": ["A", "C"]},
    )
    assert reader(columns) == reader(hotpot_row())


def test_column_wise_copies_of_uneven_columns_are_refused():
    with pytest.raises(Unfit, match="expected as many title as sentences entries"):
        hotpotqa(hotpot_row(context={"title": ["A", "B"], "sentences": [["a"]]}))
    with pytest.raises(Unfit, match="expected as many title as sent_id entries"):
        hotpotqa(hotpot_row(supporting_facts={"title": ["A"], "sent_id": []}))


def test_unknown_fields_are_legal_and_an_id_may_be_called_id():
    row = {**without(hotpot_row(), "_id", "type", "level"), "id": "h2", "idx": 7, "sentence_split": False, "x": [{}]}
    question = hotpotqa(row)
    assert (question.id, question.about) == ("h2", {})
    assert hotpotqa(hotpot_row(id="other")).id == "h1"
    assert hotpotqa(hotpot_row(_id=12)).id == "12"


def test_two_wiki_joins_sentences_with_a_space():
    context = [["A", ["One. ", "Two.", " Three."]], ["B", "Whole. Text."], ["C", []]]
    row = hotpot_row(context=context, evidences=[["A", "is", "b"]], answer_id="Q1")
    assert [one.text for one in two_wiki(row).passages] == ["One. Two. Three.", "Whole. Text.", ""]


# MuSiQue


def test_musique_keeps_aliases_once_each_in_their_order():
    question = musique(musique_row())
    assert question.references == ("Ann", "Anna", "A.")
    assert question.supports == (0, 2)
    assert question.about == {"hops": 2}
    assert question.passages[1] == Passage("B", "b")


def test_musique_reads_rows_without_decomposition_or_aliases():
    question = musique(without(musique_row(), "question_decomposition", "answer_aliases", "answerable"))
    assert (question.references, question.about) == (("Ann",), {})


def test_musique_names_supports_by_idx_and_else_by_place():
    later = [{"title": "A", "paragraph_text": "a", "is_supporting": True, "idx": 17}]
    steps = [{"paragraph_support_idx": 17}, {"paragraph_support_idx": None}, {}]
    assert musique(musique_row(paragraphs=later, question_decomposition=steps)).about == {"hops": 3}
    placed = [without(later[0], "idx")]
    assert musique(musique_row(paragraphs=placed, question_decomposition=[{"paragraph_support_idx": 0}]))
    for paragraphs, place in ((later, 0), (placed, 17)):
        with pytest.raises(Unfit, match="expected a support that is among the paragraphs") as caught:
            musique(musique_row(paragraphs=paragraphs, question_decomposition=[{"paragraph_support_idx": place}]))
        assert (caught.value.kind, caught.value.value) == ("absent-support", place)


# The open format


def test_own_rows_keep_plain_fields_for_subgroups():
    question = own(own_row(hops=2, topic="sea", share=0.5, easy=True, none=None, tags=["x"], more={}, split="test"))
    assert question.about == {"hops": 2, "topic": "sea", "share": 0.5, "easy": True, "none": None}
    assert question.split == "test"
    assert question.passages == (Passage("A", "a", True), Passage("", "b", False))
    assert own(own_row(share=float("nan"), most=float("inf"))).about == {"share": None, "most": None}


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (["Ann", "A.", "Ann", " "], ("Ann", "A.")),
        ("Ann|A.", ("Ann", "A.")),
        ("Ann", ("Ann",)),
        ("|Ann||", ("Ann",)),
        ('["Ann", "A|B"]', ("Ann", "A|B")),
        (' ["Ann"]', ("Ann",)),
        ("7", ("7",)),
    ],
)
def test_answers_are_a_list_or_one_text_with_bars(answers, expected):
    assert own(own_row(answers=answers)).references == expected


@pytest.mark.parametrize(
    ("value", "fits"), [("true", True), ("TRUE", True), ("1", True), ("False", False), ("0", False)]
)
def test_csv_says_in_words_whether_a_question_can_be_answered(value, fits):
    if fits:
        assert own(own_row(answerable=value)).id == "q1"
    else:
        with pytest.raises(Unfit, match="expected a question that its passages answer"):
            own(own_row(answerable=value))


def cells(row):
    return {name: json.dumps(value) if isinstance(value, list | dict) else value for name, value in row.items()}


def as_csv(*table):
    out = io.StringIO()
    writer = csv.DictWriter(out, list(table[0]))
    writer.writeheader()
    writer.writerows(map(cells, table))
    return out.getvalue()


def test_the_same_rows_are_the_same_questions_in_every_kind_of_file(tmp_path):
    table = [own_row(split="test", topic="é"), own_row(id="q2", answers=["A|B", "C"], split=None, topic=None)]
    lines = "".join(json.dumps(row) + "\n" for row in table)
    (tmp_path / "q.json").write_text(json.dumps(table, indent=1))
    (tmp_path / "q.jsonl").write_text(lines)
    (tmp_path / "q.csv").write_text(as_csv(*table), "utf-8")
    (tmp_path / "q.csv.gz").write_bytes(gzip.compress(as_csv(*table).encode()))
    (tmp_path / "q.json.gz").write_bytes(gzip.compress(json.dumps(table).encode()))
    filled = [
        {**row, "passages": [{"title": "", "supporting": False, **one} for one in row["passages"]]} for row in table
    ]
    pa.parquet.write_table(pa.Table.from_pylist(filled), tmp_path / "q.parquet")
    expected = list(take_in(table, own))
    for path in tmp_path.iterdir():
        assert list(take_in(read_rows(path), own)) == expected, path


@needs_data
@pytest.mark.parametrize(
    ("file", "reader", "count", "most"),
    [
        ("hotpot_dev_full_context_subset.jsonl", hotpotqa, 1772, 10),
        ("musique_ans_dev_full_subset.jsonl", musique, 200, 20),
    ],
)
def test_every_real_row_is_a_question(file, reader, count, most):
    intake = Intake()
    found = list(take_in(read_rows(Path(FOLDER) / file), reader, intake=intake))
    assert (intake.rows, intake.kept, len(found), intake.skipped) == (count, count, count, {})
    assert max(len(one.passages) for one in found) == most
    assert min(len(one.passages) for one in found) >= 2
    if reader is hotpotqa:
        assert {len(one.supports) for one in found} == {2}


# Rules

LONE = [{"title": "A", "text": "a"}]
BROKEN = [  # rule, reader, row, column, value
    ("malformed", "own", [1], "(all)", "[1]"),
    ("malformed", "own", None, "(all)", "null"),
    ("malformed", "own", {}, "question", "null"),
    ("malformed", "own", own_row(id=None, answers=7), "answers", "7"),
    ("malformed", "own", own_row(passages=[{"text": "a"}, {"text": 5}]), "passages[1].text", "5"),
    ("malformed", "own", own_row(passages=[{"title": "a"}]), "passages[0].text", "null"),
    ("malformed", "own", own_row(passages="[{"), "passages", "'[{'"),
    ("malformed", "own", own_row(passages=[{"text": "a", "supporting": "yes"}]), "passages[0].supporting", "'yes'"),
    ("malformed", "own", own_row(answers=["a", 1]), "answers[1]", "1"),
    ("malformed", "own", own_row(answers="[1"), "answers", "'[1'"),
    ("malformed", "own", own_row(id=1.5), "id", "1.5"),
    ("malformed", "own", own_row(question=["Who?"]), "question", "['Who?']"),
    ("malformed", "hotpotqa", hotpot_row(context=[["A"]]), "context[0]", "['A']"),
    ("malformed", "hotpotqa", without(hotpot_row(), "supporting_facts"), "supporting_facts", "null"),
    ("malformed", "hotpotqa", hotpot_row(supporting_facts=[["A", "0"]]), "supporting_facts[0][1]", "'0'"),
    ("malformed", "musique", musique_row(paragraphs=[{"title": "A"}]), "paragraphs[0].paragraph_text", "null"),
    ("malformed", "musique", musique_row(answer_aliases="Ann"), "answer_aliases", "'Ann'"),
    ("malformed", "2wiki", musique_row(), "context", "null"),
    ("no-id", "own", without(own_row(), "id"), "id", "null"),
    ("no-id", "own", own_row(id=" "), "id", "' '"),
    ("no-id", "own", own_row(id=None), "id", "null"),
    ("no-id", "hotpotqa", without(hotpot_row(), "_id"), "id", "null"),
    ("no-id", "musique", without(musique_row(), "id"), "id", "null"),
    ("duplicate-id", "own", own_row(id="seen"), "id", "'seen'"),
    ("duplicate-id", "hotpotqa", hotpot_row(_id="seen"), "_id", "'seen'"),
    ("unanswerable", "own", own_row(answerable=False), "answerable", "False"),
    ("unanswerable", "musique", musique_row(answerable=False), "answerable", "False"),
    ("empty-question", "own", own_row(question=" \n"), "question", r"' \n'"),
    ("empty-question", "own", own_row(question=None), "question", "null"),
    ("empty-question", "2wiki", hotpot_row(question=""), "question", "''"),
    ("no-answer", "own", own_row(answers=[]), "answers", "[]"),
    ("no-answer", "own", own_row(answers=[" ", ""]), "answers", "[' ', '']"),
    ("no-answer", "own", own_row(answers="|"), "answers", "'|'"),
    ("no-answer", "own", own_row(answers=None), "answers", "null"),
    ("no-answer", "hotpotqa", without(hotpot_row(), "answer"), "answers", "null"),
    ("no-answer", "musique", musique_row(answer="", answer_aliases=[]), "answer", "''"),
    ("no-passage", "own", own_row(passages=[]), "passages", "[]"),
    ("no-passage", "own", own_row(passages="[]"), "passages", "'[]'"),
    ("no-passage", "own", own_row(passages=None), "passages", "null"),
    ("no-passage", "hotpotqa", hotpot_row(context=[]), "context", "[]"),
    ("no-passage", "musique", musique_row(paragraphs=[]), "paragraphs", "[]"),
    (
        "blank-passage",
        "own",
        own_row(passages=[*own_row()["passages"], {"title": " ", "text": ""}]),
        "passages",
        "null",
    ),
    ("blank-passage", "hotpotqa", hotpot_row(context=[*hotpot_row()["context"], ["", []]]), "context", "null"),
    ("absent-support", "hotpotqa", hotpot_row(supporting_facts=[["A", 0], ["Z", 0]]), "supporting_facts", "'Z'"),
    ("absent-support", "2wiki", hotpot_row(supporting_facts=[["a", 0]]), "supporting_facts", "'a'"),
    (
        "absent-support",
        "musique",
        musique_row(question_decomposition=[{"paragraph_support_idx": 3}]),
        "question_decomposition",
        "3",
    ),
    ("no-support", "own", own_row(passages=LONE), "passages", "null"),
    ("no-support", "hotpotqa", hotpot_row(supporting_facts=[]), "context", "null"),
    (
        "no-support",
        "musique",
        musique_row(paragraphs=[{"title": "A", "paragraph_text": "a", "idx": i} for i in range(3)]),
        "paragraphs",
        "null",
    ),
]
FIRST = {
    "own": own_row(id="seen"),
    "hotpotqa": hotpot_row(_id="seen"),
    "2wiki": hotpot_row(_id="seen"),
    "musique": musique_row(id="seen"),
}


def test_every_rule_is_broken_by_some_row_below():
    assert {rule for rule, *_ in BROKEN} == set(RULES)
    assert set(FIRST) == set(READERS)


@pytest.mark.parametrize(("rule", "name", "row", "column", "value"), BROKEN)
def test_a_row_that_breaks_a_rule_is_refused_or_counted_and_left_out(rule, name, row, column, value):
    rows = [FIRST[name], row]
    with pytest.raises(BrokenQuestions) as caught:
        list(take_in(rows, READERS[name], file="q.jsonl"))
    assert caught.value.total == 1
    (violation,) = caught.value.violations
    assert (violation.file, violation.row, violation.column, violation.value) == ("q.jsonl", 2, column, value)
    assert violation.problem.startswith("expected ")
    assert violation.remedy.endswith(f". (--skip {rule} leaves such rows out.)")
    assert str(violation) in str(caught.value)
    intake = Intake()
    found = list(take_in(rows, READERS[name], skip=[rule], intake=intake))
    assert [one.id for one in found] == ["seen"]
    assert (intake.rows, intake.kept, intake.skipped) == (2, 1, {rule: 1})
    for other in RULES:
        if other != rule:
            with pytest.raises(BrokenQuestions):
                list(take_in(rows, READERS[name], skip=[other]))


def test_a_passage_may_be_a_title_alone_or_a_text_alone():
    passages = [{"title": "A", "text": "", "supporting": True}, {"text": "b"}]
    assert len(read(own_row(passages=passages), own).passages) == 2


def test_an_order_without_labels_needs_no_support():
    row = own_row(passages=LONE)
    assert read(row, own, labelled=False).supports == ()
    with pytest.raises(Unfit, match="order without labels"):
        read(row, own)


def test_many_broken_rows_are_listed_together_ten_at_most_with_their_number():
    rows = [own_row(id=str(i), question="" if i % 2 else "Who?") for i in range(50)]
    with pytest.raises(BrokenQuestions) as caught:
        list(take_in(rows, own, file="q.csv"))
    assert caught.value.total == 25
    assert [one.row for one in caught.value.violations] == list(range(2, 22, 2))
    assert "in 25 places, the first 10 are:" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 11


def test_several_rules_are_counted_apart_and_the_rest_is_refused():
    rows = [own_row(id=""), own_row(), own_row(), own_row(id="q2", question=""), [], own_row(id="q3", answers=[])]
    intake = Intake()
    walk = take_in(rows, own, skip=["no-id", "duplicate-id", "malformed"], intake=intake)
    with pytest.raises(BrokenQuestions, match="in 2 places") as caught:
        list(walk)
    assert [one.row for one in caught.value.violations] == [4, 6]
    assert intake.skipped == {"no-id": 1, "duplicate-id": 1, "malformed": 1}
    assert intake.rows == intake.kept + sum(intake.skipped.values()) + caught.value.total


def test_the_first_row_of_an_id_that_is_kept_counts():
    rows = [own_row(question=""), own_row(question="kept"), own_row(question="later"), own_row(id="1"), own_row(id=1)]
    intake = Intake()
    found = list(take_in(rows, own, skip=["empty-question", "duplicate-id"], intake=intake))
    assert [one.text for one in found] == ["kept", "Who?"]
    assert intake.skipped == {"empty-question": 1, "duplicate-id": 2}


def test_a_file_of_which_nothing_is_left_is_refused():
    with pytest.raises(BadChoice, match=r"expected a question in q\.csv, found none that keeps every rule"):
        list(take_in([own_row(id="")], own, skip=["no-id"], file="q.csv"))
    with pytest.raises(BadChoice, match="found none"):
        list(take_in([], own))


def test_an_unknown_rule_is_refused_by_name():
    with pytest.raises(BadChoice, match=r"expected a rule among malformed, .*did you mean no-support\?"):
        list(take_in([own_row()], own, skip=["no-suport"]))


@pytest.mark.parametrize("depth", [100, *range(915, 975, 3), 5000])
def test_no_depth_of_nesting_is_too_much_for_an_error(tmp_path, gatewise, depth):
    nested = "[" * depth + "]" * depth
    for place, text in enumerate(
        [
            f'{{"id": {nested}, "question": "Who?", "answers": ["A"], "passages": []}}\n',
            f'[{{"id": {nested}, "question": "Who?", "answers": ["A"], "passages": []}}]',
            json.dumps(own_row(passages=nested)),
            json.dumps(own_row(answers=nested)),
            nested,
            f"[{nested}]",
        ]
    ):
        path = tmp_path / f"q{place}.json"
        path.write_text(text)
        code, _, err = gatewise("questions", "check", path)
        assert code == 2
        assert re.search(r"row 1\b", err)


# Whole files that are broken, through both commands


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def parquet(*rows, schema=None):
    out = io.BytesIO()
    pa.parquet.write_table(pa.Table.from_pylist(list(rows), schema=schema), out)
    return out.getvalue()


GOOD, NEXT = own_row(), own_row(id="q2")
ARRAY = json.dumps([GOOD, NEXT])
TABLE = as_csv(GOOD, NEXT)
FULL = [{"title": "A", "text": "a", "supporting": True}]
PARQUET = parquet(own_row(passages=FULL), own_row(id="q2", passages=FULL))
FILES = {  # what is wrong: name, content, row (None: of the file as a whole), what is said
    "a truncated array": ("q.json", ARRAY[:-40], "row 2", "Unterminated|Expecting|ends here"),
    "an array cut between rows": ("q.json", json.dumps([GOOD])[:-1] + ",\n", "row 2", "the file ends here"),
    "an array that is not closed": ("q.json", ARRAY[:-1], "row 3", "the file ends here"),
    "a trailing comma": ("q.json", ARRAY[:-1] + ",]", "row 3", "a comma and no row after it"),
    "a comma before the first row": ("q.json", "[," + ARRAY[1:], "row 1", "Expecting value|comma"),
    "no comma between rows": ("q.json", ARRAY.replace('}, {"id"', '} {"id"'), "row 2", "no comma between two rows"),
    "two arrays": ("q.json", ARRAY + "\n" + ARRAY, "after row 2", "more text after the end of the array"),
    "an array and NUL bytes": ("q.json", ARRAY + "\0\0", "after row 2", "more text after the end"),
    "an empty array": ("q.json", "[]", None, "found no row"),
    "an array of numbers": ("q.json", "[1, 2.5]", "row 2", "expected one object a row"),
    "an array of arrays": ("q.json", '[["q1", "Who?"]]', "row 1", "expected one object a row"),
    "an array of texts": ("q.json", '["Who?"]', "row 1", "expected one object a row"),
    "an array of nulls": ("q.json", "[null]", "row 1", "expected one object a row"),
    "NaN in an array": ("q.json", "[" + json.dumps(own_row(score=float("nan"))) + "]", "after row 0", "NaN"),
    "an object that holds the rows": (
        "q.json",
        json.dumps({"data": [GOOD]}),
        "row 1",
        "expected this field, found 'data'",
    ),
    "an object over several lines": (
        "q.json",
        json.dumps({"data": [GOOD]}, indent=2),
        "row 1",
        "one JSON object a line",
    ),
    "a single text": ("q.json", '"Who?"', "row 1", "expected one object a row"),
    "a page of HTML": ("q.json", "<!doctype html><html>404</html>", "row 1", "one JSON object a line"),
    "single quotes": ("q.jsonl", str(GOOD) + "\n", "row 1", "one JSON object a line"),
    "deep nesting": ("q.json", "[" * 200_000, "row 1", "nested too deeply|recursion"),
    "deep nesting in a line": ("q.jsonl", lines(GOOD) + '{"a":' * 200_000, "row 2", "recursion"),
    "a truncated line": ("q.jsonl", lines(GOOD, NEXT)[:-30], "row 2", "Unterminated|Expecting"),
    "a line that is no JSON": ("q.jsonl", lines(GOOD) + "question two\n", "row 2", "one JSON object a line"),
    "two objects in a line": ("q.jsonl", lines(GOOD)[:-1] + lines(NEXT), "row 1", "Extra data"),
    "NaN in a line": (
        "q.jsonl",
        lines(GOOD, own_row(id="q2", score=float("nan"))),
        "row 2",
        "NaN, which strict JSON",
    ),
    "NUL bytes in a line": ("q.jsonl", lines(GOOD) + '{"id": "q\0"}\n', "row 2", "Invalid control character"),
    "a file of NUL bytes": ("q.jsonl", b"\0" * 4096, "row 1", "one JSON object a line"),
    "latin-1 in a line": ("q.jsonl", lines(GOOD).encode() + b'{"id": "caf\xe9"}\n', "row 2", "UTF-8"),
    "latin-1 in an array": ("q.json", b'[{"id": "q1", "question": "caf\xe9"}]', "row 1", "UTF-8"),
    "UTF-16": ("q.json", ARRAY.encode("utf-16"), "row 1", "UTF-8"),
    "an empty file": ("q.json", "", None, "an empty file"),
    "only white space": ("q.jsonl", " \n\n\t\n", None, "found no row"),
    "only a byte order mark": ("q.jsonl", "\ufeff", None, "found no row"),
    "a truncated gz file": ("q.json.gz", gzip.compress(ARRAY.encode())[:-10], "after row", "ended before"),
    "a gz file that is none": ("q.jsonl.gz", lines(GOOD), "after row 0", "gzip"),
    "a gz file by another name": ("q.jsonl", gzip.compress(lines(GOOD).encode()), "row 1", "UTF-8"),
    "a gz file of nothing": ("q.csv.gz", gzip.compress(b""), None, "found no row"),
    "a huge line": ("q.jsonl", lines(GOOD) + "x" * 3_000_000, "row 2", "one JSON object a line"),
    "a huge number": ("q.jsonl", lines(GOOD) + '{"id": ' + "9" * 5000 + "}\n", "row 2", "limit"),
    "a huge number in an array": ("q.json", '[{"id": ' + "9" * 5000 + "}]", "after row 0", "limit"),
    "only a header": ("q.csv", "id,question,answers,passages\r\n", None, "found no row"),
    "a column twice": ("q.csv", "id,question,answers,id\r\nq1,Who?,A,q1\r\n", "after row 0", "the column 'id' twice"),
    "a ragged row": ("q.csv", TABLE + "q3,Who?\r\n", "row 3", "expected 4 fields, found 2"),
    "a quote that is not closed": ("q.csv", TABLE + 'q3,"Who?\r\n', "after row 2", "unexpected end of data"),
    "semicolons for commas": (
        "q.csv",
        "id;question;answers;passages\nq1;Who?;A;[]\n",
        "row 1",
        "expected this field",
    ),
    "latin-1 in a table": ("q.csv", TABLE.encode() + b"q3,caf\xe9,A,[]\r\n", "row 3", "UTF-8"),
    "latin-1 in a header": ("q.csv", b"id,caf\xe9\r\nq1,x\r\n", "after row 0", "UTF-8"),
    "a cell of broken JSON": (
        "q.csv",
        as_csv(GOOD, own_row(id="q2", passages='[{"text": "a"')),
        "row 2",
        "a JSON list",
    ),
    "a cell that is no JSON": ("q.csv", as_csv(own_row(passages="A says a.")), "row 1", "expected a JSON list"),
    "an empty question in a table": (
        "q.csv",
        as_csv(own_row(question="")),
        "row 1",
        "expected a question, found none",
    ),
    "an empty answer in a table": ("q.csv", as_csv(own_row(answers="")), "row 1", "expected an answer, found none"),
    "an empty cell of passages": ("q.csv", as_csv(own_row(passages="")), "row 1", "expected a passage, found none"),
    "an empty id in a table": ("q.csv", as_csv(GOOD, own_row(id="")), "row 2", "expected an id, found none"),
    "a truncated Parquet file": ("q.parquet", PARQUET[:-30], "after row 0", "(?i)parquet"),
    "a Parquet file that is none": ("q.parquet", lines(GOOD), "after row 0", "(?i)parquet"),
    "a Parquet file without its start": ("q.parquet", b"\0" * 900 + PARQUET[900:], "after row 0", "."),
    "a Parquet file of other columns": ("q.parquet", parquet({"a": 1}), "row 1", "expected this field, found 'a'"),
    "a Parquet file of no row": ("q.parquet", parquet(schema=pa.schema({"id": pa.string()})), None, "found no row"),
    "a null question in Parquet": (
        "q.parquet",
        parquet(own_row(question=None, passages=FULL)),
        "row 1",
        "a question, found none",
    ),
    "passages as broken JSON": (
        "q.jsonl",
        lines(own_row(passages='[{"text": "a"}')),
        "row 1",
        "expected a JSON list",
    ),
    "passages as texts": ("q.jsonl", lines(own_row(passages=["a", "b"])), "row 1", r"column passages\[0\]"),
    "passages as an object": ("q.jsonl", lines(own_row(passages={"A": "a"})), "row 1", "column passages"),
    "answers that are a number": ("q.jsonl", lines(own_row(answers=7)), "row 1", "column answers, value 7"),
    "answers that are numbers": ("q.jsonl", lines(own_row(answers=[7])), "row 1", r"column answers\[0\], value 7"),
    "blank answers": ("q.jsonl", lines(own_row(answers=["", "  "])), "row 1", "expected an answer, found none"),
    "no answers": (
        "q.jsonl",
        lines(GOOD, without(own_row(id="q2"), "answers")),
        "row 2",
        "column answers, value null",
    ),
    "supporting in words": (
        "q.jsonl",
        lines(own_row(passages=[{"text": "a", "supporting": "yes"}])),
        "row 1",
        r"passages\[0\]\.supporting, value 'yes'",
    ),
    "an id that is null": ("q.jsonl", lines(GOOD, own_row(id=None)), "row 2", "expected an id, found none"),
    "an id that is a list": ("q.jsonl", lines(own_row(id=["q1"])), "row 1", "column id"),
    "no id": ("q.jsonl", lines(without(GOOD, "id")), "row 1", "expected an id, found none"),
    "a duplicate id": ("q.jsonl", lines(GOOD, NEXT, GOOD), "row 3", "an id that no earlier row has"),
    "a duplicate id of another kind": (
        "q.jsonl",
        lines(own_row(id=1), own_row(id="1")),
        "row 2",
        "no earlier row has",
    ),
    "an empty question": ("q.jsonl", lines(GOOD, own_row(id="q2", question=" ")), "row 2", "expected a question"),
    "a misspelt field": (
        "q.jsonl",
        lines({**without(GOOD, "question"), "Question": "Who?"}),
        "row 1",
        "found .*'Question'",
    ),
    "no passages": ("q.jsonl", lines(own_row(passages=[])), "row 1", "expected a passage, found none"),
    "a blank passage": ("q.jsonl", lines(own_row(passages=[*FULL, {"text": " "}])), "row 1", "a title or a text"),
    "a passage without text": ("q.jsonl", lines(own_row(passages=[{"title": "A"}])), "row 1", r"passages\[0\]\.text"),
    "no support": ("q.jsonl", lines(own_row(passages=LONE)), "row 1", "expected a supporting passage"),
    "an unanswerable question": ("q.jsonl", lines(own_row(answerable=False)), "row 1", "that its passages answer"),
    "a null": ("q.jsonl", "null\n" + lines(GOOD), "row 1", "expected one object a row"),
    "an unknown kind": ("q.txt", lines(GOOD), None, "expected a question file named"),
    "a spreadsheet": ("q.xlsx", b"PK\x03\x04", None, "expected a question file named"),
    "no kind": ("questions", lines(GOOD), None, "expected a question file named"),
    "a folder": ("q.jsonl", None, None, "found a folder"),
    "no file": ("q.jsonl", ..., None, "found no such file"),
}
REMEDIES = (
    r"(Fetch or write it again|Write it again|Write one strict JSON object a line|Convert|Rename|Check the path"
    r"|Bring the row into|Name every question|Write what is asked|Give |Drop |Mark |Use the answerable|Quote fields)"
)


def put(folder, name, content):
    path = folder / name
    if content is None:
        path.mkdir()
    elif content is not ...:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_the_rows_that_are_broken_below_are_good(gatewise, tmp_path):
    for name, content in (
        ("q.json", ARRAY),
        ("q.jsonl", lines(GOOD, NEXT)),
        ("q.csv", TABLE),
        ("q.parquet", PARQUET),
    ):
        code, out, _ = gatewise("questions", "check", put(tmp_path, name, content))
        assert code == 0
        assert out.startswith("2 rows, 2 questions")
    assert len(FILES) >= 35


@pytest.mark.parametrize("wrong", FILES)
@pytest.mark.parametrize("command", ["check", "plan"])
def test_a_broken_file_is_one_message_with_file_row_and_remedy(gatewise, tmp_path, command, wrong):
    name, content, row, said = FILES[wrong]
    path = put(tmp_path, name, content)
    if command == "check":
        code, out, err = gatewise("questions", "check", path)
    else:
        made = tmp_path / "plans.jsonl"
        code, out, err = gatewise("plan", "--dataset", "own", "--file", path, "-o", made)
        assert not made.exists()
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert str(path) in err
    assert re.search(said, err), err
    assert re.search(REMEDIES, err), err
    assert row is None or re.search(rf"{row}\b", err), err
    assert len(err) < 4000
    assert err.isprintable() or err.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    ("dataset", "row", "said"),
    [
        ("hotpotqa", hotpot_row(supporting_facts=[["Z", 0]]), "column supporting_facts, value 'Z'"),
        ("2wiki", hotpot_row(context=[["A", 7]]), r"column context\[0\]\[1\], value 7"),
        ("musique", musique_row(answerable=False), "column answerable, value False"),
        ("musique", hotpot_row(), "column paragraphs, value null: expected this field, found '_id'"),
        ("hotpotqa", musique_row(), "column context, value null: expected this field, found 'id'"),
    ],
)
def test_a_broken_row_of_a_public_data_set_is_named_too(gatewise, tmp_path, dataset, row, said):
    path = put(tmp_path, "q.json", json.dumps([row]))
    for command in (("questions", "check", path), ("plan", "--file", path)):
        code, _, err = gatewise(*command, "--dataset", dataset)
        assert code == 2
        assert re.search(rf"{re.escape(str(path))} row 1, {said}", err), err


def test_rows_are_left_out_on_request_and_counted(gatewise, tmp_path):
    path = put(tmp_path, "q.jsonl", lines(GOOD, GOOD, own_row(id="q3", question=""), NEXT) + "broken\n")
    skip = [word for rule in ("duplicate-id", "empty-question", "malformed") for word in ("--skip", rule)]
    code, out, _ = gatewise("questions", "check", path, *skip, "--json")
    found = json.loads(out)
    assert (code, found["rows"], found["questions"]) == (0, 5, 2)
    assert found["skipped"] == {"duplicate-id": 1, "empty-question": 1, "malformed": 1}
    code, out, _ = gatewise("plan", "--dataset", "own", "--file", path, *skip, "-o", tmp_path / "p.jsonl", "--json")
    assert json.loads(out)["header"]["skipped"] == found["skipped"]
    code, _, err = gatewise("questions", "check", path, *skip[:4])
    assert (code, "row 5" in err) == (2, True)
    code, _, err = gatewise("questions", "check", path, "--skip", "duplicates")
    assert (code, "expected a rule among" in err) == (2, True)
