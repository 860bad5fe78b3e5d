"""Normalizing and tokenizing text, wherever the method fixes how."""

import re
import string
from functools import lru_cache

_RUN = re.compile(r"[a-z0-9]+")
_TOKEN = re.compile(r"[A-Za-z0-9]+")

_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)

MARKERS = ("same", "both", "whose", "which", "who was", "before", "after")


def normalized(text: str) -> str:
    """Return the lower-cased `[a-z0-9]+` runs of a text, joined by single spaces.

    >>> normalized("Who wrote  'Ulysses'?")
    'who wrote ulysses'
    """
    return " ".join(_RUN.findall(text.lower()))


def whole(text: str) -> str:
    r"""Return a text that UTF-8 can hold: two halves of a character are joined, a lone one becomes U+FFFD.

    >>> whole("a\ud83d\ude00b"), whole("a\ud800b") == "a\ufffdb"
    ('a😀b', True)
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def bare(answer: str) -> str:
    """Return an answer as the scripts of SQuAD and HotpotQA compare it: without case, punctuation and articles.

    Lower-cased; ASCII punctuation deleted, so that words it joins become one; the words a, an, the dropped; white
    space as single spaces. Accents and other marks of punctuation count.

    >>> bare(" The  U.S.-based “Who”, an act ")
    'usbased “who” act'
    """
    return " ".join(_ARTICLE.sub(" ", answer.lower().translate(_NO_PUNCTUATION)).split())


def tokens(text: str) -> list[str]:
    """Return the `[A-Za-z0-9]+` runs of a text, as the adaptive proxy counts them.

    >>> tokens("Is it A-1?")
    ['Is', 'it', 'A', '1']
    """
    return _TOKEN.findall(text)


def markers(text: str) -> int:
    """Return how many distinct multi-hop markers occur in a text, as substrings of its lower case.

    >>> markers("Which was built before, and which after?")
    3
    """
    lowered = text.lower()
    return sum(marker in lowered for marker in MARKERS)


@lru_cache(maxsize=1 << 14)
def proxy_depth(question: str) -> int:
    """Return how deep the adaptive proxy goes for a question (Section 6).

    >>> proxy_depth("Who wrote Ulysses?"), proxy_depth("In which year was he born?")
    (1, 2)
    """
    count, distinct = len(tokens(question)), markers(question)
    if count >= 18 or distinct >= 2:
        return 3
    return 2 if count >= 9 or distinct == 1 else 1
