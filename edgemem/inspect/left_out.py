"""Left out: why something that is remembered does not stand in the next prompt.

Whoever looks asks as the speaker, without bounds, and once more as the operator: what is closed to the speaker is named
with the reason, and never quoted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from edgemem.context.block.delta import VALUES, newest_values
from edgemem.context.block.select import adds, least_scores, only_asks, worth_saying
from edgemem.fence import storable
from edgemem.records import Recalled
from edgemem.store.rights import readable

if TYPE_CHECKING:
    from edgemem.context.block.render import About, BlockLine
    from edgemem.context.prompt.log import PromptLog
    from edgemem.hooks.injection import MemoryInjectionHook


Look = Callable[..., Sequence[Recalled]]
"""Finds for the utterance, with `speaker=…` as that person, else as the operator; nothing is held back for its score."""


def candidates(look: Look, *, speaker: str | None) -> list[Recalled]:
    """Return what is found, whatever it scores, also what is closed to the speaker; best first.

    Args:
        speaker: None: an unknown voice.
    """
    items: dict[str, Recalled] = {}
    # As the speaker first: what "my" means is part of a score.
    for item in (*look(speaker=speaker), *look()):
        items.setdefault(_name(item), item)
    return sorted(items.values(), key=lambda item: -item.score)


class Judge:
    """Tells why a candidate is no line of the block that was just made.

    Args:
        injection: the hook that made it.
        k: items that its recall returned of each sight at most.
    """

    def __init__(
        self, injection: MemoryInjectionHook, layout: PromptLog, shown: Sequence[BlockLine], *, k: int
    ) -> None:
        self._injection = injection
        self._layout = layout
        self._shown = shown
        self._k = k
        recalled = injection.last
        self._recalled = {_name(item) for item in recalled}
        worth = worth_saying(recalled, injection.floors, utterance=layout.utterance)
        self._worth = {_name(item) for item in worth}
        self._considered = {_name(item) for item in injection.considered(worth)}
        self._least = least_scores(recalled, injection.floors)
        self._visible = layout.visible()

    def matters(self, item: Recalled) -> bool:
        """Tell whether it is worth a look: the block says it neither as it is nor as a change.

        What is closed to the speaker matters only where it would else be said.
        """
        about = _about(item)
        if any(
            line.item == _name(item) or (about is not None and line.about == about) for line in self._shown
        ):
            return False
        return self.is_near(item) or not self.is_closed(item)

    def is_closed(self, item: Recalled) -> bool:
        """Tell whether the speaker, or somebody who listens, may not know it."""
        return not readable(self._layout.reader, item.level, item.owner)

    def is_near(self, item: Recalled) -> bool:
        """Tell whether it scores enough to be said; what is closed to the speaker might be all that helps."""
        beside = (*self._injection.last, item)
        return item.score >= least_scores(beside, self._injection.floors).of(item)

    def reason(self, item: Recalled) -> str:
        """Return why it is left out, in a few words."""
        layout = self._layout
        if self.is_closed(item):
            if item.level == "private":
                return f"private to {item.owner}" if item.owner else "private"
            return "closed to a voice that is not recognised"
        standing = self._standing(item)
        if standing is not None:
            return f"before the model already, {self._where(standing)}"
        if item.session == layout.session and item.turn in layout.visible_turns():
            return f"before the model already: turn {item.turn} of this conversation"
        if only_asks(item):
            return "only asks something"
        if item.kind == "turn" and not adds(item.text, layout.utterance):
            return "says what has just been said"
        if not self.is_near(item):
            return self._too_little(item)
        if _name(item) not in self._recalled:
            return f"behind the best {self._k} ([recall] k)"
        if _name(item) not in self._worth:
            return "says what a line of the block says"
        if _name(item) not in self._considered:
            return "behind what is considered ([injection] max_chars)"
        return f"no room in {self._injection.block_tokens} tokens ([context] block_tokens)"

    def _too_little(self, item: Recalled) -> str:
        if item.safety:
            return f"under {self._least.of(item):.2f}, the least for what concerns safety"
        if math.isinf(self._least.best):
            return f"nothing reaches {self._injection.floors.any:.2f} ([injection] min_score)"
        share = self._least.share(item)
        return f"under {self._least.of(item):.2f}, {share:.0%} of the best one"

    def _standing(self, item: Recalled) -> str | None:
        """Return under which name it is before the model; a value that changed was told under another one."""
        name, about = _name(item), _about(item)
        if about is None or name in self._visible:
            return name if any(line.item == name for line in self._visible.values()) else None
        last = newest_values(self._visible).get(about)
        return last.id if last is not None and last.value == storable(item.value or "") else None

    def _where(self, name: str) -> str:
        """Return where in the prompt an item stands: in a turn, or else in what stands for the turns that have left."""
        for turn in self._layout.epoch_turns():
            if turn.readable(self._layout.reader) and any(item.item == name for item in turn.shown):
                return f"since turn {turn.n}"
        return "at the head of the prompt"


def _about(item: Recalled) -> About | None:
    return (item.kind, item.scope, storable(item.key or "")) if item.kind in VALUES else None


def _name(item: Recalled) -> str:
    return f"{item.kind}:{item.id}"
