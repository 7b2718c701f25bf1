"""The bank as tools: files that a model keeps for whoever speaks, with the names and answers of Cognitia's.

A path is of the speaker's own bank, in the topic of the session; `household/…` and `shared/…` are everybody's here, and anyone's.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from edgemem.errors import EdgememError, MemoryBankViolation
from edgemem.loop.toolbox import as_texts
from edgemem.records import BANK_TOOLS
from edgemem.scopes import name_key
from edgemem.session.tools import Tool, asked_in
from edgemem.store.bank.rules import HOUSEHOLD, SHARED
from edgemem.store.rights import readable

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.scopes import Level
    from edgemem.session.tools import ToolTurn
    from edgemem.store.bank.bank import MemoryBank
    from edgemem.store.protocols import Bank

    _Json = dict[str, Any]
    _Open = Callable[[ToolTurn, str, "str | None"], tuple[Bank, str]]
    """Returns the bank of a path, and the path in it; gets what shall be written there as well."""

_WHERE = "plans/a.md is the speaker's own, household/a.md everybody's here, shared/a.md anyone's."
_TEXT = {"type": "string"}
_PATH = {"path": _TEXT}
_SCHEMAS: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "memory_read": ("Read a file of the memory bank.", {"path": {**_TEXT, "description": _WHERE}}, ["path"]),
    "memory_write": ("Write a file.", {**_PATH, "content": _TEXT}, ["path", "content"]),
    "memory_append": ("Append to a file.", {**_PATH, "content": _TEXT}, ["path", "content"]),
    "memory_list": ("List files.", {"prefix": _TEXT}, []),
    "memory_delete": ("Delete a file.", _PATH, ["path"]),
}
"""What a model is told of each tool, and its required arguments; every word is paid for in every prompt."""
_HEADS: dict[str, Level] = {HOUSEHOLD: "household", SHARED: "shared"}
_STRANGER = "Refused: nobody knows who is speaking; only files below shared/ can be used."
_OVERHEARD = "Refused: others are listening, and these files are the speaker's alone."
_CLOSER = (
    "Refused: others would read it there, and that is private. Use a path without household/ or shared/."
)


def create_memory_bank_tools(provider: Bank | Callable[[], Bank]) -> list[Tool]:
    """Return the five tools over one bank, or what returns it, whoever speaks; their answers are JSON as Cognitia's."""

    def open_one(_turn: ToolTurn, path: str, _content: str | None) -> tuple[Bank, str]:
        return provider() if callable(provider) else provider, path

    return _tools(open_one, lambda turn, prefix: open_one(turn, "", None)[0].list(prefix), None)


def bank_tools(bank: MemoryBank, *, speaker: str | None = None) -> list[Tool]:
    """Return the five tools within the rights of whoever speaks.

    Args:
        speaker: who speaks where the loop does not say it; None: an unknown voice, which has what is shared.
    """
    return _tools(partial(_open, bank), partial(_list, bank), speaker)


def _tools(open_: _Open, list_: Callable[[ToolTurn, str], list[str]], speaker: str | None) -> list[Tool]:
    """Return the tools over what opens the bank of a path, and what lists the paths that begin with a text."""

    def act(turn: ToolTurn, name: str, path: str = "", content: str | None = None, prefix: str = "") -> _Json:
        if name == "memory_list":
            return {"status": "ok", "files": list_(turn, prefix)}
        bank, inner = open_(turn, path, content)
        if name == "memory_read":
            text = bank.read(inner)
            if text is None:
                return {"status": "not_found", "path": path}
            return {"status": "ok", "content": text, "path": path}
        if name == "memory_delete":
            bank.delete(inner)
        else:
            (bank.write if name == "memory_write" else bank.append)(inner, content or "")
        return {"status": "ok", "path": path}

    def tool(name: str) -> Tool:
        about, properties, required = _SCHEMAS[name]
        schema = {"type": "object", "properties": properties, "required": required}

        def call(turn: ToolTurn | None = None, /, **arguments: Any) -> str:
            try:
                answer = act(asked_in(turn, speaker), name, **as_texts(name, schema, arguments))
            except EdgememError as error:
                answer = {"status": "error", "message": str(error)}
            return json.dumps(answer, ensure_ascii=False)

        return Tool(name, about, schema, call, wants_turn=True)

    return [tool(name) for name in BANK_TOOLS]


def _list(bank: MemoryBank, turn: ToolTurn, prefix: str) -> list[str]:
    """Return the paths of all that the speaker may use; the turn becomes as closed as what it is told."""
    paths = []
    for head in ("", f"{HOUSEHOLD}/", f"{SHARED}/"):
        part, level, _ = _of(bank, turn, head)
        inside = [] if part is None else [f"{head}{path}" for path in part.list()]
        if listed := [path for path in inside if path.startswith(prefix)]:
            paths += listed
            turn.close(level)
    return paths


def _open(bank: MemoryBank, turn: ToolTurn, path: str, content: str | None) -> tuple[Bank, str]:
    """Return the bank of a path and the path in it, as which the turn is closed from now on.

    Args:
        content: what shall be written there.

    Raises:
        MemoryBankViolation: the speaker may not use it.
    """
    part, level, _ = _of(bank, turn, path)
    if part is None:
        raise MemoryBankViolation(_OVERHEARD if turn.reader.is_recognised else _STRANGER, path=path)
    name = path.removesuffix(".md")
    if (content is not None and level != "private") and (
        turn.is_private or turn.level_of_write(level, name, content) != level
    ):
        raise MemoryBankViolation(_CLOSER, path=path)
    # What is written into a file of their own is kept for the speaker alone.
    turn.close(level, utterance=content is not None and level == "private")
    return part, path if level == "private" else path.partition("/")[2]


def _of(bank: MemoryBank, turn: ToolTurn, path: str) -> tuple[Bank | None, Level, str | None]:
    """Return the bank of a path, and who may read it; None: the speaker may not."""
    head, slash, _ = path.partition("/")
    level = _HEADS.get(name_key(head) if slash else "", "private")
    owner = (turn.reader.speaker or None) if level == "private" else None
    if not readable(turn.reader, level, owner):
        return None, level, owner
    if owner is None:
        return bank.for_scope(level, ""), level, owner
    topic = turn.log.prompt_log.session if turn.log is not None else ""
    return bank.for_person(owner, topic or "default"), level, owner
