"""What `bench early` has people say to a robot that remembers ten weeks, and how recognisers hear it word by word."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

from edgemem.bench.corpus import SPEAKER, known
from edgemem.bench.weeks import weeks
from edgemem.bench.weeks_dice import Dice
from edgemem.records import Heard, StoredMessage
from edgemem.records import Turn as StoredTurn
from edgemem.store.turns import commit_turn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from edgemem.bench.weeks_talk import Turn
    from edgemem.store.transaction import Transaction

FACTS = known(200)
"""What is remembered beside the weeks."""

Form = Literal["written", "plain", "marked at the end"]
"""How a recogniser writes: with case and punctuation; without any; or without, until the sentence is over."""

FORMS: tuple[Form, ...] = ("written", "plain", "marked at the end")


class Utterance(NamedTuple):
    """What somebody says, and how it is heard."""

    speaker: str
    partials: tuple[str, ...]
    """What has been heard after each word."""
    text: str
    """What is heard when it is over."""


def utterances_in(form: Form, n: int) -> Iterator[Utterance]:
    """Yield questions about the weeks, about facts, and what people say, in turn, as a recogniser of this form hears them."""
    dice = Dice(f"early {form}")
    asked = [(question.asker, question.text) for question in weeks().questions]
    # Other weeks: what is stored already would be a question about itself.
    said = [(turn.speaker or "", turn.text) for turn in weeks(2).turns if turn.role == "user"]
    facts = [(SPEAKER, fact.question) for fact in FACTS]
    third = -(-n // 3)
    some = zip(*(dice.shuffled(each)[:third] for each in (asked, facts, said)), strict=True)
    for speaker, text in [each for three in some for each in three][:n]:
        plain = " ".join(re.sub(r"[^\w' -]", " ", text.lower()).split())
        words = (text if form == "written" else plain).split()
        partials = tuple(" ".join(words[: end + 1]) for end in range(len(words)))
        yield Utterance(speaker, partials, plain if form == "plain" else text)


def store_weeks(tx: Transaction, messages: int) -> None:
    """Store so many messages of the weeks as turns: each begins with what a person says."""
    for record in _turns(weeks().turns[:messages]):
        commit_turn(tx, record)


def _turns(messages: Sequence[Turn]) -> Iterator[StoredTurn]:
    session, number, held = "", 0, list[StoredMessage]()
    speaker: str | None = None

    def turn() -> StoredTurn:
        return StoredTurn(session, number, tuple(held), owner=speaker, heard=Heard(speaker=speaker))

    for message in messages:
        if held and (message.session != session or message.role == "user"):
            yield turn()
            number, held = number + 1, []
        if message.session != session:
            session, number = message.session, 0
        if message.role == "user":
            speaker = message.speaker
        # A tool's outcome is told as the robot's here: there is no call that it would belong to.
        role = "user" if message.role == "user" else "assistant"
        held.append(StoredMessage(role, message.text))
    if held:
        yield turn()
