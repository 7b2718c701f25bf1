"""Files as tools: NOTES.md, and those of the bank, that a model keeps for the people who speak.

A bank path is the speaker's own, in the session's topic; `household/…` is everybody's here, `shared/…` anyone's. Names and
answers of the bank's tools are Cognitia's.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from edgemem.context.block.render import Today, day_of
from edgemem.errors import EdgememError, InvalidInputError, MemoryBankViolation
from edgemem.fence import clean, clean_result
from edgemem.recall.text.analyse import language_in
from edgemem.records import BANK_TOOLS, NOTES, REMEMBER_FACT, SEARCH_MEMORY, BlockLine
from edgemem.scopes import name_key
from edgemem.session.memory_block import shown_line
from edgemem.session.tools import Tool, asked_in
from edgemem.store.bank.rules import HOUSEHOLD, SHARED
from edgemem.store.rights import readable

if TYPE_CHECKING:
    from edgemem.clock import Clock
    from edgemem.config import Settings
    from edgemem.scopes import Level
    from edgemem.session.tools import ToolTurn
    from edgemem.store.bank.bank import MemoryBank, ScopedBank
    from edgemem.store.notes import NotesFile

    _Json = dict[str, Any]

_NOTES_ABOUT = "Read or write notes."
_NOTES_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"action": {"type": "string", "enum": ["read", "write"]}, "text": {"type": "string"}},
    "required": ["action"],
}
_NO_NOTES = "Refused: nobody knows who is speaking, and the notes are for the people of this home."
_PRIVATE = f"Refused: notes are read by others too, and that is private. Use {REMEMBER_FACT} with scope me."
_OLDER = f"(older notes are left out; {SEARCH_MEMORY} finds them)"
_NAME_CHARS = 80
_READ_CHARS = 1500  # of one call

_WHERE = "a.md is the speaker's own, household/a.md everybody's here, shared/a.md anyone's."
_TEXT = {"type": "string"}
_PATH = {"path": _TEXT}
SCHEMAS: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "memory_read": ("Read a file.", {"path": {**_TEXT, "description": _WHERE}}, ["path"]),
    "memory_write": ("Write a file.", {**_PATH, "content": _TEXT}, ["path", "content"]),
    "memory_append": ("Append to a file.", {**_PATH, "content": _TEXT}, ["path", "content"]),
    "memory_list": ("List files.", {"prefix": _TEXT}, []),
    "memory_delete": ("Delete a file.", _PATH, ["path"]),
}
"""Each tool's description for the model, and its required arguments; every word is paid for in every prompt."""
_HEADS: dict[str, Level] = {HOUSEHOLD: "household", SHARED: "shared"}
_STRANGER = "Refused: nobody knows who is speaking; only files below shared/ can be used."
_OVERHEARD = "Refused: others are listening, and these files are the speaker's alone."
_CLOSER = (
    "Refused: others would read it there, and that is private. Use a path without household/ or shared/."
)


def as_texts(name: str, schema: dict[str, Any], arguments: dict[str, Any]) -> dict[str, str]:
    """Return a call's arguments, by a `schema` that is all text, as text; models like to give numbers and lists.

    Raise InvalidInputError where one is missing, unknown or no text.
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


def notes_tool(notes: NotesFile, *, clock: Clock, settings: Settings, speaker: str | None = None) -> Tool:
    """Return the tool with which a model reads NOTES.md and adds to it, as the file's level allows.

    `speaker` counts where the loop names none (None: an unknown voice); `[tools] max_chars` bounds a note.
    """

    def run(turn: ToolTurn | None = None, /, **arguments: Any) -> str:
        texts = as_texts(NOTES, _NOTES_SCHEMA, arguments)
        action = texts["action"]
        if action not in ("read", "write"):
            raise InvalidInputError(f"action must be read or write, not {action!r:.40}.")
        max_chars = settings.now.tools.max_chars
        text = clean(texts.get("text", ""), max_chars=max_chars + 1)
        if action == "write" and not 0 < len(text) <= max_chars:
            raise InvalidInputError(f"A note has 1 to {max_chars} characters; say in text what to note.")
        turn = asked_in(turn, speaker)
        if not readable(turn.reader, notes.level, None):
            return _NO_NOTES
        if action == "read":
            return _read_notes(notes, turn)
        if turn.is_private or turn.level_of_write(notes.level, text) != notes.level:
            return _PRIVATE
        name = None if turn.is_inner else turn.reader.speaker
        who = f"said by {clean(name, max_chars=_NAME_CHARS)}, " if name else ""
        today = Today(zone=settings.now.time.tzinfo(), language=language_in(turn.utterance))
        line = f"- {text} [{who}{day_of(clock.now(), today, text=text)}]"
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


def bank_tools(bank: MemoryBank, *, speaker: str | None = None) -> list[Tool]:
    """Return the five tools within the rights of the speaker.

    `speaker` counts where the loop names none; None: an unknown voice, which has shared files only.
    """

    def act(turn: ToolTurn, name: str, path: str = "", content: str | None = None, prefix: str = "") -> _Json:
        if name == "memory_list":
            return answer_of(name, path, _list(bank, turn, prefix))
        place, inner = _open(bank, turn, path, content)
        return answer_of(name, path, methods_of(place)[name](inner, *([] if content is None else [content])))

    def tool(name: str) -> Tool:
        about, properties, required = SCHEMAS[name]
        schema = {"type": "object", "properties": properties, "required": required}

        def call(turn: ToolTurn | None = None, /, **arguments: Any) -> str:
            try:
                answer = act(asked_in(turn, speaker), name, **as_texts(name, schema, arguments))
            except EdgememError as error:
                answer = {"status": "error", "message": str(error)}
            return clean_result(json.dumps(answer, ensure_ascii=False))

        return Tool(name, about, schema, call, wants_turn=True)

    return [tool(name) for name in BANK_TOOLS]


def methods_of(bank: Any) -> dict[str, Callable[..., Any]]:
    """Return what each tool calls of a bank, which may be anybody's."""
    methods = bank.read_file, bank.write_file, bank.append_to_file, bank.list_files, bank.delete_file
    return dict(zip(BANK_TOOLS, methods, strict=True))


def answer_of(name: str, path: str, result: Any) -> _Json:
    """Return what a tool answers, by what the bank returned."""
    if name == "memory_list":
        return {"status": "ok", "files": result}
    if name == "memory_read":
        return (
            {"status": "not_found", "path": path}
            if result is None
            else {"status": "ok", "content": result, "path": path}
        )
    return {"status": "ok", "path": path}


def _list(bank: MemoryBank, turn: ToolTurn, prefix: str) -> list[str]:
    """Return the paths that the speaker may use; the turn becomes as closed as what it is told."""
    paths = []
    for head in ("", f"{HOUSEHOLD}/", f"{SHARED}/"):
        part, level = _of(bank, turn, head)
        inside = [] if part is None else [f"{head}{path}" for path in part.list_files()]
        if listed := [path for path in inside if path.startswith(prefix)]:
            paths += listed
            turn.close(level)
    return paths


def _open(bank: MemoryBank, turn: ToolTurn, path: str, content: str | None) -> tuple[ScopedBank, str]:
    """Return the bank of a path and the path in it, and close the turn to its level; raise MemoryBankViolation where refused."""
    part, level = _of(bank, turn, path)
    if part is None:
        raise MemoryBankViolation(_OVERHEARD if turn.reader.is_recognised else _STRANGER, path=path)
    name = path.removesuffix(".md")
    if (content is not None and level != "private") and (
        turn.is_private or turn.level_of_write(level, name, content) != level
    ):
        raise MemoryBankViolation(_CLOSER, path=path)
    # Text for a file of their own is kept for the speaker alone.
    turn.close(level, utterance=content is not None and level == "private")
    return part, path if level == "private" else path.partition("/")[2]


def _of(bank: MemoryBank, turn: ToolTurn, path: str) -> tuple[ScopedBank | None, Level]:
    """Return the bank of a path, and who may read it; None: not this speaker."""
    head, slash, _ = path.partition("/")
    level = _HEADS.get(name_key(head) if slash else "", "private")
    owner = (turn.reader.speaker or None) if level == "private" else None
    if not readable(turn.reader, level, owner):
        return None, level
    if owner is None:
        return bank.for_scope(level, ""), level
    topic = turn.log.prompt_log.session if turn.log is not None else ""
    return bank.for_person(owner, topic or "default"), level
