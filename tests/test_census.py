from gatewise import Traces, census


def test_a_census_counts_states_nulls_copies_and_distinct_confidences_by_depth():
    columns = {
        "trace_id": ["a", "a", "b", "c"],
        "depth": [0, 1, 0, 0],
        "confidence": [0.5, 0.5, None, 0.7],
        "correct": [True, True, None, False],
        "new_passages": [0, 0, 2, None],
        "dataset": ["x", "x", "y", "y"],
        "question": ["Who?", "Who?", " ", None],
        "hops": [2, 2, 3, 4],
    }
    found = census(Traces.from_columns(columns))
    assert (found.traces, found.states, found.states_by_depth) == (3, 4, [3, 1])
    assert (found.without_confidence, found.without_verdict) == ([1, 0], [1, 0])
    assert (found.copied, found.distinct, found.questions) == ([0, 1], [2, 1], 1)
    assert (found.datasets, found.models, found.splits) == ({"x": 1, "y": 2}, {}, {"test": 3})
    assert found.columns == list(columns)
    assert found.as_json()["schema"] == "gatewise.check/1"
