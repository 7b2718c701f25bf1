"""MemoryInjectionHook: puts what is remembered and matters now into the newest user message."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgemem.context.block import asks, changes, fact_as_recalled, lines_for, within, worth_saying
from edgemem.context.layout import Shown
from edgemem.fence import clean
from edgemem.hooks.conversation import Conversation, conversation_of
from edgemem.hooks.points import BEFORE_LLM, ON_ABORT, ON_RUN_END, ON_RUN_START, HookResult
from edgemem.llama.estimate import EstimateTokenizer
from edgemem.records import Reader, Recalled, level_of_scope
from edgemem.store.reading import readable

if TYPE_CHECKING:
    from edgemem.llama.protocols import Tokenizer
    from edgemem.store.protocols import MemoryStore

Pair = tuple[str, str]
"""Scope and key of a fact."""

Recaller = Callable[[str, "Reader | None"], Sequence[Recalled]]
"""Finds what matters for an utterance, for a reader, best first."""

FENCE_TOKENS = 12
"""What the two tags of a block take in common vocabularies (qwen2: 10, llama-bpe: 8, phi-3: 12; counted)."""


class MemoryInjectionHook:
    """Put recalled items into the newest user message, as a delta, once a turn."""

    points = frozenset({ON_RUN_START, BEFORE_LLM, ON_RUN_END, ON_ABORT})
    priority = 80

    def __init__(
        self,
        store: MemoryStore,
        max_facts: int = 20,
        max_episodes: int = 5,
        header: str = "",
        *,
        max_chars: int = 1200,
        block_tokens: int = 80,
        speaker: str | None = None,
        floors: Mapping[str, float] | None = None,
        recall: Recaller | None = None,
        tokenizer: Tokenizer | None = None,
        conversation: Conversation | None = None,
    ) -> None:
        """Make the hook.

        Args:
            max_facts: at most this many facts are candidates.
            max_episodes: at most this many episodes are candidates.
            header: a line that opens the block.
            max_chars: at most this much text is candidate.
            block_tokens: the budget of the whole block, in tokens of `tokenizer`.
            speaker: who speaks where the loop does not say it.
            floors: the least score at which something is said, by kind.
            recall: finds what matters; None looks through the store's own lists.
        """
        self.store = store
        self.max_facts = max_facts
        self.max_episodes = max_episodes
        self.header = header.strip()
        self.max_chars = max_chars
        self.block_tokens = block_tokens
        self.speaker = speaker
        self.floors = floors or {"fact": 0.0}
        self.last: list[Recalled] = []
        """What was recalled for the newest turn, before it was cut to the block."""
        self._unchanged: dict[Reader | None, tuple[int, ...]] = {}
        """By reader, the version of the facts at which all that is visible was still true."""
        self._recall = recall or self._listed
        self._tokenizer = tokenizer or EstimateTokenizer()
        self._conversation = conversation

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Open the turn, and fill the block before the first call of the model."""
        conversation = conversation_of(ctx, self._conversation)
        if point == ON_RUN_START:
            conversation.begin(ctx, payload, speaker=self.speaker)
            return None
        if point != BEFORE_LLM:
            conversation.end(point, ctx)
            return None
        if conversation.layout.running is None:
            conversation.begin(ctx, {}, speaker=self.speaker)
        layout = conversation.layout
        layout.take(payload["messages"])
        if payload.get("hop", 0) == 0:
            layout.put("memory", self._lines(conversation), header=self.header)
        shown = {"messages": layout.view(), "now": layout.epoch.started_at or None}
        return HookResult.replace({**payload, **shown}, reason="memory")

    def _lines(self, conversation: Conversation) -> list[Shown]:
        layout = conversation.layout
        visible = layout.visible()
        lines = []
        cut_off = layout.turns[-1] if layout.turns else None
        # The line quotes the turn that was cut off, so it is shown to nobody else, and is as private as that turn.
        if layout.interrupted_after is not None and cut_off is not None and cut_off.readable(layout.reader):
            heard = clean(layout.interrupted_after[-120:], max_chars=120)
            lines.append(
                Shown(
                    "interrupted",
                    f"- you were interrupted after: {heard}" if heard else "- you were interrupted",
                    cut_off.level,
                    cut_off.owner,
                )
            )
        lines += self._changed(layout.reader, visible)
        self.last = list(self._recall(layout.utterance, layout.reader))
        found = lines_for(
            self._capped(worth_saying(self.last, self.floors, asked=asks(layout.utterance))),
            visible=visible,
            visible_turns=layout.visible_turns(),
            session=layout.session,
        )
        told = {line.fact for line in lines if line.fact is not None}
        lines += [line for line in found if line.fact is None or line.fact not in told]
        return within(lines, tokens=self.block_tokens, count=self._count, spent=FENCE_TOKENS)

    def _count(self, text: str) -> int:
        return len(self._tokenizer.encode(text))

    def _changed(self, reader: Reader | None, visible: Mapping[str, Shown]) -> list[Shown]:
        """Return what is not true any more; not asked again while no fact was written and little time has passed."""
        version = getattr(self.store, "facts_version", None)
        if version is None:
            return changes(visible, self._current(reader))
        now = version()
        if self._unchanged.get(reader) == now:
            return []
        found = changes(visible, self._current(reader))
        if not found:
            self._unchanged[reader] = now
        return found

    def _current(
        self, reader: Reader | None
    ) -> Callable[[Collection[Pair]], Mapping[Pair, tuple[bool, str | None]]]:
        def values(wanted: Collection[Pair]) -> Mapping[Pair, tuple[bool, str | None]]:
            read = getattr(self.store, "read_values", None)
            if read is not None:
                found: Mapping[Pair, tuple[bool, str | None]] = read(wanted, reader=reader)
                return found
            return {
                (scope, key): (
                    readable(reader, *level_of_scope(scope)),
                    self.store.get_fact(key, scope=scope),
                )
                for scope, key in wanted
            }

        return values

    def _capped(self, recalled: Sequence[Recalled]) -> list[Recalled]:
        left = {"fact": self.max_facts, "episode": self.max_episodes}
        chars = self.max_chars
        out = []
        for item in recalled:
            if left.get(item.kind, 1) <= 0 or chars <= 0:
                continue
            if item.kind in left:
                left[item.kind] -= 1
            chars -= len(item.text)
            out.append(item)
        return out

    def _listed(self, utterance: str, reader: Reader | None) -> list[Recalled]:
        """Look through the store's own lists: what shares a word with the utterance first, then the newest."""
        words = set(re.findall(r"\w{3,}", utterance.lower()))
        facts = [fact_as_recalled(fact) for fact in self.store.facts()]
        facts = [fact for fact in facts if readable(reader, fact.level, fact.owner)]
        facts.sort(key=lambda f: (-len(words & set(re.findall(r"\w{3,}", f.text.lower()))), -f.recorded_at))
        episodes = [
            Recalled(
                "episode",
                f"{e.timestamp}",
                f"{e.kind} {e.payload.get('name', '')}: {e.outcome}",
                0.4,
                recorded_at=e.timestamp,
            )
            for e in self.store.recent_episodes(self.max_episodes)
            if self.max_episodes > 0 and readable(reader, e.level, e.owner)
        ]
        return facts[: self.max_facts] + episodes
