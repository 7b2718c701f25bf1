"""The list of a loop: compares it with the conversation, and tells which of its messages are new.

A message is known by its role and text without white space; a person's also with the block before it that memory issued, the
robot's without its thoughts, marks and case. A list that lacks only its beginning or its end is whole: loops trim, and take turns. As much of
a list as was there last time is known already, so that a turn costs its new messages alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, takewhile
from typing import Any

from edgemem.context.messages import (
    INSTRUCTIONS,
    UNANSWERED,
    UTTERANCE_BYTES,
    fenced,
    is_spoken,
    result_parts,
    tool_calls,
)
from edgemem.context.prompt import CLOSED, PromptTurn
from edgemem.fence import CLOSE, OPEN
from edgemem.hooks.edgevox import IN_WORDS
from edgemem.records import AGENT, BY_AGENT, Message, text_of
from edgemem.store.messages import without_thoughts

Key = tuple[str, str, tuple[str, ...]]  # role, text, and the ids of the calls of a message

MARKS = re.compile(r"[\W_]+")
_STAND_INS = frozenset(
    ("assistant", MARKS.sub("", text.casefold()) or text, ()) for text in (CLOSED, UNANSWERED["content"])
)
"""What memory puts in the place of answers, and no loop has said."""
_WORDS = ("role", "content")
_BLOCKS = re.compile(rf"\A(?:\s*{OPEN}.*?{CLOSE.strip()})+\s*", re.DOTALL)
_KEY_CHARS = 4 * UTTERANCE_BYTES
"""A longer text is known by its beginning: an utterance is bounded below that, and the block before it is shorter."""


class LastList:
    """A list as it was last, and the keys of its messages."""

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.place: int | None = None  # of the utterance of the open turn
        self._messages: list[Message] = []
        self._contents: list[object] = []

    def compare(self, messages: Sequence[Message]) -> list[tuple[int, int]]:
        """Return where in this list a newer one may begin, the likeliest first, and how many messages are there in the same order."""
        if not messages:
            return []
        begins = (start for start, message in enumerate(self._messages) if message == messages[0])
        return sorted(
            ((start, self._equal_messages(start, messages)) for start in begins), key=lambda found: -found[1]
        )

    def _equal_messages(self, start: int, messages: Sequence[Message]) -> int:
        older, texts = self._messages[start:], self._contents[start:]  # a loop may change a message in place
        pairs = zip(older, texts, messages, strict=False)
        same = (text == new.get("content") and (old is new or old == new) for old, text, new in pairs)
        return sum(1 for _ in takewhile(bool, same))

    def places_in(self, messages: Sequence[Message]) -> list[tuple[int, int | None]]:
        """Return where the utterance may be in a newer list, behind how many messages are there in the same order; None: nowhere."""
        own = self.place
        return [
            (same, own - start if own is not None and start <= own < start + same else None)
            for start, same in self.compare(messages)
        ]

    def keys_of(self, messages: Sequence[Message], key: Callable[[Message], Key]) -> tuple[list[Key], int]:
        """Return the keys of a newer list, and how many of its messages stood here in the same order."""
        start, same = next(iter(self.compare(messages)), (0, 0))
        return [*self.keys[start : start + same], *map(key, messages[same:])], same

    def replace(self, messages: Sequence[Message], key: Callable[[Message], Key], place: int | None) -> None:
        """Take a newer list, with the utterance at a place, instead of this one."""
        self.place = place
        self.keys, self._messages = self.keys_of(messages, key)[0], list(messages)
        self._contents = [message.get("content") for message in messages]


class LoopList:
    """The messages of one conversation as its loop may hand them back."""

    def __init__(self) -> None:
        self._count = 0  # committed turns that were taken
        self._newest: PromptTurn | None = None  # the newest of them,
        self._cut: str | None = None  # and where it was cut off
        self._said: list[tuple[PromptTurn, tuple[Key, ...]]] = []
        """Of each of their messages its turn, and what it may be known by: as it was heard, and as it was made."""
        self._places: dict[Key, int] = {}  # the newest place of each there
        self._opened: list[Key] = []  # the messages of the open turn
        self._listed, self._prompt = LastList(), LastList()
        """What the loop handed over, and what it was handed for it: a loop may keep either."""
        self._aliases: dict[Key, Key] = {}  # of a message that was changed or shortened, the original

    def begin(
        self, turns: Sequence[PromptTurn], utterance: Message, before: Sequence[Message] | None
    ) -> int | None:
        """Take the utterance of a turn that begins, the list before it, if it came with one, and the turns committed until then.

        Returns the number of the newest turn of which something is missing between messages that are there; None: of none.
        """
        newest = turns[self._count - 1] if 0 < self._count <= len(turns) else None
        if newest is None or newest is not self._newest or newest.heard_until != self._cut:
            self._said, self._places, self._count = [], {}, 0
        for turn in turns[self._count :]:
            for n, kept in enumerate(turn.messages):
                uncut = turn.full_messages.get(n)
                known = tuple(key_of(message) for message in (kept, uncut) if message is not None)
                self._places.update(dict.fromkeys(known, len(self._said)))
                self._said.append((turn, known))
        if turns:
            self._count, self._newest, self._cut = len(turns), turns[-1], turns[-1].heard_until
        self.open(utterance)
        keys, same = self._listed.keys_of(before or (), self._key)
        edited = self._edited(keys, same)
        self._listed.place = self._prompt.place = None
        if before is not None:
            self._listed.replace([*before, utterance], self._key, len(before))
        return edited

    def newest_again(self, before: Sequence[Message]) -> PromptTurn | None:
        """Return the newest turn if that was left open, and the utterance behind a list that lacks it is its own."""
        newest, key = self._newest, self._opened[0]
        if newest is None or not (newest.unfinished or newest.messages[-1].get("role") != "assistant"):
            return None
        said = [turn for turn, known in self._said if key in known]
        is_there = sum(self._key(message) == key for message in before) >= len(said)
        return newest if said and said[-1] is newest and not is_there else None

    def open(self, utterance: Message) -> None:
        """Take an utterance as that of the newest turn."""
        self._opened = [key_of(utterance)]
        self._aliases.pop(self._opened[0], None)

    def add(self, message: Message, kept: Message | None = None) -> None:
        """Add a message of the open turn; `kept` is as the conversation keeps it, where that is shorter."""
        self._opened.append(self._key(message))
        if kept is not None:
            self.alias(kept, message)

    def alias(self, handed: Message, original: Message) -> None:
        """Know a message by the key of another one."""
        if (key := self._key(handed)) != (stands_for := self._key(original)):
            self._aliases[key] = stands_for

    def hold(self, listed: Sequence[Message], prompt: Sequence[Message]) -> None:
        """Note the list that a loop has handed over, and its prompt."""
        for last, messages in ((self._listed, listed), (self._prompt, prompt)):
            last.replace(messages, self._key, self.place_in(messages))

    def utterance(self, messages: Sequence[Message], *, is_asked: bool = False) -> int | None:
        """Return the place of the utterance of the open turn in a list; None: the list has none that is surely it.

        If the loop asks its model within this turn, `is_asked`, the list has its utterance.
        """
        place = self.place_in(messages)
        behind = () if place is None else messages[place + 1 :]
        # An older turn may have begun with the same words.
        if place is None or any(is_spoken(message) and self.was_said(message) for message in behind):
            return None
        own = self._opened[0]
        if is_asked or (
            self._listed.place is not None and own not in self._places and self._listed.keys.count(own) == 1
        ):
            return place
        places = self._listed.places_in(messages) + self._prompt.places_in(messages)
        most = max((same for same, _ in places), default=0)
        return place if {at for same, at in places if same == most} == {place} else None

    def place_in(self, messages: Sequence[Message]) -> int | None:
        """Return the newest place of the utterance of the newest turn in a list."""
        key = self._opened[0] if self._opened else None
        return next((n for n in range(len(messages) - 1, -1, -1) if self._key(messages[n]) == key), None)

    def _edited(self, keys: Sequence[Key], same: int) -> int | None:
        """Return the newest turn that a list lacks a part of; gaps between its first `same` messages were there last time."""
        places: list[int] = []
        last, before = -1, len(self._said)
        for n in range(len(keys) - 1, -1, -1):
            place = None if keys[n] in _STAND_INS else self._place(keys[n], before)
            if place is not None:
                last = max(last, n)
                if keys[n][0] != "tool":  # a late result stands in the turn that has read it
                    before = place
                    places.append(place)
                if n < same:
                    break
        if not places:
            return None
        # A loop whose list only ends earlier has not heard of the rest, unless something else is there.
        newest = self._said[-1][0]
        new = next((key[0] for key in _said_ones(keys[last + 1 :]) if key not in _STAND_INS), None)
        ends = new == "assistant" and self._said[places[0]][0] is newest
        gone = set(range(places[-1], len(self._said) if ends else places[0])).difference(places)
        if not gone:
            return None
        held = set(self._listed.keys).intersection(self._prompt.keys)
        present = {*keys, *chain.from_iterable(self._said[at][1] for at in places)}
        edited = (
            turn.n
            for turn, known in map(self._said.__getitem__, gone)
            # Loops that shorten tool results to save room have changed nothing that was said.
            if not turn.unfinished
            and present.isdisjoint(known)
            and ((ends and turn is newest) or not held.isdisjoint(known))
            and any(role in ("user", "assistant") and text and not ids for role, text, ids in known)
        )
        return max(edited, default=None)

    def _place(self, key: Key, before: int) -> int | None:
        """Return the newest place before another one where a message was said, or as much of it as its loop has kept."""
        at = self._places.get(key)
        if at is not None and at < before:
            return at
        may_be_cut = key[0] == "assistant" and bool(key[1])
        if at is None and not may_be_cut:
            return None
        return next((at for at in range(before - 1, -1, -1) if _is_said(self._said[at][1], key)), None)

    @property
    def is_new(self) -> bool:
        """Tell whether the open turn has nothing but its utterance, and what the operator tells beside that."""
        return not _said_ones(self._opened[1:])

    def was_said(self, message: Message) -> bool:
        """Tell whether a message is in the committed turns."""
        return self._key(message) in self._places

    def is_utterance(self, message: Message) -> bool:
        """Tell whether a message is the utterance of the newest turn."""
        return self._opened[:1] == [self._key(message)]

    def holds(self, message: Message) -> bool:
        """Tell whether a message is known, of the open turn too, or stands in the place of an answer."""
        key = self._key(message)
        return key in self._opened or key in self._places or key in _STAND_INS

    def added(self, messages: Sequence[Message]) -> list[Message]:
        """Return those messages behind the utterance that the open turn does not hold."""
        rest, new = self._opened[1:], []
        for message in messages:
            if (key := self._key(message)) in rest:
                rest.remove(key)
            else:
                new.append(message)
        return new

    def placed(self, view: Sequence[Message], listed: Sequence[Message]) -> list[Message]:
        """Return a prompt with a list's operator messages in place, and its further parts of a person's, such as images."""
        out = self._completed(view, listed)
        placed = [message for message in listed if message.get("role") in INSTRUCTIONS]
        keys = list(map(self._key, view)) if placed else []
        missing = [message for message in placed if self._key(message) not in keys]
        at = end = len(out)
        for message in reversed(listed if missing else ()):
            if any(message is item for item in missing):
                out.insert(at, message)
            else:
                key = self._key(message)
                end = next((place for place in range(end - 1, -1, -1) if keys[place] == key), end)
                at = end
        return out

    def _completed(self, view: Sequence[Message], listed: Sequence[Message]) -> list[Message]:
        """Return a prompt in which a person's messages have all that they have in a list.

        Words that were said more than once may be somebody else's: of those only the utterance is surely known.
        """
        out, spoken = list(view), [message for message in listed if message.get("role") == "user"]
        if all(len(message) <= len(_WORDS) for message in spoken):
            return out
        keys, own = list(map(self._key, view)), list(map(self._key, spoken))
        times = Counter(key for _, known in self._said for key in set(known))
        for key, message in zip(own, spoken, strict=True):
            if times[key] == own.count(key) == keys.count(key) == 1 and not self.is_utterance(message):
                out[keys.index(key)] = {**message, **out[keys.index(key)]}
        if (place := self.place_in(listed)) is not None and (at := self.place_in(view)) is not None:
            out[at] = {**listed[place], **out[at]}
        return out

    def _key(self, message: Message) -> Key:
        """Return the key of a message, or of the original that it replaces."""
        key = key_of(message)
        return self._aliases.get(key, key)


def split_head(messages: Sequence[Message]) -> tuple[list[Message], list[Message]]:
    """Return the instructions that a list begins with, and the messages after them."""
    head = list(takewhile(lambda message: message.get("role") in INSTRUCTIONS, messages))
    return head, list(messages[len(head) :])


def key_of(message: Message) -> Key:
    """Return what a message is known by."""
    ids = [str(call.get("id") or "") for call in tool_calls(message)]
    ids += [str(part.get("tool_use_id")) for part in result_parts(message)]
    text = text_of(without_thoughts(fenced(message)))[:_KEY_CHARS]
    text = "".join(without_blocks(text).split())
    role = AGENT if message.get("metadata") == BY_AGENT else str(message.get("role"))
    if role == "assistant":  # a voice may be handed it without its marks
        text = MARKS.sub("", text.casefold()) or text
    return role, text, tuple(id_ for id_ in ids if not id_.startswith(IN_WORDS))


def without_blocks(content: Any) -> Any:
    """Return the content of a message without what memory put before a person's words."""
    if isinstance(content, str):
        return _BLOCKS.sub("", content)
    if not isinstance(content, list):
        return content
    texts = (part.get("text") if isinstance(part, dict) else None for part in content)
    blocks = takewhile(lambda text: isinstance(text, str) and text and not _BLOCKS.sub("", text), texts)
    return content[sum(1 for _ in blocks) :]


def _is_said(known: Sequence[Key], key: Key) -> bool:
    return key in known or (len(known) > 1 and any(w[0] == key[0] and w[1].startswith(key[1]) for w in known))


def _said_ones(keys: Iterable[Key]) -> list[Key]:
    return [key for key in keys if key[0] not in INSTRUCTIONS]
