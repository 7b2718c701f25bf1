"""What a chat template makes of messages: text, cut into segments whose token ids are known."""

from __future__ import annotations

import msgspec


class Segment(msgspec.Struct, frozen=True):
    """A stretch of a prompt that begins at a special token and is tokenised by itself."""

    text: str
    ids: tuple[int, ...]


class Prompt(msgspec.Struct, frozen=True):
    """A rendered prompt; the ids of its segments, one after the other, are the ids of the whole."""

    text: str
    segments: tuple[Segment, ...]

    @property
    def ids(self) -> list[int]:
        """Return the token ids to hand to the model."""
        return [token for segment in self.segments for token in segment.ids]

    @property
    def n(self) -> int:
        """Return the number of tokens."""
        return sum(len(segment.ids) for segment in self.segments)
