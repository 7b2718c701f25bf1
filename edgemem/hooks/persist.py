"""PersistSessionHook: takes a session up where it was, and keeps each turn in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.context.spoken import CHARS_A_SECOND
from edgemem.errors import StoreError
from edgemem.fence import check_session_id
from edgemem.hooks.arguments import attachable, needs
from edgemem.hooks.conversation import Conversation, conversation_of
from edgemem.hooks.points import (
    AFTER_LLM,
    AFTER_TOOL,
    BEFORE_TOOL,
    ON_ABORT,
    ON_IDLE,
    ON_INTERRUPT,
    ON_RUN_END,
    ON_RUN_START,
    HookResult,
)
from edgemem.hooks.turn_levels import turns_of, with_levels
from edgemem.records import Session, TurnState
from edgemem.store.journal import TurnJournal
from edgemem.store.later import Later, settled
from edgemem.store.sessions import read_state, state_text
from edgemem.store.turn_steps import BeginEpoch, KeepState

if TYPE_CHECKING:
    from edgemem.store.protocols import SessionStore


TURNS_WAIT = "A turn cannot be written now, and is tried again"
"""How the failure begins that is over as soon as they are written."""


MOST_WITHIN = 8
"""Turns that other agents may have within one tool; with one more, the tool is taken for given up."""


class PersistSessionHook:
    """Keep the session: resume at the first turn, one durable transaction at the end of each.

    Loops that share these hooks share the conversation: each takes it up where the other left it. What an agent says
    within a tool of another stays its own; the other's session keeps the tool's result.
    """

    points = frozenset(
        {ON_RUN_START, AFTER_LLM, BEFORE_TOOL, AFTER_TOOL, ON_RUN_END, ON_INTERRUPT, ON_ABORT, ON_IDLE}
    )
    # Before every other hook at the start (the history must be there), and before them at the end.
    priority = 90
    __repr__ = attachable

    def __init__(
        self,
        session_store: SessionStore,
        *,
        session_id: str,
        resume: bool = True,
        speaker: str | None = None,
        conversation: Conversation | None = None,
        chars_per_s: float = CHARS_A_SECOND,
    ) -> None:
        """Make the hook.

        Args:
            chars_per_s: how fast the robot speaks, where a loop tells only for how long it was heard.
            resume: load what the store has when the loop's session is empty.
            speaker: who speaks where the loop does not say it.
        """
        needs(self, session_store, "save", "load", what="a session store")
        check_session_id(session_id)
        self.session_store = session_store
        self.session_id = session_id
        self.speaker = speaker
        self.chars_per_s = chars_per_s
        self.unfinished = 0
        """How many turns had been cut off by a crash or a pulled plug when this session was resumed."""
        self._resume = resume
        self._resumed = False
        self._state = "{}"
        self._warned: set[str] = set()
        self._session: Session | None = None
        """The loop's session that had the newest turn."""
        self._tools = 0
        """How many tools run in it now."""
        self._within = 0
        """How many turns other agents had while the newest of them ran."""
        self._conversation = conversation
        self._later = Later(session_store)

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Resume, collect, accept, commit or amend, as the point demands."""
        if point == ON_IDLE:
            # A store of files makes them whole; one of rows has nothing to do.
            settled(self._later.flush(), float(payload.get("seconds", 0.0)))
            return None
        if self._tools and ctx.session is not self._session and self._is_within(point):
            return None  # an agent that runs within a tool: its few messages are not this conversation
        conversation = conversation_of(ctx, self._conversation)
        # One conversation for one session id, whatever session object a loop comes with.
        self._conversation = conversation
        if point == ON_RUN_START:
            self._tools = 0
            self.resume(ctx.session, conversation)
            self._session = ctx.session
            self._close_open(conversation)
            conversation.begin(ctx, payload, speaker=self.speaker)
        elif point == AFTER_LLM:
            conversation.generated.append(tuple(payload.get("tokens") or ()))
            if not payload.get("tool_calls"):
                self._accept(ctx, conversation, payload.get("content"))
        elif point == BEFORE_TOOL:
            self._tools += 1
            self._within = 0
            conversation.caller = ctx.session
            self._accept(ctx, conversation)
        elif point == AFTER_TOOL:
            self._tools = max(0, self._tools - 1)
            conversation.caller = ctx.session if self._tools else None
        elif point == ON_RUN_END:
            self._tools = 0
            self._commit(ctx, conversation, payload)
        elif point == ON_INTERRUPT:
            heard = self._interrupt(ctx, conversation, payload)
            if heard:  # else the reply is still to come, and is cut when the turn ends
                return HookResult.replace({**payload, "heard_text": heard[-1], "speeches": heard})
        else:
            self._tools = 0
            self._abort(conversation)
        return None

    def _is_within(self, point: str) -> bool:
        """Tell whether a tool still runs: some frameworks end a turn there, and never say so."""
        if point == ON_RUN_START:
            self._within += 1
            if self._within > MOST_WITHIN:
                self._tools = 0
                if self._conversation is not None:
                    self._conversation.caller = None
        return self._tools > 0

    def resume(self, session: Session, conversation: Conversation) -> None:
        """Take the stored session up, once; later, tell a loop that takes over what was said without it."""
        if self._resumed:
            if session is not self._session:
                said, known = conversation.layout.said, len(session.messages)
                if conversation.layout.as_heard(session.messages) == said[:known]:
                    session.messages.extend(said[known:])
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
        # Before anything is read: what is forgotten in between may stand in that.
        conversation.opened_as_of = conversation.newest_forgetting()
        if not self._resume or session.messages:
            return
        epoch = journal.latest_epoch(self.session_id)
        if epoch is None and layout.epoch.started_at:
            # The first epoch is written with the first turn: it freezes the date that templates print.
            begun = msgspec.structs.replace(layout.epoch, session=self.session_id)
            conversation.opening = [BeginEpoch(begun)]
        turns = journal.read_turns(self.session_id, from_n=epoch.first_turn if epoch else 0)
        layout.resume(turns, epoch)
        session.messages.extend(layout.said)
        stored_state = read_state(journal.database, self.session_id)
        self._state = state_text(stored_state, self._warned)
        for key, value in stored_state.items():
            session.state.setdefault(key, value)
        # Last: where nothing can be written now, the talk goes on with its history all the same.
        self.unfinished = journal.mark_unfinished(self.session_id)

    def _accept(self, ctx: Any, conversation: Conversation, reply: str | None = None) -> None:
        """Keep the open turn before its first tool runs, or before its reply is spoken, off the hot path.

        A robot that crashes while it speaks has said what it said; the turn comes back unfinished.
        """
        running = conversation.layout.running
        if running is None or conversation.accepted is not None:
            return
        conversation.layout.take(ctx.session.messages)
        said = [*running.said, {"role": "assistant", "content": reply}] if reply else running.said
        record = conversation.record(msgspec.structs.replace(running, said=said), "open")
        if not reply:
            # How private it is depends on what its tools tell; if nobody lives to know, it stays the speaker's.
            record = msgspec.structs.replace(record, level="private")
        conversation.accept(record)

    def _close_open(self, conversation: Conversation) -> None:
        """Keep a turn that was accepted and never ended, marked unfinished."""
        running = conversation.layout.running
        if running is None or not running.said or conversation.accepted is None:
            return
        self._finish(conversation, "unfinished")

    def _commit(self, ctx: Any, conversation: Conversation, payload: Any) -> None:
        if conversation.journal is None:
            conversation.layout.take(ctx.session.messages)
            conversation.hear_out()
            conversation.layout.commit()
            kept = Session(conversation.layout.said, with_levels(ctx.session.state, conversation.layout))
            self.session_store.save(self.session_id, kept)
            return
        conversation.layout.take(ctx.session.messages)
        state = state_text(ctx.session.state, self._warned)
        if state != self._state:
            self._state = state
            conversation.also.append(KeepState(self.session_id, state))
        interrupted = conversation.hear_out() or bool(getattr(payload, "interrupted", False))
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
        journal = conversation.journal
        if isinstance(journal, TurnJournal) and (backlog := journal.outbox.backlog()).turns:
            raise StoreError(f"{TURNS_WAIT}; {backlog}")

    def _interrupt(self, ctx: Any, conversation: Conversation, payload: dict[str, Any]) -> list[str]:
        """Keep of what was said in the turn that is spoken what was heard, and return that."""
        layout = conversation.layout
        if layout.running is not None:
            layout.take(ctx.session.messages)
        told = {name: payload.get(name) for name in ("heard_text", "heard_ms", "words")}
        heard, changed = conversation.interrupt(
            {**told, "chars_per_s": self.chars_per_s}, prepared=payload.get("prepared")
        )
        if conversation.journal is None:
            if changed is not None:
                kept = Session(layout.said, with_levels(ctx.session.state, layout))
                self.session_store.save(self.session_id, kept)
        elif changed is not None:
            conversation.amend(changed)
        return heard

    def _abort(self, conversation: Conversation) -> None:
        conversation.erase()
        conversation.layout.discard()
        conversation.reset()
