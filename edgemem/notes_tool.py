"""notes: the tool with which a model reads NOTES.md and writes into it, as far as whoever speaks may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem.context.block.render import BlockLine, day_of
from edgemem.errors import InvalidInputError
from edgemem.fence import clean
from edgemem.hooks.conversation import STATE_KEY, Conversation
from edgemem.hooks.notes_injector import shown_line
from edgemem.rights import SCOPES, Rights
from edgemem.store.rights import readable
from edgemem.tool_schemas import checked
from edgemem.toolbox import Tool, ToolTurn

if TYPE_CHECKING:
    from edgemem.clock import Clock
    from edgemem.context.prompt.log import PromptLog
    from edgemem.store.notes import NotesFile

NAME = "notes"

_ABOUT = "Read the notes of this home, or write one for everybody here."
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "action": {"type": "string", "enum": ["read", "write"]},
        "text": {"type": "string", "description": "What to write."},
    },
    "required": ["action"],
}

_STRANGER = "Refused: nobody knows who is speaking, and the notes are for the people of this home."
_PRIVATE = "Refused: notes are read by others too, and that is private. Use remember_fact with scope me."
_NONE = "There are no notes."
_MORE = "(older notes are left out; search_memory finds them)"
_NAME_CHARS = 80


def notes_tool(
    notes: NotesFile,
    *,
    clock: Clock,
    speaker: str | None = None,
    max_chars: int = 500,
    told_chars: int = 1500,
) -> Tool:
    """Return the tool; the file's level says who may read and write it.

    Args:
        clock: dates what is written.
        speaker: who speaks where the loop does not say it; None: an unknown voice.
        max_chars: the longest note that is written.
        told_chars: the most that is read at once, from the end.
    """
    rights = Rights(speaker=speaker, scope=SCOPES[notes.level])

    def run(turn: ToolTurn | None = None, /, **arguments: Any) -> str:
        given = checked(NAME, _SCHEMA, arguments)
        if given["action"] not in ("read", "write"):
            raise InvalidInputError(f"action must be read or write, not {given['action']!r:.40}.")
        text = clean(given.get("text", ""), max_chars=max_chars + 1)
        if given["action"] == "write" and not 0 < len(text) <= max_chars:
            raise InvalidInputError(
                f"A note has 1 to {max_chars} characters; say in text what shall be noted."
            )
        reader = rights.reader(turn)
        if not readable(reader, notes.level, None):
            return _STRANGER
        if given["action"] == "read":
            return _read(notes, turn, told_chars)
        layout = _layout_of(turn)
        if turn is not None and turn.private:
            return _PRIVATE
        if layout is not None and layout.level_as((notes.level, None), text)[0] != notes.level:
            return _PRIVATE
        who = f"said by {clean(reader.speaker, max_chars=_NAME_CHARS)}, " if reader.speaker else ""
        line = f"- {text} [{who}{day_of(clock.now())}]"
        notes.append(line)
        _put(layout, notes, [line])
        return f"Noted: {text}."

    return Tool(NAME, _ABOUT, _SCHEMA, run, wants_turn=True)


def _read(notes: NotesFile, turn: ToolTurn | None, most: int) -> str:
    tail = notes.tail(most)
    lines = [shown for line in tail.splitlines() if (shown := shown_line(line))]
    if not lines:
        return _NONE
    _put(_layout_of(turn), notes, lines)
    return "\n".join([_MORE, *lines] if len(notes.read()) > len(tail) + 1 else lines)


def _put(layout: PromptLog | None, notes: NotesFile, lines: list[str]) -> None:
    """Have the turn know what stands in it now: it is as closed as the notes, and need not be told them again."""
    for line in lines if layout is not None else ():
        item = BlockLine(f"note:{shown_line(line)}", "", notes.level)
        layout.put(f"tool {item.id}", [item])  # type: ignore[union-attr]  # there are no lines without it


def _layout_of(turn: ToolTurn | None) -> PromptLog | None:
    conversation = turn.session.state.get(STATE_KEY) if turn is not None else None
    if isinstance(conversation, Conversation) and conversation.layout.running is not None:
        return conversation.layout
    return None
