"""Searching: what a turn, and a model that asks, look through, and from which scores on it counts."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from edgemem.context.block.select import Floors
from edgemem.records import Kind

if TYPE_CHECKING:
    from edgemem.config import InjectionSettings, Profile
    from edgemem.hooks.conversation import Conversation
    from edgemem.records import Reader

SIGHTS: tuple[frozenset[Kind], ...] = (
    frozenset(("fact", "preference")),
    frozenset(("note",)),
    frozenset(("episode", "turn")),
)
"""What a turn recalls apart: turns and notes are many and long, and would leave no place for the few facts. A summary is
too long for a block, and says what turns say."""

LOOKED_UP: tuple[frozenset[Kind], ...] = (*SIGHTS, frozenset(("summary",)))
"""What a model looks through when it asks."""


def searching(profile: Profile, conversation: Conversation, reader: Reader | None) -> dict[str, Any]:
    """Return how to search for a reader's next turn, given what the prompt holds now."""
    # A copy: while somebody speaks, the layout is still that of the reader before.
    layout = copy(conversation.layout)
    layout.reader = reader
    visible, floors = layout.visible(), floors_of(profile.injection)
    return {
        "reader": reader,
        "asked": False,
        # A turn that only asks is left out behind this, and must not have taken the place of one that tells.
        "k": 2 * profile.recall.k,
        "apart": SIGHTS,
        "min_score": floors.lowest,
        "deadline_s": profile.recall.deadline_ms / 1e3,
        "exclude": visible.others,
        # A fact that the prompt holds is still the best answer: without it, a worse one would be said.
        "known": visible.valued,
        "skip_turns": (layout.session, layout.visible_turns()),
        "called": profile.called(),
    }


def floors_of(injection: InjectionSettings) -> Floors:
    """Return the least scores at which something is put before the model."""
    return Floors(injection.min_score, injection.min_safety_score)
