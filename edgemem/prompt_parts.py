"""Prompt parts: a prompt cut into what it is made of, each with the tokens that it adds to the whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from edgemem.context.block.head import head_of
from edgemem.context.messages import split_turns
from edgemem.context.prompt.log import BlockSection, PromptLog
from edgemem.context.prompt.turn import PromptTurn
from edgemem.errors import TemplateError
from edgemem.fence import fence
from edgemem.llama.template.chat_template import text_of
from edgemem.records import Message


class Part(msgspec.Struct, frozen=True, omit_defaults=True):
    """One part of a prompt; the tokens of all parts are those of the whole."""

    name: str
    """`instructions`, `tools`, `summary`, `turn`, `memory`, `notes`, `utterance`, or `opening`: what begins the answer."""
    tokens: int
    text: str = ""
    turn: int | None = None
    speaker: str | None = None
    block_tokens: int = 0
    """How many of an earlier turn's tokens are memory that was put before it."""


def parts_of(messages: Sequence[Message], layout: PromptLog, size: Callable[..., int]) -> list[Part]:
    """Cut a prompt into its parts; each takes what the whole grows by when it is added.

    Args:
        layout: what laid the prompt out, its newest turn still open.
        size: counts the tokens of messages, with `opening=True` those that begin the answer too.
    """
    head, turns = split_turns(messages)
    past, newest = turns[:-1], turns[-1]
    laid = [turn for turn in layout.epoch_turns() if turn.readable(layout.reader)]
    laid = laid[len(laid) - len(past) :] if 0 < len(past) <= len(laid) else []
    parts = []
    before = _head_size(head, turns[0], size)
    if head:
        parts.append(Part("instructions", before, "\n".join(text_of(message) for message in head)))
    summary = head_of(layout.epoch)
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
            parts += _block_parts(block, block_tokens, layout, so_far, turn, size)
            parts.append(Part("utterance", after - before - block_tokens, layout.utterance))
        else:
            parts.append(_turn_part(turn, own, after - before, block_tokens))
        so_far += turn
        before = after
    parts.append(Part("opening", size(messages, opening=True) - before))
    return parts


def _block_parts(
    block: str,
    tokens: int,
    layout: PromptLog,
    before: list[Message],
    turn: list[Message],
    size: Callable[..., int],
) -> list[Part]:
    """Tell memory and notes apart, which stand in one block."""
    notes = layout.sections.get("notes")
    if not block or notes is None:
        return [Part("memory", tokens, block)] if block else []
    others = [line for each in layout.sections.values() if each is not notes for line in _lines_of(each)]
    bare = fence(others)
    noted = size([*before, *turn]) - size([*before, *_without(turn, block, bare)])
    parts = [Part("memory", tokens - noted, bare)] if bare else []
    return [*parts, Part("notes", noted, "\n".join(_lines_of(notes)))]


def _lines_of(section: BlockSection) -> list[str]:
    lines = [item.line for item in section.shown]
    return [section.header, *lines] if section.header and lines else lines


def _head_size(head: list[Message], first: list[Message], size: Callable[..., int]) -> int:
    """Return what the instructions take; templates that cannot render them alone tell by the difference."""
    if not head:
        return 0
    try:
        return size(head)
    except TemplateError:
        return size([*head, *first]) - size(first)


def _without(turn: Sequence[Message], lead: str, instead: str = "") -> list[Message]:
    """Return a turn without a text that memory put before its utterance, or with another one in its place."""
    out = []
    for message in turn:
        content = message.get("content")
        if message.get("role") == "user" and isinstance(content, str):
            out.append({**message, "content": content.replace(lead, instead, 1)})
        else:
            out.append(message)
    return out


def _turn_part(turn: Sequence[Message], laid: PromptTurn | None, tokens: int, block_tokens: int) -> Part:
    said = laid.messages if laid is not None else turn
    text = " / ".join(filter(None, (text_of(message) for message in said)))
    if laid is None:
        return Part("turn", tokens, text)
    speaker = laid.heard.speaker if laid.heard is not None else None
    return Part("turn", tokens, text, laid.n, speaker, block_tokens)
