"""PersistSessionHook: takes a session up where it was, and keeps each turn in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.hooks.conversation import Conversation, conversation_of
from edgemem.hooks.points import (
    AFTER_LLM,
    BEFORE_TOOL,
    ON_ABORT,
    ON_INTERRUPT,
    ON_RUN_END,
    ON_RUN_START,
    HookResult,
)
from edgemem.hooks.turn_levels import turns_of, with_levels
from edgemem.llama.template import text_of
from edgemem.records import Session, TurnState
from edgemem.store.epochs import append_epoch
from edgemem.store.sessions import read_state, state_text, write_state

if TYPE_CHECKING:
    from edgemem.store.protocols import SessionStore


class PersistSessionHook:
    """Keep the session: resume at the first turn, one durable transaction at the end of each."""

    points = frozenset({ON_RUN_START, AFTER_LLM, BEFORE_TOOL, ON_RUN_END, ON_INTERRUPT, ON_ABORT})
    # Before every other hook at the start (the history must be there), and before them at the end.
    priority = 90

    def __init__(
        self,
        session_store: SessionStore,
        *,
        session_id: str,
        resume: bool = True,
        speaker: str | None = None,
        conversation: Conversation | None = None,
    ) -> None:
        """Make the hook.

        Args:
            resume: load what the store has when the loop's session is empty.
            speaker: who speaks where the loop does not say it.
        """
        self.session_store = session_store
        self.session_id = session_id
        self.speaker = speaker
        self.unfinished = 0
        """How many turns had been cut off by a crash or a pulled plug when this session was resumed."""
        self._resume = resume
        self._resumed = False
        self._state = "{}"
        self._conversation = conversation

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Resume, collect, accept, commit or amend, as the point demands."""
        conversation = conversation_of(ctx, self._conversation)
        if point == ON_RUN_START:
            self.resume(ctx.session, conversation)
            self._close_open(conversation)
            conversation.begin(ctx, payload, speaker=self.speaker)
        elif point == AFTER_LLM:
            conversation.generated.append(tuple(payload.get("tokens") or ()))
            if not payload.get("tool_calls"):
                self._accept(ctx, conversation, payload.get("content"))
        elif point == BEFORE_TOOL:
            self._accept(ctx, conversation)
        elif point == ON_RUN_END:
            self._commit(ctx, conversation, payload)
        elif point == ON_INTERRUPT:
            self._interrupt(ctx, conversation, str(payload.get("heard_text", "")))
        else:
            self._abort(conversation)
        return None

    def resume(self, session: Session, conversation: Conversation) -> None:
        """Take the stored session up, once."""
        if self._resumed:
            return
        self._resumed = True
        layout = conversation.layout
        layout.session = self.session_id
        journal = getattr(self.session_store, "journal", None)
        if journal is None:
            stored = self.session_store.load(self.session_id) if self._resume else None
            if stored is not None and not session.messages:
                state = dict(stored.state)
                layout.resume(turns_of(self.session_id, stored.messages, state, layout.default_level), None)
                session.messages.extend(layout.said)
                session.state.update(state)
            return
        conversation.journal = journal
        if not self._resume or session.messages:
            return
        self.unfinished = journal.mark_unfinished(self.session_id)
        epoch = journal.latest_epoch(self.session_id)
        if epoch is None and layout.epoch.started_at:
            # The first epoch is written with the first turn: it freezes the date that templates print.
            begun = msgspec.structs.replace(layout.epoch, session=self.session_id)
            conversation.opening = [lambda tx: append_epoch(tx, begun)]
        turns = journal.read_turns(self.session_id, from_n=epoch.first_turn if epoch else 0)
        layout.resume(turns, epoch)
        session.messages.extend(layout.said)
        stored_state = read_state(journal.database, self.session_id)
        self._state = state_text(stored_state)
        for key, value in stored_state.items():
            session.state.setdefault(key, value)

    def _accept(self, ctx: Any, conversation: Conversation, reply: str | None = None) -> None:
        """Keep the open turn before its first tool runs, or before its reply is spoken, off the hot path.

        A robot that loses its power while it speaks has said what it said; the turn comes back unfinished.
        """
        running = conversation.layout.running
        if running is None or conversation.accepted is not None:
            return
        conversation.layout.take(ctx.session.messages)
        said = [*running.said, {"role": "assistant", "content": reply}] if reply else running.said
        conversation.accept(conversation.record(msgspec.structs.replace(running, said=said), "open"))

    def _close_open(self, conversation: Conversation) -> None:
        """Keep a turn that was accepted and never ended, marked unfinished."""
        running = conversation.layout.running
        if running is None or not running.said or conversation.accepted is None:
            return
        self._finish(conversation, "unfinished")

    def _commit(self, ctx: Any, conversation: Conversation, payload: Any) -> None:
        messages = [m for m in ctx.session.messages if m.get("role") != "system"]
        if conversation.journal is None:
            said = conversation_said(conversation, messages)
            conversation.layout.commit()
            kept = Session(said, with_levels(ctx.session.state, conversation.layout))
            self.session_store.save(self.session_id, kept)
            return
        conversation.layout.take(messages)
        state = state_text(ctx.session.state)
        if state != self._state:
            self._state = state
            conversation.also.append(lambda tx: write_state(tx, self.session_id, state))
        interrupted = bool(getattr(payload, "interrupted", False))
        failed = getattr(payload, "error", None) is not None
        self._finish(conversation, "interrupted" if interrupted else "unfinished" if failed else "complete")

    def _finish(self, conversation: Conversation, state: TurnState) -> None:
        running = conversation.layout.running
        if running is None or not running.said:
            conversation.layout.discard()
            return
        record = conversation.record(running, state)
        conversation.layout.commit()
        try:
            conversation.write(record, running)
        finally:
            conversation.reset()

    def _interrupt(self, ctx: Any, conversation: Conversation, heard_text: str) -> None:
        running = conversation.layout.running
        if running is not None:
            conversation.layout.take([m for m in ctx.session.messages if m.get("role") != "system"])
            reply = text_of(running.said[-1]) if running.said else ""
            conversation.unheard = reply.removeprefix(heard_text)
        changed = conversation.layout.interrupt(heard_text)
        if conversation.journal is None:
            if changed is not None:
                layout = conversation.layout
                kept = Session(layout.said, with_levels(ctx.session.state, layout))
                self.session_store.save(self.session_id, kept)
            return
        if changed is not None:
            conversation.amend(changed, heard_text)

    def _abort(self, conversation: Conversation) -> None:
        conversation.erase()
        conversation.layout.discard()
        conversation.reset()


def conversation_said(conversation: Conversation, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what was said, without the blocks that a loop may have kept in its messages."""
    layout = conversation.layout
    layout.take(messages)
    running = layout.running
    return layout.said + (running.said if running is not None else [])
