"""PersistSessionHook: takes a session up where it was, and keeps each turn in one transaction.

Who may read which turn, kept in a session's state where the session store knows messages only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.config import Settings
from edgemem.context.level import joined
from edgemem.context.messages import split_turns
from edgemem.errors import InvalidInputError, StoreError
from edgemem.fence import check_session_id
from edgemem.hooks.conversation import Conversation, SharedHook, conversation_of, reader_of, task_of
from edgemem.records import Message, Session, Turn, as_ours
from edgemem.scopes import Level
from edgemem.session.points import (
    AFTER_LLM,
    AFTER_TOOL,
    BEFORE_LLM,
    BEFORE_TOOL,
    CLASSIC_POINTS,
    ON_ABORT,
    ON_IDLE,
    ON_INTERRUPT,
    ON_RUN_END,
    ON_RUN_START,
    AgentResult,
    HookResult,
    SecondPlace,
    needs,
)
from edgemem.store.messages import stored_message
from edgemem.store.sessions import SQLiteSessionStore, read_state, state_text
from edgemem.store.spool import Later
from edgemem.store.turn_steps import BeginEpoch, KeepState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.context.prompt.log import PromptLog
    from edgemem.store.protocols import SessionStore


TURNS_WAIT = "A turn cannot be written now, and is tried again"
"""How the failure begins that is over as soon as they are written."""


LEFT_OPEN = (
    "The turn before got no on_run_end, and is kept as its own speaker's, unfinished. Fire on_run_end also where the model"
    " fails, or on_abort to throw a turn away."
)

UNKNOWN = (
    "The loop's list holds words that were said in no turn of these hooks; they are kept for the operator alone, and stand"
    " in no prompt. Fire on_run_start before what is said is put into the list."
)

MOST_WITHIN = 8
"""Turns that other agents may have within one tool; with one more, the tool is taken for given up."""


class PersistSessionHook(SharedHook):
    """Keep the session: resume at the first turn, one durable transaction at the end of each.

    Loops that share these hooks share the conversation: each takes it up where the other left it. What an agent says
    within a tool of another stays its own; the other's session keeps the tool's result.
    """

    points = CLASSIC_POINTS | {ON_INTERRUPT, ON_ABORT, ON_IDLE}
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
        settings: Settings | None = None,
    ) -> None:
        """Make the hook.

        Args:
            settings: tell how fast the robot speaks, where a loop tells only for how long it was heard.
            resume: load what the store has when the loop's session is empty.
            speaker: who speaks where the loop does not say it.
        """
        needs(self, session_store, "save", "load", what="a session store")
        check_session_id(session_id)
        super().__init__(conversation, speaker)
        self.session_store = session_store
        self.session_id = session_id
        self._settings = settings or Settings()
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
        self._later = Later(session_store)

    @property
    def second_place(self) -> SecondPlace:
        """Return the hook's second place, where it accepts the turn: behind all others, so that its thread does not compete with recall."""
        return SecondPlace(frozenset({BEFORE_LLM}), -999, self._accept)

    def _accept(self, point: str, ctx: Any, payload: Any) -> None:
        conversation_of(ctx, self._conversation).accept()

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Resume, collect, accept, commit or amend, as the point demands."""
        if point == ON_IDLE:
            # A store of files makes them whole; one of rows has nothing to do.
            self._later.settle(float(payload.get("seconds", 0.0)))
            return None
        if self._tools and not self._is_own(ctx.session) and self._is_within(point):
            return None  # an agent that runs within a tool: its few messages are not this conversation
        conversation = conversation_of(ctx, self._conversation)
        # One conversation for one session id, whatever session object a loop comes with.
        self._conversation = conversation
        if point == ON_RUN_START:
            self._begin(ctx, conversation, payload)
        elif point == BEFORE_LLM:
            conversation.take(ctx, payload["messages"], speaker=self.speaker)
            conversation.answered = None
        elif point == AFTER_LLM:
            conversation.generated.append(tuple(payload.get("tokens") or ()))
            if not payload.get("tool_calls"):
                conversation.answered = payload.get("content") or None
                conversation.accept()
        elif point == BEFORE_TOOL:
            self._tools += 1
            self._within = 0
            conversation.caller = ctx.session
            conversation.called_tools = True
            if conversation.prompt_log.running is not None:
                conversation.prompt_log.take(ctx.session.messages)
            conversation.accept()
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
            conversation.abort()
        return None

    def _begin(self, ctx: Any, conversation: Conversation, payload: Any) -> None:
        """Close what a loop left open, take the session up, and open the turn."""
        self._tools = 0
        left = False
        try:
            left = conversation.close_left(ctx, payload)
        finally:
            if not self._resumed:
                self.resume(ctx.session, conversation, task_of(payload))
            elif ctx.session is not self._session:
                conversation.prompt_log.bring_up(ctx.session.messages, task_of(payload))
            self._session = ctx.session
            unknown = conversation.begin(ctx, payload, speaker=self.speaker, by=self)
        if left or unknown:
            raise InvalidInputError(LEFT_OPEN if left else UNKNOWN)

    def _is_own(self, session: Session) -> bool:
        """Tell whether this is the session that had the newest turn; some attachments wrap it, with its own state."""
        return self._session is not None and session.state is self._session.state

    def _is_within(self, point: str) -> bool:
        """Tell whether a tool still runs: some frameworks end a turn there, and never say so."""
        if point == ON_RUN_START:
            self._within += 1
            if self._within > MOST_WITHIN:
                self._tools = 0
                if self._conversation is not None:
                    self._conversation.caller = None
        return self._tools > 0

    def resume(self, session: Session, conversation: Conversation, task: str | None = None) -> None:
        """Take the stored session up, before its first turn.

        Args:
            task: the utterance that it begins with, which may stand in the loop's list already.
        """
        self._resumed = True
        prompt_log = conversation.prompt_log
        prompt_log.session = self.session_id
        store = self.session_store
        brought = prompt_log.brought(session.messages, task)
        if not isinstance(store, SQLiteSessionStore):
            stored = store.load(self.session_id) if self._resume or brought else None
            if stored is not None:
                state = dict(stored.state)
                turns = turns_of(self.session_id, stored.messages, state, prompt_log.default_level)
                if brought:
                    prompt_log.recognise(turns, brought)
                    return
                prompt_log.resume(turns, None)
                prompt_log.bring_up(session.messages, task)
                session.state.update(state)
            return
        journal = conversation.journal = store.journal
        # Before anything is read: what is forgotten in between may stand in that.
        conversation.opened_as_of = conversation.newest_forgetting()
        if brought:
            # A loop with a history of its own goes on with that; who said what of it is known here.
            prompt_log.recognise(journal.read_turns(self.session_id), brought)
            journal.mark_unfinished(self.session_id)
            return
        if not self._resume:
            return
        epoch = journal.latest_epoch(self.session_id)
        if epoch is None and prompt_log.epoch.started_at:
            # The first epoch is written with the first turn: it freezes the date that templates print.
            begun = msgspec.structs.replace(prompt_log.epoch, session=self.session_id)
            conversation.opening = [BeginEpoch(begun)]
        turns = journal.read_turns(self.session_id, from_n=epoch.first_turn if epoch else 0)
        prompt_log.resume(turns, epoch)
        prompt_log.bring_up(session.messages, task)
        stored_state = read_state(journal.database, self.session_id)
        self._state = state_text(stored_state, self._warned)
        for key, value in stored_state.items():
            session.state.setdefault(key, value)
        # Last: where nothing can be written now, the talk goes on with its history all the same.
        journal.mark_unfinished(self.session_id)

    def _commit(self, ctx: Any, conversation: Conversation, payload: Any) -> None:
        prompt_log = conversation.prompt_log
        if prompt_log.running is None and self._session is not None and not self._is_new(ctx, conversation):
            return  # ended twice, or nothing was said
        prompt_log.take(ctx.session.messages)
        ended = as_ours(payload, AgentResult)
        reply = ended.reply or conversation.answered
        if reply and prompt_log.running is not None:
            prompt_log.running.take_reply(str(reply))
        interrupted = conversation.hear_out() or ended.interrupted
        failed = ended.error is not None
        if conversation.journal is None:
            conversation.finish("complete")
            self._save(ctx, prompt_log)
            return
        state = state_text(ctx.session.state, self._warned)
        if state != self._state:
            self._state = state
            conversation.also.append(KeepState(self.session_id, state))
        conversation.finish("interrupted" if interrupted else "unfinished" if failed else "complete")
        if (backlog := conversation.journal.backlog()).turns:
            raise StoreError(f"{TURNS_WAIT}; {backlog}")

    def _save(self, ctx: Any, prompt_log: PromptLog) -> None:
        """Give a store that knows messages only all of them."""
        self.session_store.save(
            self.session_id, Session(prompt_log.messages, with_levels(ctx.session.state, prompt_log))
        )

    def _is_new(self, ctx: Any, conversation: Conversation) -> bool:
        """Open a turn that ends without having begun, where another hook ended it before this one knew who spoke."""
        if not conversation.prompt_log.brings_utterance(ctx.session.messages):
            return False
        known = reader_of(ctx, {}).speaker is not None
        conversation.begin(ctx, {}, private=not known)
        return True

    def _interrupt(self, ctx: Any, conversation: Conversation, payload: dict[str, Any]) -> list[str]:
        """Keep of what was said in the turn that is spoken what was heard, and return that."""
        prompt_log = conversation.prompt_log
        if prompt_log.running is not None:
            prompt_log.take(ctx.session.messages)
        report = {name: payload.get(name) for name in ("heard_text", "heard_ms", "words")}
        heard, changed = conversation.interrupt(
            {**report, "chars_per_s": self._settings.now.context.speech_chars_s},
            prepared=payload.get("prepared"),
        )
        if changed is not None and conversation.journal is None:
            self._save(ctx, prompt_log)
        elif changed is not None:
            conversation.amend(changed)
        return heard


STATE_KEY = "edgemem_turns"

_Turns = list[tuple[int, Level, str | None]]
"""Of each turn: how many messages it has, its level, and its owner."""


def with_levels(state: dict[str, Any], prompt_log: PromptLog) -> dict[str, Any]:
    """Return what is kept of a state, and with it who may read the turns, unless all are as usual.

    Names that begin with two underscores belong to the running process.
    """
    kept = {name: value for name, value in state.items() if not str(name).startswith("__")}
    turns: _Turns = [(len(turn.messages), turn.level, turn.owner) for turn in prompt_log.turns]
    if all(level == prompt_log.default_level for _, level, _ in turns):
        return kept
    return {**kept, STATE_KEY: turns}


def turns_of(session: str, messages: Sequence[Message], state: dict[str, Any], default: Level) -> list[Turn]:
    """Return what was kept as turns, so that what comes now is the newest one, each for whom it was meant.

    Args:
        state: as it was kept; what `with_levels` put there is taken out.
        default: the level of turns that nothing is known of.
    """
    try:
        kept = msgspec.convert(state.pop(STATE_KEY, []), _Turns, strict=False)
    except msgspec.ValidationError:
        kept = []
    cut: list[Sequence[Message]] = []
    if kept and sum(size for size, _, _ in kept) == len(messages):
        at = 0
        for size, _, _ in kept:
            cut.append(messages[at : at + size])
            at += size
    else:
        # Somebody has changed the messages: all of them are as closed as the most private of them was.
        cut = list(split_turns(messages)[1])
        closing = joined([(default, None), *(turn[1:] for turn in kept)])
        kept = [(0, *closing)] * len(cut)
    return [
        Turn(session, n, tuple(stored_message(message) for message in part), level=level, owner=owner)
        for n, (part, (_, level, owner)) in enumerate(zip(cut, kept, strict=True))
        if part
    ]
