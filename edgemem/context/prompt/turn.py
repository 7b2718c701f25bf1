"""A turn of the prompt log: its messages, the block before its utterance, what of its reply was heard, and what it says.

It is *open* while it runs, then *committed*, and from then on as it was stored.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import msgspec

from edgemem.context.messages import (
    UTTERANCE_BYTES,
    bounded,
    call_arguments,
    call_name,
    completed,
    heard_in,
    newest_user,
    repair_orphans,
    tool_calls,
)
from edgemem.records import REMEMBER_FACT, BlockLine, Heard, Message, Reader, Recalled, Turn, text_of
from edgemem.scopes import RANK, Level, most_private
from edgemem.store.episodes import episode_text
from edgemem.store.rights import readable

INTERRUPTION = "interrupted"

CLOSED = "(This answer was private.)"
"""What somebody reads in place of all but the utterance of a turn whose answer is not for them."""


class PromptTurn(msgspec.Struct):
    """One turn as it stands in the prompt."""

    n: int
    messages: list[Message]
    block: str = ""
    block_tokens: int = 0
    """As whoever put the lines counted them."""
    shown: tuple[BlockLine, ...] = ()
    level: Level = "household"
    """Who may read the utterance,"""
    owner: str | None = None
    answer: Level = "shared"
    """and at least who all else."""
    heard: Heard | None = None
    block_index: int | None = None
    """Which message was said to the robot, and carries the block: the newest of the user's when the turn was first looked at."""
    heard_until: str | None = None
    """The text that was heard before somebody cut the robot off; None: nobody did."""
    reported: bool = False
    """Whether a model has been told that."""
    unfinished: bool = False
    """Whether its loop left it open; the loop's list may not have it."""
    full_messages: dict[int, Message] = msgspec.field(default_factory=dict)
    """By their numbers, messages as the loop has them, of which only what was heard stayed, or as much as is kept."""
    completed_messages: list[Message] | None = None
    """The messages of a committed turn as every template takes them; made anew after a change."""
    part: PromptTurn | None = None
    """The utterance of a committed turn and the line `CLOSED`; made anew after a change."""

    def __post_init__(self) -> None:
        """Close the answer at least as much as the utterance."""
        self.answer = most_private(self.level, self.answer)

    def close(self, level: Level, *, utterance: bool = False) -> None:
        """Let no more people read the answer than a level says.

        Args:
            utterance: what was said, too.
        """
        self.answer = most_private(self.answer, level)
        if utterance:
            self.level = most_private(self.level, level)

    @property
    def utterance(self) -> int | None:
        """Return which message was said to the robot; None: nobody said one."""
        return newest_user(self.messages) if self.block_index is None else self.block_index

    def seen_by(self, reader: Reader | None) -> PromptTurn | None:
        """Return of a committed turn what somebody sees of it; None: nothing."""
        if readable(reader, self.answer, self.owner):
            return self
        return self._utterance_alone() if readable(reader, self.level, self.owner) else None

    def seen_at(self, level: Level) -> PromptTurn | None:
        """Return of a committed turn what somebody sees who reads no more than a level; None: nothing."""
        if RANK[self.answer] <= RANK[level]:
            return self
        return self._utterance_alone() if RANK[self.level] <= RANK[level] else None

    def _utterance_alone(self) -> PromptTurn | None:
        """Return the turn with `CLOSED` in place of all but its utterance; None: it has none."""
        place = self.utterance
        if self.part is None and place is not None:
            messages: list[Message] = [self.messages[place], {"role": "assistant", "content": CLOSED}]
            self.part = PromptTurn(self.n, messages, level=self.level, owner=self.owner, heard=self.heard)
        return self.part

    def text(self, n: int) -> str:
        """Return the text of a message, also what nobody heard of it."""
        return text_of(self.full_messages.get(n, self.messages[n]))

    def unheard(self, n: int) -> str:
        """Return what nobody heard of a message; all of it where what was heard is not its beginning."""
        if n not in self.full_messages or self.messages[n].get("role") == "user":
            return ""
        return self.text(n).removeprefix(text_of(self.messages[n]))

    def cut(self, n: int, heard: str) -> None:
        """Keep of a message what was heard."""
        message = self.full_messages.pop(n, self.messages[n])
        if heard != text_of(message):
            self.full_messages[n] = message
            message = {**message, "content": heard}
        self.messages[n] = message
        self.completed_messages = self.part = None

    def append(self, message: Message) -> None:
        """Learn what has been said next in it; of an utterance without end only the beginning is kept."""
        n = len(self.messages)
        if message.get("role") == "user":
            kept = bounded(message, UTTERANCE_BYTES)
            if kept is not message:
                self.full_messages[n], message = message, kept
            if self.block_index is None:
                self.block_index = n
        self.messages = [*self.messages, message]

    def as_shown(self, *, committed: bool) -> Iterator[tuple[Message, str]]:
        """Yield its messages as every template takes them, with the block before the one that carries it."""
        messages, carried = self.messages, None
        if self.block and (carrier := self.utterance) is not None:
            carried = messages[carrier]
        if committed:  # history is looked through once
            self.completed_messages = messages = self.completed_messages or completed(messages)
        for message in messages:
            yield message, self.block if message is carried else ""

    def calls(self) -> Iterator[tuple[str, dict[str, Any], Message | None]]:
        """Yield the calls of tools: name, arguments (none where they cannot be read), and the tool's answer."""
        calling = [message for message in self.messages if message.get("tool_calls")]
        answers = {message["tool_call_id"]: message for message in self.messages if "tool_call_id" in message}
        for call in (call for message in calling for call in tool_calls(message)):
            arguments = call_arguments(call)
            if isinstance(arguments, str):
                try:
                    arguments = json.loads(arguments)
                except ValueError:
                    arguments = None
            answer = answers.get(call["id"]) if call.get("id") else None
            yield call_name(call), arguments if isinstance(arguments, dict) else {}, answer


_APART = ("metadata", "content_blocks")
"""What programs keep with a message, and models do not know."""


def interruption(cut: PromptTurn) -> str:
    """Return the id of the line which tells that a turn was cut off."""
    return f"{INTERRUPTION}:{cut.n}"


def turn_of(turn: Turn) -> PromptTurn:
    """Return a stored turn as it stands in the prompt; of what it showed, the text itself stands in its block.

    A stored session begins with no instructions, so those that a program stored at its head are left out.
    """
    kept = [stored for n, stored in enumerate(turn.messages) if stored.role != "system" or n > 0]
    messages = [
        {name: part for name, part in stored.as_message().items() if name not in _APART} for stored in kept
    ]
    unheard = {id(message): stored.unheard for message, stored in zip(messages, kept, strict=True)}
    repaired = repair_orphans(messages)
    utterance = None if turn.utterance is None else turn.messages[turn.utterance]
    at = next((n for n, message in enumerate(messages) if kept[n] is utterance), None)
    return PromptTurn(
        turn.n,
        repaired,
        turn.block,
        shown=tuple(map(BlockLine.parse, turn.shown)),
        level=turn.level,
        owner=turn.owner,
        answer=turn.answer or turn.level,
        heard=turn.heard,
        block_index=next(
            (n for n, message in enumerate(repaired) if at is not None and message is messages[at]), None
        ),
        heard_until=heard_in(repaired) if turn.state == "interrupted" else None,
        unfinished=turn.state in ("open", "unfinished"),
        full_messages={
            n: {**message, "content": text_of(message) + rest}
            for n, message in enumerate(repaired)
            if (rest := unheard.get(id(message)))
        },
    )


class Dedupe:
    """What some turns of the prompt say already, so that memory need not repeat it; worked out at the first question.

    A turn's block lists the items that it showed. A note or fact that the model wrote with a tool, and what a tool did, are
    read from the turn's messages.

    Args:
        turns: those that the prompt holds word for word, as far as the present reader may be shown them.
    """

    def __init__(self, turns: Sequence[PromptTurn]) -> None:
        self._turns = turns

    def holds(self, item: Recalled) -> bool:
        """Tell whether a recalled fact, note or outcome of a tool stands in these turns."""
        if item.kind == "fact":
            return item.doubt is None and self.holds_fact(item.key or "", item.value or "")
        if item.kind == "note":
            return all(self.holds_note(line) for line in item.text.splitlines() if line.strip())
        return item.kind == "episode" and item.text in self._outcomes

    def holds_note(self, line: str) -> bool:
        """Tell whether a line of the notes was shown, or written by the model itself in a tool call."""
        return line.strip() in self._lines

    def holds_fact(self, key: str, value: str) -> bool:
        """Tell whether the newest that stands there of a fact is the model's own call that gave it this value."""
        return key in self._given and bool(self._given[key] == value)

    @cached_property
    def _given(self) -> dict[str, object]:
        """The values that the model itself gave to facts, where no later block says anything of the key."""
        given: dict[str, object] = {}
        for turn in self._turns:
            for item in turn.shown:
                if item.subject is not None:
                    given.pop(item.subject[2], None)
            given.update(
                (str(arguments.get("key")), arguments.get("value"))
                for name, arguments, _ in turn.calls()
                if name == REMEMBER_FACT
            )
        return given

    @cached_property
    def _lines(self) -> set[str]:
        """The lines of the blocks, and of what the model gave to tools."""
        lines = {line.strip().removeprefix("- ") for turn in self._turns for line in turn.block.splitlines()}
        written = (
            text for turn in self._turns for _, arguments, _ in turn.calls() for text in arguments.values()
        )
        return lines.union(
            line.strip() for text in written if isinstance(text, str) for line in text.splitlines()
        )

    @cached_property
    def _outcomes(self) -> set[str]:
        """What each tool did, as an episode of it is told."""
        return {
            episode_text("tool_call", {"name": name, "args": arguments, "result": text_of(answer)}, "ok")
            for turn in self._turns
            for name, arguments, answer in turn.calls()
            if answer is not None
        }
