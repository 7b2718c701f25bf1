"""A turn: utterance, prompt, tools and reply, until it is history or thrown away."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.context.messages import NO_RESULT, awaits_results, bounded, bounded_tokens, fenced, tool_calls
from edgemem.errors import EdgememError, InvalidInputError, TurnEndedError
from edgemem.languages.words import record_wish
from edgemem.records import BY_AGENT, BlockLine, Heard, Message, Reader, ToolCall, text_of
from edgemem.session.arguments import (
    call_of,
    calling,
    check_role,
    checked_audience,
    checked_call,
    checked_flag,
    checked_message,
    checked_speaker,
    checked_tokens,
)
from edgemem.session.late_results import LateResult
from edgemem.session.log import Moment, Prompt, SessionLog
from edgemem.session.points import (
    AFTER_LLM,
    AFTER_TOOL,
    BEFORE_LLM,
    BEFORE_TOOL,
    ON_ABORT,
    ON_RUN_END,
    ON_RUN_START,
    AgentResult,
    ToolCallRequest,
    ToolCallResult,
    TurnContext,
)
from edgemem.session.steps import Step, Steps
from edgemem.session.tools import Tool, ToolTurn, never, result_text
from edgemem.store.messages import copied, without_thoughts
from edgemem.store.rights import readable, with_stored_spelling
from edgemem.store.validation import checked_text

if TYPE_CHECKING:
    from typing_extensions import Self

    from edgemem.context.prompt import PromptTurn
    from edgemem.records import Unkept
    from edgemem.scopes import Level

TOOL_TURN: ContextVar[OpenTurn | None] = ContextVar("edgemem_turn", default=None)
"""The turn whose tool runs in this context."""

NOBODY = Reader()

NO_REPLY = "The turn was left without a reply."
"""Why a turn is unfinished that another one, or the quiet, ended."""


class Agent(msgspec.Struct):
    """What the turns of one agent of a conversation share."""

    steps: Steps
    ctx: TurnContext
    system: list[Message]
    tools: dict[str, Tool]
    schemas: list[dict[str, Any]]


class OpenTurn:
    """One turn of a conversation; `Conversation.turn` begins it.

    Leaving it as a context manager commits it; an exception keeps it as its speaker's, unfinished. Once it has ended its methods
    raise TurnEndedError, and leaving it does nothing. Its methods may be called from any thread, `call` from several at once.
    """

    def __init__(self, agent: Agent, log: SessionLog, *, outer: OpenTurn | None = None) -> None:
        self.log = log
        self.hook_reply: str | None = None
        """The reply that a hook gave: the model need not be asked."""
        self.reply_text: str | None = None
        """The newest reply; None: there is none yet."""
        self.hops = 0
        """Calls of the model so far."""
        self.reader = NOBODY
        """Who speaks, and who else hears the answer."""
        self.prompt_turn: PromptTurn | None = None
        self._agent = agent
        self.outer = outer
        """The turn in whose tool it runs: then its words are nobody's."""
        self.inner: list[OpenTurn] = []
        """The turns of agents in its tools."""
        self._has_called = False
        self._asked: set[str] = set()
        """The ids of the calls that were run."""
        self._taken: list[LateResult] = []
        """Results of earlier calls that it has taken."""
        self._heard: Heard | None = None
        self._private = False
        self._utterance = ""
        self.start = 0
        """How many messages the session's record held before the turn."""
        self._messages: list[Message] | None = None
        """The prompt; None: something was added since it was made."""
        self._prompt = Prompt()
        self._interrupted = False
        self.is_open = True

    def begin(self, content: Any, task: dict[str, Any], *, is_reader_given: bool) -> None:
        """Take the session up and open the turn in its log.

        Args:
            content: the utterance.
            task: the payload of `on_run_start`.
            is_reader_given: the caller says who speaks; else an inner turn has the speaker of the outer one.
        """
        agent, log, steps = self._agent, self.log, self._agent.steps
        moment, utterance = Moment(log, agent.ctx, task), task["task"]
        steps.run(steps.begin, ON_RUN_START, moment)
        task = moment.payload
        self.hook_reply = moment.reply
        if task.get("task") != utterance:  # a hook has corrected the words
            words = task.get("task")
            content = words if isinstance(words, list) else str(words)
        outer = self.outer
        audience, speaker = checked_audience(task.get("audience") or ()), checked_speaker(task.get("speaker"))
        if outer is not None:  # whoever hears the outer answer hears what this one tells it
            speaker = speaker if is_reader_given else outer.reader.speaker
            listeners = {*audience, *outer.reader.audience, outer.reader.speaker or ""}
            audience = tuple(sorted(listeners - {speaker}))
        self.reader = Reader(speaker, frozenset(audience))
        if log.journal is not None:
            with suppress(EdgememError):  # a failing memory stops no reply
                person = with_stored_spelling(log.journal.database, self.reader)
                if person is not None and person.key != self.reader.key:  # by another of their names
                    self.reader = person
        self._private = bool(task.get("private"))
        heard, speaker = task.get("heard"), self.reader.speaker  # as names are stored
        if not isinstance(heard, Heard):
            heard = Heard(speaker=speaker) if speaker else None
        elif heard.speaker != speaker:
            heard = msgspec.structs.replace(heard, speaker=speaker)
        self._heard = None if outer is not None else heard  # an agent's words are nobody's
        ctx = agent.ctx
        ctx.speaker, ctx.heard = self.reader.speaker, self._heard
        ctx.audience, ctx.private = audience, self._private
        record = ctx.session.messages
        level: Level | None = "private" if self._private else None
        outer_log, around = (None, None) if outer is None else (outer.log, outer.prompt_turn)
        self.prompt_turn = log.open(
            self.reader, self._heard, session=ctx.session, level=level, outer=outer_log, around=around
        )
        if outer is not None:
            outer.inner.append(self)
        log.wish = None if outer is not None else record_wish(text_of({"content": content}))
        if log.wish or log.off_the_record != "off" or (outer is not None and outer.is_off_the_record):
            self.leave_record()
        if record and log.is_resumed and not log.prompt_log.turns:
            self._take(steps.adopt, ON_RUN_START)
        self.start = len(record)
        self._append({"role": "user", "content": content})
        self._fit_utterance()
        self.take_results()
        steps.run(steps.open, ON_RUN_START, moment)

    def _fit_utterance(self) -> None:
        running, window = self.log.prompt_log.running, self._agent.steps.parts.budget
        if running is None:
            return
        self._utterance = text_of(running.messages[0])
        if window is not None and (budget := window.budget) is not None:
            message = running.messages[0]
            try:
                message = bounded_tokens(message, self._utterance, budget.plan["history"], budget.tokenizer)
            except Exception as error:  # noqa: BLE001 - the vocabulary may be a server's that is away
                self._agent.steps.registry.note(window.name, ON_RUN_START, error, self._agent.ctx)
                message = bounded(message, budget.window_tokens // 2)  # no text has more tokens than bytes
            if message is not running.messages[0]:
                running.messages, self._utterance = [message], text_of(message)
                self._agent.ctx.session.messages[-1] = message

    @property
    def messages(self) -> list[Message]:
        """Return the messages for the model: instructions, history, memory and the utterance, and those added since."""
        with self.log.lock:
            self._check_open()
            if self._messages is None:
                self._messages = self._made_prompt()
            return [copied(message) for message in self._messages]

    @property
    def tools(self) -> list[dict[str, Any]]:
        """Return the schemas of the tools that the model is offered."""
        self._check_open()
        schemas = self._prompt.tools
        return [copied(schema) for schema in (self._agent.schemas if schemas is None else schemas)]

    @property
    def display(self) -> tuple[str, ...]:
        """Return, for a screen, the lines of this turn whose values are never aloud, with them; only what all who listen may read."""
        return () if self.prompt_turn is None else tuple(dict.fromkeys(self.prompt_turn.display))

    @property
    def now(self) -> float | None:
        """Return the date that a template may print, frozen for the epoch; seconds since the epoch, UTC."""
        self._check_open()
        return self._prompt.now or self.log.prompt_log.epoch.started_at or None

    def _made_prompt(self) -> list[Message]:
        agent, log = self._agent, self.log
        self.take_results()
        log.prompt_log.instruct(agent.system)
        running = log.prompt_log.running
        messages = [*agent.system, *(map(fenced, running.messages) if running is not None else ())]
        log.answered = None
        prompt = self._prompt = Prompt(messages, agent.schemas, self.hops)
        moment = Moment(log, agent.ctx, prompt=prompt)
        agent.steps.run(agent.steps.prompt, BEFORE_LLM, moment)
        self.hops += 1
        self.hook_reply = self.hook_reply if moment.reply is None else moment.reply
        return prompt.messages

    def add(self, message: Message, *, tokens: Sequence[int] = ()) -> Message:
        """Add a message of this turn, such as a tool call of the model or a tool's result; return it as it was added.

        A user message is an agent's, and nobody's words. Thinking of the model is left out.

        Args:
            tokens: the ids that the model generated for it.

        Raises:
            InvalidInputError: it is no chat message, or of another role than these and instructions.
            TurnEndedError: the turn has ended.
        """
        message = without_thoughts(checked_message(message))
        check_role(message)
        ids = checked_tokens(tokens)
        with self.log.lock:
            self._check_open()
            if message["role"] == "assistant":
                message = self._spoken(self._with_ids(message), ids)
            elif message["role"] == "tool":
                message = self._returned(message)
            elif message["role"] == "user":
                message = {**message, "metadata": BY_AGENT}
            self._append(message, ids)
            return message

    def note(self, message: Message, tokens: Sequence[int] = ()) -> Message:
        """Add a message that the steps have seen already, and return it as it was added."""
        if message.get("tool_calls"):  # what is none is left out
            message = {**message, "tool_calls": tool_calls(message)}
        message = without_thoughts(checked_message(message))
        with self.log.lock:
            self._check_open()
            self._append(message, tokens)
            return message

    def precede(self, messages: Sequence[Message]) -> None:
        """Put instructions that its loop has before the utterance in front of that."""
        if (running := self.log.prompt_log.running) is not None:
            running.precede(messages)
            self._agent.ctx.session.messages[self.start : self.start] = messages

    def show(self, message: Message) -> None:
        """Have the model read a message in place of the utterance, while the turn is open; it is stored nowhere."""
        if (running := self.log.prompt_log.running) is not None:
            running.asked, self._messages = message, None

    def reply(self, text: str, *, agent: str = "", tokens: Sequence[int] = ()) -> str:
        """Add the reply; return it as it is to be spoken: a hook may have put another in its place.

        Args:
            agent: which of several agents says it.
            tokens: the ids that the model generated for it.

        Raises:
            InvalidInputError: it is no text.
            TurnEndedError: the turn has ended.
        """
        checked_text(text, "text"), checked_text(agent, "agent")
        ids = checked_tokens(tokens)
        with self.log.lock:
            self._check_open()
            message = self._spoken(without_thoughts({"role": "assistant", "content": text}), ids)
            if agent:
                message["metadata"] = {"agent": agent}
            self.reply_text = text_of(message)
            self._append(message, ids)
            return self.reply_text

    def _spoken(self, message: Message, tokens: tuple[int, ...]) -> Message:
        """Return an answer of the model as hooks leave it, or the reply that one gave in its place."""
        if self.hook_reply is None:
            message = self._answered(message, tokens)
        if self.hook_reply is not None:
            message = {"role": "assistant", "content": self.hook_reply}
        if not tool_calls(message):
            self.reply_text = text_of(message)
        return message

    def _with_ids(self, message: Message) -> Message:
        """Return a message whose calls have ids: small models give none."""
        calls = tool_calls(message)
        if all(call.get("id") for call in calls):
            return message
        return {**message, "tool_calls": [{**call, "id": call.get("id") or self._new_id()} for call in calls]}

    def _new_id(self) -> str:
        """Return an id that no other call of the session has."""
        return f"call_{self.log.prompt_log.next_n}_{next(self.log.call_numbers)}"

    def _answered(self, message: Message, tokens: tuple[int, ...]) -> Message:
        agent, calls = self._agent, [call_of(call) for call in tool_calls(message)]
        text = text_of(message)
        payload = {"content": text, "tool_calls": tuple(calls), "tokens": tokens}
        moment = Moment(self.log, agent.ctx, {**payload, "hop": max(0, self.hops - 1)})
        agent.steps.run(agent.steps.answer, AFTER_LLM, moment)
        self.hook_reply = self.hook_reply if moment.reply is None else moment.reply
        content = moment.payload.get("content")
        left = [checked_call(call) for call in moment.payload.get("tool_calls") or ()]
        if content != text:
            message = {**message, "content": content}
        if left != calls:
            message = {key: value for key, value in message.items() if key != "tool_calls"}
            if left:
                message["tool_calls"] = [calling(call) for call in left]
        return self._with_ids(message)

    def _returned(self, message: Message) -> Message:
        """Have the steps look at the result of a tool that the loop ran itself."""
        call = self._find_call(message)
        if call is None:
            return message
        if not message.get("tool_call_id"):
            message = {**message, "tool_call_id": call.id}
        text, hop = text_of(message), max(0, self.hops - 1)
        result = self._looked_at(ToolCallResult(call.name, call.arguments, text, hop=hop, id=call.id))
        return message if result_text(result) == text else {**message, "content": result_text(result)}

    def _looked_at(self, result: ToolCallResult) -> ToolCallResult:
        """Return a result as the steps leave it; a hook may give the reply."""
        moment = Moment(self.log, self._agent.ctx, result)
        self._agent.steps.run(self._agent.steps.result, AFTER_TOOL, moment)
        self.hook_reply = self.hook_reply if moment.reply is None else moment.reply
        return moment.payload  # type: ignore[no-any-return]

    def _find_call(self, message: Message) -> ToolCall | None:
        given = message.get("tool_call_id")
        if given:
            return next((call for call in reversed(self._calls()) if call.id == given), None)
        running = self.log.prompt_log.running
        answered = {added.get("tool_call_id") for added in (running.messages if running else ())}
        named = [call for call in self._calls() if message.get("name") in (None, call.name)]
        return next((call for call in named if call.id not in answered), None)

    def _calls(self) -> list[ToolCall]:
        running = self.log.prompt_log.running
        messages = [] if running is None else running.messages
        return [call_of(call) for message in messages for call in tool_calls(message)]

    def _append(self, message: Message, tokens: Sequence[int] = ()) -> None:
        message = copied(message)  # the caller may go on with its own
        self.log.append(message, tokens if self.hook_reply is None else ())
        self._agent.ctx.session.messages.append(message)
        self._messages = None
        if self.hops > 0:
            self.log.called_tools = self.log.called_tools or bool(message.get("tool_calls"))
            self._take(self._agent.steps.accept, AFTER_LLM)

    def _take(self, steps: tuple[Step, ...], point: str) -> None:
        self._agent.steps.run(steps, point, Moment(self.log, self._agent.ctx, {}))

    def call(self, call: ToolCall | Mapping[str, Any], *, stop: Callable[[], bool] = never) -> ToolCallResult:
        """Run a tool of the conversation with the rights of this turn, add its result, and return that.

        Args:
            call: as `ToolCall`, or as an entry of a message's `tool_calls`; one that no message of the turn has is added.
            stop: tells whether the robot was cut off; then the tool is not run. Long tools ask it now and then.

        Raises:
            InvalidInputError: it is no call.
            TurnEndedError: the turn has ended, or ended while the tool ran.
        """
        asked = checked_call(call)
        if not callable(stop):
            raise InvalidInputError(f"`stop` must be a function; got {type(stop).__name__}.")
        with self.log.lock:
            self._check_open()
            asked = self._called(asked)
            n = self.log.prompt_log.next_n
        request = ToolCallRequest(asked.name, dict(asked.arguments), max(0, self.hops - 1), asked.id)
        if stop() or self.hook_reply is not None:
            result = ToolCallResult(asked.name, asked.arguments, error=NO_RESULT, id=asked.id)
            self._add_result(asked.id, asked.name, NO_RESULT)
            return result
        result = self._run(request, self.tool_turn(n, stop))
        self._add_result(asked.id, result.name, result_text(result))
        return result

    def run_tool(self, call: ToolCall | Mapping[str, Any]) -> ToolCallResult:
        """Run a tool as `call` does, but add nothing: the list of its loop tells the call and the result."""
        asked = checked_call(call)
        with self.log.lock:
            self._check_open()
            n = self.log.prompt_log.next_n
        request = ToolCallRequest(asked.name, dict(asked.arguments), max(0, self.hops - 1), asked.id)
        return self._run(request, self.tool_turn(n))

    def tool_turn(self, n: int = 0, stop: Callable[[], bool] = never) -> ToolTurn:
        """Return the turn as a tool that runs in it sees it."""
        session = self._agent.ctx.session
        return ToolTurn(self._utterance, self.reader, self._heard, self._private, session, n, stop, self)

    def _called(self, call: ToolCall) -> ToolCall:
        """Return a call with its id; one that the model's messages do not have yet is added."""
        entries, running = self._calls(), self.log.prompt_log.running
        is_again = call.id in self._asked and running is not None and not running.awaits(call.id)
        if not call.id or is_again:  # some models number their calls anew at each hop
            new = [entry for entry in entries if entry.name == call.name and entry.id not in self._asked]
            same = [entry for entry in new if entry.arguments == call.arguments]
            call = msgspec.structs.replace(call, id=(same or new)[0].id if new else self._new_id())
        if all(entry.id != call.id for entry in entries):
            self._append({"role": "assistant", "content": None, "tool_calls": [calling(call)]})
        self._asked.add(call.id)
        return call

    def _run(self, request: ToolCallRequest, turn: ToolTurn) -> ToolCallResult:
        agent, hop = self._agent, request.hop
        moment = Moment(self.log, agent.ctx, request)
        self.log.called_tools = True
        agent.steps.run(agent.steps.call, BEFORE_TOOL, moment)
        self._check_open()  # a hook may have taken its time
        request = moment.payload
        result = ToolCallResult(request.name, request.arguments, hop=hop, id=request.id)
        self.hook_reply = self.hook_reply if moment.reply is None else moment.reply
        if moment.reply is not None:
            result.error = moment.reply
        elif request.skip_dispatch:
            result.result = request.synthetic_result
        elif request.name not in agent.tools:
            result.error = f"there is no tool {request.name!r}"
        else:
            self._use(agent.tools[request.name], turn, result)
            self._check_open()  # the outcome is no other turn's
        return self._looked_at(result)

    def _use(self, tool: Tool, turn: ToolTurn, result: ToolCallResult) -> None:
        self._has_called = True
        token = TOOL_TURN.set(self)
        try:
            result.result = tool.run(*((turn,) if tool.wants_turn else ()), **result.arguments)
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is its outcome, told to the model
            is_ours = isinstance(error, EdgememError)
            result.error = str(error) if is_ours else f"{type(error).__name__}: {error}"
        finally:
            TOOL_TURN.reset(token)

    def _add_result(self, call_id: str, tool: str, text: str) -> None:
        with self.log.lock:
            self._check_open()
            self._append({"role": "tool", "tool_call_id": call_id, "name": tool, "content": text})

    def take_results(self) -> None:
        """Add late results that all who listen may read: each is read once, and none stands between a call and its result."""
        log, running = self.log, self.log.prompt_log.running
        if not log.late_results or running is None or awaits_results(running.messages):
            return
        for late in list(log.late_results):
            level, owner = late.turn.answer, late.turn.owner
            if readable(self.reader, level, owner) and late.turn.unkept <= self.is_off_the_record:
                log.late_results.remove(late)
                self._taken.append(late)
                text = log.prompt_log.never_aloud().redact(late.text, self.reader, running.display)
                for message in msgspec.structs.replace(late, text=text).messages:
                    self._append(message)
                log.prompt_log.put(
                    f"late {late.call.get('id')}", [BlockLine(f"late:{late.turn.n}", "", level, owner)]
                )

    def commit(self, *, error: str | None = None, interrupted: bool = False) -> AgentResult:
        """Make the turn history, in one transaction; return how it ended, as hooks leave it.

        Args:
            error: why the model could not answer: the turn is kept unfinished.
            interrupted: the robot was cut off.

        Raises:
            InvalidInputError: an argument is of another kind.
            TurnEndedError: the turn has ended.
        """
        if error is not None:
            checked_text(error, "error")
        checked_flag(interrupted, "interrupted")
        with self.log.lock:
            self._check_open()
            agent, log = self._agent, self.log
            cut = interrupted or self._interrupted
            log.take_back(self._taken)
            result = AgentResult(self.reply_text or "", self.hops, cut, error)
            moment = Moment(log, agent.ctx, result)
            self._close()
            agent.steps.run(agent.steps.end, ON_RUN_END, moment)
            if log.prompt_log.turns and log.prompt_log.turns[-1].heard_until is not None:  # cut at the end
                log.refresh_record()
        return result

    def abort(self) -> None:
        """Throw the turn away without a trace; what its tools have written stays. Raises TurnEndedError."""
        with self.log.lock:
            self._check_open()
            agent = self._agent
            self.log.prompt_log.close(self.log.prompt_log.answer)  # for an agent that goes on in a tool of it
            self._close()
            self.log.late_results[:0] = self._taken
            agent.steps.run(agent.steps.abort, ON_ABORT, Moment(self.log, agent.ctx, {}))
            self.log.refresh_record()

    def end(self) -> None:
        """Commit it, where it is open: complete with a reply, also one that its loop told before it was spoken, else unfinished."""
        with self.log.lock:
            if self.is_open:
                running = self.log.prompt_log.running
                message = without_thoughts({"role": "assistant", "content": self.log.answered or ""})
                if (
                    text_of(message)
                    and running is not None
                    and running.messages[-1].get("role") != "assistant"
                ):
                    self.reply_text = text_of(self.note(message))
                self.commit(error=None if self.reply_text is not None else NO_REPLY)

    @property
    def is_off_the_record(self) -> bool:
        """Tell whether nothing of the turn is kept."""
        return self.prompt_turn is not None and self.prompt_turn.unkept

    def off_the_record(self, which: Unkept) -> None:
        """Do as the conversation's, for this turn's speaker; an agent in a tool asks for the outer turn."""
        if self.outer is not None:
            self.outer.off_the_record(which)
            return
        with self.log.lock:
            agent = self._agent
            agent.steps.parts.session.withhold(self.log, agent.ctx.session, which, by=self.reader)

    def leave_record(self) -> None:
        """Keep the turn nowhere, nor those in its tools; all that was kept of them is erased."""
        parts, turn = self._agent.steps.parts, self.prompt_turn
        if turn is None or turn.unkept:
            return
        try:
            if parts.state is not None:
                parts.state.kept.keep = "prefix"  # the model holds this turn until it is closed
            parts.session.erase(self.log, self._agent.ctx.session, turn)
        finally:
            turn.unkept = True
            for inner in self.inner:
                inner.leave_record()

    def note_interrupted(self) -> None:
        """Note that the robot was cut off in this turn."""
        self._interrupted = True
        self._messages = None

    def _close(self) -> None:
        self.is_open = False
        if self.log.open_turn is self:
            self.log.open_turn = None

    def _check_open(self) -> None:
        if not self.is_open:
            raise TurnEndedError(ENDED)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self.log.lock:
            if self.is_open:
                self.commit(error=None if error is None else f"{type(error).__name__}: {error}")


def calling_turn() -> OpenTurn | None:
    """Return the turn in whose tool this context began; where a loop runs its tools itself, only while that is open."""
    turn = TOOL_TURN.get()
    return turn if turn is not None and (turn.is_open or turn._has_called) else None


ENDED = "This turn has ended; begin another one with conversation.turn()."
