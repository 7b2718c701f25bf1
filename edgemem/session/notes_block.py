"""The notes in the block: the end of NOTES.md once an epoch, then only lines that are new in it; and MEMORY.md of the bank."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from edgemem.config import NotesSettings, Profile, Settings
from edgemem.context.size import estimate
from edgemem.fence import clean
from edgemem.records import BlockLine
from edgemem.session.log import Moment
from edgemem.store.bank.rules import MEMORY_FILE
from edgemem.store.rights import readable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.context.budget import Budget
    from edgemem.context.prompt.log import PromptLog
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


class NotesBlock:
    """Puts the tail of the notes into the newest user message, and later only lines not shown yet."""

    name = "notes"

    def __init__(
        self,
        notes: NotesFile,
        *,
        max_chars: int = 1500,
        header: str = "Notes:",
        settings: Settings | None = None,
        budget: Budget | None = None,
        bank: MemoryBank | None = None,
    ) -> None:
        """Make the part.

        Args:
            max_chars: at most this much of the file's end is shown.
            header: a line before the notes.
            settings: say how much of the file's end is shown, in place of `max_chars`.
            budget: says how many tokens of it; None: no such bound.
            bank: its MEMORY.md are shown as well, in what the notes leave of the tokens; None: there is none.
        """
        self.notes = notes
        self._settings = settings or Settings(Profile(notes=NotesSettings(inject_chars=max_chars)))
        self._budget = budget
        self._bank = bank
        self.header = header.lstrip("# ")
        self.note = ""
        """Why the notes are not in the newest prompt; empty where they may be read."""
        self._warned = False

    @property
    def max_chars(self) -> int:
        """Return how many characters of the file's end are shown at most."""
        return self._settings.now.notes.inject_chars

    def fill(self, moment: Moment) -> None:
        """Add the notes, and MEMORY.md of the bank, before the first call of the model."""
        if not moment.is_first_hop:
            return
        prompt_log = moment.log.prompt_log
        notes, files = self._notes(prompt_log), self._memory_files(prompt_log)
        # The newest note first: where not all fit, the oldest ones go, and before them the ends of the files.
        count = self._count_fitting([*(line for line, _ in reversed(notes)), *files])
        committed = prompt_log.committed()
        kept = [
            line for line, text in notes[max(0, len(notes) - count) :] if not committed.seen.holds_note(text)
        ]
        kept += files[: max(0, count - len(notes))]
        lines = [line for line in kept if line.id not in committed.visible]
        if not lines:
            return
        # Those that stand in the prompt already count to their bound too, so this is for the log alone: about how many.
        tokens = estimate("\n".join([self.header, *(line.line for line in lines)]))
        prompt_log.put("notes", lines, header=self.header, tokens=tokens)

    def _notes(self, prompt_log: PromptLog) -> list[tuple[BlockLine, str]]:
        """Return the newest lines of the notes as they are shown and as they stand there, if they may be read."""
        level = self.notes.level
        self.note = (
            "" if readable(prompt_log.reader, level, None) else CLOSED.format(file=self.notes.path.name)
        )
        if self.note:
            if not self._warned:
                log.warning(self.note)
                self._warned = True
            return []
        return [
            (BlockLine(f"note:{line}", f"- {line}", level), text)
            for text in self.notes.tail(self.max_chars).splitlines()
            if (line := shown_line(text))
        ]

    def _memory_files(self, prompt_log: PromptLog) -> list[BlockLine]:
        """Return the first lines of MEMORY.md: of the speaker in this session, of the household, of anyone."""
        reader = prompt_log.reader
        if self._bank is None or not (limits := self._bank.limits()).enabled:
            return []
        lines, speaker = [], None if reader is None else reader.speaker
        for level, owner, text in self._bank.memory_files(speaker, prompt_log.session):
            if readable(reader, level, owner):
                first = (line.removeprefix("- ") for line in text.splitlines()[: limits.auto_load_max_lines])
                shown = filter(None, map(shown_line, first))
                lines += [
                    BlockLine(f"{MEMORY_FILE}:{level}:{line}", f"- {line}", level, owner) for line in shown
                ]
        return lines

    def _count_fitting(self, lines: Sequence[BlockLine]) -> int:
        """Return how many of the first lines are within the budget; which of them are shown already does not matter."""
        if not lines or self._budget is None:
            return len(lines)
        encode = self._budget.tokenizer.encode
        left = self._budget.plan["notes"] - len(encode(f"{self.header}\n"))
        for count, line in enumerate(lines):
            left -= len(encode(f"{line.line}\n"))
            if left < 0:
                return count
        return len(lines)
