"""The tokens a model has seen, in order: a log that only grows, and one cut allowed, after a barge-in."""

from __future__ import annotations

import codecs
import itertools
import operator
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edgemem.llama.prompt import Prompt, Segment


class Taken(msgspec.Struct, frozen=True):
    """A prompt as the model is to get it."""

    ids: list[int]
    common: int
    """How many of the ids the model has seen already, from the first on."""


class _Entry(msgspec.Struct):
    """A stretch of the log: a segment of a prompt, and what was generated behind it."""

    text: str
    """The segment's own text."""
    ids: tuple[int, ...]
    reply: bytes = b""
    reply_ids: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    """Where in `reply` each generated token ends."""

    @property
    def all_ids(self) -> tuple[int, ...]:
        return self.ids + self.reply_ids


class TokenLog:
    """Turns prompts into ids that begin with what the model has already evaluated.

    Text that a model generated may tokenise to other ids than it generated; the log keeps those it generated.

    Args:
        continue_text: tokenises text that goes on behind a reply which was cut in the middle of a word.
    """

    def __init__(self, continue_text: Callable[[str], Sequence[int]]) -> None:
        self._continue_text = continue_text
        self._entries: list[_Entry] = []

    @property
    def ids(self) -> list[int]:
        """Return every id in the log."""
        return [token for entry in self._entries for token in entry.all_ids]

    def take(self, prompt: Prompt) -> Taken:
        """Make `prompt` the log's content, with the ids known from before wherever the text is the same."""
        before, segments = self.ids, prompt.segments
        kept: list[_Entry] = []
        at = 0
        for old in self._entries:
            entry, used = self._match(old, segments[at:])
            if entry is None:
                break
            kept.append(entry)
            at += used
        self._entries = [*kept, *(_Entry(segment.text, segment.ids) for segment in segments[at:])]
        ids = self.ids
        return Taken(ids, common_prefix(before, ids))

    def append(self, token: int, piece: bytes) -> None:
        """Add a generated token and the bytes that it adds to the text."""
        last = self._entries[-1]
        last.reply += piece
        last.reply_ids = (*last.reply_ids, token)
        last.ends = (*last.ends, len(last.reply))

    def cut(self, heard_text: str) -> None:
        """End the log at the last token of the newest reply that lies wholly within `heard_text`."""
        if not self._entries:
            return
        last = self._entries[-1]
        heard = _length_heard(last.reply.decode("utf-8", "replace"), heard_text)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        begin = shown = kept = 0
        for n, end in enumerate(last.ends, 1):
            shown += len(decoder.decode(last.reply[begin:end]))
            begin = end
            if shown > heard:
                break
            if not decoder.getstate()[0]:  # no half character behind this token
                kept = n
        if heard == 0:
            kept = 0
        last.reply_ids, last.ends = last.reply_ids[:kept], last.ends[:kept]
        last.reply = last.reply[: last.ends[-1]] if kept else b""

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()

    def dump(self) -> bytes:
        """Return the log as bytes, for another process."""
        return msgspec.msgpack.encode(self._entries)

    def restore(self, dumped: bytes) -> None:
        """Take the place of a log that another process dumped.

        Raises:
            msgspec.DecodeError: these bytes are no log.
        """
        self._entries = msgspec.msgpack.decode(dumped, type=list[_Entry])

    def _match(self, old: _Entry, segments: Sequence[Segment]) -> tuple[_Entry | None, int]:
        """Return the entry that stands for the first of `segments`, and how many of them it covers."""
        if not segments:
            return None, 0
        if not old.reply_ids:
            rest = segments[0].text[len(old.text) :]
            # behind the newest text a reply was to follow: what stands there now is no part of what was seen
            if not segments[0].text.startswith(old.text) or (rest and old is not self._entries[-1]):
                return None, 0
            ids = (*old.ids, *self._continue_text(rest)) if rest else old.ids
            return _Entry(segments[0].text, ids), 1
        # special tokens in the reply may have cut it into several segments
        reply = old.reply.decode("utf-8", "replace")
        shown, used = segments[0].text, 1
        while len(shown) < len(old.text) + len(reply.strip()) and used < len(segments):
            shown += segments[used].text
            used += 1
        if not shown.startswith(old.text):
            return None, 0
        behind = _behind(shown[len(old.text) :], reply)
        if behind is None:
            return None, 0
        return _Entry(shown, (*old.all_ids, *self._continue_text(behind))), used


def common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many ids two lists begin with in common."""
    return sum(1 for _ in itertools.takewhile(lambda same: same, map(operator.eq, one, other)))


def _behind(shown: str, reply: str) -> str | None:
    """Return what stands behind `reply` in `shown`, None if that does not begin with it.

    Loops and templates trim replies: white space around one makes no difference.
    """
    shown, reply = shown.lstrip(), reply.lstrip()
    if shown.startswith(reply):
        return shown[len(reply) :]
    reply = reply.rstrip()
    return shown[len(reply) :].lstrip() if shown.startswith(reply) else None


def _length_heard(reply: str, heard: str) -> int:
    """Return how many characters of `reply` the heard text covers, white space apart."""
    at = 0
    for character in "".join(heard.split()):
        while at < len(reply) and reply[at].isspace():
            at += 1
        if at == len(reply) or reply[at] != character:
            break
        at += 1
    return at
