"""The budget: how the window of the loaded model is divided, and which messages fit their share.

Every part has a floor and a ceiling. Instructions and tools take what they take; the others get their floors first. A
third of what is left then is the conversation's; the rest goes, each up to its ceiling, to memory, summary and notes in
this order, and what these do not need to the conversation too. What is above its ceiling is the answer's. So the parts
together are always the window, and a larger window makes no part smaller. Everything that bounds a prompt reads its bound
here: the epochs, the block of memory, the notes, what tools may answer, and the last word on what is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from edgemem.config.profile import LEAST_HISTORY_TOKENS
from edgemem.context.messages import repair_orphans, split_turns, tool_calls
from edgemem.errors import ContextOverflowError, TemplateError

if TYPE_CHECKING:
    from edgemem.config import ContextSettings, Settings
    from edgemem.llama.protocols import Tokenizer
    from edgemem.records import Message


PARTS = ("instructions", "tools", "summary", "history", "memory", "notes", "answer")
"""The parts of a window; `history` holds the newest utterance and the answers of tools, too."""

FILLED = ("memory", "summary", "notes")
"""The order in which parts beside the conversation get more than their floors."""

_ASKED: Message = {"role": "user", "content": "Hello."}


class Bounds(NamedTuple):
    """The least and the most tokens of a part."""

    floor: int
    ceiling: int


class Share(msgspec.Struct, frozen=True):
    """The tokens of one part of the window, and the bounds between which they lie."""

    tokens: int
    floor: int
    ceiling: int


class Plan(msgspec.Struct, frozen=True):
    """One division of a window; its shares together are the window."""

    window_tokens: int
    shares: dict[str, Share]

    def __getitem__(self, part: str) -> int:
        """Return the tokens of a part."""
        return self.shares[part].tokens

    @property
    def room(self) -> int:
        """Return how many tokens a prompt may have."""
        return self.window_tokens - self["answer"]


def divide(window_tokens: int, bounds: Mapping[str, Bounds]) -> Plan:
    """Divide a window.

    Args:
        bounds: for each of `PARTS`; the answer has no ceiling, whatever stands there: it may take what is left.

    Raises:
        ContextOverflowError: the floors together are more than the window.
    """
    tokens = {part: bounds[part].floor for part in PARTS}
    left = window_tokens - sum(tokens.values())
    if left < 0:
        raise ContextOverflowError(
            f"The least that the parts of a prompt and its answer take is {window_tokens - left:,} tokens, and the window "
            f"has {window_tokens:,}: give the model a larger one, or lower `reply_tokens` under [context]."
        )
    history = max(0, bounds["history"].ceiling - bounds["history"].floor)
    kept = min(left // 3, history)
    for part in FILLED:
        more = min(left - kept, max(0, bounds[part].ceiling - tokens[part]))
        tokens[part] += more
        left -= more
    tokens["history"] += min(left, history)
    tokens["answer"] += left - min(left, history)
    shares = {part: Share(tokens[part], bounds[part].floor, bounds[part].ceiling) for part in PARTS}
    return Plan(window_tokens, shares)


def divide_with(window_tokens: int, bounds: Mapping[str, Bounds], used: Mapping[str, int]) -> Plan:
    """Divide a window that has a prompt in it: no part gets less than it takes.

    Args:
        used: the tokens that the parts of the prompt take.

    Raises:
        ContextOverflowError: the prompt and the least answer do not fit.
    """
    held = {
        part: Bounds(max(bounds[part].floor, used.get(part, 0)), max(bounds[part].ceiling, used.get(part, 0)))
        for part in PARTS
    }
    return divide(window_tokens, held)


def squeeze(window_tokens: int, bounds: Mapping[str, Bounds]) -> Plan:
    """Divide a window that is too small even for the floors: each is lowered in proportion, and nothing is refused."""
    least = max(1, sum(bounds[part].floor for part in PARTS))
    return divide(
        window_tokens,
        {
            part: Bounds(bounds[part].floor * min(window_tokens, least) // least, bounds[part].ceiling)
            for part in PARTS
        },
    )


def bounds_of(
    context: ContextSettings, *, window_tokens: int, instructions: int = 0, tools: int = 0
) -> dict[str, Bounds]:
    """Return the floors and ceilings that a profile gives the parts of a window.

    Args:
        instructions: the tokens that the loop's instructions take.
        tools: those of its tools' schemas.
    """
    return {
        "instructions": Bounds(instructions, window_tokens),
        "tools": Bounds(tools, window_tokens),
        "summary": Bounds(0, context.summary_tokens),
        "history": Bounds(LEAST_HISTORY_TOKENS, window_tokens),
        "memory": Bounds(0, context.block_tokens),
        "notes": Bounds(0, context.notes_tokens),
        "answer": Bounds(context.reply_tokens, window_tokens),
    }


def measure_head(
    tokenizer: Tokenizer, system: Sequence[Message], tools: Sequence[dict[str, Any]] | None
) -> tuple[int, int]:
    """Return what instructions and tools take in every prompt, in tokens."""
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

    def __init__(
        self,
        settings: Settings,
        tokenizer: Tokenizer,
        *,
        n_ctx: Callable[[], int | None] = lambda: None,
    ) -> None:
        """Make the budget.

        Args:
            settings: has `[context]` of the profile that holds now.
            tokenizer: counts what the model will see.
            n_ctx: returns the window of the loaded model in tokens, None where no model is known.
        """
        self.settings = settings
        self.tokenizer = tokenizer
        self._n_ctx = n_ctx
        self._head: tuple[list[Message], list[dict[str, Any]]] = ([], [])
        self._sizes = (0, 0)
        self._made: tuple[Any, Plan] | None = None

    @property
    def context(self) -> ContextSettings:
        """Return `[context]` of the profile that holds now."""
        return self.settings.now.context

    @property
    def model_window(self) -> int | None:
        """Return the window of the loaded model, None where no model is known."""
        return self._n_ctx()

    @property
    def window_tokens(self) -> int:
        """Return the window that counts: the profile's, or the model's where that is smaller."""
        return min(self.context.window_tokens, self._n_ctx() or self.context.window_tokens)

    @property
    def plan(self) -> Plan:
        """Return how the window is divided now."""
        window = self.window_tokens
        made_of = (self.context, window, self._sizes)
        if self._made is None or self._made[0] != made_of:
            self._made = (made_of, self._divided(window))
        return self._made[1]

    def _divided(self, window: int) -> Plan:
        bounds = self._bounds(window)
        try:
            return divide(window, bounds)
        except ContextOverflowError:
            # `check_head` refuses this at once; where instructions grew later, the prompt has what room there is.
            return squeeze(window, bounds)

    def measure(self, system: Sequence[Message], tools: Sequence[dict[str, Any]] | None) -> None:
        """Count what instructions and tools take, if they are others than before."""
        head = (list(system), list(tools or ()))
        if head != self._head:
            self._sizes = measure_head(self.tokenizer, *head)
            self._head = head

    def check_head(self) -> int:
        """Return the smallest window that these instructions and tools can be used with, in tokens.

        Raises:
            ContextOverflowError: the window is smaller than that.
        """
        window, (instructions, tools) = self.window_tokens, self._sizes
        bounds = self._bounds(window)
        about = "" if self.tokenizer.exact else "about "
        least = sum(part.floor for part in bounds.values())
        if least <= window:
            return least
        head = instructions + tools
        turn = {
            "answer": bounds["answer"].floor,
            "what is said": bounds["history"].floor,
        }
        what = "The instructions and the tools" if tools else "The instructions"
        needs = (
            f"a turn needs {least - head:,} ({', '.join(f'{name} {size:,}' for name, size in turn.items())})"
        )
        takes = (
            f"{what} take {about}{head:,} tokens and {needs}" if head else f"{needs[0].upper()}{needs[1:]}"
        )
        whose = (
            "the window has"
            if window == self.context.window_tokens
            else "the window that the model was opened with has"
        )
        where = (
            "`window_tokens` under [context]"
            if window == self.context.window_tokens
            else "n_ctx, or -c of its server"
        )
        shorten = (
            ", shorten the instructions, or offer fewer tools" if tools else ", or shorten the instructions"
        )
        raise ContextOverflowError(
            f"{takes}, but {whose} {window:,}: give the model a window of at least {least:,} ({where})"
            f"{shorten if head else ', or lower `reply_tokens`'}."
        )

    def _bounds(self, window: int) -> dict[str, Bounds]:
        instructions, tools = self._sizes
        return bounds_of(self.context, window_tokens=window, instructions=instructions, tools=tools)


class Fit(msgspec.Struct, frozen=True):
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
) -> Fit:
    """Leave out the oldest whole turns until the prompt is within the budget.

    The instructions and the newest user message always stay, and with it what tools were asked and answered since; only
    where these alone are too large, the oldest calls of the turn go with their results, all but the newest. When that is
    not enough either, `fits` is false. The result starts with a user message and has no tool result without its
    call. Counts once when nothing must go, else about 2 log2(turns that stay) times.

    Args:
        messages: the conversation; neither it nor its messages are changed.
        budget_tokens: what the whole prompt may take.
        target_tokens: what to go down to when it is over budget (default: the budget). Every cut changes the
            start of the prompt and costs the model its cache, so few large cuts are cheaper than many small ones.
        dropped_turns: turns that an earlier call left out of this conversation; they stay out.
    """
    head, turns = split_turns(repair_orphans(messages))
    # A greeting in front of the first user message is legal only where nothing stands behind it.
    greeting = int(len(turns) > 1 and turns[0][0].get("role") != "user")
    newest = max(0, len(turns) - 1)

    def size(first: int) -> int:
        return tokenizer.count(_joined(head, turns[first:]), tools=tools)

    first = min(max(dropped_turns, greeting), newest)
    tokens = size(first)
    if tokens > budget_tokens and first < newest:
        first, tokens = _cut(
            size, first, newest, [min(target_tokens or budget_tokens, budget_tokens), budget_tokens]
        )
    stays = turns[first:]
    asked, steps = _steps(stays[-1]) if stays else ([], [])
    shorter = 0
    if tokens > budget_tokens and len(steps) > 1:

        def size_from(step: int) -> int:
            return tokenizer.count(_joined(head, [asked, *steps[step:]]), tools=tools)

        shorter, tokens = _cut(size_from, 0, len(steps) - 1, [budget_tokens])
        stays = [asked, *steps[shorter:]]
    note = ""
    if tokens > budget_tokens:
        note = _too_large(_joined([], stays), tokens, budget_tokens, exact=tokenizer.exact)
    elif shorter:
        note = f"Left out {shorter} of {len(steps)} calls of tools in the newest turn to stay within {budget_tokens:,} tokens."
    elif first > greeting:
        note = f"Left out the {first} oldest of {len(turns)} turns to stay within {budget_tokens:,} tokens."
    return Fit(_joined(head, stays), first, tokens, tokens <= budget_tokens, note)


def _steps(turn: Sequence[Message]) -> tuple[list[Message], list[list[Message]]]:
    """Return what a turn begins with, and its calls of tools, each with what follows it."""
    starts = [n for n, message in enumerate(turn) if tool_calls(message)]
    steps = [list(turn[start:end]) for start, end in pairwise([*starts, len(turn)])]
    return list(turn[: starts[0] if starts else len(turn)]), steps


def _cut(size: Callable[[int], int], too_early: int, newest: int, limits: Sequence[int]) -> tuple[int, int]:
    """Return the first turn to keep and the size then: the earliest within the first limit that can be met."""
    first, tokens = newest, size(newest)
    limit = next((limit for limit in limits if tokens <= limit), None)
    if limit is None:
        return first, tokens
    # A template may make a shorter list longer; so only a cut that was counted itself is ever returned. Growing
    # steps back from the newest turn count lists no longer than twice what stays, however long the history is.
    step, galloping = 1, True
    while first - too_early > 1:
        middle = max(first - step, too_early + 1) if galloping else (too_early + first) // 2
        counted = size(middle)
        if counted <= limit:
            first, tokens, step = middle, counted, 2 * step
        else:
            too_early, galloping = middle, False
    return first, tokens


def _joined(head: list[Message], turns: Sequence[list[Message]]) -> list[Message]:
    return [*head, *(message for turn in turns for message in turn)]


def _too_large(newest: Sequence[Message], tokens: int, budget: int, *, exact: bool) -> str:
    since = " and what the tools returned since" if len(newest) > 1 else ""
    return (
        f"The instructions and the newest user message{since} need {'' if exact else 'about '}{tokens:,} tokens, "
        f"{tokens - budget:,} more than the budget of {budget:,}: shorten them, offer fewer tools, or give the "
        "model a larger window."
    )
