"""The loops of one session: what each has told of its newest turn, and how its words are found."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from difflib import get_close_matches
from typing import Any, NamedTuple

import msgspec

from edgemem.context.messages import INSTRUCTIONS, is_spoken
from edgemem.context.prompt import PromptTurn
from edgemem.errors import InvalidInputError
from edgemem.hooks.edgevox import OuterRun, inward, outward
from edgemem.hooks.loop_list import MARKS, Key, LoopList, key_of, split_head, without_blocks
from edgemem.records import BY_AGENT, Message, Session, as_ours, text_of
from edgemem.scopes import Level, name_key
from edgemem.session.arguments import checked_audience, checked_hearing, checked_speaker
from edgemem.session.log import SessionLog
from edgemem.session.points import TurnContext
from edgemem.session.tools import CALLED, ToolTurn
from edgemem.session.turn import TOOL_TURN, Agent, OpenTurn
from edgemem.store.messages import without_thoughts

TASK_KEYS = ("task", "speaker", "heard", "private", "audience")  # of the payload of `on_run_start`

_CHECKS: tuple[tuple[str, Callable[[Any], object], Any], ...] = (
    ("speaker", checked_speaker, None),
    ("heard", checked_hearing, None),
    ("audience", lambda names: checked_audience(names or ()), ("",)),
)
"""How its parts are checked, and the value for one that cannot be read: an unknown voice may speak, and listen."""

LOOP = "__edgemem_list"  # where the state of a loop's session keeps its Loop

Instructions = tuple[set[Key], Level, str | None]
"""The keys of the operator's messages in a turn, and who may read its answer: its level and owner."""


class Ended(msgspec.Struct):
    """How a run ended, as a loop tells it."""

    reply: str = ""
    interrupted: bool = False
    error: str | None = None
    preempted: bool = False  # EdgeVox stopped it, and the reply is EdgeVox's own


class Loop:
    """One loop, and its newest turn as it has told of it."""

    def __init__(self, log: SessionLog | None, ctx: Any) -> None:
        self.log, self.ctx = log, ctx
        self.turn: OpenTurn | None = None
        self.agent: Agent | None = None  # that began the turn
        self.list = LoopList()
        self.task: dict[str, Any] | None = None  # the payload of an `on_run_start` whose turn has not begun
        self.start: dict[str, Any] | None = None
        """The payload of the turn's own `on_run_start`, until the loop has ended it; None: it had none."""
        self.failed: dict[str, Any] | None = None
        """That of a turn which its loop has ended with an error."""
        self.tokens: list[tuple[int, ...]] = []
        self.outcomes: list[Any] = []  # the results of tools since the model was called

    @property
    def open_turn(self) -> OpenTurn | None:
        """Return its turn, if that is open."""
        return self.turn if self.turn is not None and self.turn.is_open else None

    def lacks(self, reply: str) -> bool:
        """Tell whether a reply is not that of its newest turn, which has ended."""
        return bool(reply) and (self.turn is None or self.turn.reply_text != reply)

    @property
    def messages(self) -> list[Message]:
        """Return what the list of its session holds behind the instructions."""
        return split_head(inward(self.ctx.session.messages))[1]

    @property
    def text(self) -> Any:
        """Return the utterance as its start has told it; None: it told of none."""
        return ((self.start if self.task is None else self.task) or {}).get("task") or None


class LoopState:
    """The loops of one session."""

    def __init__(self) -> None:
        self.loop = Loop(None, TurnContext(Session()))  # the one that told the newest turn
        self.outer: OuterRun | None = None  # the run of a framework that the turn is
        self.utterances = 0  # that they have told of: a list before the first is history from elsewhere
        self.is_cut = False  # a voice has reported that the newest reply was cut off
        self.older: list[Instructions] | None = None  # of turns that left the prompt before it was taken up
        self.late: list[Message] = []  # results of earlier turns' tools, which their lists go on to hold


class RunningTools(NamedTuple):
    """The tools of a turn that run in one context: all that an agent says there is nobody's."""

    turn: OpenTurn | None
    calls: tuple[str, ...]
    around: tuple[OpenTurn | None, ToolTurn | None, RunningTools | None]
    """In whose tool its loop runs itself."""


RUNNING: ContextVar[RunningTools | None] = ContextVar("edgemem_running", default=None)


def enter_tool(turn: OpenTurn | None, call: str, n: int) -> None:
    """Have an agent that a tool of turn number `n` runs known by its context."""
    tools = _tools_of(turn) or RunningTools(turn, (), (TOOL_TURN.get(), CALLED.get(), RUNNING.get()))
    RUNNING.set(tools._replace(calls=(*tools.calls, call)))
    TOOL_TURN.set(turn)
    CALLED.set(None if turn is None else turn.tool_turn(n))


def leave_tool(turn: OpenTurn | None, call: str | None = None) -> None:
    """Have a tool of a turn end in this context, or all that run there: a framework may have told of no end."""
    if (tools := _tools_of(turn)) is None:
        return
    left = list(tools.calls if call is not None else ())
    if left:
        left.remove(call if call in left else left[-1])
    if left:
        RUNNING.set(tools._replace(calls=tuple(left)))
        return
    around, called, outer = tools.around
    TOOL_TURN.set(around), CALLED.set(called), RUNNING.set(outer)


def leave_others(speaker: Any) -> None:
    """Leave the tools in this context where somebody else speaks: they may run on, on another thread of a pool."""
    turn = TOOL_TURN.get()
    if turn is not None and isinstance(speaker, str) and name_key(speaker) not in ("", turn.reader.key):
        leave_tool(turn)


def _tools_of(turn: OpenTurn | None) -> RunningTools | None:
    """Return the tools of a turn that run in this context; None: none does."""
    tools = RUNNING.get()
    return tools if tools is not None and tools.turn is turn is TOOL_TURN.get() else None


def newest_spoken(messages: Sequence[Message], text: Any = None) -> int | None:
    """Return the place of the newest utterance; of several with no answer between them, that with the text, else the newest."""
    places: list[int] = []
    for n in range(len(messages) - 1, -1, -1):
        if is_spoken(messages[n]):
            places.append(n)
            if text is None or says(messages[n], text):
                return n
        elif places and messages[n].get("role") not in INSTRUCTIONS:
            break
    return next((n for n in places if has_words(messages[n], text)), places[0] if places else None)


def newest_reply(messages: Sequence[Message]) -> str:
    """Return the reply that a list ends with, if it does."""
    newest = messages[-1] if messages else {}
    return text_of(without_thoughts(newest)) if newest.get("role") == "assistant" else ""


def own_words(messages: Any, text: Any) -> list[Message]:
    """Return the instructions and the speaker's own words of a list that may have anything in it; `text` is as in `Loop`."""
    own: list[Message] = [] if text is None else [{"role": "user", "content": str(text)}]
    try:
        listed = list(messages)
        readable = [message for message in listed if isinstance(message, dict)]
        head, rest = split_head(inward(readable))
        spoken = newest_spoken(rest, text)
        # The newest message that can be read may be somebody else's.
        is_whole = len(readable) == len(listed)
        is_sure = spoken is not None and (is_whole if text is None else says(rest[spoken], text))
        return outward([*head, *(rest[spoken:] if is_sure else own)])
    except Exception:  # noqa: BLE001 - nothing of a list goes on that cannot be looked at
        return own


def instructions_of(turn: PromptTurn) -> Instructions:
    """Return the operator's messages in a turn."""
    keys = {key_of(message) for message in turn.messages if message.get("role") in INSTRUCTIONS}
    return keys, turn.answer, turn.owner


def ended_of(payload: Any) -> Ended:
    """Return how a run ended, of which a loop may tell no more than the reply."""
    if isinstance(payload, (str, dict)):
        reply = payload if isinstance(payload, str) else payload.get("reply")
        return Ended(str(reply or ""))
    return as_ours(payload, Ended)


def says(message: Message, text: Any) -> bool:
    """Tell whether a message has the words of a text, in whatever parts."""
    return text is not None and _words_of(message).split() == str(text).split()


def has_words(message: Message, text: Any) -> bool:
    """Tell whether a message has the words of a text among others, as where a loop puts something before a question."""
    words, said = ("" if text is None else str(text)).split(), " ".join(_words_of(message).split())
    return bool(words) and re.search(rf"(?<!\w){re.escape(' '.join(words))}(?!\w)", said) is not None


def quotes(message: Message, text: str, turn: PromptTurn) -> bool:
    """Tell whether a message has the utterance of a turn beside a text, whatever the marks between its words."""
    beside = " ".join(_words_of(message).split()).replace(" ".join(text.split()), "\n", 1)
    words = "" if turn.utterance is None else turn.text(turn.utterance)
    plain, quoted = (f" {MARKS.sub(' ', text.casefold()).strip()} " for text in (beside, words))
    return not quoted.isspace() and quoted in plain


def _words_of(message: Message) -> str:
    return text_of({"content": without_blocks(message.get("content"))})


def without_mark(message: Message) -> Message:
    """Return a message without the mark of an agent's, which no provider knows."""
    if message.get("metadata") != BY_AGENT:
        return message
    return {name: part for name, part in message.items() if name != "metadata"}


def close_unreadable(task: dict[str, Any]) -> list[str]:
    """Take out of the payload of a start what cannot be read, and close its turn where that may be who listens; say what."""
    wrong, closed, is_named = [], False, False
    for name in task.keys() - set(TASK_KEYS):
        if near := get_close_matches(str(name), TASK_KEYS, n=1):
            wrong.append(f"on_run_start was told {name!r}, which nobody reads; it is {near[0]!r}.")
            closed |= near[0] in ("private", "audience")
            is_named |= near[0] in ("speaker", "heard")
    for name, check, instead in _CHECKS:
        try:
            check(task.get(name, instead))
        except InvalidInputError as error:  # noqa: PERF203 - three of them, once a turn
            wrong.append(str(error))
            task[name] = instead
            closed |= name == "audience"
            is_named |= name == "heard"
    if is_named:  # one who cannot be read is an unknown voice, not the usual speaker
        task.setdefault("speaker", None)
    task["private"] = closed or task.get("private")
    return wrong
