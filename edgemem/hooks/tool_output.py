"""ToolOutputTruncatorHook: a tool that answers with pages does not fill the window, and what is missing is said.

Where the conversation is kept in SQLite, the whole text is kept with it, and the model is told its name: `read_more`
(in `edgemem.loop.toolbox`) reads on from there. The name is made of the text, so a turn that is taken up again has the same.

What a turn's tools answer is shared out, since all of it stands in the window together: half of what is left goes to the
calls that the model has just asked for, so that it may ask again. What was shown once is never changed (law 2).

Shortening: a result of a tool as text or JSON of so many characters, which says what is missing and where it is.
"""

from __future__ import annotations

import copy
import json
import re
import unicodedata
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from edgemem.context.messages import split_turns
from edgemem.context.size import MARGIN, upper_bound
from edgemem.errors import InvalidInputError
from edgemem.hooks.conversation import Conversation, conversation_of
from edgemem.hooks.points import AFTER_LLM, AFTER_TOOL, BEFORE_LLM, HookResult, as_text
from edgemem.records import MEMORY_TOOLS, READ_MORE, Message
from edgemem.store.turn_steps import KeepOutput
from edgemem.store.turns import pointer_to
from edgemem.store.validation import whole_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.context.budget import Budget
    from edgemem.llama.protocols import Tokenizer


KEPT_BYTES = 8_000_000
"""Of results that were shortened, so much is kept whole for `read_more`, of all sessions together; the oldest are dropped."""

LEAST_CHARS = 200
"""A smaller bound would hold little but the note about what was left out."""

LEAST_TOKENS = 100
"""What so many characters take at most in scripts of two letters a token."""

POINTS_TO = f"… all of it: {READ_MORE} {{pointer}}"
"""What the model is told of a text that is kept."""

_POINTER_CHARS = len(POINTS_TO) + 10
"""A result that is no longer than what would be told in its place stays as it is."""


class _Left:
    """What the running turn has left of the room for its prompt, and who is to share it."""

    def __init__(self, payload: dict[str, Any]) -> None:
        self.messages: Sequence[Message] = payload["messages"]
        self.tools = payload.get("tools")
        counted = payload.get("counted")
        self.sizes: dict[bool, int] = {}
        """Tokens of the newest prompt, and (True) of it without the turns before, which the budget leaves out when it must."""
        if counted is not None and counted[0] is self.messages:
            self.sizes[False] = counted[1]
        self.asked: Message = {"role": "assistant", "content": ""}
        self.calls = 0
        """Tool calls that wait for their results."""
        self.answers: list[str] = []
        """The results since the newest prompt, as the model is told them."""

    def ask(self, payload: dict[str, Any]) -> None:
        """Note what the model asked for."""
        calls = [
            {"function": {"name": getattr(call, "name", ""), "arguments": getattr(call, "arguments", None)}}
            for call in payload.get("tool_calls") or ()
        ]
        self.calls, self.answers = len(calls), []
        self.asked = {"role": "assistant", "content": payload.get("content") or "", "tool_calls": calls}

    def over(self, budget: Budget, *, alone: bool = False, exactly: bool = True) -> int:
        """Return what is left of the room behind the prompt, the calls, and what was answered.

        Args:
            alone: no other turn stands in the prompt.
            exactly: texts are tokenised; else their bytes stand for their tokens, and less may be left than there is.
        """
        tokenizer = budget.tokenizer
        if alone not in self.sizes:
            head, turns = split_turns(self.messages)
            prompt = [*head, *turns[-1]] if alone and turns else self.messages
            self.sizes[alone] = tokenizer.count(prompt, tools=self.tools)

        def tokens(text: str) -> int:
            return len(tokenizer.encode(text)) if exactly else _bytes(text)

        asked = upper_bound(self.asked, budget.markers, tokens)
        return budget.plan.room - self.sizes[alone] - asked - sum(tokens(a) + MARGIN for a in self.answers)


class ToolOutputTruncatorHook:
    """Shorten results of tools: text at a line or a whole character, JSON by whole values, so that it stays JSON."""

    points = frozenset({BEFORE_LLM, AFTER_LLM, AFTER_TOOL})
    # Before whatever keeps or shows the result, and behind the budget.
    priority = 40

    def __init__(
        self,
        max_chars: int = 2000,
        *,
        budget: Budget | None = None,
        keep_bytes: int = 0,
        conversation: Conversation | None = None,
    ) -> None:
        """Make the hook.

        Args:
            max_chars: the most characters of a result, its note about what was left out included; at least 200.
            budget: says what a whole prompt may have; a result then has no more than is left of it in this turn, and no
                more than a quarter of it. Where even 200 characters would be too many, it is the name alone.
            keep_bytes: how much of what was shortened is kept whole, of all sessions together, oldest dropped first;
                0: nothing. Only a session that is kept in SQLite keeps anything.

        Raises:
            InvalidInputError: `max_chars` is less than that.
        """
        if whole_number(max_chars, "max_chars") < LEAST_CHARS:
            raise InvalidInputError(f"max_chars must be at least {LEAST_CHARS}; it is {max_chars}.")
        self.max_chars = max_chars
        self.keep_bytes = keep_bytes
        self._budget = budget
        self._conversation = conversation

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Note what is left when the model is called, and replace a result that is too long."""
        left: _Left | None = ctx.hook_state.get(id(self))
        if point == BEFORE_LLM:
            ctx.hook_state[id(self)] = _Left(payload)
            return None
        if point == AFTER_LLM:
            if left is not None:
                left.ask(payload)
            return None
        shortened = self._shortened(ctx, payload, left)
        answer = _answer_text(shortened or payload)
        if left is not None and answer is not None:
            left.answers.append(answer)
            left.calls -= 1
        return HookResult.replace(shortened, reason="truncated") if shortened is not None else None

    def _shortened(self, ctx: Any, payload: Any, left: _Left | None) -> Any:
        """Return a copy of the payload with less of its result; None where it may stay."""
        text = _answer_text(payload)
        if text is None:
            return None
        # The memory's own tools know their bounds, and can be asked again; so theirs are cut only where nothing else helps.
        ours = payload.name in MEMORY_TOOLS
        room = len(text) if ours else self.max_chars
        if left is not None and self._budget is not None:
            fair = _fair(left, self._budget, text, whole=ours)
            room = _room(text[:room], fair, self._budget.tokenizer, room)
        if len(text) <= max(room, _POINTER_CHARS):
            return None
        pointer = "" if ours else self._keep(conversation_of(ctx, self._conversation), text)
        is_error = payload.result is None
        if room >= LEAST_CHARS:
            shown = shorten(payload.error if is_error else payload.result, room, pointer=pointer)
        else:
            shown = POINTS_TO.format(pointer=pointer) if pointer else f"… ({len(text):,} characters)"
        # A copy: the payload of another framework is no record of ours, and others may hold it.
        shortened = copy.copy(payload)
        if is_error:
            shortened.error = shown
        else:
            shortened.result = shown
        return shortened

    def _keep(self, conversation: Conversation, text: str) -> str:
        """Have the whole text written with its turn; return its name, or nothing if it cannot be kept."""
        if conversation.journal is None or _bytes(text) > self.keep_bytes:
            return ""
        pointer = pointer_to(conversation.prompt_log.session, text)
        step = KeepOutput(conversation.prompt_log.session, pointer, text, self.keep_bytes)
        if step not in conversation.also:
            conversation.also.append(step)
        return pointer


def _fair(left: _Left, budget: Budget, text: str, *, whole: bool) -> int:
    """Return how many tokens one more result may have: half of what is left is for this hop, shared by its calls.

    Args:
        whole: it is to be whole, whatever turns that costs.
    """
    calls = max(1, left.calls) * (1 if whole else 2)
    most = budget.plan.room // 4
    needed = _bytes(text) if whole else min(_bytes(text), most)
    # Most results are small, or far from the end of the window; then nothing need be tokenised.
    fair = left.over(budget, exactly=False) // calls
    if fair < needed:
        fair = left.over(budget) // calls
    if fair < needed and (whole or fair < LEAST_TOKENS):
        # A little is better than nothing, even if it costs the oldest turns their place in the prompt.
        alone = left.over(budget, alone=True) // calls
        fair = max(fair, alone if whole else min(LEAST_TOKENS, alone))
    return fair if whole else min(most, fair)


def _room(text: str, most_tokens: int, tokenizer: Tokenizer, room: int) -> int:
    """Return `room`, or how many characters of the text may stay: one of few letters a token is cut earlier.

    Below 200 there is no place for anything but a name; 0 says so.
    """
    while _bytes(text) > most_tokens and (tokens := len(tokenizer.encode(text))) > most_tokens:
        if room <= LEAST_CHARS:
            return 0
        room = max(LEAST_CHARS, min(len(text) * max(most_tokens, 0) // tokens, len(text) - 1))
        text = text[:room]
    return room


def _bytes(text: str) -> int:
    """Return the bytes of a text: no vocabulary takes more tokens for it than these."""
    return len(text.encode(errors="replace"))


def _answer_text(payload: Any) -> str | None:
    """Return what the model is told of a call: its result, or, where it failed, why."""
    if payload.result is None:
        return payload.error if isinstance(payload.error, str) else None
    return payload.result if isinstance(payload.result, str) else as_text(payload.result)


_MOST_DEPTH = 8
"""A value that is nested deeper is shown as text from here on."""

_JOINS = re.compile("[\u200d\ufe00-\ufe0f\U0001f3fb-\U0001f3ff]")
"""What belongs to the sign before it, beside marks."""


def shorten(value: Any, max_chars: int, *, pointer: str = "") -> Any:
    """Return the value with at most `max_chars` characters as text or JSON, saying how much was left out.

    Text that is JSON comes back as JSON. Keys keep their order; a list keeps its first items.

    Args:
        pointer: the name under which the whole of it can be read; said at the end.
    """
    hint = POINTS_TO.format(pointer=pointer) if pointer else ""
    room = max_chars - len(hint) - 6 if hint else max_chars  # with quotes, a comma and spaces
    parsed, is_json = value, not isinstance(value, str)
    if is_json:
        parsed = json.loads(as_text(value))
    elif value.lstrip()[:1] in ("{", "["):
        with suppress(ValueError, RecursionError):
            parsed, is_json = json.loads(value), True
    out = _shortened(parsed, room, depth=0) if is_json else _cut(value, room)
    if hint and isinstance(out, list):
        out = [*out, hint]
    elif hint and isinstance(out, dict):
        key, _, rest = hint.partition(": ")
        out = {**out, key: rest}
    elif hint:
        out = f"{out}\n{hint}"
    return as_text(out) if is_json and isinstance(value, str) else out


def _shortened(value: Any, room: int, *, depth: int) -> Any:
    if len(as_text(value)) <= room:
        return value
    if isinstance(value, list) and depth < _MOST_DEPTH:
        return _fewer(value, room, depth=depth)
    if isinstance(value, dict) and depth < _MOST_DEPTH:
        return _smaller(value, room, depth=depth)
    text = value if isinstance(value, str) else as_text(value)
    # Quotes and control characters take more room in JSON than in the text itself.
    cut = _cut(text, max(1, int((room - 2) * max(1, len(text)) / len(as_text(text)))))
    while len(cut) > 1 and len(as_text(cut)) > room:
        cut = _cut(text, len(cut) * 3 // 4)
    return cut


def _fewer(items: list[Any], room: int, *, depth: int) -> list[Any]:
    """Keep the first items, and of a long first one a part."""
    out: list[Any] = []
    left = room - len(_note(len(items), len(items), "items")) - 6
    for item in items:
        size = len(as_text(item)) + 2
        if size > left:
            break
        out.append(item)
        left -= size
    if not out and left > 0:
        out.append(_shortened(items[0], left, depth=depth + 1))
    missing = len(items) - len(out)
    return [*out, _note(missing, len(items), "items")] if missing else out


def _smaller(members: dict[str, Any], room: int, *, depth: int) -> dict[str, Any]:
    """Keep short members whole, and let the long ones share what is left behind the note."""
    sizes = {key: len(as_text(key)) + len(as_text(value)) + 4 for key, value in members.items()}
    left = room - 60
    shares: dict[str, int] = {}
    for n, key in enumerate(sorted(sizes, key=sizes.__getitem__)):
        shares[key] = min(sizes[key], left // (len(members) - n))
        left -= shares[key]
    out = {}
    for key, value in members.items():
        inner = shares[key] - len(as_text(key)) - 4
        if shares[key] == sizes[key]:
            out[key] = value
        elif inner >= 40:
            out[key] = _shortened(value, inner, depth=depth + 1)
    if missing := len(members) - len(out):
        out["left out"] = f"{missing:,} of {len(members):,} members"
    return out


def _cut(text: str, max_chars: int) -> str:
    """Return the beginning of the text up to a line's end near the bound, or else a whole sign, and a note."""
    if len(text) <= max_chars:
        return text
    room = max_chars - len(_note(len(text), len(text), "characters")) - 1
    if room < 1:
        return "…"
    end = text.rfind("\n", room * 3 // 4, room + 1)
    between = "\n" if end >= 0 else ""
    head = text[: end if between else _whole(text, room)].rstrip()
    return head + between + _note(len(text) - len(head), len(text), "characters")


def _note(missing: int, of: int, what: str) -> str:
    return f"… ({missing:,} of {of:,} {what} left out)"


def _whole(text: str, end: int) -> int:
    """Return the nearest place at or before `end` that tears no sign (of 16 characters at most) apart."""
    for at in range(end, max(0, end - 16), -1):
        marks = unicodedata.category(text[at]).startswith("M")
        if not (marks or _JOINS.match(text[at]) or text[at - 1] == "\u200d"):
            return at
    return end
