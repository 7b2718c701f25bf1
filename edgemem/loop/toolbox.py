"""The toolbox: the tools of an agent, and how the calls of its model are carried out, with the hooks around each call.

`notes_tool` is the tool of the memory that reads and writes NOTES.md.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from edgemem.context.block.render import day_of
from edgemem.errors import InvalidInputError
from edgemem.fence import clean
from edgemem.records import (
    NOTES,
    REMEMBER_FACT,
    SEARCH_MEMORY,
    BlockLine,
)
from edgemem.session.memory_block import shown_line
from edgemem.session.tools import Tool, ToolTurn, asked_in
from edgemem.store.rights import readable

if TYPE_CHECKING:
    from edgemem.clock import Clock
    from edgemem.config import Settings
    from edgemem.store.notes import NotesFile


def as_texts(name: str, schema: dict[str, Any], arguments: dict[str, Any]) -> dict[str, str]:
    """Return the arguments of a call as text; models like to give numbers and lists.

    Args:
        name: of the tool.
        schema: of its arguments, which are all text.

    Raises:
        InvalidInputError: an argument is missing, unknown or no text.
    """
    properties = schema["properties"]
    unknown = [key for key in arguments if key not in properties]
    if unknown:
        raise InvalidInputError(f"{name} takes {', '.join(properties)}; there is no {unknown[0]!r:.80}.")
    texts = {key: _as_text(key, value) for key, value in arguments.items() if value is not None}
    missing = [key for key in schema["required"] if key not in texts]
    if missing:
        raise InvalidInputError(f"{name} needs {' and '.join(missing)}.")
    return texts


def _as_text(key: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, (str, int, float)) for item in value):
        return ", ".join(map(str, value))
    if isinstance(value, (bool, int, float)):
        return json.dumps(value)
    raise InvalidInputError(f"{key} must be text, not {type(value).__name__}.")


_NOTES_ABOUT = "Read the notes of this home, or write one for everybody here."
_NOTES_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "action": {"type": "string", "enum": ["read", "write"]},
        "text": {"type": "string", "description": "What to write."},
    },
    "required": ["action"],
}
_STRANGER = "Refused: nobody knows who is speaking, and the notes are for the people of this home."
_PRIVATE = f"Refused: notes are read by others too, and that is private. Use {REMEMBER_FACT} with scope me."
_OLDER = f"(older notes are left out; {SEARCH_MEMORY} finds them)"
_NAME_CHARS = 80
_READ_CHARS = 1500
"""What one call reads at most."""


def notes_tool(notes: NotesFile, *, clock: Clock, settings: Settings, speaker: str | None = None) -> Tool:
    """Return the tool with which a model reads NOTES.md and adds to it; the file's level says who may.

    Args:
        clock: dates what is written.
        speaker: who speaks where the loop does not say it; None: an unknown voice.
        settings: `[tools] max_chars` bounds a note that is written.
    """

    def run(turn: ToolTurn | None = None, /, **arguments: Any) -> str:
        texts = as_texts(NOTES, _NOTES_SCHEMA, arguments)
        action = texts["action"]
        if action not in ("read", "write"):
            raise InvalidInputError(f"action must be read or write, not {action!r:.40}.")
        max_chars = settings.now.tools.max_chars
        text = clean(texts.get("text", ""), max_chars=max_chars + 1)
        if action == "write" and not 0 < len(text) <= max_chars:
            raise InvalidInputError(
                f"A note has 1 to {max_chars} characters; say in text what shall be noted."
            )
        turn = asked_in(turn, speaker)
        if not readable(turn.reader, notes.level, None):
            return _STRANGER
        if action == "read":
            return _read_notes(notes, turn)
        if turn.is_private or turn.level_of_write(notes.level, text) != notes.level:
            return _PRIVATE
        name = turn.reader.speaker
        who = f"said by {clean(name, max_chars=_NAME_CHARS)}, " if name else ""
        line = f"- {text} [{who}{day_of(clock.now())}]"
        notes.append(line)
        _note_lines(turn, notes, [line])
        return f"Noted: {text}."

    return Tool(NOTES, _NOTES_ABOUT, _NOTES_SCHEMA, run, wants_turn=True)


def _read_notes(notes: NotesFile, turn: ToolTurn) -> str:
    tail = notes.tail(_READ_CHARS)
    lines = [shown for line in tail.splitlines() if (shown := shown_line(line))]
    if not lines:
        return "There are no notes."
    _note_lines(turn, notes, lines)
    return "\n".join([_OLDER, *lines] if len(notes.read()) > len(tail) + 1 else lines)


def _note_lines(turn: ToolTurn, notes: NotesFile, lines: list[str]) -> None:
    turn.note_shown(BlockLine(f"note:{shown_line(line)}", "", notes.level) for line in lines)
