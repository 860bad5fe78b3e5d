from gatewise.recordings.recorder import State
from gatewise.recordings.voices import Tally
from gatewise.studies.accounts import Count, count_told, stopped_told


def test_a_count_says_what_became_of_states():
    count = Count()
    count.add(
        [State(0, 0.5, True, "Ann"), State(1, missing_reason="timeout"), State(2, 0.5, None, "Bob", "not judged")]
    )
    assert count_told("m", count) == "m: 3 states, 2 answered, 1 judged, 1 timeout"


def test_a_count_knows_whether_every_call_was_made():
    count = Count()
    count.add([State(0, 0.5, True, "Ann")])
    assert count.asked
    count.add([State(1, missing_reason="not asked")])
    assert not count.asked


def test_what_stopped_says_why_and_how_to_go_on():
    assert stopped_told(Tally(stopped="interrupted")).startswith("stopped: interrupted. Run the same command again")
