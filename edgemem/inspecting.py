"""Inspecting: the next prompt of a session, part by part with its tokens, laid out by the hooks themselves.

Only hooks that put the prompt together are asked, and the turn never ends, so nothing is stored and nothing learnt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.context.block import asks, worth_saying
from edgemem.context.grouping import split_turns
from edgemem.context.layout import SUMMARY_HEADER, LaidTurn, Layout, Shown
from edgemem.errors import InvalidInputError, TemplateError
from edgemem.fence import fence
from edgemem.hooks.compaction import ContextCompactionHook
from edgemem.hooks.conversation import Conversation, conversation_of
from edgemem.hooks.injection import MemoryInjectionHook
from edgemem.hooks.layout_view import LayoutHook
from edgemem.hooks.notes_injector import NotesInjectorHook
from edgemem.hooks.persist import PersistSessionHook
from edgemem.hooks.points import BEFORE_LLM, ON_RUN_START, Hook, TurnContext
from edgemem.hooks.registry import HookRegistry
from edgemem.hooks.token_budget import TokenBudgetHook
from edgemem.hooks.turn_log import TurnLogHook
from edgemem.llama.template import text_of
from edgemem.records import Message, Recalled, Session

if TYPE_CHECKING:
    from edgemem.llama.protocols import Tokenizer
    from edgemem.store.journal import TurnJournal

ASKED = (LayoutHook, MemoryInjectionHook, NotesInjectorHook, ContextCompactionHook, TokenBudgetHook)
"""Hooks that lay out a prompt and write nothing."""

WHY = {
    "gone": "no longer true, and the prompt says it is",
    "changed": "changed since it was shown",
    "interrupted": "the reply before was cut off",
    "note": "the end of NOTES.md",
}
"""Why a line is there that recall did not find, by the first part of its id."""


class Part(msgspec.Struct, frozen=True, omit_defaults=True):
    """One part of a prompt; the tokens of all parts are those of the whole."""

    name: str
    """`system`, `summary`, `turn`, `memory`, `utterance`, or `opening`: the marks that begin the answer."""
    tokens: int
    text: str = ""
    turn: int | None = None
    speaker: str | None = None
    block_tokens: int = 0
    """How many of an earlier turn's tokens are memory that was put before it."""


class BlockLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of the memory block, or what recall found and did not become one."""

    id: str
    text: str
    tokens: int = 0
    """Of the line by itself; the block has its two tags beside."""
    score: float | None = None
    why: tuple[str, ...] = ()
    left_out: str = ""
    """Why it is not in the block; empty where it is."""


class Inspection(msgspec.Struct, frozen=True):
    """The next prompt, and what it leaves for the answer."""

    parts: list[Part]
    lines: list[BlockLine]
    left_out: list[BlockLine]
    tokens: int
    """Of the whole prompt."""
    exact: bool
    """Whether tokens were counted by a model's tokenizer, or are estimates."""
    window_tokens: int
    reply_tokens: int
    """Kept free for the answer at least."""
    block_limit: int
    notes: list[str]
    """What else the person who looks should know."""
    messages: list[Message]
    """What the model would be handed."""

    @property
    def free_tokens(self) -> int:
        """Return the room for the answer."""
        return self.window_tokens - self.tokens


def inspect_prompt(
    hooks: Sequence[Hook],
    utterance: str,
    *,
    tokenizer: Tokenizer,
    window_tokens: int,
    reply_tokens: int,
    speaker: str | None = None,
    instructions: str = "",
    tools: Sequence[dict[str, Any]] = (),
) -> Inspection:
    """Return the prompt that the next turn of a session would hand to the model.

    Args:
        hooks: those of the session, made for this look.
        tokenizer: the chat model's; counts what the hooks count with.
        speaker: who says it; None: an unknown voice.
        instructions: the loop's system message.
        tools: the loop's tools; they stand in the prompt's head.
    """
    if not utterance.strip():
        raise InvalidInputError("Nothing was said: give the utterance that the prompt is for.")
    registry = HookRegistry(hook for hook in hooks if isinstance(hook, ASKED))
    injection = next(hook for hook in hooks if isinstance(hook, MemoryInjectionHook))
    ctx = TurnContext(Session(), speaker=speaker)
    said = {"task": utterance, "speaker": speaker}
    registry.fire(ON_RUN_START, ctx, said)
    conversation = conversation_of(ctx)
    _resume(hooks, ctx, conversation)
    ctx.session.messages.append({"role": "user", "content": utterance})
    system = [{"role": "system", "content": instructions}] if instructions else []
    asked = {"messages": [*system, *ctx.session.messages], "hop": 0, "tools": list(tools)}
    fired = registry.fire(BEFORE_LLM, ctx, asked)
    if fired.is_end:
        raise InvalidInputError(f"The prompt cannot be laid out: {registry.failures()[0].message}.")
    payload = fired.payload
    layout = conversation.layout

    def size(messages: Sequence[Message], *, opening: bool = False) -> int:
        return tokenizer.render(
            messages, tools=payload["tools"] or None, add_generation_prompt=opening, now=payload.get("now")
        ).n

    messages = payload["messages"]
    parts = _parts(messages, layout, size)
    running = layout.running
    shown = running.shown if running is not None else ()
    return Inspection(
        parts,
        [_line(item, injection.last, tokenizer) for item in shown],
        _left_out(injection, shown, utterance),
        sum(part.tokens for part in parts),
        tokenizer.exact,
        window_tokens,
        reply_tokens,
        injection.block_tokens,
        list(_notes(hooks, registry)),
        messages,
    )


def _resume(hooks: Iterable[Hook], ctx: TurnContext, conversation: Conversation) -> None:
    """Take the stored session up as PersistSessionHook does, without marking what a crash left open."""
    for hook in hooks:
        journal: TurnJournal | None = getattr(getattr(hook, "session_store", None), "journal", None)
        if not isinstance(hook, PersistSessionHook) or journal is None:
            continue
        epoch = journal.latest_epoch(hook.session_id)
        turns = journal.read_turns(hook.session_id, from_n=epoch.first_turn if epoch else 0)
        conversation.layout.resume(turns, epoch)
        ctx.session.messages.extend(conversation.layout.said)


def _parts(messages: Sequence[Message], layout: Layout, size: Callable[..., int]) -> list[Part]:
    """Cut a prompt into its parts; each takes what the whole grows by when it is added."""
    head, turns = split_turns(messages)
    past, newest = turns[:-1], turns[-1]
    laid = [turn for turn in layout.epoch_turns() if turn.readable(layout.reader)]
    laid = laid[len(laid) - len(past) :] if 0 < len(past) <= len(laid) else []
    parts = []
    before = _head_size(head, turns[0], size)
    if head:
        parts.append(Part("system", before, "\n".join(text_of(message) for message in head)))
    summary = fence(layout.epoch.summary.splitlines(), header=SUMMARY_HEADER) if layout.epoch.summary else ""
    so_far = list(head)
    for i, turn in enumerate(turns):
        after = size([*so_far, *turn])
        block_tokens = 0
        if summary and i == 0:
            bare = _without(turn, summary)
            summary_tokens = after - size([*so_far, *bare])
            if summary_tokens:
                parts.append(Part("summary", summary_tokens, summary))
                before += summary_tokens
        own = laid[i] if i < len(past) and laid else None
        block = (
            own.block
            if own is not None
            else layout.running.block
            if turn is newest and layout.running
            else ""
        )
        if block:
            block_tokens = after - size([*so_far, *_without(turn, block)])
        if turn is newest:
            if block:
                parts.append(Part("memory", block_tokens, block))
            parts.append(Part("utterance", after - before - block_tokens, layout.utterance))
        else:
            parts.append(_turn_part(turn, own, after - before, block_tokens))
        so_far += turn
        before = after
    parts.append(Part("opening", size(messages, opening=True) - before))
    return parts


def _head_size(head: list[Message], first: list[Message], size: Callable[..., int]) -> int:
    """Return what the instructions take; templates that cannot render them alone tell by the difference."""
    if not head:
        return 0
    try:
        return size(head)
    except TemplateError:
        return size([*head, *first]) - size(first)


def _without(turn: Sequence[Message], lead: str) -> list[Message]:
    """Return a turn without a text that memory put before its utterance."""
    out = []
    for message in turn:
        content = message.get("content")
        if message.get("role") == "user" and isinstance(content, str):
            out.append({**message, "content": content.replace(lead, "", 1)})
        else:
            out.append(message)
    return out


def _turn_part(turn: Sequence[Message], laid: LaidTurn | None, tokens: int, block_tokens: int) -> Part:
    said = laid.said if laid is not None else turn
    text = " / ".join(filter(None, (text_of(message) for message in said)))
    if laid is None:
        return Part("turn", tokens, text)
    speaker = laid.heard.speaker if laid.heard is not None else None
    return Part("turn", tokens, text, laid.n, speaker, block_tokens)


def _line(item: Shown, recalled: Sequence[Recalled], tokenizer: Tokenizer) -> BlockLine:
    tokens = len(tokenizer.encode(item.line + "\n"))
    found = next((one for one in recalled if f"{one.kind}:{one.id}" == item.id), None)
    if found is not None:
        return BlockLine(item.id, item.line, tokens, found.score, found.why)
    return BlockLine(item.id, item.line, tokens, why=(WHY.get(item.id.partition(":")[0], "told anyway"),))


def _left_out(injection: MemoryInjectionHook, shown: Sequence[Shown], utterance: str) -> list[BlockLine]:
    """Return what recall found and is not in the block, with the reason."""
    there = {item.id for item in shown}
    worth = worth_saying(injection.last, injection.floors, asked=asks(utterance))
    out = []
    for item in injection.last:
        name = f"{item.kind}:{item.id}"
        if name not in there:
            reason = f"no room in {injection.block_tokens} tokens" if item in worth else "scores too little"
            out.append(BlockLine(name, item.text, score=item.score, why=item.why, left_out=reason))
    return out


def _notes(hooks: Iterable[Hook], registry: HookRegistry) -> Iterable[str]:
    for failure in registry.failures():
        yield f"{failure.hook} failed, so its part is missing: {failure.message}"
    for hook in hooks:
        if BEFORE_LLM in hook.points and not isinstance(hook, (*ASKED, TurnLogHook)):
            yield f"{getattr(hook, 'name', type(hook).__name__)} was not asked, because it may store something."
        note = getattr(hook, "note", "")
        if isinstance(hook, TokenBudgetHook) and note:
            yield note
