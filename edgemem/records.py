"""Every record that is stored or sent; times are seconds since the epoch, UTC, as float.

Field order and defaults of `Fact`, `Preference`, `Episode` and `Session` follow the EdgeVox memory module, so that its users
change only an import; fields of edgemem follow them. One thing differs: a `Fact` that no store has kept has no `id` and no
`valid_from`. `recorded_at` comes from the robot's hybrid logical clock and never runs backwards.
"""

from __future__ import annotations

import dataclasses
import numbers
import re
import time
from collections.abc import Callable
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeVar, cast, get_args

import msgspec

from edgemem.fence import storable
from edgemem.scopes import Level, name_key

Kind = Literal[
    "fact", "preference", "episode", "turn", "note", "summary", "procedure", "goal", "bank", "thought"
]
"""What recall finds, in the order of the numbers that the index knows them by: a new one is appended."""

Unkept = Literal["this", "last", "on", "off"]
"""Which turns shall be off the record: this one or the next, the one before, all to come, or no more."""
WISHES: tuple[Unkept, ...] = get_args(Unkept)

EARLIEST, LATEST = -62_135_596_800.0, 253_402_300_799.0
"""The years 1 to 9999, which calendars can name; seconds since the epoch."""

Message = dict[str, Any]
"""One chat message as llama.cpp and OpenAI spell it: role, content, tool_calls, tool_call_id, name."""


def text_of(message: Message, image: Callable[[dict[str, Any]], str] = lambda _: "") -> str:
    """Return the text of a message; `image` gives images and other parts the words that stand for them."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, (list, tuple)) else (content,)
    return "\n".join(
        str(
            part.get("text")
            or part.get("transcript")
            or part.get("refusal")
            or _transcript(part)
            or image(part)
        )
        if isinstance(part, dict)
        else str(part)
        for part in parts
        if part is not None
    )


def _transcript(part: dict[str, Any]) -> str:
    inner = (value.get("transcript") for value in part.values() if isinstance(value, dict))
    return next((text for text in inner if isinstance(text, str)), "")


REMEMBER_FACT, FORGET_FACT, RECALL_FACT = "remember_fact", "forget_fact", "recall_fact"
LIST_FACTS, SEARCH_MEMORY, NOTES = "list_facts", "search_memory", "notes"
OFF_THE_RECORD = "off_the_record"
BANK_TOOLS = ("memory_read", "memory_write", "memory_append", "memory_list", "memory_delete")
MEMORY_TOOLS = frozenset(
    (REMEMBER_FACT, FORGET_FACT, RECALL_FACT, LIST_FACTS, SEARCH_MEMORY, OFF_THE_RECORD, NOTES, *BANK_TOOLS)
)
"""The memory's own tools, as stored conversations name them: what such a tool repeated of a fact is erased with it."""

WRITING_TOOLS = frozenset((REMEMBER_FACT, NOTES, "memory_write", "memory_append"))
"""Those of them that keep what a model gives them."""


class Heard(msgspec.Struct, frozen=True, omit_defaults=True):
    """How something came to the robot's ears; None: unknown. A confidence that is no number from 0 to 1 counts as 0."""

    speaker: str | None = None
    speaker_confidence: float | None = None
    asr_confidence: float | None = None
    device: str | None = None
    room: str | None = None
    event_time: float | None = None
    """When it was said or happened, by the best clock known then."""

    def __post_init__(self) -> None:
        """Make names storable: a recogniser may hand over anything, and no turn shall be lost for it."""
        for field, name in (("speaker", self.speaker), ("device", self.device), ("room", self.room)):
            if name is not None:
                msgspec.structs.force_setattr(self, field, storable(str(name)))
        confidences = ("speaker_confidence", self.speaker_confidence), ("asr_confidence", self.asr_confidence)
        for field, sure in confidences:
            if sure is not None:
                fits = _is_number(sure) and 0 <= sure <= 1
                msgspec.structs.force_setattr(self, field, float(sure) if fits else 0.0)
        if self.event_time is not None and not (
            _is_number(self.event_time) and EARLIEST <= self.event_time <= LATEST
        ):
            msgspec.structs.force_setattr(self, "event_time", None)


class Reader(msgspec.Struct, frozen=True, dict=True):
    """The people who will hear a text: closed by default; names are compared by their keys.

    `speaker` None, or a name of spaces, is a voice that nobody recognised: it reads only shared text. A private record is read by
    its owner, and only while everybody in `audience` is the owner too.
    """

    speaker: str | None = None
    audience: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.speaker is not None:
            # Those that tell voices apart call them 0, 1 and so on.
            msgspec.structs.force_setattr(self, "speaker", storable(str(self.speaker)).strip())
        if self.audience:
            names = frozenset("" if name is None else storable(str(name)).strip() for name in self.audience)
            msgspec.structs.force_setattr(self, "audience", names)

    @cached_property
    def key(self) -> str:
        """The speaker's name as names are compared, whatever its spelling; empty: nobody recognised the voice."""
        return name_key(self.speaker or "")

    @cached_property
    def is_recognised(self) -> bool:
        """Whether everybody who listens is recognised, and so of the household."""
        return bool(self.key) and "" not in self.audience

    @cached_property
    def is_alone(self) -> bool:
        """Whether nobody but the speaker listens."""
        return self.is_recognised and {name_key(name) for name in self.audience} <= {self.key}


class Held(NamedTuple):
    """What holds now of a key, as far as a reader may know it."""

    readable: bool
    """Whether the reader may know what holds, or that nothing does."""
    value: str | None
    level: Level = "household"
    owner: str | None = None
    is_list: bool = False
    """Whether the value is a list of items."""


class Fact(msgspec.Struct, frozen=True, omit_defaults=True):
    """One version of a fact: a value that held from `valid_from` until `valid_to` (None: it still does)."""

    key: str
    value: str
    scope: str = "global"
    updated_at: float = msgspec.field(default_factory=time.time)
    source: str = ""
    id: str = ""
    valid_from: float | None = None
    valid_to: float | None = None
    invalidated_at: float | None = None
    """When the robot stopped believing this version (transaction time); None while it is believed."""
    supersedes: str | None = None
    recorded_at: float = 0.0
    """When the robot began to believe this version (transaction time)."""
    superseded_by: str | None = None
    level: Level = "shared"
    owner: str | None = None
    heard: Heard | None = None
    doubtful: bool = False
    """Whether this contradicts a well heard value, or one of a more trusted speaker, and so is not believed."""
    perhaps_misheard: bool = False
    """Whether it was heard badly: a doubt, or a belief that contradicts a well heard value, since it was heard twice."""
    trust: int = 3
    """3: of a recognised speaker about themselves or their things, or of the operator; 2: of another recognised speaker;
    1: inferred; 0: of a tool or an unknown voice."""
    json: str | None = None
    """The value as JSON, where it was given as anything but text; `value` says it in words."""

    @property
    def is_active(self) -> bool:
        """Tell whether this version is believed and has no known end."""
        return self.valid_to is None and self.invalidated_at is None and not self.doubtful

    @property
    def disbelieved(self) -> str | None:
        """Return why this is a doubt although it was heard well, such as `an unknown voice said so`; None for any other fact."""
        if not self.doubtful or self.perhaps_misheard:
            return None
        who = self.source if self.heard is None else self.heard.speaker
        if who in (None, "", "llm"):
            who = "an agent" if self.trust == 1 else "an unknown voice"
        return f"{who} said so"

    @property
    def decoded_value(self) -> Any:
        """Return the value as it was given: text, or what JSON can hold."""
        return self.value if self.json is None else msgspec.json.decode(self.json)


class Preference(msgspec.Struct, frozen=True, omit_defaults=True):
    """A lasting wish of a person or a household."""

    key: str
    value: str
    updated_at: float = msgspec.field(default_factory=time.time)
    scope: str = "global"
    level: Level = "shared"
    owner: str | None = None


class Episode(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something the robot did or lived through, with its outcome."""

    kind: str
    payload: dict[str, Any]
    outcome: str
    timestamp: float = msgspec.field(default_factory=time.time)
    agent: str = ""
    id: str = ""
    level: Level = "household"
    owner: str | None = None
    heard: Heard | None = None
    name: str = ""
    """The id that a caller gave it; storing another one of this name replaces it."""
    summary: str = ""
    """What happened, in words; empty: kind, payload and outcome say it."""
    decisions: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    session: str = ""
    turn: int | None = None
    latency_ms: float | None = None


HALF_LIFE = 4
"""Uses of a procedure after which its earlier uses count half: four failures outweigh any number of earlier successes."""
RECENT = 4 * HALF_LIFE
"""Uses of a procedure whose order is kept; older ones count a sixteenth."""


@dataclasses.dataclass(frozen=True)
class ProcedureStep:
    """One call of a tool in a procedure."""

    tool_name: str
    args_template: dict[str, Any] = dataclasses.field(default_factory=dict)
    expected_outcome: str = ""


@dataclasses.dataclass(frozen=True)
class Procedure:
    """A sequence of tool calls that does something, and how often it did."""

    id: str
    name: str
    description: str
    trigger: str
    """The words to ask for when it fits."""
    steps: tuple[ProcedureStep, ...] = ()
    success_count: int = 0
    failure_count: int = 0
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = dataclasses.field(default_factory=dict)
    # What follows a store fills in: a procedure that comes back equals the one that was stored.
    level: Level | None = dataclasses.field(default=None, compare=False)
    """Who may read it; None: nobody has said so yet."""
    owner: str | None = dataclasses.field(default=None, compare=False)
    heard: Heard | None = dataclasses.field(default=None, compare=False)
    session: str = dataclasses.field(default="", compare=False)
    turn: int | None = dataclasses.field(default=None, compare=False)
    recent: str = dataclasses.field(default="", compare=False)
    """How its last recorded uses ended, at most `RECENT` of them, the oldest first: `+` a success, `-` a failure."""

    @property
    def total_uses(self) -> int:
        """Return how often its outcome was recorded."""
        return self.success_count + self.failure_count

    @property
    def success_rate(self) -> float:
        """Return the share of successes, 0 to 1; 0 where it was never used."""
        return self.success_count / self.total_uses if self.total_uses else 0.0

    @property
    def expected_success(self) -> float:
        """Return how likely it is to succeed next time: the mean of a Beta posterior, with Beta(1, 1) as the prior.

        What `HALF_LIFE` further uses followed counts half. Uses of an unknown order count as spread evenly, before all others.
        """
        weights = [0.5 ** (n // HALF_LIFE) for n in range(len(self.recent))]
        succeeded = sum(
            weight for weight, mark in zip(weights, self.recent[::-1], strict=True) if mark == "+"
        )
        older = max(self.total_uses - len(self.recent), 0)
        share = max(self.success_count - self.recent.count("+"), 0) / older if older else 0.0
        weight = min(older, 2 * HALF_LIFE) * 0.5 ** (len(self.recent) // HALF_LIFE)
        return (succeeded + weight * min(share, 1.0) + 1) / (sum(weights) + weight + 2)

    @property
    def failures_in_a_row(self) -> int:
        """Return how many of its last uses failed one after the other, as far back as their order is known."""
        if not self.success_count:
            return self.failure_count
        return len(self.recent) - len(self.recent.rstrip("-"))


class Session(msgspec.Struct):
    """A whole conversation: its messages, and the loop's own state."""

    messages: list[Message] = msgspec.field(default_factory=list)
    state: dict[str, Any] = msgspec.field(default_factory=dict)


TurnState = Literal["open", "complete", "interrupted", "unfinished"]
"""`open`: accepted, and still running; `unfinished`: its loop left it open, or the robot lost power or crashed in it."""

AGENT = "agent"
"""The role under which the truth keeps a user message that an agent wrote: nobody said it."""
BY_AGENT = {"by": AGENT}


class StoredMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message as the truth keeps it: the spoken text apart from the text that the model was shown or generated."""

    role: str
    content: str | None = None
    extra: dict[str, Any] = msgspec.field(default_factory=dict)
    """tool_calls, tool_call_id, name, and content lists (images) under `content`."""
    tokens: tuple[int, ...] = ()
    """The ids that the model generated for it, as generated."""
    unheard: str | None = None
    """The rest of a reply that was cut off before anybody heard it."""
    id: int = 0

    def as_message(self) -> Message:
        """Return the chat message that a loop and a template understand."""
        return {"role": "user" if self.role == AGENT else self.role, "content": self.content, **self.extra}

    def as_prompted(self) -> Message:
        """Return the chat message without what programs keep and models do not know; an agent's is marked."""
        apart = ("metadata", "content_blocks")
        message = {key: part for key, part in self.as_message().items() if key not in apart}
        return {**message, "metadata": BY_AGENT} if self.role == AGENT else message


Subject = tuple[str, str, str]
"""The fact or preference that a line gives a value: `fact` or `preference`, its scope and its key."""

EXCERPT_SUFFIX = "/part"
"""Ends the id of an excerpt of an item: the rest of it was not shown."""
ENDED_SUFFIX = "/past"
"""Ends the id of the line that tells of a fact that it does not hold any more."""

_RECORD = re.compile(rf"\b({'|'.join(get_args(Kind))}):(-?\d{{1,19}})\b")


class BlockLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of a block: which item it is, and who may read it; its `entry` is its id, or JSON where there is more to say."""

    id: str
    line: str
    level: Level = "household"
    owner: str | None = None
    fact: tuple[str, str] | None = None
    """Scope and key, when the item is of a fact."""
    value: str = ""
    preference: tuple[str, str] | None = None
    is_transient: bool = False
    """Whether it is said now and stored nowhere: it tells that something was erased."""

    @classmethod
    def parse(cls, entry: str) -> BlockLine:
        """Return the line of an entry; what cannot be read, as somebody's own export may have it, is an id."""
        try:
            return msgspec.json.decode(entry, type=cls) if entry.startswith("{") else cls(entry, "")
        except msgspec.MsgspecError:
            return cls(entry, "")

    @property
    def entry(self) -> str:
        """Return the line as it is kept."""
        if self.fact is None and self.preference is None and self.level == "household" and not self.line:
            return self.id
        return msgspec.json.encode(self).decode()

    @property
    def item(self) -> str:
        """Return the id of the item, also where only an excerpt of it is shown, or that it is past."""
        return self.id.removesuffix(EXCERPT_SUFFIX).removesuffix(ENDED_SUFFIX)

    @property
    def record(self) -> tuple[Kind, int] | None:
        """Return kind and id of the stored record that it shows, as it is or as a change; None where none has a number."""
        match = _RECORD.search(self.id)
        return None if match is None else (cast("Kind", match[1]), int(match[2]))

    @property
    def subject(self) -> Subject | None:
        """Return the fact or preference whose value the model takes this for; a doubt, or a past value, is beside one."""
        if self.fact is None:
            return None if self.preference is None else ("preference", *self.preference)
        beside = self.id.startswith(("doubt:", "more:")) or self.id.endswith(ENDED_SUFFIX)
        return None if beside else ("fact", *self.fact)


class Turn(msgspec.Struct, frozen=True, omit_defaults=True):
    """One turn: an utterance, everything until the reply, and what memory put before the model."""

    session: str
    n: int
    messages: tuple[StoredMessage, ...]
    state: TurnState = "complete"
    block: str = ""
    """The injected text, byte for byte as the model saw it; never stored as if somebody had said it."""
    shown: tuple[str, ...] = ()
    recorded_at: float = 0.0
    level: Level = "household"
    """Who may read the utterance."""
    owner: str | None = None
    heard: Heard | None = None
    answer: Level | None = None
    """Who may read all else, never more people than the utterance; None: the same."""
    utterance: int | None = None
    """Which message was said to the robot; None: the newest of the user's."""


class Epoch(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stretch of a session between two compactions: within it, nothing the model has seen changes."""

    session: str
    first_turn: int
    """The first turn that the prompt holds word for word; earlier ones live in `summary`."""
    summary: str = ""
    reason: str = ""
    started_at: float = 0.0
    """Wall time frozen for templates that print a date, seconds since the epoch UTC."""
    id: int = 0
    head: str = ""
    """A hash of the instructions and tools before it; empty where nobody noted it."""
    carried: tuple[str, ...] = ()
    """The entries of values that memory had told in the turns before it and that stand in its head."""
    level: Level = "household"
    """Who may read summary and carried values; never private."""


class Recalled(msgspec.Struct, frozen=True, omit_defaults=True):
    """One item that recall found."""

    kind: Kind
    id: str
    text: str
    score: float
    """0 to 1."""
    why: tuple[str, ...] = ()
    """The signals that found it, strongest first, such as `words`, `meaning`, `neighbour`, `recent`, `edge`."""
    recorded_at: float = 0.0
    valid_from: float | None = None
    valid_to: float | None = None
    past: bool = False
    """Whether this fact does not hold any more; `text` says until when it did."""
    source: str = ""
    scope: str = ""
    speaker: str | None = None
    level: Level = "household"
    owner: str | None = None
    event_time: float | None = None
    session: str | None = None
    turn: int | None = None
    key: str | None = None
    """A fact's key as it was stored; `text` says it in words."""
    value: str | None = None
    doubt: str | None = None
    """A perhaps misheard value: another one that was heard since, but badly; or this one, if it was heard badly twice."""
    disbelieved: str | None = None
    """Why that other value is not believed although it was heard well, such as `an unknown voice said so`; None: it was not."""
    heard_badly: bool = False
    """Whether the speech recogniser doubted it, as far as the profile's `doubtful_below` says."""
    is_list: bool = False
    """Whether it is a fact whose value is a list of items."""
    named_list: bool = False
    """Whether it is a list that the query names; a model that adds to it must know all of it."""
    safety: bool = False
    """Whether it is a fact that concerns somebody's safety, such as an allergy."""
    metadata: dict[str, Any] = {}
    """The caller's; see `memory.recall(filters=…)`."""

    @property
    def name(self) -> str:
        """Return its unique name, `kind:id`."""
        return f"{self.kind}:{self.id}"

    @property
    def thought_id(self) -> str:
        """Return the id under which it is a thought."""
        return str(self.key) if self.kind == "thought" else self.name


class CutOff(list[Recalled]):
    """Results of a recall that its deadline cut off: there may be others."""


class RecalledSession(msgspec.Struct, frozen=True):
    """A session in which something was talked about."""

    session: str
    score: float
    """0 to 1; at least that of its best message."""
    at: float
    """When its best message was said, seconds since the epoch."""
    messages: tuple[Recalled, ...]
    """Those that answer best, at most three, best first."""


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


class Check(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    name: str
    state: Literal["ok", "warn", "fail"]
    detail: str
    advice: str = ""


class ToolCall(msgspec.Struct, frozen=True):
    """A call that the model asks for."""

    name: str
    arguments: dict[str, Any]
    id: str = ""


class Reply(msgspec.Struct, frozen=True):
    """One answer of a model: text, or tools to call first."""

    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tokens: tuple[int, ...] = ()
    interrupted: bool = False


class Mention(msgspec.Struct, frozen=True):
    """One place in which a name is written."""

    kind: str
    """`note`, `file`, or one of the records that `store.kinds` declares, such as `fact` or `doubt`."""
    where: str
    """A line's number in NOTES.md, a file of the bank, a scope, or a conversation and its turn."""
    text: str
    by: str = ""


class Mentions(msgspec.Struct, frozen=True):
    """Places in which a name is written: the first of them, and how many there are."""

    quoted: tuple[Mention, ...] = msgspec.field(default=(), name="found")  # its name in JSON
    count: int = 0


class Forgotten(msgspec.Struct, frozen=True):
    """The result of a forgetting; true if it erased something."""

    erased: dict[str, int]
    """How much of each kind: `files`, `facts`, `doubts`, `preferences`, `episodes`, `procedures`, `constants of procedures`
    (of those that stay), `turns`, `sessions`, `goals`, `phases`, `users`, `session states`, `session summaries`."""
    pending: dict[str, str] = {}
    """The files that still hold bytes of it, and why: erasing goes on by itself, and recall finds nothing of it."""
    mentions: Mentions = Mentions()
    """Places with the name of a forgotten person: in the words of others, in NOTES.md, in the bank. The operator decides."""
    files: tuple[str, ...] = ()
    """Damaged files that were set aside, and may hold anything."""

    def __bool__(self) -> bool:
        return bool(self.erased)


_Ours = TypeVar("_Ours", bound=msgspec.Struct)


def as_ours(record: Any, kind: type[_Ours]) -> _Ours:
    """Return a record of any store or framework as ours; what it does not know is as ours has it by default."""
    return record if isinstance(record, kind) else kind(**fields_of(record, kind))


def fields_of(record: Any, kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the fields of a kind of ours that a record of any store or framework has."""
    fields = {name: getattr(record, name, msgspec.UNSET) for name in kind.__struct_fields__}
    return {name: value for name, value in fields.items() if value is not msgspec.UNSET}


def has_methods(given: Any, *methods: str) -> bool:
    """Tell whether an object of anybody's, and no class, has these methods."""
    return not isinstance(given, type) and all(callable(getattr(given, method, None)) for method in methods)
