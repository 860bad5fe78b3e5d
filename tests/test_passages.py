from gatewise import Traces
from gatewise.reports.passages import CHUNK, Evidence, evidence_json, packed_evidence
from gatewise.types import Passage, Plan, Question


def small(**more):
    columns = {"trace_id": ["a", "b"], "depth": [0, 0], "confidence": [0.4, None], "correct": [False, None]}
    return Traces.from_columns({**columns, **more})


def planned(id_, dataset, *texts):
    passages = tuple(Passage(f"title of {one}", one, place == 0) for place, one in enumerate(texts))
    return Plan(Question(id_, "Who?", ("A",), passages, dataset=dataset), tuple((at,) for at in range(len(texts))))


def test_evidence_follows_the_plan_that_a_trace_names_and_else_its_data_set_and_id():
    right, other = planned("a", "d", "one", "two"), planned("a", "d", "changed")
    named = small(plan=[right.digest, None], dataset=["d"] * 2)
    found = packed_evidence(named, [other, planned("b", "d", "three"), planned("c", "d", "unasked"), right])
    assert found.of(("d", "b", None)) == [[], [["title of three", "three", True]]]
    assert (
        found.of(("d", "a", right.digest))
        == evidence_json(right)
        == [
            [],
            [["title of one", "one", True]],
            [["title of two", "two", False]],
        ]
    )
    assert found.of(("d", "a", None)) is None
    assert packed_evidence(small(), [planned("b", "anything", "x")]).places == {(None, "b", None): 0}
    assert packed_evidence(small(), []) == Evidence()


def test_evidence_is_packed_in_chunks_and_found_in_each():
    ids = [f"q{place:03}" for place in range(2 * CHUNK + 1)]
    traces = Traces.from_columns(
        {"trace_id": ids, "depth": [0] * len(ids), "confidence": [0.5] * len(ids), "correct": [True] * len(ids)}
    )
    found = packed_evidence(traces, (planned(id_, "", id_) for id_ in ids))
    assert len(found.chunks) == 3
    assert found.size == sum(map(len, found.chunks))
    for id_ in ids:
        assert found.of((None, id_, None))[1][0][1] == id_
