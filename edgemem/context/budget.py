"""The budget: how the window of the loaded model is divided, how large a prompt is, and which messages fit.

Instructions and tools take what they take; all other parts get their floors first. A third of the rest is the conversation's;
the rest goes, each up to its ceiling, to memory, summary and notes, and then to the conversation; what remains is the answer's.
So the parts together are always the window, and a larger window makes no part smaller. All that bounds a prompt reads its
bound here: the epochs, the block of memory, the notes, tools' answers, and the last word on the prompt.

Counting renders the whole prompt, which costs some milliseconds. So the new texts of a prompt that extends a counted one are
bounded by their bytes and the template's measured markers; nearer to the limit they are tokenised, once each
(`TokenCache`), and close to it the whole prompt is counted when a turn is over.
"""

from __future__ import annotations

import functools
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from edgemem.config import LEAST_HISTORY_TOKENS
from edgemem.context.messages import repair_orphans, split_instructions, split_turns, tool_calls
from edgemem.errors import ContextOverflowError, TemplateError
from edgemem.fence import CLOSE, is_fenced
from edgemem.records import Message, text_of

if TYPE_CHECKING:
    from edgemem.config import ContextSettings, Settings
    from edgemem.llama.protocols import Tokenizer

    Tools = Sequence[dict[str, Any]] | None

MOST_TEXTS = 2048

PARTS = ("instructions", "tools", "summary", "history", "memory", "notes", "answer")
"""`history` holds the newest utterance and the answers of tools, too."""

FILLED = ("memory", "summary", "notes")
"""The order in which parts beside the conversation get more than their floors."""

_ASKED: Message = {"role": "user", "content": "Hello."}

SPELT = 2
"""Templates get special tokens spelt with spaces: none of the 19 vocabularies at hand takes more tokens more for one."""
MARGIN = 4
"""Tokens a message more than measured: where text and markers meet, tokens may fall otherwise than in the probes."""

_SMALL = 0.8  # share of the limit up to which the bytes of new texts stand for their tokens
_FAR = 0.9  # share of the limit up to which a turn's end counts nothing: one turn does not take the rest
_UNCOUNTED = 0.5
"""Share of the limit that may be added without a count: the bound of tokenised texts is some percent too high."""

_USER: Message = {"role": "user", "content": "cup"}
_REPLY: Message = {"role": "assistant", "content": "cup"}
_CUP = {"name": "cup", "arguments": {"cup": "cup"}}
_CALLED: list[Message] = [
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "a1b2c3d4e", "type": "function", "function": _CUP}],
    },
    {"role": "tool", "name": "cup", "tool_call_id": "a1b2c3d4e", "content": "cup"},
]


class TokenCache:
    """Tokens of the newest texts, as one tokenizer counts them; no words are kept."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        # Keys are hashes, so that no words are kept; Python keeps the hash of a text with it.
        self._known: OrderedDict[tuple[int, int], int] = OrderedDict()

    def counted(self, text: str) -> int | None:
        """Return the tokens of a text if it was counted."""
        return self._known.get((hash(text), len(text)))

    def tokens(self, text: str) -> int:
        """Return the tokens of a text, and keep them."""
        size = self.counted(text)
        if size is None:
            size = len(self.tokenizer.encode(text))
            self.note(text, size)
        return size

    def count(self, text: str) -> int:
        """Return the tokens of a text; a known block before it is not counted anew, and may share a token with it."""
        if self.counted(text) is None and is_fenced(text):
            end = text.index(CLOSE) + len(CLOSE)
            block = self.counted(text[:end])
            if block is not None:
                self.note(text, block + self.tokens(text[end:]))
        return self.tokens(text)

    def upper_bound(self, text: str) -> int:
        """Return an upper bound without tokenising: a text that was never counted is bounded by its bytes."""
        size = self.counted(text)
        return len(text.encode(errors="replace")) if size is None else size

    def note(self, text: str, tokens: int) -> None:
        """Keep the tokens of a text whose parts were counted."""
        self._known[hash(text), len(text)] = tokens
        if len(self._known) > MOST_TEXTS:
            self._known.popitem(last=False)

    def forget(self) -> None:
        """Keep nothing."""
        self._known.clear()


class Markers(NamedTuple):
    """The tokens that a template puts around things; these defaults are above all templates at hand."""

    message: int = 40
    """Measured up to 34, with qwen2's vocabulary."""
    call: int = 160
    """Around a call and its result together: measured up to 85 and 69."""


def measure_markers(tokenizer: Tokenizer) -> Markers:
    """Count what the template puts around a message and a call, by rendering a few; takes a millisecond."""
    asked = [_USER, _REPLY, _USER]
    try:
        # The second pair, because templates put a system message of their own before the first.
        asked_once, asked_twice, called = map(
            tokenizer.count, (asked, [*asked, _REPLY, _USER], [*asked, *_CALLED])
        )
    except TemplateError:
        return Markers()
    return Markers((asked_twice - asked_once + 1) // 2 + MARGIN, called - asked_once + MARGIN)


class PromptSize:
    """Measures the prompts of one conversation; of their texts it keeps sizes and no words."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.cache = TokenCache(tokenizer)
        """Tokens of single texts; other code that counts such texts may share it."""
        self._counted: tuple[list[Message], Tools, int] = ([], None, 0)
        """The prompt that was counted last, its tools and tokens."""
        self._head: tuple[list[Message], Tools, int] | None = None
        """The same of instructions with a stand-in for a question."""
        self._markers: Markers | None = None
        self._bounds: dict[bool, list[tuple[Message, int]]] = {False: [], True: []}
        """Messages behind a prompt's counted part with their bounds, by bytes or (True) tokenised: a turn measures only its own."""
        self.exact = False
        """Whether the newest figure was counted."""

    def tokens(self, messages: Sequence[Message], *, tools: Tools, limit: float) -> int:
        """Return the prompt's tokens: exactly, or an upper bound that is not above `limit`."""
        bound = self.bound(messages, tools=tools, limit=limit)
        return bound if bound is not None and bound <= limit else self._count(messages, messages, tools)

    def bound(self, messages: Sequence[Message], *, tools: Tools, limit: float) -> int | None:
        """Return tokens that the prompt does not exceed, without rendering it; None where it must be counted.

        Above `limit` it is some tokens too high for each message since the newest count: their texts are tokenised.
        """
        self.exact = False
        known = self._known(messages, tools)
        if known is None:
            return None
        bound = known[0] + self._bound_of_all(known[1], tokenised=False)
        # Bytes are about four times the tokens, so they can only say that a prompt is small.
        if bound > _SMALL * limit:
            bound = known[0] + self._bound_of_all(known[1], tokenised=True)
        # For many messages that were never counted together it is too high to decide anything.
        return bound if bound <= limit or self._extends(messages, tools) else None

    def settle(self, messages: Sequence[Message], *, tools: Tools, limit: float) -> int | None:
        """Measure ahead, when a turn is over, the prompt up to the newest reply with a stand-in for the next question.

        Return its tokens if they were counted; far below `limit` they are not.
        """
        system = split_instructions(messages)[0]
        if self._head is None or self._head[:2] != (system, tools):
            self._head = system, tools, self._tokenizer.count([*system, _USER], tools=tools)
        tokens, new = self._known(messages, tools) or (0, messages)
        # The size of each text is needed later, whatever precedes it then.
        bound = tokens + self._bound_of_all(new, tokenised=True)
        self._bounds[False].clear()
        near = bound > _FAR * limit or bound - tokens > _UNCOUNTED * limit
        if self._extends(messages, tools) and not near:
            return None
        return self._count([*messages, _USER], messages, tools)

    def forget(self) -> None:
        """Forget the texts that were measured ahead."""
        self.cache.forget()
        for bounds in self._bounds.values():
            bounds.clear()

    def _count(self, counted: Sequence[Message], messages: Sequence[Message], tools: Tools) -> int:
        tokens = self._tokenizer.count(counted, tools=tools)
        self.exact = True
        self._bounds[False].clear()
        self._counted = list(messages), tools, tokens
        return tokens

    def _known(self, messages: Sequence[Message], tools: Tools) -> tuple[int, Sequence[Message]] | None:
        """Return the tokens of the counted beginning of a prompt, and the messages after it."""
        if self._extends(messages, tools):
            return self._counted[2], messages[len(self._counted[0]) :]
        system, rest = split_instructions(messages)
        if self._head is not None and self._head[:2] == (system, tools):
            return self._head[2], rest
        return None

    def _extends(self, messages: Sequence[Message], tools: Tools) -> bool:
        counted, with_tools, _ = self._counted
        return bool(counted) and tools == with_tools and list(messages[: len(counted)]) == counted

    def _bound_of_all(self, new: Sequence[Message], *, tokenised: bool) -> int:
        bounds, size = self._bounds[tokenised], self.cache.count if tokenised else self.cache.upper_bound
        same = sum(1 for _ in takewhile(lambda pair: pair[0][0] is pair[1], zip(bounds, new, strict=False)))
        bounds[same:] = [(message, self._bound_of(message, size)) for message in new[same:]]
        return sum(bound for _, bound in bounds)

    def _bound_of(self, message: Message, size: Callable[[str], int]) -> int:
        if self._markers is None:
            self._markers = measure_markers(self._tokenizer)
        # Text like a special token may take more where it is spelt.
        return upper_bound(message, self._markers, lambda raw: size(raw) + SPELT * sum(map(raw.count, "<[>")))


def estimate(text: str) -> int:
    """Estimate a text's tokens in under 1 µs, for figures that decide nothing: a token is 3 to 5 bytes in all scripts."""
    return (len(text.encode(errors="replace")) + 3) // 4


def upper_bound(message: Message, markers: Markers, size: Callable[[str], int]) -> int:
    """Return tokens that a message hardly exceeds; `size` measures a text."""
    texts = texts_of(message)
    return sum(map(size, texts)) + (len(texts) - 1) * markers.call + markers.message


def texts_of(message: Message) -> list[str]:
    """Return the content of a message, and each of its calls, as the texts that are measured."""
    texts = [text_of(message)]
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        arguments = function.get("arguments")
        written = arguments if isinstance(arguments, str) else json.dumps(arguments, default=str)
        texts.append(f"{function.get('name')} {written}")
    return texts


class Bounds(NamedTuple):
    """The least and the most tokens of a part."""

    floor: int
    ceiling: int


class Plan(msgspec.Struct, frozen=True):
    """One division of a window; its shares together are the window."""

    window_tokens: int
    shares: dict[str, int]

    def __getitem__(self, part: str) -> int:
        """Return the tokens of a part."""
        return self.shares[part]

    @property
    def room(self) -> int:
        """Return how many tokens a prompt may have."""
        return self.window_tokens - self["answer"]


def divide(window_tokens: int, bounds: Mapping[str, Bounds]) -> Plan:
    """Divide a window among `PARTS`; a window too small for the floors lowers each in proportion. The answer has no ceiling."""
    least = sum(bounds[part].floor for part in PARTS)
    tokens = {part: bounds[part].floor for part in PARTS}
    if least > window_tokens:
        tokens = {part: floor * window_tokens // least for part, floor in tokens.items()}
    left = window_tokens - sum(tokens.values())
    room = {part: max(0, bounds[part].ceiling - tokens[part]) for part in PARTS}
    kept = min(left // 3, room["history"])
    for part in FILLED:
        more = min(left - kept, room[part])
        tokens[part] += more
        left -= more
    more = min(left, room["history"])
    tokens["history"] += more
    tokens["answer"] += left - more
    return Plan(window_tokens, tokens)


def measure_head(
    tokenizer: Tokenizer, system: Sequence[Message], tools: Sequence[dict[str, Any]] | None
) -> tuple[int, int]:
    """Return the tokens of instructions and of tools in every prompt."""
    if not system and not tools:
        return 0, 0
    whole = tokenizer.count([*system, _ASKED])
    try:
        instructions = tokenizer.count(system, add_generation_prompt=False) if system else 0
    except TemplateError:  # some templates render nothing without a user
        instructions = max(0, whole - tokenizer.count([_ASKED]))
    # Templates put tools where they like; what the whole grows by is right for all of them.
    return instructions, max(0, tokenizer.count([*system, _ASKED], tools=tools) - whole) if tools else 0


class Budget:
    """The plan of one session, made anew when the profile, the model's window, the instructions or the tools change."""

    def __init__(self, settings: Settings, tokenizer: Tokenizer, *, model: Any = None) -> None:
        self.settings = settings
        self.tokenizer = tokenizer
        self._model = model
        self._head: tuple[list[Message], list[dict[str, Any]]] = ([], [])
        self._sizes = (0, 0)
        self._plan: tuple[Any, Plan] | None = None

    @property
    def context(self) -> ContextSettings:
        """Return `[context]` of the profile that holds now."""
        return self.settings.now.context

    @property
    def model_window(self) -> int | None:
        """Return the loaded model's `n_ctx`; None where no model is known, or one of the caller's own has none."""
        return getattr(self._model, "n_ctx", None)

    @property
    def window_tokens(self) -> int:
        """Return the smaller of the profile's and the model's window."""
        return min(self.context.window_tokens, self.model_window or self.context.window_tokens)

    @functools.cached_property
    def markers(self) -> Markers:
        """Return how many tokens the template puts around things."""
        return measure_markers(self.tokenizer)

    @property
    def plan(self) -> Plan:
        """Return how the window is divided now."""
        made_of = (self.context, self.window_tokens, self._sizes)
        if self._plan is None or self._plan[0] != made_of:
            # `check_head` refuses a head that is too large; instructions that grew later leave the prompt whatever room there is.
            self._plan = (made_of, divide(self.window_tokens, self.bounds(*self._sizes)))
        return self._plan[1]

    def bounds(
        self, instructions: int = 0, tools: int = 0, used: Mapping[str, int] | None = None
    ) -> dict[str, Bounds]:
        """Return the floors and ceilings of the parts, given the tokens of instructions and of tools.

        `used` has tokens of parts of a prompt in the window; no part gets less than it takes.
        """
        context, window = self.context, self.window_tokens
        bounds = {
            "instructions": Bounds(instructions, window), "tools": Bounds(tools, window),
            "summary": Bounds(0, context.summary_tokens), "history": Bounds(LEAST_HISTORY_TOKENS, window),
            "memory": Bounds(0, context.block_tokens), "notes": Bounds(0, context.notes_tokens),
            "answer": Bounds(context.reply_tokens, window),
        }  # fmt: skip
        for part, tokens in (used or {}).items():
            floor, ceiling = bounds[part]
            bounds[part] = Bounds(max(floor, tokens), max(ceiling, tokens))
        return bounds

    def measure(self, system: Sequence[Message], tools: Sequence[dict[str, Any]] | None) -> None:
        """Count instructions and tools if they changed."""
        head = (list(system), list(tools or ()))
        if head != self._head:
            self._sizes = measure_head(self.tokenizer, *head)
            self._head = head

    def check_head(self) -> int:
        """Return the least window for these instructions and tools; raise ContextOverflowError if ours is smaller."""
        window, bounds = self.window_tokens, self.bounds(*self._sizes)
        least = sum(part.floor for part in bounds.values())
        if least <= window:
            return least
        head, about = sum(self._sizes), "" if self.tokenizer.exact else "about "
        what = "instructions and the tools" if self._sizes[1] else "instructions"
        takes = f"The {what} take {about}{head:,} tokens and a" if head else "A"
        whose, where = "the window", "`window_tokens` under [context]"
        if window < self.context.window_tokens:
            whose, where = "the window that the model was opened with", "n_ctx, or -c of its server"
        instead = "lower `reply_tokens`"
        if head:
            instead = f"shorten the instructions{', or offer fewer tools' if self._sizes[1] else ''}"
        raise ContextOverflowError(
            f"{takes} turn needs {least - head:,} (answer {bounds['answer'].floor:,}, what is said"
            f" {bounds['history'].floor:,}), but {whose} has {window:,}: give the model a window of at least {least:,}"
            f" ({where}), or {instead}."
        )

    def head_fault(self) -> str:
        """Return why `check_head` refuses these instructions and tools; empty: it does not."""
        try:
            self.check_head()
        except ContextOverflowError as error:
            return str(error)
        return ""


class FittedPrompt(msgspec.Struct, frozen=True):
    """The part of a message list that goes to the model."""

    messages: list[Message]
    dropped_turns: int
    """How many of the oldest turns are left out; hand it to the next `fit` of the same conversation."""
    tokens: int
    """The whole prompt as rendered, tools and generation prompt included."""
    fits: bool
    note: str = ""
    """One sentence for the operator when something was left out or does not fit."""


def fit(
    messages: Sequence[Message],
    *,
    tokenizer: Tokenizer,
    budget_tokens: int,
    target_tokens: int | None = None,
    tools: Sequence[dict[str, Any]] | None = None,
    dropped_turns: int = 0,
) -> FittedPrompt:
    """Leave out the oldest whole turns until the prompt is within the budget; the list and its messages are not changed.

    The instructions and the newest user message with its calls always stay; only where these alone are too large, the oldest
    calls of the turn go with their results, all but the newest. When that is not enough either, `fits` is false. The result
    starts with a user message and has no tool result without its call. Counts once when nothing must go, else about log2(turns)
    times.

    Args:
        target_tokens: size to cut to when over budget (default: the budget). Every cut costs the model its cache, so few
            large cuts are cheaper than many small ones.
        dropped_turns: turns that an earlier call left out of this conversation; they stay out.
    """
    head, turns = split_turns(repair_orphans(messages))

    def prompt(stays: Sequence[Sequence[Message]]) -> list[Message]:
        return [*head, *(message for turn in stays for message in turn)]

    def size(stays: Sequence[Sequence[Message]]) -> int:
        return tokenizer.count(prompt(stays), tools=tools)

    # A greeting in front of the first user message is legal only where nothing follows it.
    greeting = int(len(turns) > 1 and turns[0][0].get("role") != "user")
    newest = max(0, len(turns) - 1)
    first = min(max(dropped_turns, greeting), newest)
    tokens = size(turns[first:])
    if tokens > budget_tokens and first < newest:
        limits = [min(target_tokens or budget_tokens, budget_tokens), budget_tokens]
        first, tokens = _cut(lambda n: size(turns[n:]), first, newest, limits)
    stays = turns[first:]
    note = f"Left out the {first} oldest of {len(turns)} turns" if first > greeting else ""
    if tokens > budget_tokens and stays:
        calls = [n for n, message in enumerate(stays[-1]) if tool_calls(message)]
        if len(calls) > 1:
            turn, asked = stays[-1], stays[-1][: calls[0]]
            step, tokens = _cut(lambda n: size([asked, turn[calls[n] :]]), 0, len(calls) - 1, [budget_tokens])
            stays = [asked, turn[calls[step] :]]
            note = f"Left out {step} of {len(calls)} calls of tools in the newest turn"
    if tokens > budget_tokens:
        since = " and what the tools returned since" if sum(map(len, stays)) > 1 else ""
        note = (
            f"The instructions and the newest user message{since} need {'' if tokenizer.exact else 'about '}{tokens:,}"
            f" tokens, {tokens - budget_tokens:,} more than the budget of {budget_tokens:,}: shorten them, offer fewer"
            " tools, or give the model a larger window."
        )
    elif note:
        note += f" to stay within {budget_tokens:,} tokens."
    return FittedPrompt(prompt(stays), first, tokens, tokens <= budget_tokens, note)


def _cut(size: Callable[[int], int], too_early: int, newest: int, limits: Sequence[int]) -> tuple[int, int]:
    """Return the first turn to keep and the size then: the earliest within the first limit that can be met."""
    first, tokens = newest, size(newest)
    limit = next((limit for limit in limits if tokens <= limit), None)
    # A template may make a shorter list longer; so only a counted cut is ever returned.
    while limit is not None and first - too_early > 1:
        middle = (too_early + first) // 2
        counted = size(middle)
        if counted <= limit:
            first, tokens = middle, counted
        else:
            too_early = middle
    return first, tokens
