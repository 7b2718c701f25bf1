"""The list of a loop: compares it with what was said in the conversation, and tells which of its messages are new.

A message is known by its role and text without white space; a person's also with the block before it that memory issued, the
robot's without its thoughts. A list that lacks only its beginning or its end is whole: loops trim, and take turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import NamedTuple

from edgemem.context.messages import UNANSWERED, UTTERANCE_BYTES, tool_calls
from edgemem.context.prompt.turn import CLOSED, PromptTurn
from edgemem.hooks.written_calls import IN_WORDS
from edgemem.records import Message, text_of
from edgemem.store.messages import without_thoughts

INSTRUCTIONS = ("system", "developer")
_STAND_INS = frozenset(("assistant", "".join(text.split()), ()) for text in (CLOSED, UNANSWERED["content"]))
"""What memory puts in the place of answers, and no loop has said."""
_KEY_CHARS = 4 * UTTERANCE_BYTES
"""A longer text is known by its beginning: an utterance is bounded below that, and the block before it is shorter."""

_MOST_KEYS = 10_000
"""Keys that are kept from turn to turn; with more, as of a loop that copies its list, all are made anew."""

Key = tuple[str, str, tuple[str, ...]]
"""Role, text, and the ids of the calls of a message."""


class Difference(NamedTuple):
    """How the part of a list before an utterance differs from the conversation."""

    new: list[Message]
    """The messages behind the last known one."""
    edited: int | None
    """The number of the newest turn of which something is missing between messages that are there; None: of none."""


class LoopList:
    """The messages of one conversation as its loop may hand them back."""

    def __init__(self) -> None:
        self._said: list[tuple[int, frozenset[Key]]] = []
        """Of each committed message its turn, and what it may be known by."""
        self._unfinished: set[int] = set()
        """The turns that no loop has ended: a loop may have taken them back."""
        self._opened: list[Key] = []
        """The messages of the open turn."""
        self._held: set[Key] = set()
        """The messages that stood in the newest list and in the prompt that was made of it; a loop may keep either."""
        self._starts: list[list[Key]] = []
        """The lists that the loop has had in this turn, up to its utterance."""
        self._aliases: dict[Key, Key] = {}
        """The message that another one stands for: with its block, or before it was shortened."""
        self._keys_made: dict[int, tuple[Message, object, Key]] = {}
        """By the identity of a message its key, as long as its content is the same: a list comes back with each turn."""

    def begin(self, turns: Iterable[PromptTurn], message: Message, before: Sequence[Message] | None) -> None:
        """Take the committed turns, and the utterance of the turn that begins.

        Args:
            before: the part of the list before the utterance; None: the utterance came without a list.
        """
        self._said, self._unfinished = [], set()
        if len(self._keys_made) > _MOST_KEYS:
            self._keys_made.clear()
        for turn in turns:
            if turn.unfinished:
                self._unfinished.add(turn.n)
            for n, kept in enumerate(turn.messages):
                uncut = turn.full_messages.get(n)
                keys = (self._key(kept),) if uncut is None else (self._key(kept), self._key(uncut))
                self._said.append((turn.n, frozenset(keys)))
        self._opened = [self._key(message)]
        self._starts = [] if before is None else [[*self._keys(before), self._opened[0]]]

    def add(self, message: Message, kept: Message | None = None) -> None:
        """Add a message of the open turn.

        Args:
            kept: as the conversation keeps it, where that is shorter.
        """
        self._opened.append(self._key(message))
        if kept is not None:
            self.alias(kept, message)

    def alias(self, handed: Message, original: Message) -> None:
        """Note a message that stands for another one."""
        if (key := self._key(handed)) != (stands_for := self._key(original)):
            self._aliases[key] = stands_for

    def issue(self, prompt: Sequence[Message]) -> None:
        """Note the prompt that the model is handed: a person's words may stand there behind a block."""
        words = (
            [self._opened[0], *(key for _, keys in reversed(self._said) for key in keys)]
            if self._opened
            else []
        )
        for message in prompt:
            key = self._key(message)
            if key[0] == "user" and key not in self._aliases and key not in words:
                original = next(
                    (other for other in words if other[0] == "user" and key[1].endswith(other[1])), None
                )
                if original is not None:
                    self._aliases[key] = original

    def hold(self, listed: Sequence[Message], prompt: Sequence[Message]) -> None:
        """Note the list that a loop has handed over, and the prompt that it was handed for it."""
        self._held = set(map(self.canonical_key, listed)).intersection(map(self.canonical_key, prompt))
        for messages in (listed, prompt):
            if (place := self._newest_place(messages)) is not None:
                self._starts.append(self._keys(messages[: place + 1]))

    def canonical_key(self, message: Message) -> Key:
        """Return what a message is known by, or the message that it stands for."""
        key = self._key(message)
        return self._aliases.get(key, key)

    def _keys(self, messages: Sequence[Message]) -> list[Key]:
        return [
            self.canonical_key(message) for message in messages if message.get("role") not in INSTRUCTIONS
        ]

    def utterance(self, messages: Sequence[Message], *, is_asked: bool = False) -> int | None:
        """Return the place of the utterance of the open turn in a list; None: the list has none that is surely it.

        Args:
            is_asked: the loop asks its model within this turn, so that the list has its utterance.
        """
        place = self._newest_place(messages)
        behind = () if place is None else messages[place + 1 :]
        # An older turn may have begun with the same words.
        if place is None or any(
            message.get("role") == "user" and self.was_said(message) for message in behind
        ):
            return None
        return place if is_asked or self._is_start(self._keys(messages[: place + 1]), behind) else None

    def _newest_place(self, messages: Sequence[Message]) -> int | None:
        key = self._opened[0] if self._opened else None
        return next(
            (n for n in range(len(messages) - 1, -1, -1) if self.canonical_key(messages[n]) == key), None
        )

    def _is_start(self, keys: list[Key], behind: Sequence[Message]) -> bool:
        """Tell whether a list up to some words begins the open turn, and no older one that began with these words.

        A loop may have taken the utterance back. Words that were said before are the utterance only behind the messages
        that it came behind, and only if these have not stood before such words elsewhere.
        """
        long = len(keys)
        if not any(keys[-1] in words for _, words in self._said) and all(
            start.count(keys[-1]) == 1 for start in self._starts
        ):
            return bool(self._starts)
        # Only words with an answer can be taken for those with an answer behind them.
        if any(
            start[n : n + long] == keys and start[n + long][0] != "user"
            for start in self._starts
            for n in range(len(start) - long)
        ):
            return False
        if keys in self._starts:
            return not any(self.was_said(message) for message in behind)
        return any(start[-long:] == keys for start in self._starts) and not any(
            all(key in words for key, (_, words) in zip(keys, self._said[n:], strict=False))
            for n in range(len(self._said) - long + 1)
        )

    def difference(self, messages: Sequence[Message]) -> Difference:
        """Compare a list with the committed turns."""
        messages = [message for message in messages if self._key(message) not in _STAND_INS]
        places: list[int] = []
        last, before = -1, len(self._said)
        for n in range(len(messages) - 1, -1, -1):
            key = self.canonical_key(messages[n])
            place = next((at for at in range(before - 1, -1, -1) if self._is_said(at, key)), None)
            if place is not None:
                last, before = max(last, n), place
                places.append(place)
        new = list(messages[last + 1 :])
        # A loop that hands over less at the end only has not heard of it, unless something else stands in its place.
        last_turn = self._said[-1][0] if self._said else None
        ends = bool(places) and self._said[places[0]][0] == last_turn
        ends = ends and bool(new) and new[0].get("role") == "assistant"
        missing = range(places[-1], len(self._said) if ends else places[0]) if places else ()
        held = self._held.union(*(keys for turn, keys in self._said if ends and turn == last_turn))
        present = set(map(self.canonical_key, messages)).union(*(self._said[at][1] for at in places))
        edited = [
            turn
            for turn, keys in (self._said[at] for at in missing)
            # Loops that shorten tool results to save room have changed nothing that was said.
            if turn not in self._unfinished
            and keys.isdisjoint(present)
            and not keys.isdisjoint(held)
            and any(role != "tool" and text and not ids for role, text, ids in keys)
        ]
        return Difference(new, max(edited, default=None))

    def _is_said(self, at: int, key: Key) -> bool:
        """Tell whether a message is one that was said, or as much as its loop has kept of one that was cut off."""
        keys = self._said[at][1]
        cut = len(keys) > 1 and key[0] == "assistant" and bool(key[1])
        return key in keys or (
            cut and any(whole[1].startswith(key[1]) for whole in keys if whole[0] == key[0])
        )

    @property
    def is_new(self) -> bool:
        """Tell whether the open turn has nothing but its utterance."""
        return len(self._opened) <= 1

    def was_said(self, message: Message) -> bool:
        """Tell whether a message stands in the committed turns."""
        key = self.canonical_key(message)
        return any(key in keys for _, keys in self._said)

    def holds(self, message: Message) -> bool:
        """Tell whether a message is known, of the open turn too."""
        return self.canonical_key(message) in self._opened or self.was_said(message)

    def added(self, messages: Sequence[Message]) -> list[Message]:
        """Return those messages behind the utterance that the open turn does not hold."""
        rest, new = self._opened[1:], []
        for message in messages:
            if (key := self.canonical_key(message)) in rest:
                rest.remove(key)
            else:
                new.append(message)
        return new

    def _key(self, message: Message) -> Key:
        """Return what a message is known by, made once for one with text and without calls."""
        content = message.get("content")
        if not isinstance(content, str) or "tool_calls" in message:
            return key_of(message)
        entry = self._keys_made.get(id(message))
        if entry is None or entry[1] is not content or entry[2][0] != message.get("role"):
            entry = self._keys_made[id(message)] = message, content, key_of(message)
        return entry[2]


def split_head(messages: Sequence[Message]) -> tuple[list[Message], list[Message]]:
    """Return the instructions that a list begins with, and the messages after them."""
    head = list(takewhile(lambda message: message.get("role") in INSTRUCTIONS, messages))
    return head, list(messages[len(head) :])


def key_of(message: Message) -> Key:
    """Return what a message is known by."""
    ids = (str(call.get("id") or "") for call in tool_calls(message))
    text = "".join(text_of(without_thoughts(message))[:_KEY_CHARS].split())
    return str(message.get("role")), text, tuple(id_ for id_ in ids if not id_.startswith(IN_WORDS))
