"""The gate of recall, learnt: how likely something remembered helps with what somebody said, and each of the best candidates alone.

First what an utterance wants, by its words and its vector, then what that and the best candidates tell together; each household
is read by what was learnt on all others.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from edgemem.bench.ground import report, say, scratch
from edgemem.config import LlamaSettings, Profile
from edgemem.context.block.select import is_question
from edgemem.recall.recall import Request
from edgemem.recall.search.gate import FITS, MARGIN, Direction, Gate, GateModels, MeaningModels, Vocabulary
from edgemem.recall.search.models import LinearModel
from edgemem.recall.text.analyse import has_question
from edgemem.records import Reader
from lab import judge, judge_homes
from lab.judged import homes, opened, tell
from lab.languages import LANGUAGES
from lab.learning import logistic
from lab.projection import strangers
from lab.recall_home import KeptVectors

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.llama.protocols import Embedder
    from edgemem.memory import Memory
    from edgemem.recall.search.gate import Evidence, Utterance
    from edgemem.records import Kind, Recalled
    from lab.judged import Household

    Helps = Callable[[Recalled], bool]

EMBEDDERS = ("all-minilm-l6-v2", "multilingual-e5-small")  # the first serves others as well
BY_WORDS = ("told_words", "chat_words", "no_chat", "want_words")
WANTS = (*BY_WORDS, "told_vector", "chat_vector", "want_vector")
WORDS = 150  # words of a language that are weighed, the most frequent ones; 250 tell as much
LINES = 10  # of the best candidates
KINDS: tuple[Kind, ...] = ("fact", "preference", "note", "bank", "episode", "turn")
ANSWERED = ("answerable", "direct", "household", "replaced", "former", "series", "follow", "coming", "exact")
WANTED = frozenset({*ANSWERED, "none", "helped"})
"""What wants something of a memory, whether that has it or not."""
LEFT_OUT = "safety"  # a rule of its own shows it
FEW_HOMES = 10
OF_OLDER, OF_HELPED = 0.3, 0.15
"""What an utterance of an older home or of `small_talk.toml` weighs, each all of one hand, and one that helps without being asked: most that people say wants nothing."""
GRID = (1.5, 2, 2.5, 3, 4, 5, 7)
_MEANT = ("nearest", "near", "uneven", "length")
"""What is known with an embedder alone."""
_PENALTY, _FEW = 0.03, 0.003
"""What the squares of weights cost, of words and vectors, and of the few features."""
_SPREAD = 0.5
"""What the numbers of a vector, times the root of how many there are, and whether a word stands there, are divided by."""


class Sample(NamedTuple):
    home: str
    kind: str
    utterance: Utterance
    found: Evidence
    own: NDArray[np.float32]
    """The log odds of the best candidates."""
    helps: NDArray[np.bool_]
    """Which of them hold what helps."""
    weight: float = 1.0

    @property
    def language(self) -> str:
        return self.home.split("_")[0]

    @property
    def further(self) -> NDArray[np.bool_]:
        """Whether what helps stands there or further down, and not above."""
        import numpy as np

        return np.arange(len(self.helps)) <= (self.helps.argmax() if self.helps.any() else -1)


def run(*, write: Path | None = None, home: Path | None = None) -> dict[str, Any]:
    """Learn what tells that something remembered helps with what somebody said, and print how often that is right.

    Args:
        write: keep what was learnt in this file.
    """
    with scratch(home) as folder:
        by_words = list(_samples(folder / "by words", None))
        embedded = [list(_embedded(folder, name)) for name in EMBEDDERS]
    gate, of_others = learnt(embedded, by_words)
    sides: dict[str, dict[str, float]] = {}
    for name, some in (
        ("en", embedded[0]), ("de, multilingual", embedded[-1]), ("en, by words", by_words), ("de, by words", by_words),
    ):  # fmt: skip
        strangers = [one for one in some if one.weight == 1 and one.language == name[:2]]
        chances = [
            of_others[one.home].chances(
                one.utterance, one.found, one.own, meaning=float(some is not by_words)
            )
            for one in strangers
        ]
        for useless in GRID:
            for figure, value in _figures(strangers, chances, 1 / (1 + useless)).items():
                sides.setdefault(f"{name}: {figure}", {})[str(useless)] = value
    if write is not None:
        write.write_text(file_of(gate), "utf-8")
    return report("gate", {"side_by_side": sides}, {})


def _figures(
    samples: Sequence[Sample], chances: Sequence[NDArray[np.float64]], least: float
) -> dict[str, float]:
    """Return how much is shown of what people say in homes that were left out."""
    seen: dict[str, list[float]] = {}
    for one, chance in zip(samples, chances, strict=True):
        shown = chance >= least
        kinds = ("answerable", one.kind) if one.kind in ANSWERED else (one.kind,)
        for kind in kinds:
            seen.setdefault(f"{kind}, empty", []).append(float(not shown.any()))
            seen.setdefault(f"{kind}, lines", []).append(float(shown.sum()))
            if kind in (*ANSWERED, "helped"):
                seen.setdefault(f"{kind}, answer", []).append(float((shown & one.helps).any()))
    return {figure: round(float(sum(values)) / len(values), 3) for figure, values in sorted(seen.items())}


# What is learnt on


def _embedded(folder: Path, name: str) -> Iterator[Sample]:
    with strangers(name) as embedder_of:
        yield from _samples(folder / name, embedder_of)


def _samples(folder: Path, embedder_of: Callable[[str], Embedder] | None) -> Iterator[Sample]:
    """Yield what is said in all households whose language the embedder knows, without one in all."""
    languages = LANGUAGES if embedder_of is None else embedder_of("").languages or LANGUAGES
    for name, spoken in homes().items():
        if name[:2] in languages:
            say(f"{name} …")
            yield from _of_older(name, spoken, folder / name, embedder_of and embedder_of(name))
    for path in judge_homes.paths("train"):
        home = judge_homes.read(path)
        if home.language in languages:
            say(f"{path.stem} …")
            name = path.stem.removeprefix("train_")
            embedder = embedder_of and embedder_of(name)
            yield from _of_home(name, home, folder / path.stem, embedder, _small_talk(path))


def _small_talk(path: Path) -> list[str]:
    """Return the questions that are small talk in a home: each is asked in one home of its language.

    None in a language of few homes: most that asks there would be small talk.
    """
    language = path.stem.split("_")[1]
    same = [other for other in judge_homes.paths("train") if other.stem.split("_")[1] == language]
    said = msgspec.toml.decode(Path(__file__).with_name("small_talk.toml").read_bytes(), type=dict[str, str])
    return said[language].strip().splitlines()[same.index(path) :: len(same)] if len(same) > FEW_HOMES else []


def _of_older(name: str, spoken: Household, folder: Path, embedder: Embedder | None) -> Iterator[Sample]:
    texts = {key: text for key, _, _, text in spoken.told} | {
        key: value for key, _, _, value, _ in spoken.facts
    }

    def held(*texts: str) -> Helps:
        return lambda item: (item.value or item.text) in texts

    with opened(folder, embedder) as (memory, clock):
        tell(memory, clock, spoken)
        said = [
            (kind, who, text, held(*map(texts.__getitem__, keys.split())))
            for kind, who, text, keys in (
                *(("answerable", one.asker, one.text, one.evidence) for one in spoken.answerable),
                *(("helped", *one) for one in spoken.helped),
            )
        ]
        said += [("replaced", one.asker, one.question, held(one.new_text)) for one in spoken.replaced]
        said += [("former", one.asker, one.past, held(one.old_text)) for one in spoken.replaced if one.past]
        for kind, rows in (("none", spoken.unanswerable), ("talk", spoken.small_talk), ("not_helped", spoken.statements)):  # fmt: skip
            said += [(kind, who, text, held()) for who, text in rows]
        for kind, who, text, helps in said:
            yield _asked(memory, name, kind, Reader(who), text, helps)._replace(weight=OF_OLDER)


def _of_home(
    name: str, home: judge_homes.Home, folder: Path, embedder: Embedder | None, chat: Sequence[str]
) -> Iterator[Sample]:
    profile = Profile() if embedder else Profile(llama=LlamaSettings(embedder=""))
    texts = {each.id: each.text for each in home.told}
    kept = KeptVectors(embedder, None) if embedder is not None else None  # which stays open
    with judge.lived(home, folder, profile, kept) as living:
        for asked in living.asked:
            if asked.row != LEFT_OUT:
                evidence = {texts[key] for key in asked.evidence}

                def helps(
                    item: Recalled, asked: judge_homes.Asked = asked, evidence: set[str] = evidence
                ) -> bool:
                    if asked.answer:
                        return any(judge.stands(part, [item.text]) for part in asked.answer)
                    return item.text in evidence

                reader = Reader(asked.speaker or None, frozenset(asked.audience))
                kind = "not_helped" if asked.row == "safe" else asked.row
                with judge.talked(living, asked) as talk:
                    before = talk.session if asked.before else ""
                    yield _asked(living.memory, name, kind, reader, asked.text, helps, session=before)
        for text in chat:
            sample = _asked(living.memory, name, "talk", Reader(home.people[0]), text, lambda _: False)
            yield sample._replace(weight=OF_OLDER)


def _asked(
    memory: Memory, home: str, kind: str, reader: Reader, text: str, helps: Helps, *, session: str = ""
) -> Sample:
    import numpy as np

    search = memory.diagnostics.search
    request = Request(reader=reader, k=4 * LINES, kinds=KINDS, session=session, asked=False, noted=False)
    found = {
        item.name: helps(item)
        for item in search.recall(text, request)
        if not item.safety and not is_question(item)
    }
    ranking = search.ranking_of(text, reader=reader, session=session)
    rows = {hit.name: hit.row for hit in ranking.best(range(256))}
    own = {name: float(ranking.log_odds[rows[name]]) for name in found if name in rows}
    best = sorted(own, key=own.__getitem__, reverse=True)[:LINES]
    return Sample(
        home,
        kind,
        # Nobody asks the memory itself.
        ranking.utterance._replace(asks=has_question(text)),
        ranking.evidence,
        np.array([own[name] for name in best]),
        np.array([found[name] for name in best], bool),
    )


# Learning


def learnt(embedded: Sequence[Sequence[Sample]], by_words: Sequence[Sample]) -> tuple[Gate, dict[str, Gate]]:
    """Return the gate learnt by words and with each embedder, and by household the gate learnt on the others."""
    said, meant = _with_average(_vocabularies(by_words), by_words), tuple(map(_directions, embedded))
    bare = Gate(_NOTHING, meant, said)
    of_others = {}
    for home in sorted({one.home for one in by_words}):
        known = _vocabularies([one for one in by_words if one.home != home and one.language == home[:2]])
        others = tuple(_directions([one for one in some if one.home != home]) for some in embedded)
        # What is known of a language that one household speaks alone is known of that household.
        of_others[home] = Gate(_NOTHING, others, {**said, **known})
    words = _Lessons(by_words, of_others, BY_WORDS, [name for name in FITS if name not in _MEANT])
    meanings = [_Lessons(some, of_others, WANTS, FITS) for some in embedded]

    def filled(gate: Gate, home: str = "") -> Gate:
        both = zip(meanings, gate.with_meaning, strict=True)
        models = tuple(_with(one, lessons.models(home)) for lessons, one in both)
        return msgspec.structs.replace(gate, words_only=words.models(home), with_meaning=models)

    return filled(bare), {home: filled(other, home) for home, other in of_others.items()}


_NOTHING = GateModels(LinearModel(0.0, {}), LinearModel(0.0, {}))


def _with(bare: MeaningModels, models: GateModels) -> MeaningModels:
    return MeaningModels(models.asks, models.tells, bare.told, bare.wants, bare.chats)


def _vocabularies(samples: Sequence[Sample]) -> dict[str, Vocabulary]:
    languages = sorted({one.language for one in samples if one.kind in WANTED})
    return {code: _vocabulary([one for one in samples if one.language == code]) for code in languages}


def _with_average(vocabularies: Mapping[str, Vocabulary], samples: Sequence[Sample]) -> dict[str, Vocabulary]:
    """Return them with the average odds for all questions of a language that few homes speak: its words tell of those homes."""
    import numpy as np

    (asks, _), *_ = _sides(samples)
    each = np.array([one.weight for one in asks])

    def average(kinds: Collection[str]) -> LinearModel:
        share = float(np.average([one.kind in kinds for one in asks], weights=each))
        return LinearModel(round(float(np.log(share / (1 - share))), 3), {})

    told, chats = average(ANSWERED), average({"talk"})
    homes_of = Counter(home[:2] for home in {one.home for one in asks})
    return {
        code: known if homes_of[code] > FEW_HOMES else msgspec.structs.replace(known, told=told, chats=chats)
        for code, known in vocabularies.items()
    }


def _vocabulary(samples: Sequence[Sample]) -> Vocabulary:
    """Return the words of a language that tell what is told at all, and what wants something of a memory."""
    import numpy as np

    models = []
    for some, kinds in _sides(samples):
        said = [one.utterance.words for one in some]
        words = [word for word, _ in Counter(sorted(chain.from_iterable(said))).most_common(WORDS)]
        there = np.array([[word in each for word in words] for each in said]) / _SPREAD
        bias, weights = _weights(some, kinds, there)
        models.append(LinearModel(bias, dict(zip(words, (weights / _SPREAD).round(2).tolist(), strict=True))))
    return Vocabulary(*models)


def _directions(samples: Sequence[Sample]) -> MeaningModels:
    """Return where the embedder puts what is told at all, and what wants something of a memory."""
    import numpy as np

    directions = []
    for some, kinds in _sides([one for one in samples if one.utterance.vector is not None]):
        vectors = np.array([one.utterance.vector for one in some])
        spread = _SPREAD * 2 / vectors.shape[1] ** 0.5
        bias, weights = _weights(some, kinds, vectors / spread)
        name = some[0].utterance.embedder.partition(":")[0]
        directions.append(Direction(name, bias, tuple((weights / spread).round(2).tolist())))
    return MeaningModels(_NOTHING.asks, _NOTHING.tells, *directions)


def _sides(samples: Sequence[Sample]) -> tuple[tuple[list[Sample], Collection[str]], ...]:
    """Return what is told from what by words and vectors: the samples, and the kinds that are meant.

    Follow-ups are left out: their words and vectors are of what was said before as well.
    """
    alone = [one for one in samples if one.kind != "follow"]
    asks = [one for one in alone if one.utterance.asks]
    tells = [one for one in alone if not one.utterance.asks]
    return (asks, ANSWERED), (tells, WANTED), (asks, {"talk"})


def _weights(
    samples: Sequence[Sample], kinds: Collection[str], of: NDArray[Any]
) -> tuple[float, NDArray[np.float64]]:
    """Return the bias and the weights that tell some kinds of samples from all others."""
    import numpy as np

    each = np.array([one.weight for one in samples])
    good = np.array([one.kind in kinds for one in samples])
    middle = of.mean(axis=0)
    bias, weights = logistic(
        of - middle, good, each / each.mean(), penalty=_PENALTY, prior=0.0, least=-np.inf
    )
    return round(bias - float(middle @ weights), 3), weights


class _Lessons:
    """All samples with their features; what a household says is read by what was learnt on all others."""

    def __init__(
        self, samples: Sequence[Sample], gates: Mapping[str, Gate], wants: Sequence[str], fits: Sequence[str]
    ) -> None:
        import numpy as np

        self._samples, self._names = samples, [*fits, *wants]
        rows = [gates[one.home].features(one.utterance, one.found) for one in samples]
        self._of = np.array([[row[name] for name in self._names] for row in rows])
        # What was told helps, also where it is not found: whether it is there is told by the evidence.
        self._helps = np.array([one.kind in (*ANSWERED, "helped") for one in samples])
        self._each = np.array([one.weight * (OF_HELPED if one.kind == "helped" else 1.0) for one in samples])
        self._asks = np.array([one.utterance.asks for one in samples], bool)
        self._homes = np.array([one.home for one in samples])

    def models(self, home: str = "") -> GateModels:
        """Return both models, learnt on all homes but one."""
        others = self._homes != home
        return GateModels(self._model(others & self._asks), self._model(others & ~self._asks))

    def _model(self, rows: NDArray[np.bool_]) -> LinearModel:
        import numpy as np

        of, each = self._of[rows], self._each[rows]
        middle, spread = of.mean(axis=0), of.std(axis=0) + _FEW
        bias, found = logistic(
            (of - middle) / spread,
            self._helps[rows],
            each / each.mean(),
            penalty=_FEW,
            prior=0.0,
            least=-np.inf,
        )
        weights = found / spread
        named = {name: round(float(weight), 4) for name, weight in zip(self._names, weights, strict=True)}
        told = [one for one, there in zip(self._samples, rows, strict=True) if there and one.helps.any()]
        named[MARGIN] = round(_share(told), 4)
        return LinearModel(round(bias - float(middle @ weights), 4), named)


def _share(samples: Sequence[Sample]) -> float:
    """Return the weight of log odds less than the best, by how often what helps stands there or further down."""
    import numpy as np
    from scipy.optimize import minimize_scalar

    margins = np.concatenate([np.minimum(one.own[1:] - one.found.best, -0.01) for one in samples])
    further = np.concatenate([one.further[1:] for one in samples])

    def loss(weight: float) -> float:
        chances = np.exp(weight * margins)
        return -float(np.log(np.where(further, chances, 1 - chances)).mean())

    return float(minimize_scalar(loss, bounds=(0.01, 10.0), method="bounded").x)


def file_of(gate: Gate) -> str:
    lines = [
        "# Learnt by `make lab ARGS=gate`: how likely it is that something remembered helps with what somebody said. See",
        "# recall/search/gate.py.",
    ]
    lines += _lines("words_only", gate.words_only)
    for models in gate.with_meaning:
        lines += ["", "[[with_meaning]]", *_lines("with_meaning", models)]
        for name, meant in (("told", models.told), ("wants", models.wants), ("chats", models.chats)):
            lines += ["", f"[with_meaning.{name}]", f'embedder = "{meant.embedder}"', f"bias = {meant.bias}"]
            lines += ["weights = [", *_wrapped(map(str, meant.weights)), "]"]
    for code, known in gate.vocabularies.items():
        for name, words in (("told", known.told), ("wants", known.wants), ("chats", known.chats)):
            pairs = ", ".join(f'"{word}" = {weight}' for word, weight in words.weights.items())
            lines += ["", f"[vocabularies.{code}.{name}]", f"bias = {words.bias}", f"weights = {{ {pairs} }}"]
    return "\n".join(lines) + "\n"


def _lines(name: str, models: GateModels) -> list[str]:
    lines = []
    for part, one in (("asks", models.asks), ("tells", models.tells)):
        lines += ["", f"[{name}.{part}]", f"bias = {one.bias}", "", f"[{name}.{part}.weights]"]
        lines += [f"{feature} = {weight}" for feature, weight in one.weights.items() if weight]
    return lines


def _wrapped(values: Iterator[str] | map[str]) -> list[str]:
    lines = [" "]
    for value in values:
        if len(lines[-1]) + len(value) > 118:
            lines.append(" ")
        lines[-1] += f" {value},"
    return lines
