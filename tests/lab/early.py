"""How long a reply waits for what is remembered, where recall begins while somebody still speaks."""

from __future__ import annotations

import random
import re
from itertools import chain
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, NamedTuple

import edgemem
from edgemem.bench.corpus import SPEAKER, household_facts, sentences
from edgemem.bench.ground import (
    Robot,
    at_least,
    median,
    percentile,
    real_embedder,
    real_tokenizer,
    report,
    say,
    scratch,
    store_facts,
    store_turns,
    timed_ms,
)
from edgemem.hooks.builtin import part_of
from edgemem.session.speech import Waited
from lab.lent import Lent

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from edgemem.llama.embedder import LlamaEmbedder
    from edgemem.memory import Memory

READY_MS = 2.0
READY_SHARE = 0.9
EQUAL_SHARE = 0.95
IDLE_S = 3600.0
TURNS_A_SESSION = 8


class Spoken(NamedTuple):
    whole: Waited
    early: Waited
    equal: bool  # whether both ways put the same block before the model
    block: bool  # whether there was a block at all
    queries: tuple[int, int]  # embeddings without recall ahead, and with it
    partial_ms: list[float]  # what each partial took of the caller's time


class Slowed(Lent):
    """An embedder that takes at least `query_s` seconds for each question, as one on a slow board, and remembers none."""

    def __init__(self, embedder: LlamaEmbedder, query_s: float) -> None:
        super().__init__(embedder)
        self.query_s = query_s
        self.queries = 0

    def embed_query(self, text: str, *, timeout_s: float | None = None) -> NDArray[np.float32] | None:
        begun = monotonic()
        self.queries += 1
        vector = self.real.embed_query(text, timeout_s=timeout_s)
        sleep(max(0.0, begun + self.query_s - monotonic()))
        return vector


def run(
    *,
    utterances: int = 40,
    messages: int = 3000,
    words_s: float = 3.0,
    embed_ms: float = 30.0,
    end_ms: float = 300.0,
    home: Path | None = None,
) -> dict[str, Any]:
    """Speak to a robot that remembers many conversations, word by word in real time, and time what its reply waits for recall.

    Each utterance is answered twice: first as a whole, and that turn is thrown away; then word by word.

    Args:
        utterances: half as recognisers write that put punctuation, half without.
        embed_ms: what each embedding of a question takes at least.
        end_ms: how long after the last word the end of an utterance is known.
    """
    from edgemem.llama.embedder import LlamaEmbedder

    facts = household_facts(200)
    dice = random.Random("early")
    questions = dice.sample([fact.question for fact in facts], -(-utterances // 2))
    # Not the seed of what is stored: a sentence that stands there word for word would find itself.
    remarks = sentences(len(questions), seed=dice.randrange(1000, 10**6))
    texts = list(chain.from_iterable(zip(questions, remarks, strict=True)))[:utterances]
    tokenizer = real_tokenizer()
    model = LlamaEmbedder(real_embedder())
    embedder = Slowed(model, embed_ms / 1e3)
    spoken: list[Spoken] = []
    with scratch(home) as folder:
        try:
            # No worker: what is indexed between two utterances would be no part of what is compared.
            with edgemem.open(
                folder / "home", embedder=embedder, tokenizer=tokenizer, worker=False
            ) as memory:
                say("storing conversations …")
                store_turns(memory.diagnostics.database, messages // 2)
                store_facts(memory.diagnostics.database, facts)
                memory.idle(IDLE_S)
                say("speaking …")
                for number, text in enumerate(texts):
                    if number % TURNS_A_SESSION == 0:
                        talk = _Talk(memory, embedder, f"talk {number}")
                    # Pairs of a question and a remark take turns in being written with punctuation.
                    heard = text if number // 2 % 2 else _plain(text)
                    spoken.append(talk.speak(heard, 1 / words_s, end_ms / 1e3))
        finally:
            tokenizer.close()
            model.close()
    return _figures(spoken)


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[^\w' -]", " ", text.lower()).split())


def _figures(spoken: list[Spoken]) -> dict[str, Any]:
    n = len(spoken)
    waited = {"whole": [turn.whole.ms for turn in spoken], "early": [turn.early.ms for turn in spoken]}
    sides = {
        "waited_p50_ms": {name: median(ms) for name, ms in waited.items()},
        "waited_p90_ms": {name: percentile(ms, 0.9) for name, ms in waited.items()},
        "waited_max_ms": {name: round(max(ms), 4) for name, ms in waited.items()},
        "ready_share": {name: sum(took <= READY_MS for took in ms) / n for name, ms in waited.items()},
        "embeddings_a_turn": {
            name: sum(turn.queries[way] for turn in spoken) / n for way, name in enumerate(waited)
        },
    }
    outcomes = [turn.early.outcome for turn in spoken]
    partials = [ms for turn in spoken for ms in turn.partial_ms]
    same = sum(turn.equal for turn in spoken) / n
    figures = {
        "side_by_side": sides,
        "utterances": n,
        "with_a_block": sum(turn.block for turn in spoken),
        "equal_share": same,
        "outcomes": {outcome: outcomes.count(outcome) for outcome in dict.fromkeys(outcomes)},
        "partials_a_turn": len(partials) / n,
        "partial_p50_ms": median(partials),
        "partial_p99_ms": percentile(partials, 0.99),
    }
    bars = {
        "ready_share": at_least(sides["ready_share"]["early"], READY_SHARE),
        "equal_share": at_least(same, EQUAL_SHARE),
    }
    return report("early", figures, bars)


class _Talk:
    def __init__(self, memory: Memory, embedder: Slowed, session: str) -> None:
        self._embedder = embedder
        hooks = memory.hooks(session_id=session)
        self._early = part_of(hooks, "prefetch")
        self._robot = Robot(hooks)

    def speak(self, text: str, gap_s: float, end_s: float) -> Spoken:
        """Have an utterance answered as a whole, and once more while it is spoken, with these seconds between words and before the end."""
        loop, before = self._robot.loop, self._embedder.queries
        whole_block = self._block(text)
        whole = self._early.last
        loop.abort()
        asked = self._embedder.queries
        loop.speech_start(speaker=SPEAKER)
        took = []
        words, at = text.split(), monotonic()
        for end in range(1, len(words) + 1):
            at += gap_s
            sleep(max(0.0, at - monotonic()))
            heard = " ".join(words[:end])
            took.append(timed_ms(lambda heard=heard: loop.partial(heard, speaker=SPEAKER)))  # type: ignore[misc]
        sleep(max(0.0, at + end_s - monotonic()))
        block = self._block(text)
        early = self._early.last
        loop.commit()
        self._robot.check()
        queries = asked - before, self._embedder.queries - asked
        return Spoken(whole, early, block == whole_block, bool(block), queries, took)

    def _block(self, text: str) -> str:
        result = self._robot.loop.prepare(text, speaker=SPEAKER)
        content: str = result.handed[0][-1]["content"]
        return content.removesuffix(text)
