"""NotesInjectorHook: shows the end of NOTES.md once an epoch, then only what is new in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem.context.layout import Shown
from edgemem.fence import clean
from edgemem.hooks.conversation import Conversation, conversation_of
from edgemem.hooks.points import BEFORE_LLM, ON_ABORT, ON_RUN_END, ON_RUN_START, HookResult

if TYPE_CHECKING:
    from edgemem.store.notes import NotesFile

LINE_CHARS = 240


class NotesInjectorHook:
    """Put the tail of the notes into the newest user message, and later only lines not shown yet."""

    points = frozenset({ON_RUN_START, BEFORE_LLM, ON_RUN_END, ON_ABORT})
    priority = 79

    def __init__(
        self,
        notes: NotesFile,
        max_chars: int = 1500,
        header: str = "Notes:",
        *,
        speaker: str | None = None,
        conversation: Conversation | None = None,
    ) -> None:
        """Make the hook.

        Args:
            max_chars: at most this much of the file's end is shown.
            header: a line before the notes.
            speaker: who speaks where the loop does not say it; notes belong to the household.
        """
        self.notes = notes
        self.max_chars = max_chars
        self.header = header.strip().lstrip("# ")
        self.speaker = speaker
        self._conversation = conversation

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Open the turn, and add the notes before the first call of the model."""
        conversation = conversation_of(ctx, self._conversation)
        if point == ON_RUN_START:
            conversation.begin(ctx, payload, speaker=self.speaker)
            return None
        if point != BEFORE_LLM:
            conversation.end(point, ctx)
            return None
        if payload.get("hop", 0) != 0:
            return None
        layout = conversation.layout
        layout.take(payload["messages"])
        if layout.reader is not None and layout.reader.speaker is None:
            return None
        visible = layout.visible()
        lines = []
        for text in self.notes.tail(self.max_chars).splitlines():
            line = clean(text.lstrip("# "), max_chars=LINE_CHARS)
            item = Shown(f"note:{line}", f"- {line}")
            if line and item.id not in visible:
                lines.append(item)
        if not lines:
            return None
        layout.put("notes", lines, header=self.header)
        return HookResult.replace({**payload, "messages": layout.view()}, reason="notes")
