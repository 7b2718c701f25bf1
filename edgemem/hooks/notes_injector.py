"""NotesInjectorHook: shows the end of NOTES.md once an epoch, then only what is new in it; and MEMORY.md of the bank likewise."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any

from edgemem.config import NotesSettings, Profile, Settings
from edgemem.context.size import estimate
from edgemem.fence import clean
from edgemem.hooks.conversation import TURN, Conversation, SharedHook
from edgemem.hooks.points import BEFORE_LLM, HookResult, header_line, needs
from edgemem.records import BlockLine
from edgemem.store.bank.rules import MEMORY_FILE
from edgemem.store.rights import readable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.context.budget import Budget
    from edgemem.context.prompt.log import PromptLog
    from edgemem.scopes import Level
    from edgemem.store.bank.bank import MemoryBank
    from edgemem.store.notes import NotesFile

_LINE_CHARS = 240

CLOSED = (
    "{file} is for recognised speakers and was left out, because nobody knows who speaks ([notes] level)."
)

log = logging.getLogger("edgemem.hooks")


def shown_line(line: str) -> str:
    """Return a line of the notes as a model is shown it; empty where it says nothing."""
    return clean(line.lstrip("# "), max_chars=_LINE_CHARS)


class NotesInjectorHook(SharedHook):
    """Put the tail of the notes into the newest user message, and later only lines not shown yet."""

    points = TURN | {BEFORE_LLM}
    priority = 79

    def __init__(
        self,
        notes: NotesFile,
        max_chars: int = 1500,
        header: str = "Notes:",
        *,
        settings: Settings | None = None,
        budget: Budget | None = None,
        speaker: str | None = None,
        conversation: Conversation | None = None,
        bank: MemoryBank | None = None,
    ) -> None:
        """Make the hook.

        Args:
            max_chars: at most this much of the file's end is shown.
            header: a line before the notes.
            settings: say how much of the file's end is shown, in place of `max_chars`.
            budget: says how many tokens of it; None: no such bound.
            speaker: who speaks where the loop does not say it; the file's `level` says who may read it.
            bank: its MEMORY.md are shown as well, in what the notes leave of the tokens; None: there is none.
        """
        super().__init__(conversation, speaker)
        needs(self, notes, "tail", what="a NotesFile")
        self.notes = notes
        self._settings = settings or Settings(Profile(notes=NotesSettings(inject_chars=max_chars)))
        self._budget = budget
        self._bank = bank
        self._files: tuple[object, list[tuple[Level, str | None, str]]] = (None, [])
        self.header = header_line(self, header).lstrip("# ")
        self.note = ""
        """Why the notes are not in the newest prompt; empty where they may be read."""
        self._warned = False

    @property
    def max_chars(self) -> int:
        """Return how many characters of the file's end are shown at most."""
        return self._settings.now.notes.inject_chars

    def act(self, conversation: Conversation, ctx: Any, payload: Any) -> HookResult | None:
        """Add the notes, and MEMORY.md of the bank, before the first call of the model."""
        if payload.get("hop", 0) != 0:
            return None
        prompt_log = conversation.prompt_log
        notes, left = self._notes(prompt_log)
        visible = prompt_log.committed().visible
        lines = [item for item in (*notes, *self._memory_files(prompt_log, left)) if item.id not in visible]
        if not lines:
            return None
        # Those that stand in the prompt already count to their bound too, so this is for the log alone: about how many.
        tokens = estimate("\n".join([self.header, *(line.line for line in lines)]))
        prompt_log.put("notes", lines, header=self.header, tokens=tokens)
        return HookResult.replace({**payload, "messages": prompt_log.view()}, reason="notes")

    def _notes(self, prompt_log: PromptLog) -> tuple[list[BlockLine], float | None]:
        """Return the newest lines that are within both bounds, and how many tokens they leave; None: all."""
        level = self.notes.level
        self.note = (
            "" if readable(prompt_log.reader, level, None) else CLOSED.format(file=self.notes.path.name)
        )
        if self.note:
            if not self._warned:
                log.warning(self.note)
                self._warned = True
            return [], None
        kept, left = self._fitting(self.notes.tail(self.max_chars).splitlines()[::-1], None)
        seen = prompt_log.committed().seen
        return [
            BlockLine(f"note:{line}", f"- {line}", level)
            for text in reversed(kept)
            if (line := shown_line(text)) and not seen.holds_note(text)
        ], left

    def _memory_files(self, prompt_log: PromptLog, left: float | None) -> list[BlockLine]:
        """Return the first lines of MEMORY.md that are within the bounds: of the speaker in this session, the household, anyone."""
        bank, items = self._bank, list[BlockLine]()
        limits = None if bank is None else bank.limits()
        if bank is None or limits is None or not limits.enabled or not (stamp := bank.stamp()):
            return items
        of = stamp, prompt_log.reader, prompt_log.session
        if self._files[0] != of:
            reader = prompt_log.reader
            name = None if reader is None else reader.speaker
            self._files = of, bank.memory_files(name, prompt_log.session)
        for level, owner, text in self._files[1]:
            if readable(prompt_log.reader, level, owner):
                first = [line.removeprefix("- ") for line in text.splitlines()[: limits.auto_load_max_lines]]
                lines, left = self._fitting(first, left)
                shown = filter(None, map(shown_line, lines))
                items += [
                    BlockLine(f"{MEMORY_FILE}:{level}:{line}", f"- {line}", level, owner) for line in shown
                ]
        return items

    def _room(self) -> float:
        if self._budget is None:
            return math.inf
        return self._budget.plan["notes"] - len(self._budget.tokenizer.encode(f"{self.header}\n"))

    def _fitting(self, lines: Sequence[str], left: float | None) -> tuple[list[str], float | None]:
        """Return the first lines within what is left, in tokens, and what is left behind them; None: all, but for the header.

        Which of them are shown already does not matter.
        """
        if not lines:
            return [], left
        left, kept = self._room() if left is None else left, list[str]()
        for text in lines:
            line = shown_line(text)
            if line and self._budget is not None:
                left -= len(self._budget.tokenizer.encode(f"- {line}\n"))
            if left < 0:
                return kept, 0
            kept.append(text)
        return kept, left
