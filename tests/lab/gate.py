"""The gate of recall, learnt: what tells that something remembered helps with what somebody said.

First what an utterance wants, by its words and its vector, then what that and the best candidates tell together; each
household is read by what was learnt on all others.
"""

from __future__ import annotations

import random
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from edgemem.bench.ground import report, say, scratch
from edgemem.config import Profile
from edgemem.recall.search.gate import FITS, WANTS, Direction, Gate, GateModels
from edgemem.recall.search.models import LinearModel
from edgemem.records import Reader
from lab.facts_told import FactsTold
from lab.judged import homes, open_real, opened, tell
from lab.learning import logistic
from lab.recall_cases import phrases, small_talk, weeks_case
from lab.recall_home import IDLE_S, filled
from lab.weeks import weeks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.llama.protocols import Embedder
    from edgemem.memory import Memory
    from edgemem.recall.search.gate import Evidence, Utterance
    from lab.judged import Household

SEEDS = (2, 3, 4)  # of the weeks; seed 1 is what is reported elsewhere
THINGS = 50  # of so many things of the weeks something is stored as a fact
MOST = 250  # questions, and sentences of small talk, of one seed
WORDS = 150  # words of a language that are weighed, the most frequent ones; 250 tell as much
WANTED = frozenset({"answerable", "unanswerable", "replaced"})
"""What wants something of a memory, whether that has it or not."""
HELPS = frozenset({"answerable", "replaced", "helped"})
OF_WEEKS, OF_UNANSWERED, OF_HELPED = 0.2, 0.3, 0.3
"""What an utterance of a sort weighs beside one that is small talk or answered: the weeks say all in few forms, and what nothing answers,
or helps without being asked, looks like what is answered, or like small talk. Other weights, and a floor for each of the two chances
instead of one for their product, move along one line: the less is shown where nothing answers, the more answers are denied."""
_PENALTY, _FEW = 0.1, 0.01
"""What the squares of weights cost, of words and vectors, and of the few features."""
_ROUNDS, _LEAST = 30, 1e-9
_SPREAD = 0.5
"""What the numbers of a vector, times the root of how many there are, and whether a word stands there, are divided by."""


class Sample(NamedTuple):
    home: str
    kind: str
    weight: float
    utterance: Utterance
    found: Evidence

    @property
    def wants(self) -> bool:
        return self.kind in WANTED

    @property
    def helps(self) -> bool:
        return self.kind in HELPS


def run(*, write: Path | None = None, cache: Path | None = None, home: Path | None = None) -> dict[str, Any]:
    """Learn what tells that something remembered helps with what somebody said, and print how often that is right."""
    embedder = open_real()
    try:
        with scratch(home) as folder:
            embedded = list(_samples(folder, embedder, cache))
            by_words = list(_samples(folder, None, cache))
    finally:
        embedder.close()
    gate, of_others = learnt(embedded, by_words)
    floor = Profile().injection.min_score
    sides: dict[str, dict[str, float]] = {}
    for name, some in (("with the embedder", embedded), ("by words", by_words)):
        told: dict[str, list[bool]] = {}
        for one in some:
            # Nobody asks the memory itself: whether anything is wanted is what shall be told.
            utterance = one.utterance._replace(asked=False)
            chance = of_others[one.home].chance(utterance, one.found, meaning=float(some is embedded))
            told.setdefault(f"{one.kind}, {one.home.split('_')[0]}", []).append(chance >= floor)
        sides[name] = {kind: round(sum(seen) / len(seen), 3) for kind, seen in told.items()}
    if write is not None:
        write.write_text(file_of(gate), "utf-8")
    return report("gate", {"floor": floor, "side_by_side": _turned(sides)}, {})


def _turned(sides: dict[str, dict[str, float]]) -> dict[str, dict[str, float | None]]:
    kinds = dict.fromkeys(chain.from_iterable(sides.values()))
    return {kind: {name: told.get(kind) for name, told in sides.items()} for kind in kinds}


# What is learnt on


def _samples(folder: Path, embedder: Embedder | None, cache: Path | None) -> Iterator[Sample]:
    """Yield what is said in all households; those in languages that the embedder does not know by words alone."""
    for name, spoken in homes().items():
        if embedder is None or name.startswith("en"):
            say(f"{name} …")
            yield from _of_home(name, spoken, folder / f"{name} {embedder is None}", embedder)
    for seed in SEEDS:
        yield from _of_weeks(seed, folder, embedder, cache)


def _of_home(name: str, spoken: Household, folder: Path, embedder: Embedder | None) -> Iterator[Sample]:
    with opened(folder, embedder) as (memory, clock):
        tell(memory, clock, spoken)
        said = [("answerable", one.asker, one.text) for one in spoken.answerable]
        said += [("replaced", one.asker, one.question) for one in spoken.replaced]
        said += [("helped", who, text) for who, text, _ in spoken.helped]
        for kind, rows in (("unanswerable", spoken.unanswerable), ("small talk", spoken.small_talk), ("statements", spoken.statements)):  # fmt: skip
            said += [(kind, who, text) for who, text in rows]
        yield from _asked(memory, name, said)


def _of_weeks(seed: int, folder: Path, embedder: Embedder | None, cache: Path | None) -> Iterator[Sample]:
    made, dice = weeks(seed, "learnt"), random.Random(seed)
    case = weeks_case(made, f"weeks {seed}")
    with filled(case, folder, embedder=embedder, profile=Profile(), cache=cache) as here:
        say(f"weeks {seed} …")
        told = FactsTold(made, seed=seed, forms="learnt", most=THINGS)
        told.store(here.memory)
        here.memory.idle(IDLE_S)
        people = sorted({one.asker for one in made.questions if one.asker})
        answered = [one for one in made.questions if one.evidence]
        said = [
            ("answerable", one.asker, one.text) for one in dice.sample(answered, min(MOST, len(answered)))
        ]
        said += [
            ("unanswerable", one.asker, one.text) for one in made.questions if one.category == "off_topic"
        ]
        said += [("unanswerable", dice.choice(people), text) for text in told.foreign()]
        said += [("small talk", dice.choice(people), text) for text in phrases("idle", "seen")]
        talked = small_talk(seed + 1, "learnt")
        said += [("statements", who, text) for who, text in dice.sample(talked, min(MOST, len(talked)))]
        yield from _asked(here.memory, "en_weeks", said)


def _asked(memory: Memory, home: str, said: Sequence[tuple[str, str | None, str]]) -> Iterator[Sample]:
    of_kind = {"unanswerable": OF_UNANSWERED, "helped": OF_HELPED}
    for kind, who, text in said:
        ranking = memory.diagnostics.search.ranking_of(text, reader=None if who is None else Reader(who))
        weight = of_kind.get(kind, 1.0) * (OF_WEEKS if home == "en_weeks" else 1.0)
        yield Sample(home, kind, weight, ranking.utterance, ranking.evidence)


# Learning


def learnt(embedded: Sequence[Sample], by_words: Sequence[Sample]) -> tuple[Gate, dict[str, Gate]]:
    """Return the gate learnt with an embedder and without, and by household the gate learnt on the others."""
    said, meant = _vocabularies(by_words), _direction(embedded)
    bare = Gate(_NOTHING, _NOTHING, _NOTHING, meant, said)
    of_others = {
        home: msgspec.structs.replace(
            bare,
            # What is known of a language that one household speaks alone is known of that household.
            vocabularies={**said, **_vocabularies([one for one in by_words if one.home != home])},
            direction=_direction([one for one in embedded if one.home != home]),
        )
        for home in sorted({one.home for one in by_words})
    }
    by_meaning = [name for name in FITS if name.startswith("nearest")]
    weighed = {
        "words_only": _both(
            by_words, of_others, WANTS[:1], [name for name in FITS if name not in by_meaning]
        ),
        "with_meaning": _both(embedded, of_others, WANTS[:1], FITS),
        "with_vector": _both(embedded, of_others, WANTS, FITS),
    }
    return msgspec.structs.replace(bare, **weighed), {
        home: msgspec.structs.replace(other, **weighed) for home, other in of_others.items()
    }


_NOTHING = GateModels(LinearModel(0.0, {}), LinearModel(0.0, {}))


def _vocabularies(samples: Sequence[Sample]) -> dict[str, LinearModel]:
    languages = sorted({one.home.split("_")[0] for one in samples})
    return {
        code: _vocabulary([one for one in samples if one.home.split("_")[0] == code]) for code in languages
    }


def _vocabulary(samples: Sequence[Sample]) -> LinearModel:
    """Return the words of a language that tell what wants something of a memory."""
    import numpy as np

    said = [one.utterance.words for one in samples]
    words = [word for word, _ in Counter(sorted(chain.from_iterable(said))).most_common(WORDS)]
    there = np.array([[word in each for word in words] for each in said]) / _SPREAD
    bias, weights = _wants(samples, there)
    return LinearModel(bias, dict(zip(words, (weights / _SPREAD).round(2).tolist(), strict=True)))


def _direction(samples: Sequence[Sample]) -> Direction:
    """Return where the embedder puts what wants something of a memory."""
    import numpy as np

    some = [one for one in samples if one.utterance.vector is not None]
    vectors = np.array([one.utterance.vector for one in some])
    spread = _SPREAD * 2 / vectors.shape[1] ** 0.5
    bias, weights = _wants(some, vectors / spread)
    name = some[0].utterance.embedder.partition(":")[0]
    return Direction(name, bias, tuple((weights / spread).round(2).tolist()))


def _wants(samples: Sequence[Sample], of: NDArray[Any]) -> tuple[float, NDArray[np.float64]]:
    import numpy as np

    # What helps without being asked for wants nothing by its words, and is no small talk.
    used = np.array([one.kind != "helped" for one in samples])
    each = np.array([OF_WEEKS if one.home == "en_weeks" else 1.0 for one in samples])[used]
    good = np.array([one.wants for one in samples])[used]
    middle = of[used].mean(axis=0)
    bias, weights = logistic(
        of[used] - middle, good, each / each.mean(), penalty=_PENALTY, prior=0.0, least=-np.inf
    )
    return round(bias - float(middle @ weights), 3), weights


def _both(
    samples: Sequence[Sample], gates: dict[str, Gate], wants: Sequence[str], there: Sequence[str]
) -> GateModels:
    """Return both models; what a household says is read by what was learnt on all others.

    What does not help is either not wanted or not there, and nobody says which: by expectation and maximisation (A. Dempster et
    al., "Maximum Likelihood from Incomplete Data via the EM Algorithm", 1977).
    """
    import numpy as np

    rows = [gates[one.home].features(one.utterance, one.found) for one in samples]
    helps = np.array([one.helps for one in samples])
    each = np.array([one.weight for one in samples])
    wanted = np.where(helps | np.array([one.wants for one in samples]), 1.0, 0.1)
    found = np.where(helps, 1.0, 0.5)
    for _ in range(_ROUNDS):
        both = GateModels(_weighed(rows, wants, wanted, each), _weighed(rows, there, found, each))
        is_wanted = np.array([both.wants.chance(row) for row in rows])
        is_there = np.array([both.fits.chance(row) for row in rows])
        neither = np.maximum(1 - is_wanted * is_there, _LEAST)
        wanted = np.where(helps, 1.0, is_wanted * (1 - is_there) / neither)
        found = np.where(helps, 1.0, is_there * (1 - is_wanted) / neither)
    return both


def _weighed(
    rows: Sequence[dict[str, float]],
    names: Sequence[str],
    likely: NDArray[np.float64],
    each: NDArray[np.float64],
) -> LinearModel:
    """Return the weights of some features, given how likely each row is one of those that are told apart."""
    import numpy as np

    of = np.array([[row[name] for name in names] for row in rows])
    middle, spread = of.mean(axis=0), of.std(axis=0) + _FEW
    bias, found = logistic(
        (of - middle) / spread, likely, each / each.mean(), penalty=_FEW, prior=0.0, least=-np.inf
    )
    weights = found / spread
    named = {name: round(float(weight), 4) for name, weight in zip(names, weights, strict=True)}
    return LinearModel(round(bias - float(middle @ weights), 4), named)


def file_of(gate: Gate) -> str:
    lines = [
        "# Learnt by `make lab ARGS=gate`: how likely it is that something remembered helps with what somebody said. See",
        "# recall/search/gate.py.",
    ]
    for name in ("words_only", "with_meaning", "with_vector"):
        for part in ("wants", "fits"):
            one: LinearModel = getattr(getattr(gate, name), part)
            lines += ["", f"[{name}.{part}]", f"bias = {one.bias}", "", f"[{name}.{part}.weights]"]
            lines += [f"{feature} = {weight}" for feature, weight in one.weights.items()]
    lines += ["", "[direction]", f'embedder = "{gate.direction.embedder}"', f"bias = {gate.direction.bias}"]
    lines += ["weights = [", *_wrapped(map(str, gate.direction.weights)), "]"]
    for code, words in gate.vocabularies.items():
        pairs = ", ".join(f'"{word}" = {weight}' for word, weight in words.weights.items())
        lines += ["", f"[vocabularies.{code}]", f"bias = {words.bias}", f"weights = {{ {pairs} }}"]
    return "\n".join(lines) + "\n"


def _wrapped(values: Iterator[str] | map[str]) -> list[str]:
    lines = [" "]
    for value in values:
        if len(lines[-1]) + len(value) > 118:
            lines.append(" ")
        lines[-1] += f" {value},"
    return lines
