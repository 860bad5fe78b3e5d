"""The nouns that several rooms share: frozen, standard library only."""

from enum import IntEnum


class Action(IntEnum):
    """What a controller does at one depth of evidence."""

    COMMIT = 0
    RETRIEVE = 1
    ABSTAIN = 2
    ESCALATE = 3
