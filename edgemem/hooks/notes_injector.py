"""NotesInjectorHook: shows the end of NOTES.md once an epoch, then only what is new in it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from edgemem.config import NotesSettings, Profile, Settings
from edgemem.context.size import estimate
from edgemem.fence import clean
from edgemem.hooks.conversation import TURN, Conversation, SharedHook
from edgemem.hooks.points import BEFORE_LLM, HookResult, header_line, needs
from edgemem.records import BlockLine
from edgemem.store.rights import readable

if TYPE_CHECKING:
    from edgemem.context.budget import Budget
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
    ) -> None:
        """Make the hook.

        Args:
            max_chars: at most this much of the file's end is shown.
            header: a line before the notes.
            settings: say how much of the file's end is shown, in place of `max_chars`.
            budget: says how many tokens of it; None: no such bound.
            speaker: who speaks where the loop does not say it; the file's `level` says who may read it.
        """
        super().__init__(conversation, speaker)
        needs(self, notes, "tail", what="a NotesFile")
        self.notes = notes
        self._settings = settings or Settings(Profile(notes=NotesSettings(inject_chars=max_chars)))
        self._budget = budget
        self.header = header_line(self, header).lstrip("# ")
        self.note = ""
        """Why the notes are not in the newest prompt; empty where they may be read."""
        self._warned = False

    @property
    def max_chars(self) -> int:
        """Return how many characters of the file's end are shown at most."""
        return self._settings.now.notes.inject_chars

    def act(self, conversation: Conversation, ctx: Any, payload: Any) -> HookResult | None:
        """Add the notes before the first call of the model."""
        if payload.get("hop", 0) != 0:
            return None
        prompt_log = conversation.prompt_log
        level = self.notes.level
        self.note = (
            "" if readable(prompt_log.reader, level, None) else CLOSED.format(file=self.notes.path.name)
        )
        if self.note:
            if not self._warned:
                log.warning(self.note)
                self._warned = True
            return None
        tail = self._tail()
        if not tail:
            return None
        committed = prompt_log.committed()
        lines = []
        for text in tail:
            line = shown_line(text)
            item = BlockLine(f"note:{line}", f"- {line}", level)
            if line and item.id not in committed.visible and not committed.seen.holds_note(text):
                lines.append(item)
        if not lines:
            return None
        # Those that stand in the prompt already count to their bound too, so this is for the log alone: about how many.
        tokens = estimate("\n".join([self.header, *(line.line for line in lines)]))
        prompt_log.put("notes", lines, header=self.header, tokens=tokens)
        return HookResult.replace({**payload, "messages": prompt_log.view()}, reason="notes")

    def _tail(self) -> list[str]:
        """Return the newest lines that are within both bounds; which of them are shown already does not matter."""
        lines = self.notes.tail(self.max_chars).splitlines()
        if not lines or self._budget is None:
            return lines
        tokenizer = self._budget.tokenizer
        left = self._budget.plan["notes"] - len(tokenizer.encode(f"{self.header}\n"))
        first = len(lines)
        while first > 0:
            line = shown_line(lines[first - 1])
            left -= len(tokenizer.encode(f"- {line}\n")) if line else 0
            if left < 0:
                break
            first -= 1
        return lines[first:]
