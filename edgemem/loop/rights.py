"""Rights: which scopes whoever speaks may name to a tool, and whose facts they may change (law 7 of the design)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from edgemem.errors import EdgememError, InvalidInputError
from edgemem.fence import check_key
from edgemem.records import Episode, Fact, Reader
from edgemem.scopes import (
    PLACE,
    Level,
    checked_scope,
    is_known_form,
    level_of_scope,
    name_key,
    scope_of,
    without_spaces,
)
from edgemem.store.rights import readable

if TYPE_CHECKING:
    from edgemem.loop.toolbox import ToolTurn

MYSELF = "me"
"""The scope of whoever speaks."""

SCOPES: dict[Level, str] = {"shared": "global", "household": "household", "private": MYSELF}
"""Where something goes that shall be as open as a level."""


class RefusedError(EdgememError):
    """The speaker may not do this, or did not mean it; told to the model as an answer."""


class Rights:
    """What the people who speak to one agent may do.

    Args:
        speaker: who speaks where the turn does not say it; None: an unknown voice.
        scope: returns where a fact goes if nothing is said of it; what a stranger says goes to `global` at most.
        places: rooms that facts may be about.
    """

    def __init__(self, *, speaker: str | None, scope: Callable[[], str], places: Iterable[str] = ()) -> None:
        self._speaker = speaker
        self._scope = scope
        places = [checked_scope(f"{PLACE}{place}") for place in places]
        self.scopes: Sequence[str] = ("global", "household", MYSELF, *places)
        """What the schema offers: the same for every speaker, because it stands in the prompt's head."""

    def reader(self, turn: ToolTurn | None) -> Reader:
        """Return who asks, and who hears the answer."""
        if turn is None:
            return Reader(self._speaker)
        return Reader(turn.reader.speaker or self._speaker, turn.reader.audience)

    def to_write(self, scope: str | None, turn: ToolTurn | None) -> str:
        """Return where a fact goes; what is said in private stays there, whatever the model asks for."""
        who = self.reader(turn).key
        if turn is not None and turn.private:
            return self.to_read(MYSELF, turn)
        if scope is None:
            usual = self._scope()
            scope = usual if who or level_of_scope(usual)[0] == "shared" else "global"
        return self.to_read(scope, turn)

    def to_read(self, scope: str, turn: ToolTurn | None) -> str:
        """Return a scope as it is stored, if it is one that the speaker may use."""
        check_key(scope, what="a scope")
        reader = self.reader(turn)
        if scope.strip() == MYSELF:
            if not reader.key:
                raise RefusedError(
                    "Refused: nobody knows who is speaking, so nothing private is kept or told."
                )
            return scope_of(reader.speaker or "")
        scope = without_spaces(scope)
        if not is_known_form(scope):
            raise InvalidInputError(f"There is no scope {scope!r:.80}; use one of {', '.join(self.scopes)}.")
        level, owner = level_of_scope(scope)
        if owner is not None and name_key(owner) != reader.key:
            raise RefusedError("Refused: that belongs to somebody else, so it is neither told nor changed.")
        if level == "household" and not reader.key:
            raise RefusedError("Refused: nobody knows who is speaking, so only the scope global can be used.")
        return scope

    def check_owner(self, versions: Iterable[Fact], turn: ToolTurn | None) -> None:
        """Raise RefusedError where something that was ever said under a name is somebody else's."""
        speaker = Reader(self.reader(turn).speaker)
        if not all(readable(speaker, *closed_to(version)) for version in versions):
            raise RefusedError(
                "Refused: that name is taken by what belongs to somebody else. Use another name."
            )

    def check_erasable(self, versions: Iterable[Fact | Episode], turn: ToolTurn | None) -> None:
        """Raise RefusedError where an unknown voice would erase what a recognised speaker said.

        It may say otherwise, as anybody may of what is shared: then history keeps both, and who said what.
        """
        if self.reader(turn).speaker:
            return
        if any(version.heard is not None and version.heard.speaker for version in versions):
            raise RefusedError(
                "Refused: nobody knows who is speaking, and somebody whom the robot knows said that. Nothing was erased."
            )


def closed_to(fact: Fact) -> tuple[Level, str | None]:
    """Return who may read a fact; where a store knows only scopes, a scope that is closed closes it."""
    return level_of_scope(fact.scope) if fact.level == "shared" else (fact.level, fact.owner)
