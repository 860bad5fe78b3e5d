from gatewise.recordings.prompts import PROMPTS, answer_messages
from gatewise.types import Passage, Plan, Question

QUESTION = Question("q", "Who?", ("A",), (Passage("T0", "x0"), Passage("T1", "x1"), Passage("T2", "x2")))


def test_each_depth_begins_with_the_evidence_of_the_one_before():
    plan = Plan(QUESTION, ((2,), (), (0, 1)))
    texts = [answer_messages(PROMPTS["paper"], plan, depth)[-1]["content"] for depth in range(4)]
    assert texts[1] == texts[2]
    assert texts[3].startswith(texts[2])
    assert "No evidence" in texts[0]
