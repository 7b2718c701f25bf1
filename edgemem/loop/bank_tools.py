"""The bank as tools: files that a model keeps for whoever speaks, with the names and answers of Cognitia's.

A path is of the speaker's own bank, in the topic of the session; `household/…` and `shared/…` are everybody's here, and anyone's.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from edgemem.errors import EdgememError, MemoryBankViolation
from edgemem.loop.toolbox import Tool, as_texts, asked_in
from edgemem.records import BANK_TOOLS, BlockLine
from edgemem.scopes import name_key
from edgemem.store.bank.rules import HOUSEHOLD, SHARED
from edgemem.store.rights import readable

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable

    from edgemem.loop.toolbox import ToolTurn
    from edgemem.scopes import Level
    from edgemem.store.bank.bank import MemoryBank
    from edgemem.store.protocols import Bank

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
_STRANGER = "Refused: nobody knows who is speaking; only files below shared/ can be used."
_OVERHEARD = "Refused: others are listening, and these files are the speaker's alone."
_CLOSER = (
    "Refused: others would read it there, and that is private. Use a path without household/ or shared/."
)


def create_memory_bank_tools(provider: Bank | Callable[[], Bank]) -> list[Tool]:
    """Return the five tools over one bank, or what returns it, whoever speaks; their answers are JSON as Cognitia's."""
    return _tools(lambda _turn: _OneBank(provider() if callable(provider) else provider), None)


def bank_tools(bank: MemoryBank, *, speaker: str | None = None) -> list[Tool]:
    """Return the five tools within the rights of whoever speaks.

    Args:
        speaker: who speaks where the loop does not say it; None: an unknown voice, which has what is shared.
    """
    return _tools(lambda turn: _SpeakersBank(bank, turn), speaker)


def _tools(find: Callable[[ToolTurn], _OneBank | _SpeakersBank], speaker: str | None) -> list[Tool]:
    def tool(name: str) -> Tool:
        about, properties, required = _SCHEMAS[name]
        schema = {"type": "object", "properties": properties, "required": required}

        def call(turn: ToolTurn | None = None, /, **arguments: Any) -> str:
            try:
                texts = as_texts(name, schema, arguments)
                answer = _act(find(asked_in(turn, speaker)), name, **texts)
            except EdgememError as error:
                answer = {"status": "error", "message": str(error)}
            return json.dumps(answer, ensure_ascii=False)

        return Tool(name, about, schema, call, wants_turn=True)

    return [tool(name) for name in BANK_TOOLS]


def _act(
    banks: _OneBank | _SpeakersBank, name: str, path: str = "", content: str | None = None, prefix: str = ""
) -> dict[str, Any]:
    if name == "memory_list":
        return {"status": "ok", "files": banks.list(prefix)}
    bank, inner = banks.opened(path, content)
    if name == "memory_read":
        text = bank.read(inner)
        found = {"status": "not_found"} if text is None else {"status": "ok", "content": text}
        return {**found, "path": path}
    if name == "memory_delete":
        bank.delete(inner)
    else:
        (bank.write if name == "memory_write" else bank.append)(inner, content or "")
    return {"status": "ok", "path": path}


class _OneBank:
    """A bank as it is."""

    def __init__(self, bank: Bank) -> None:
        self.list = bank.list
        self._bank = bank

    def opened(self, path: str, _content: str | None) -> tuple[Bank, str]:
        """Return the bank, and a path in it."""
        return self._bank, path


class _SpeakersBank:
    """What whoever speaks in a turn may use, as one bank; the turn becomes as closed as what is used."""

    def __init__(self, bank: MemoryBank, turn: ToolTurn) -> None:
        self._bank, self._turn = bank, turn

    def list(self, prefix: str) -> builtins.list[str]:
        """Return the paths of all that the speaker may use."""
        paths = []
        for head in ("", f"{HOUSEHOLD}/", f"{SHARED}/"):
            bank, level, owner = self._of(head)
            if bank is not None and readable(self._turn.reader, level, owner):
                found = [path for inner in bank.list() if (path := f"{head}{inner}").startswith(prefix)]
                paths += found
                if found:
                    self._close(head, level, owner)
        return paths

    def opened(self, path: str, content: str | None) -> tuple[Bank, str]:
        """Return the bank of a path and the path in it; raise MemoryBankViolation where the speaker may not use it.

        Args:
            content: what shall be written there.
        """
        bank, level, owner = self._of(path)
        if bank is None or not readable(self._turn.reader, level, owner):
            raise MemoryBankViolation(_OVERHEARD if self._turn.reader.known else _STRANGER, path=path)
        if content is not None and level != "private":
            prompt_log, closing, name = self._turn.prompt_log, (level, None), path.removesuffix(".md")
            closer = prompt_log is not None and prompt_log.level_as(closing, name, content)[0] != level
            if closer or self._turn.private:
                raise MemoryBankViolation(_CLOSER, path=path)
        self._close(path, level, owner)
        return bank, path if level == "private" else path.partition("/")[2]

    def _of(self, path: str) -> tuple[Bank | None, Level, str | None]:
        """Return the bank of a path, and who may read it; None: nobody knows whose it would be."""
        head, slash, _ = path.partition("/")
        if slash and name_key(head) == HOUSEHOLD:
            return self._bank.household, "household", None
        if slash and name_key(head) == SHARED:
            return self._bank.shared, "shared", None
        turn, speaker = self._turn, self._turn.reader.speaker
        if not speaker:
            return None, "private", None
        topic = turn.conversation.prompt_log.session if turn.conversation is not None else ""
        return self._bank.of(speaker, topic or "default"), "private", speaker

    def _close(self, path: str, level: Level, owner: str | None) -> None:
        self._turn.note_shown([BlockLine(f"file {level}:{path}", "", level, owner)])
