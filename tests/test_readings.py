import pytest

from gatewise.recordings.readings import READING, Said, Unreadable, read_answer, read_verdict


def test_a_plain_object_is_read():
    assert read_answer('{"answer": "Paris", "confidence": 85}') == Said("Paris", 0.85)
    assert read_verdict('{"correct": false}') is False


@pytest.mark.parametrize("stated", ["0.85", "null", "true", "NaN", "1e400", '"high"', "[85]", "-1", "101"])
def test_a_confidence_that_is_not_plain_is_refused_by_a_name(stated):
    found = read_answer(f'{{"answer": "Paris", "confidence": {stated}}}')
    assert isinstance(found, Unreadable)
    assert found.reason in READING
