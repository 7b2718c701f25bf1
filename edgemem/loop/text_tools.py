"""Two tools of the memory that read long texts: `notes` (NOTES.md), and `read_more` (results that were shortened)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem.context.block.render import BlockLine, day_of
from edgemem.errors import InvalidInputError
from edgemem.fence import clean
from edgemem.hooks.notes_injector import shown_line
from edgemem.loop.toolbox import Tool, ToolTurn, as_texts, asked_in
from edgemem.records import NOTES, READ_MORE, REMEMBER_FACT, SEARCH_MEMORY
from edgemem.store.rights import LEVELS, readable
from edgemem.store.turn_steps import KeepOutput
from edgemem.store.turns import ToolOutput, read_output

if TYPE_CHECKING:
    from edgemem.clock import Clock
    from edgemem.config import Settings
    from edgemem.store.db.database import Database
    from edgemem.store.notes import NotesFile

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

_MORE_ABOUT = "Read on in a shortened result."
_MORE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "pointer": {"type": "string", "description": "As the result says."},
        "start": {"type": "integer", "description": "First character."},
    },
    "required": ["pointer"],
}


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
        layout, closing = turn.layout, (notes.level, None)
        if turn.private or (layout is not None and layout.level_as(closing, text)[0] != notes.level):
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


def read_more_tool(database: Database, *, speaker: str | None = None) -> Tool:
    """Return the tool with which a model reads on in a shortened result; whoever may read the result's turn may read it.

    Args:
        speaker: who speaks where the loop does not say it; None: an unknown voice.
    """

    def read_more(turn: ToolTurn | None = None, /, pointer: Any = "", start: Any = 0) -> str:
        pointer = str(pointer).strip().lower()
        try:
            first = max(0, int(start or 0))
        except (TypeError, ValueError):
            raise InvalidInputError("start must be the number of a character.") from None
        turn = asked_in(turn, speaker)
        output = _unwritten_output(turn, pointer, first)
        if output is None:
            output = read_output(database, pointer, start=first, length=_READ_CHARS, reader=turn.reader)
            if output is None:
                return "Nothing is kept under that name that this speaker may read."
            # The turn becomes as private as the one that it quotes.
            turn.note_shown([BlockLine(f"output:{pointer}", "", LEVELS[output.level], output.owner)])
        if not output.text:
            return f"There is no more: it has {output.of:,} characters."
        end = output.start + len(output.text)
        more = f"; go on with start {end}" if end < output.of else ""
        return f"{output.text}\n… (characters {output.start} to {end} of {output.of}{more})"

    return Tool(READ_MORE, _MORE_ABOUT, _MORE_SCHEMA, read_more, wants_turn=True)


def _unwritten_output(turn: ToolTurn, pointer: str, start: int) -> ToolOutput | None:
    """Return a part of a result of this very turn, which is written when the turn ends."""
    for step in turn.conversation.also if turn.conversation is not None else ():
        if isinstance(step, KeepOutput) and step.pointer == pointer:
            return ToolOutput(step.text[start : start + _READ_CHARS], start, len(step.text), 0, None)
    return None
