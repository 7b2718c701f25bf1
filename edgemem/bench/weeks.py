"""A household robot's ten weeks, made from a seed: what was said, and 400 questions with the messages that answer them.

People tell the robot where things are, codes, prices, plans and what went wrong; much of it is superseded later. They
dictate notes, have things looked up, and chat about the same things and people without saying anything. Afterwards
they ask, mostly in other words. The same seed and forms give the same bytes on every Python.
"""

from __future__ import annotations

import msgspec

from edgemem.bench.weeks_facts import facts
from edgemem.bench.weeks_forms import FormSet, forms_of
from edgemem.bench.weeks_questions import Asking, Question
from edgemem.bench.weeks_talk import Talk, Turn

__all__ = ["FormSet", "Question", "Turn", "Weeks", "weeks"]


class Weeks(msgspec.Struct, frozen=True):
    """What was said, and what is asked after it."""

    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]


def weeks(seed: int = 1, forms: FormSet = "learnt") -> Weeks:
    """Return the weeks of a household.

    Args:
        seed: decides what is true, who says it, and who asks; the same facts for both sets of forms.
        forms: in which words: weights are learnt on `learnt` and reported on `unseen`.
    """
    true, said = facts(seed), forms_of(forms)
    talk = Talk(said, true, seed)
    return Weeks(tuple(talk.turns), tuple(Asking(said, true, talk.tellings, seed).questions()))
