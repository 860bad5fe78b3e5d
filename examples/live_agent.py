"""An agent that runs a gate: answer, ask the gate, retrieve while it says so.

python examples/live_agent.py [GATE]

The model and the retriever are stand-ins of a few lines; put yours in their place. The loop stays as it is.
"""

import sys
from collections.abc import Callable, Sequence

from gatewise import Action, Gate, Threshold, calibrate
from gatewise.files import reconstruction

Answerer = Callable[[str, Sequence[str]], tuple[str, float | None]]
Retriever = Callable[[str, int], Sequence[str]]


def run(question: str, answer: Answerer, retrieve: Retriever, gate: Gate) -> tuple[Action, str, int]:
    """Return how the gate ended the question, the last answer, and how many retrievals were paid for."""
    evidence: list[str] = []
    depth = 0
    while True:
        said, confidence = answer(question, evidence)  # the confidence is None where none could be read
        action = gate(confidence, depth)
        found = retrieve(question, depth + 1) if action == Action.RETRIEVE else ()
        if action == Action.RETRIEVE and not found:  # evidence ends before the budget does: the gate ends here
            action = gate(confidence, depth, more=False)
        if action != Action.RETRIEVE:
            return action, said, depth
        evidence.extend(found)
        depth += 1


SHELVES = {
    "Into which sea does the river of Basel flow?": (
        ["Basel lies on the Rhine."],
        ["The Rhine flows into the North Sea."],
    ),
    "Who wrote the letter that was lost?": (["A letter was lost."],),
}


def shelf(question: str, depth: int) -> Sequence[str]:
    """Return the slice of evidence that a depth shows, nothing where it ends."""
    slices = SHELVES[question]
    return slices[depth - 1] if depth <= len(slices) else ()


def guess(question: str, evidence: Sequence[str]) -> tuple[str, float | None]:
    """Return an answer and a confidence that grows with what stands in the evidence."""
    if any("North Sea" in text for text in evidence):
        return "the North Sea", 0.95
    return "I believe the Black Sea", 0.2 + 0.1 * len(evidence)


def main() -> None:
    """Print what the agent does with two questions."""
    fitted = calibrate(reconstruction("mistral-small-2603"))
    gate = Gate.read(sys.argv[1]) if len(sys.argv) > 1 else Gate(Threshold(lo=0.3, hi=0.7), fitted)
    for question in SHELVES:
        action, said, paid = run(question, guess, shelf, gate)
        end = f"answers {said!r}" if action == Action.COMMIT else f"{action.name.lower()}s"
        print(f"{question}  (retrievals: {paid}) {end}")


if __name__ == "__main__":
    main()
