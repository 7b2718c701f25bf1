"""read_more: the tool with which a model reads on in a tool's result that was shortened for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem.context.block.render import BlockLine
from edgemem.errors import InvalidInputError
from edgemem.hooks.conversation import STATE_KEY, Conversation
from edgemem.records import Reader
from edgemem.store.rights import LEVELS
from edgemem.store.tool_outputs import ToolOutput, read_output
from edgemem.store.turn_steps import KeepOutput
from edgemem.toolbox import Tool, ToolTurn

if TYPE_CHECKING:
    from edgemem.store.database import Database

NAME = "read_more"

_ABOUT = "Read on in a shortened result."
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "pointer": {"type": "string", "description": "As the result says."},
        "start": {"type": "integer", "description": "First character."},
    },
    "required": ["pointer"],
}


def read_more_tool(database: Database, *, speaker: str | None = None, max_chars: int = 1500) -> Tool:
    """Return the tool; a result is told to whoever may be told its turn.

    Args:
        speaker: who speaks where the loop does not say it; None: an unknown voice.
        max_chars: the most that one call tells.
    """

    def read_more(turn: ToolTurn | None = None, /, pointer: Any = "", start: Any = 0) -> str:
        name, first = str(pointer).strip().lower(), _whole(start)
        found = _running(turn, name, first, max_chars)
        if found is None:
            found = read_output(database, name, start=first, length=max_chars, reader=_reader(turn, speaker))
            if found is not None:
                _mark(turn, name, found)
        if found is None:
            return "Nothing is kept under that name that this speaker may read."
        end = found.start + len(found.text)
        if not found.text:
            return f"There is no more: it has {found.of:,} characters."
        more = f"; go on with start {end}" if end < found.of else ""
        return f"{found.text}\n… (characters {found.start} to {end} of {found.of}{more})"

    return Tool(NAME, _ABOUT, _SCHEMA, read_more, wants_turn=True)


def _whole(start: Any) -> int:
    try:
        return max(0, int(start or 0))
    except (TypeError, ValueError):
        raise InvalidInputError("start must be the number of a character.") from None


def _reader(turn: ToolTurn | None, speaker: str | None) -> Reader:
    if turn is None:
        return Reader(speaker)
    return Reader(turn.reader.speaker or speaker, turn.reader.audience)


def _running(turn: ToolTurn | None, pointer: str, start: int, length: int) -> ToolOutput | None:
    """Return a part of what a tool of this very turn answered, which is written when the turn ends."""
    conversation = turn.session.state.get(STATE_KEY) if turn is not None else None
    if isinstance(conversation, Conversation):
        for step in conversation.also:
            if isinstance(step, KeepOutput) and step.pointer == pointer:
                return ToolOutput(step.text[start : start + length], start, len(step.text), 0, None)
    return None


def _mark(turn: ToolTurn | None, pointer: str, found: ToolOutput) -> None:
    """Make this turn as private as the one that it quotes."""
    conversation = turn.session.state.get(STATE_KEY) if turn is not None else None
    if isinstance(conversation, Conversation) and conversation.layout.running is not None:
        item = BlockLine(f"output:{pointer}", "", LEVELS[found.level], found.owner)
        conversation.layout.put(f"tool {item.id}", [item])  # without a line: the prompt stays as it is
