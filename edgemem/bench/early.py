"""How long a reply waits for what is remembered, where recall begins while somebody still speaks."""

from __future__ import annotations

import random
import re
from pathlib import Path
from time import monotonic, perf_counter, sleep
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import edgemem
from edgemem.bench.corpus import SPEAKER, known, sentences
from edgemem.bench.ground import Lent, Robot, real_embedder, real_tokenizer, scratch, store_facts, store_turns
from edgemem.bench.report import at_least, median, percentile, report, say
from edgemem.hooks.early_recall import EarlyRecallHook, Waited

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.llama.embedder import LlamaEmbedder
    from edgemem.memory import Memory

FACTS = known(200)
"""What is remembered beside the conversations."""

Form = Literal["written", "plain", "marked at the end"]
"""How a recogniser writes: with case and punctuation; without any; or without, until the sentence is over."""

FORMS: tuple[Form, ...] = ("written", "plain", "marked at the end")

READY_MS = 2.0
READY_SHARE = 0.9
EQUAL_SHARE = 0.95
IDLE_S = 3600.0
TURNS_A_SESSION = 8
_PAUSE_S = 0.001


class Utterance(NamedTuple):
    """What somebody says, and how it is heard."""

    partials: tuple[str, ...]
    """What has been heard after each word."""
    text: str
    """What is heard when it is over."""


class Spoken(NamedTuple):
    """What one utterance cost, without recall ahead and with it."""

    whole: Waited
    early: Waited
    equal: bool
    block: bool
    """Whether there was a block at all."""
    queries: tuple[int, int]
    """Embeddings without recall ahead, and with it."""
    partial_ms: list[float]
    """What each partial took of the caller's time."""


class Slowed(Lent):
    """An embedder that takes at least `query_s` seconds for each question, as one on a slow board, and remembers none."""

    def __init__(self, embedder: LlamaEmbedder, query_s: float) -> None:
        super().__init__(embedder)
        self.query_s = query_s
        self.queries = 0

    def embed_query(self, text: str, *, timeout_s: float | None = None) -> NDArray[np.float32] | None:
        """Embed a question, not faster than a slow board."""
        begun = monotonic()
        self.queries += 1
        vector = self.real.embed_query(text, timeout_s=timeout_s)
        sleep(max(0.0, begun + self.query_s - monotonic()))
        return vector


def run(
    *,
    utterances: int = 40,
    prepared: int = 120,
    messages: int = 3000,
    words_s: float = 3.0,
    embed_ms: float = 30.0,
    end_ms: float = 300.0,
    late_end_ms: float = 800.0,
    home: Path | None = None,
) -> dict[str, Any]:
    """Speak to a robot that remembers many conversations, word by word in real time, and time what its reply waits for recall.

    Each utterance is answered twice with the same memory and the same conversation before it: first as a whole, and that
    turn is thrown away; then word by word. Half of them are questions for facts, half is what people say.

    Args:
        utterances: spoken in real time, half as recognisers write that put punctuation, half without.
        prepared: of each form handed over whole and awaited, for the share of equal blocks only.
        messages: how many are stored beside 200 facts.
        words_s: words a second.
        embed_ms: what each embedding of a question takes at least.
        end_ms: how long after the last word the end of an utterance is known.
        late_end_ms: the same of a patient recogniser; a fifth of the utterances is also spoken to one.
        home: where scratch files go; default: the temporary files.
    """
    from edgemem.llama.embedder import LlamaEmbedder

    tokenizer = real_tokenizer()
    model = LlamaEmbedder(real_embedder())
    embedder = Slowed(model, 0.0)
    with scratch(home) as folder:
        try:
            with _home(folder, embedder, tokenizer) as memory:
                say("storing conversations …")
                store_turns(memory, messages // 2)
                store_facts(memory, FACTS)
                memory.idle(IDLE_S)
                say("handing sentences over …")
                equal = {form: _equal(_spoken(memory, embedder, form, prepared)) for form in FORMS}
            say("speaking …")
            embedder.query_s = embed_ms / 1e3
            half = utterances // 2
            with _home(folder, embedder, tokenizer) as memory:
                pace = {"words_s": words_s, "end_s": end_ms / 1e3}
                spoken = _spoken(memory, embedder, "written", utterances - half, **pace)
                spoken += _spoken(memory, embedder, "plain", half, **pace)
            with _home(folder, embedder, tokenizer) as memory:
                late = {"words_s": words_s, "end_s": late_end_ms / 1e3}
                patient = _spoken(memory, embedder, "plain", utterances // 5, **late)
        finally:
            tokenizer.close()
            model.close()
    return _figures(spoken, patient, equal)


def utterances_in(form: Form, n: int) -> Iterator[Utterance]:
    """Yield questions for facts and what people say, in turn, as a recogniser of this form hears them."""
    dice = random.Random(form)
    questions = dice.sample([fact.question for fact in FACTS], -(-n // 2))
    # Not the seed of what is stored: a sentence that stands there word for word would find itself.
    remarks = sentences(len(questions), seed=dice.randrange(1000, 10**6))
    for text in [text for pair in zip(questions, remarks, strict=True) for text in pair][:n]:
        plain = " ".join(re.sub(r"[^\w' -]", " ", text.lower()).split())
        words = (text if form == "written" else plain).split()
        partials = tuple(" ".join(words[: end + 1]) for end in range(len(words)))
        yield Utterance(partials, plain if form == "plain" else text)


def _home(folder: Path, embedder: Slowed, tokenizer: Any) -> Memory:
    """Open the memory, with nothing learnt of how people speak yet."""
    # No worker: what is indexed between two utterances would be no part of what is compared.
    return edgemem.open(folder / "home", embedder=embedder, tokenizer=tokenizer, worker=False)


def _figures(
    spoken: Sequence[Spoken], patient: Sequence[Spoken], equal: dict[Form, dict[str, float]]
) -> dict[str, Any]:
    whole = [turn.whole.ms for turn in spoken]
    early = [turn.early.ms for turn in spoken]
    partials = [ms for turn in spoken for ms in turn.partial_ms]
    n = len(spoken)
    sides = {
        "waited_p50_ms": {"whole": median(whole), "early": median(early)},
        "waited_p90_ms": {"whole": percentile(whole, 0.9), "early": percentile(early, 0.9)},
        "waited_max_ms": {"whole": round(max(whole), 4), "early": round(max(early), 4)},
        "ready_share": {
            "whole": sum(ms <= READY_MS for ms in whole) / n,
            "early": sum(ms <= READY_MS for ms in early) / n,
        },
        "embeddings_a_turn": {
            "whole": sum(turn.queries[0] for turn in spoken) / n,
            "early": sum(turn.queries[1] for turn in spoken) / n,
        },
    }
    outcomes = [turn.early.outcome for turn in spoken]
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
        "patient": {
            "ready_share": sum(turn.early.ms <= READY_MS for turn in patient) / max(1, len(patient)),
            # The first shows how late the end is known.
            "embeddings_a_turn": sum(turn.queries[1] for turn in patient[1:]) / max(1, len(patient) - 1),
        },
        "handed_over_whole": equal,
    }
    bars = {
        "ready_share": at_least(sides["ready_share"]["early"], READY_SHARE),
        "equal_share": at_least(same, EQUAL_SHARE),
    }
    return report("early", figures, bars)


def _spoken(
    memory: Memory, embedder: Slowed, form: Form, n: int, *, words_s: float = 0.0, end_s: float | None = None
) -> list[Spoken]:
    """Speak utterances in real time; without `end_s`, hand each over whole and wait for its recall."""
    spoken: list[Spoken] = []
    for number, utterance in enumerate(utterances_in(form, n)):
        if number % TURNS_A_SESSION == 0:
            talk = _Talk(memory, embedder, f"{form} {number} {end_s}")
        heard = utterance if end_s is not None else utterance._replace(partials=utterance.partials[-1:])
        spoken.append(talk.speak(heard, 1 / words_s if words_s else 0.0, end_s))
    return spoken


def _equal(spoken: Sequence[Spoken]) -> dict[str, float]:
    """Return for which share the recall was ready, and the block equal."""
    n = len(spoken)
    return {
        "ready": sum(turn.early.outcome == "ready" for turn in spoken) / n,
        "equal": sum(turn.equal for turn in spoken) / n,
    }


class _Talk:
    """A conversation with the robot."""

    def __init__(self, memory: Memory, embedder: Slowed, session: str) -> None:
        self._memory = memory
        self._embedder = embedder
        hooks = memory.hooks(session_id=session)
        self._early = next(hook for hook in hooks if isinstance(hook, EarlyRecallHook))
        self._robot = Robot(hooks)

    def speak(self, utterance: Utterance, gap_s: float, end_s: float | None) -> Spoken:
        """Have an utterance answered as a whole, and once more while it is spoken.

        Args:
            gap_s: between two words.
            end_s: between the last word and the end; None: as long as a recall takes.
        """
        loop, begun = self._robot.loop, self._memory.ahead.counts.begun
        before = self._embedder.queries
        whole_block = self._block(utterance)
        whole = self._early.last
        loop.abort()
        asked = self._embedder.queries
        loop.speech_start(speaker=SPEAKER)
        took = []
        at = monotonic()
        for partial in utterance.partials:
            at += gap_s
            sleep(max(0.0, at - monotonic()))
            started = perf_counter()
            loop.partial(partial, speaker=SPEAKER)
            took.append((perf_counter() - started) * 1e3)
        if end_s is None:
            while self._memory.ahead.counts.begun == begun:
                sleep(_PAUSE_S)
        else:
            sleep(max(0.0, at + end_s - monotonic()))
        block = self._block(utterance)
        early = self._early.last
        loop.commit()
        self._robot.check()
        queries = asked - before, self._embedder.queries - asked
        return Spoken(whole, early, block == whole_block, bool(block), queries, took)

    def _block(self, utterance: Utterance) -> str:
        """Prepare a turn, and return what memory put before the utterance."""
        result = self._robot.loop.prepare(utterance.text, speaker=SPEAKER)
        content: str = result.handed[0][-1]["content"]
        return content.removesuffix(utterance.text)
