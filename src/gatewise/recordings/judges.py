"""Judges: a question and an answer → right, wrong, or no verdict.

A judge is known by its name, which stands in the column `judge` of the trace table: `exact`, `f1@0.8`, `model:NAME`
(asked through an endpoint and the ledger), or one of your own as `module:name`.
"""

import inspect
import math
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import numpy as np

from gatewise.errors import BadChoice, Mistake, nearest, shown
from gatewise.types import Question
from gatewise.wording import bare

Verdict = bool | None
Decide = Callable[[Question, str], Awaitable[Verdict]]

MODEL = "model:"
F1 = "f1@"
_CLOSED = ("yes", "no", "noanswer")  # HotpotQA: right or wrong as a whole, never by shared words


@dataclass(frozen=True)
class Judge:
    """Who decides whether an answer is right; without `decide`, a model that is asked as the prompts say."""

    name: str
    decide: Decide | None = None

    @property
    def model(self) -> str:
        """The name of the model to ask; empty for a judge that decides by itself."""
        return self.name.removeprefix(MODEL) if self.name.startswith(MODEL) else ""

    async def __call__(self, question: Question, answer: str) -> Verdict:
        """Return the verdict on an answer, None for none, or raise what is wrong with a judge of your own."""
        if self.decide is None:
            raise BadChoice(f"expected an endpoint that judge {self.name} is asked through, found none. Name one.")
        try:
            found = self.decide(question, answer)
            verdict: object = await found if inspect.isawaitable(found) else found
        except Mistake:
            raise
        except Exception as error:
            raise BadChoice(
                f"expected a verdict of judge {self.name} on question {question.id!r}, found "
                f"{type(error).__name__}: {shown(str(error))}. Mend the judge."
            ) from error
        if verdict is None or isinstance(verdict, bool | np.bool_):
            return None if verdict is None else bool(verdict)
        raise BadChoice(
            f"expected True, False or None of judge {self.name} on question {question.id!r}, found "
            f"{shown(verdict)}. Mend the judge."
        )


def judge(name: str, own: Callable[[str], Decide] | None = None) -> Judge:
    """Return the judge of a name; `own` finds one of your own by module:name.

    >>> judge("f1@.8").name, judge("model:judge-8b").model
    ('f1@0.8', 'judge-8b')
    """
    if name == "exact":
        return Judge(name, _of(exact))
    if name.startswith(F1):
        threshold = _threshold(name)
        return Judge(f"{F1}{threshold:g}", _of(lambda question, answer: token_f1(question, answer) >= threshold))
    if name.startswith(MODEL) and name != MODEL:
        return Judge(name)
    if ":" in name and not name.startswith(MODEL) and own:
        return Judge(name, own(name))
    known = ["exact", "f1@0.8", "model:NAME", "module:name"]
    raise BadChoice(f"expected a judge among {', '.join(known)}, found {shown(name)}{nearest(name, known)}.")


def _of(decide: Callable[[Question, str], bool]) -> Decide:
    async def verdict(question: Question, answer: str) -> Verdict:
        return decide(question, answer)

    return verdict


def _threshold(name: str) -> float:
    try:
        threshold = float(name.removeprefix(F1))
    except ValueError:
        threshold = math.nan
    if not 0 < threshold <= 1:
        raise BadChoice(
            f"expected a threshold above 0, at most 1, as in f1@0.8, found {shown(name)}. An answer is right at this "
            "token F1 or above."
        )
    return float(f"{threshold:g}")  # the name tells all of it


def exact(question: Question, answer: str) -> bool:
    """Tell whether an answer is one of the references, but for case, punctuation, articles and white space.

    >>> one = Question("q", "Who?", ("The Who",), ())
    >>> exact(one, "who!"), exact(one, "Queen")
    (True, False)
    """
    return any(_same(reference, answer) for reference in question.references)


def token_f1(question: Question, answer: str) -> float:
    """Return the harmonic mean of the precision and recall of an answer's words, for the reference it suits best.

    Counts are divided once, so that a share of four in five is the double .8 exactly. An answer or reference of yes,
    no or noanswer is as good as it is exact; so is one that has no words.

    >>> token_f1(Question("q", "Who?", ("Mary Ann Evans", "George Eliot"), ()), "Mary Evans")
    0.8
    """
    return max((_f1(reference, answer) for reference in question.references), default=0.0)


def _f1(reference: str, answer: str) -> float:
    ours, theirs = bare(reference), bare(answer)
    if not (ours and theirs) or ours in _CLOSED or theirs in _CLOSED:
        return float(_same(reference, answer))
    expected, found = ours.split(), theirs.split()
    return 2 * (Counter(expected) & Counter(found)).total() / (len(expected) + len(found))


def _same(reference: str, answer: str) -> bool:
    ours, theirs = bare(reference), bare(answer)
    if ours and theirs:
        return ours == theirs
    # Nothing is left of "A", "the" or "!": then the words themselves must agree, or any article would be right.
    return _spaced(reference) == _spaced(answer) != ""


def _spaced(text: str) -> str:
    return " ".join(text.lower().split())
