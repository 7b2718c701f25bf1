"""Who may read which turn, kept in a session's state where the session store knows messages only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.context.level import joined
from edgemem.context.messages import split_turns
from edgemem.records import Level, Turn
from edgemem.store.messages import stored_message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.context.prompt.log import PromptLog
    from edgemem.records import Message

STATE_KEY = "edgemem_turns"

_Turns = list[tuple[int, Level, str | None]]
"""Of each turn: how many messages it has, its level, and its owner."""


def with_levels(state: dict[str, Any], layout: PromptLog) -> dict[str, Any]:
    """Return what is kept of a state, and with it who may read the turns, unless all are as usual.

    Names that begin with two underscores belong to the running process.
    """
    kept = {name: value for name, value in state.items() if not str(name).startswith("__")}
    turns: _Turns = [(len(turn.messages), turn.level, turn.owner) for turn in layout.turns]
    if all(level == layout.default_level for _, level, _ in turns):
        return kept
    return {**kept, STATE_KEY: turns}


def turns_of(session: str, messages: Sequence[Message], state: dict[str, Any], default: Level) -> list[Turn]:
    """Return what was kept as turns, so that what comes now is the newest one, each for whom it was meant.

    Args:
        state: as it was kept; what `with_levels` put there is taken out.
        default: the level of turns that nothing is known of.
    """
    try:
        kept = msgspec.convert(state.pop(STATE_KEY, []), _Turns, strict=False)
    except msgspec.ValidationError:
        kept = []
    cut: list[Sequence[Message]] = []
    if kept and sum(size for size, _, _ in kept) == len(messages):
        at = 0
        for size, _, _ in kept:
            cut.append(messages[at : at + size])
            at += size
    else:
        # Somebody has changed the messages: all of them are as closed as the most private of them was.
        cut = list(split_turns(messages)[1])
        closing = joined([(default, None), *(each[1:] for each in kept)])
        kept = [(0, *closing)] * len(cut)
    return [
        Turn(session, n, tuple(stored_message(message) for message in said), level=level, owner=owner)
        for n, (said, (_, level, owner)) in enumerate(zip(cut, kept, strict=True))
        if said
    ]
