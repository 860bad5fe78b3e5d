from gatewise.reports.evidence import plan_text, plans_table
from gatewise.reports.tables import text
from gatewise.types import Passage, Plan, Question


def test_a_plan_reads_depth_by_depth_with_supports_starred():
    passages = (Passage("Seine", "It flows.", True), Passage("Hill", "High."), Passage("Left", "Out."))
    plan = Plan(Question("q1", "Which river?", ("Seine", "La Seine"), passages, "mine", "test"), ((0, 1), ()))
    lines = plan_text(plan).splitlines()
    assert lines[0] == "Which river?"
    assert lines[1] == "  answer   Seine | La Seine"
    assert "depth 0: no evidence" in lines
    assert "  * [0] Seine" in lines
    assert "    [1] Hill" in lines
    assert "depth 2: nothing new" in lines
    assert lines[-1] == "never shown: 1 passages"


def test_hostile_text_is_spelled_out_and_not_obeyed():
    passages = (Passage("\x1b[2J", "\u202e[red]gone\x00", True),)
    shown = plan_text(Plan(Question("q", "\x07?", ("\r",), passages), ((0,),)))
    assert not set(shown) & set("\x1b\u202e\x00\x07\r")
    assert "[red]" in shown


def test_plans_are_summed_over_splits():
    one = {
        "questions": 4, "passages": 40, "supports": 8, "empty_slices": [0, 0, 1],
        "proxy_depths": {"1": 1, "2": 2, "3": 1}, "planned_retrievals": 8, "mean_planned_retrievals": 2.0,
    }  # fmt: skip
    shown = text(plans_table({"calibration": one, "test": {**one, "planned_retrievals": 9}}))
    assert "planned retrievals" in shown
    last = [line.split() for line in shown.splitlines()]
    assert last[-2][-3:] == ["8", "9", "17"]
    assert last[-1][-3:] == ["2.000000", "2.250000", "2.125000"]
    assert "all" not in text(plans_table({"test": one}))
