"""The tokens a model has seen, in order: a log that only grows, and one cut allowed, after a barge-in."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

import msgspec

from edgemem.llama.replies import all_hidden, behind, opened_thought

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edgemem.llama.protocols import Prompt, Segment


SPARE = 8
"""One part in so many of the window may be taken by thoughts that are kept; what plans a prompt knows nothing of them."""


class _Entry(msgspec.Struct):
    """A stretch of the log: a segment of a prompt, and the reply generated behind it."""

    text: str
    """The segment's own text."""
    ids: tuple[int, ...]
    reply: bytes = b""
    reply_ids: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    """Where in `reply` each generated token ends."""
    extra: int = 0
    """Tokens that the prompt as it is rendered does not have: thoughts, mostly."""

    @property
    def all_ids(self) -> tuple[int, ...]:
        return self.ids + self.reply_ids


class TokenLog:
    """Turns prompts into ids that begin with what the model has already evaluated.

    Text that a model generated may tokenise to other ids than it generated, and history holds no more of a reply than it
    means: no thoughts, and calls of tools in the template's spelling. The log keeps the ids that were generated, as long as
    the prompt says the same, and while the tokens kept so fit `spare`: from there on a reply that was thought about is
    read again without its thought, which is cheaper than to read all of them again when the window is full.

    `continue_text` tokenises text that goes on behind a reply which was cut in the middle of a word; `spare` tokens may
    be kept beyond those of a prompt, None: any number.
    """

    def __init__(self, continue_text: Callable[[str], Sequence[int]], *, spare: int | None = None) -> None:
        self._continue_text = continue_text
        self._spare = spare
        self._entries: list[_Entry] = []

    @property
    def ids(self) -> list[int]:
        """Return every id in the log."""
        return [token for entry in self._entries for token in entry.all_ids]

    def set_prompt(self, prompt: Prompt, *, most: int | None = None) -> list[int]:
        """Make `prompt` the log's content, with the ids from before wherever the meaning is the same, and return all ids.

        Thoughts that were kept go where the prompt would take more than `most` tokens because of them.
        """
        self._entries = self._entries_for(prompt)
        if most is not None and prompt.n <= most < sum(len(entry.all_ids) for entry in self._entries):
            self._entries = [_Entry(segment.text, segment.ids) for segment in prompt.segments]
        return self.ids

    def foresee(self, prompt: Prompt) -> list[int]:
        """Return the ids that `set_prompt` would give, and leave the log as it is."""
        return [token for entry in self._entries_for(prompt) for token in entry.all_ids]

    def append(self, token: int, piece: bytes) -> None:
        """Add a generated token and the bytes that it adds to the text."""
        last = self._entries[-1]
        last.reply += piece
        last.reply_ids = (*last.reply_ids, token)
        last.ends = (*last.ends, len(last.reply))

    def cut(self, heard_text: str) -> None:
        """End the log at the last token of the newest reply that lies wholly within `heard_text`.

        A thought before it stays: the model went on from there.
        """
        if not self._entries:
            return
        last = self._entries[-1]
        heard = _length_heard(
            last.reply.decode("utf-8", "replace"), heard_text, opened=opened_thought(last.text)
        )
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
        """Take the place of a log that another process dumped; raise msgspec.DecodeError where these bytes are none."""
        self._entries = msgspec.msgpack.decode(dumped, type=list[_Entry])

    def _entries_for(self, prompt: Prompt) -> list[_Entry]:
        segments = prompt.segments
        kept: list[_Entry] = []
        at = extra = 0
        for old in self._entries:
            entry, used = self._match(old, segments[at:])
            if entry is None:
                break
            extra += entry.extra
            if old.reply_ids and entry.extra and self._spare is not None and extra > self._spare:
                break
            kept.append(entry)
            at += used
        return [*kept, *(_Entry(segment.text, segment.ids) for segment in segments[at:])]

    def _match(self, old: _Entry, segments: Sequence[Segment]) -> tuple[_Entry | None, int]:
        """Return the entry for the first of `segments`, and how many of them it covers."""
        # special tokens in a reply may have cut it into several segments
        if not old.reply_ids:
            shown, used = _joined(segments, len(old.text))
            rest = shown[len(old.text) :]
            # a reply was to follow the newest text: the model has not seen the text that is there now
            if not used or not shown.startswith(old.text) or (rest and old is not self._entries[-1]):
                return None, 0
            ids = (*old.ids, *self._continue_text(rest)) if rest else old.ids
            return _Entry(shown, ids, extra=old.extra), used
        whole = "".join(segment.text for segment in segments)
        if not whole.startswith(old.text):
            return None, 0
        # a reply that ended within a character was said without it
        reply = codecs.getincrementaldecoder("utf-8")("replace").decode(old.reply)
        left = behind(reply, whole[len(old.text) :], opened=opened_thought(old.text))
        if left is None:
            return None, 0
        end = len(whole) - len(left)
        shown, used = _joined(segments, end)
        ids = (*old.all_ids, *self._continue_text(shown[end:]))
        rendered = sum(len(segment.ids) for segment in segments[:used])
        return _Entry(shown, ids, extra=max(0, len(ids) - rendered)), used


def _joined(segments: Sequence[Segment], length: int) -> tuple[str, int]:
    """Return the text of the fewest segments that hold so many characters, at least one, and how many they are."""
    texts: list[str] = []
    got = 0
    for segment in segments:
        texts.append(segment.text)
        got += len(segment.text)
        if got >= length:
            break
    return "".join(texts), len(texts)


def _length_heard(reply: str, heard: str, *, opened: str) -> int:
    """Return how many characters of `reply`, behind a thought that the prompt `opened`, the heard text covers.

    Only speech counts, without white space.
    """
    begin = len(opened)
    whole = opened + reply
    silent = {hidden.begin: hidden.end for hidden in all_hidden(whole)}
    at = 0
    for character in "".join(heard.split()):
        while at < len(whole) and (whole[at].isspace() or at in silent):
            at = silent.get(at, at + 1)
        if at == len(whole) or whole[at] != character:
            break
        at += 1
    return max(0, at - begin) if heard.strip() else 0
