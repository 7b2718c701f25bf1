"""The weights of recall's features, learnt on our own corpus: which features tell that a message answers a question.

What tells that a message replaces an older one is learnt on invented households, ours and those of the judge that learn.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.bench.ground import EMBEDDER, report, say, scratch
from edgemem.config import LlamaSettings, Profile
from edgemem.recall.search.features import FEATURES
from edgemem.recall.search.models import PAIR_FEATURES, LinearModel, Model, compare, weigh
from edgemem.records import Reader
from lab.fit_facts import COST, COST_BY_WORDS, asked_of_facts, with_facts
from lab.judge import Living, lived, talked
from lab.judge_homes import is_outdated, paths, read
from lab.judged import homes, told_home
from lab.learning import Asked, by_words, calibrated, learnt
from lab.projection import strangers
from lab.recall_cases import ADVERSARIAL, LEFT_OUT, Case, read_cases, weeks_case
from lab.recall_home import KeptVectors, filled
from lab.weeks import Talk, weeks
from lab.weeks_world import facts, forms_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.llama.protocols import Embedder
    from edgemem.memory import Memory
    from lab.judge_homes import Home
    from lab.judged import Household

    Lesson = tuple[NDArray[np.float32], NDArray[np.float64], float, int]


JUDGED = "judged"
_JUDGED = 3.0
"""A pair of a home that strangers wrote is worth so many of our own, which are more and say a change in fewer ways."""
_PAIRS_L2 = 1e-3
_ROWS = ("replaced", "former", "series", "household", "direct", "coming", "exact")
_BEHIND = 6  # of so many questions with a subject one is asked once more, behind what was said of another: as many as follow-ups
_PARTS = 5  # of the homes: what is learnt of pairs is measured on each, learnt on the rest
_AT_HOME = 2  # what a question in a home is worth beside one of the weeks, which are of one hand


def versions(seed: int) -> dict[tuple[str, ...], list[str]]:
    """Return the messages that tell other versions of what is told by some messages of our own corpus."""
    told = defaultdict(list)
    true = facts(seed)
    for telling in Talk(forms_of("learnt"), true, seed).tellings:
        told[id(telling.fact)].append(telling.ids)
    return {
        ids: [id_ for other in versions if other != ids for id_ in other]
        for versions in told.values()
        for ids in versions
    }


def learnt_replacing(answers: LinearModel, at_home: Sequence[Asked]) -> LinearModel:
    """Return the weights of `PAIR_FEATURES` beside those that tell what answers: which newer message replaces each, or none."""
    import numpy as np
    from scipy.optimize import minimize

    features, target, each, sizes = map(list, zip(*_lessons(answers, at_home), strict=True))
    rows, right = np.concatenate(features).astype(np.float64), np.concatenate(target)
    middle, spread = rows.mean(axis=0), rows.std(axis=0) + 1e-6
    x = np.column_stack([(rows - middle) / spread, np.ones(len(rows))])
    starts, weight = np.cumsum([0, *sizes[:-1]]), np.array(each) / np.mean(each)
    of = np.repeat(np.arange(len(sizes)), sizes)

    def loss(weights: Any) -> tuple[float, Any]:
        sums, small = x @ weights, _PAIRS_L2 * np.append(weights[:-1], 0.0)
        top = np.maximum(np.maximum.reduceat(sums, starts), 0.0)
        shares = np.exp(sums - top[of])
        total = np.add.reduceat(shares, starts) + np.exp(-top)
        value = float(weight @ (np.log(total) + top - np.add.reduceat(right * sums, starts))) / len(sizes)
        slope = x.T @ (weight[of] * (shares / total[of] - right)) / len(sizes)
        return value + float(small @ weights) / 2, slope + small

    raw = minimize(loss, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B").x
    weights = raw[:-1] / spread
    named = dict(zip(PAIR_FEATURES, weights.tolist(), strict=True))
    return LinearModel(float(raw[-1] - middle @ weights), named)


def _lessons(answers: LinearModel, asked: Sequence[Asked]) -> Iterator[Lesson]:
    """Yield for what answers, or would have once, the pairs with each newer message, each one's share in replacing it, and its weight."""
    import numpy as np

    for one in asked:
        contents = one.candidates.contents
        if contents is None or one.others is None:
            continue
        pairs = compare(answers.odds(one.candidates.features), one.candidates, contents)
        told, others = one.right[pairs.rows], one.others[pairs.rows]
        old, new = (told, others) if one.candidates.tense == "past" else (others, told)
        for row in np.flatnonzero((old | new) & pairs.allowed.any(axis=1)):
            newer = np.flatnonzero(pairs.allowed[row])
            replaces = (new[newer] & old[row]).astype(np.float64)
            weight = _JUDGED if one.category == JUDGED else 1.0
            yield pairs.features[row, newer], replaces / max(replaces.sum(), 1.0), weight, len(newer)


CUTS = ("recall@5", "recall@10", "recall@20", "candidates")
LEFT_OUT_L2 = 0.1  # the penalty where weights need not carry over to other talk: the laboratory's
WORDS_L2 = 0.1  # the penalty where there is no vector: few features, which need none to carry over


def run(
    *,
    first_seed: int = 2,
    last_seed: int = 7,
    l2: float = 0.7,
    data: Path | None = None,
    write: Path | None = None,
    ablate: bool = False,
    cache: Path | None = None,
    home: Path | None = None,
) -> dict[str, Any]:
    """Learn how much each feature tells on our own corpus (`learnt` forms) and in homes, and print it with what each adds.

    With `data`, nothing is written: each of its conversations is asked with the weights learnt on all the others (the
    laboratory's figure), and with those learnt on our own corpus.

    Args:
        first_seed: of the corpus; seed 1 is what `make lab ARGS=recall` reports.
        l2: how much large weights cost; more of it carries over better to other talk.
        data: a file of LoCoMo's form, to measure on.
    """
    own = [weeks_case(weeks(seed, "learnt"), f"weeks {seed}") for seed in range(first_seed, last_seed + 1)]
    other = [] if data is None else read_cases(data)[1]
    with scratch(home) as folder, strangers(EMBEDDER) as embedder_of:
        embedder = KeptVectors(embedder_of(""), None)
        asked = {
            case.name: list(_asked(case, folder, embedder, cache, versions(seed)))
            for seed, case in enumerate(own, first_seed)
        } | {case.name: list(_asked(case, folder, embedder, cache)) for case in other}
        at_home = list(_asked_at_homes(folder, embedder_of))
        at_home_by_words = list(_asked_at_homes(folder, None))
        facts = [
            one
            for seed in range(first_seed, last_seed + 1)
            for one in asked_of_facts(seed, folder, embedder, cache)
        ]
    ours = [one for case in own for one in asked[case.name]]
    model = _model(ours, at_home, facts, l2=l2, cost=COST)
    words_only = _model(by_words(ours), at_home_by_words, by_words(facts), l2=WORDS_L2, cost=COST_BY_WORDS)
    models = {"with_meaning": model, "words_only": words_only}
    figures: dict[str, Any] = {"l2": l2, "questions": len(ours), "learnt": _recall(ours, model)}
    figures["first, homes left out"] = _first(model.answers, at_home)
    if other:
        theirs = {case.name: asked[case.name] for case in other}
        figures["with weights of our own corpus"] = _recall(list(chain(*theirs.values())), model)
        figures["laboratory"] = _left_out(theirs, LEFT_OUT_L2)
    if ablate:
        alone = list(map(_alone, ours))
        figures["without"] = {
            name: _recall(ours, Model(LinearModel(0.0, learnt(alone, l2=l2, without={name}))))["recall@5"]
            for name in FEATURES
        }
    figures["weights"] = {name: model.answers.weights for name, model in models.items()}
    if write is not None:
        write.write_text(_toml(models), "utf-8")
    return report("fit", figures, {})


def _model(
    ours: Sequence[Asked], at_home: Sequence[Asked], facts: Sequence[Asked], *, l2: float, cost: float
) -> Model:
    """Return the weights of the features of texts, of facts, and of pairs."""
    alone, in_homes = list(map(_alone, ours)), list(map(_alone, at_home))
    # What is said of it and was not even looked at does not make a question one that nothing answers.
    some = [one for one in alone if len(one.right) and (one.right.any() or not one.evidence)]
    answers = calibrated(learnt([*alone, *in_homes * _AT_HOME], l2=l2), some)
    return Model(with_facts(answers, facts, cost), learnt_replacing(answers, at_home))


def _asked(
    case: Case,
    folder: Path,
    embedder: Embedder,
    cache: Path | None,
    versions: Mapping[tuple[str, ...], Sequence[str]] = {},
) -> Iterator[Asked]:
    """Yield the candidates of each question, with the messages that tell other versions of what some tell."""
    with filled(case, folder, embedder=embedder, profile=Profile(), cache=cache) as here:
        say(f"{case.name}: asking {len(case.asked)} questions …")
        for one in case.asked:
            if one.category != ADVERSARIAL and (one.evidence or one.category in LEFT_OUT):
                here.clock.at = one.at
                ranking = here.memory.diagnostics.search.ranking_of(
                    one.text, reader=None if one.asker is None else Reader(one.asker), kinds={"turn"}
                )
                ids = [here.ids.get(str(ref), "") for ref in ranking.refs]
                right, others = np_isin(ids, one.evidence), np_isin(ids, versions.get(one.evidence, ()))
                yield Asked(one.category, ranking.candidates, right, len(one.evidence), others)


class _AskedAtHome(NamedTuple):
    category: str
    asker: str
    text: str
    evidence: Sequence[str]
    others: Sequence[str] | None = ()
    session: str = ""


def _asked_at_homes(folder: Path, embedder_of: Callable[[str], Embedder] | None) -> Iterator[Asked]:
    """Yield the candidates of what is asked in homes, with an embedder each in English, else in all languages."""

    def embedder(name: str) -> Embedder | None:
        say(f"{name} …")
        return None if embedder_of is None else KeptVectors(embedder_of(name), None)

    for name, spoken in homes().items():
        if embedder_of is None or name.startswith("en"):
            with told_home(folder / f"{name} {embedder_of is None}", embedder(name), spoken) as (
                memory,
                keys,
            ):
                for one in _asked_of(spoken):
                    yield _at_home(memory, one, keys)
    for path in paths("train"):
        home, name = read(path), path.stem.removeprefix("train_")
        if embedder_of is None or home.language == "en":
            profile = Profile() if embedder_of else Profile(llama=LlamaSettings(embedder=""))
            with lived(home, folder / f"{name} {embedder_of is None}", profile, embedder(name)) as living:
                yield from _judged(living, home)


def _asked_of(spoken: Household) -> Iterator[_AskedAtHome]:
    for one in spoken.answerable[::3]:
        yield _AskedAtHome("", one.asker, one.text, one.evidence.split())
    for pair in spoken.replaced:
        yield _AskedAtHome("", pair.asker, pair.question, [pair.new], [pair.old])
        if pair.past:
            yield _AskedAtHome("", pair.asker, pair.past, [pair.old], [pair.new])


def _judged(living: Living, home: Home) -> Iterator[Asked]:
    """Yield the candidates of what is asked, each in its time, of things that may have been told anew."""
    memory, known = living.memory, {told.text: told.id for told in home.told}
    follow = [one for one in home.asked if one.row == "follow"]
    for n, one in enumerate(living.asked):
        rows = memory.diagnostics.database.query("select id, content from messages")
        keys = {str(id_): known.get(text, "") for id_, text in rows}
        asked = _AskedAtHome(JUDGED, one.speaker, one.text, one.evidence)
        if one.row in _ROWS:
            outdated = [told.id for told in home.told if is_outdated(one, told.text)]
            yield _at_home(memory, asked._replace(others=outdated), keys)
        other = follow[n // _BEHIND % len(follow)] if follow and one.row in _ROWS and not n % _BEHIND else one
        if other in follow and (other is one or not set(other.evidence) & set(one.evidence)):
            # What was said before tells these apart from what is true of another thing, which teaches no change.
            with talked(living, other) as talk:
                yield _at_home(memory, asked._replace(others=None, session=talk.session), keys)


def _at_home(memory: Memory, one: _AskedAtHome, keys: Mapping[str, str]) -> Asked:
    ranking = memory.diagnostics.search.ranking_of(
        one.text, reader=Reader(one.asker), kinds={"turn"}, session=one.session
    )
    ids = [keys.get(str(ref)) for ref in ranking.refs]
    right = np_isin(ids, one.evidence)
    others = None if one.others is None else np_isin(ids, one.others)
    return Asked(one.category, ranking.candidates, right, len(one.evidence), others)


def np_isin(ids: Sequence[str | None], evidence: Sequence[str]) -> NDArray[np.bool_]:
    import numpy as np

    return np.array([id_ in evidence for id_ in ids], bool)


def _alone(asked: Asked) -> Asked:
    """Return a question without the other versions of what answers it: no feature of a message by itself tells them apart."""
    if asked.others is None:
        return asked
    kept = ~asked.others
    return asked._replace(candidates=asked.candidates.subset(kept), right=asked.right[kept], others=None)


def _recall(asked: Sequence[Asked], model: Model) -> dict[str, float]:
    import numpy as np

    found = []
    for one in asked:
        if one.evidence:
            best = one.right[np.argsort(-weigh(one.candidates, model).odds, kind="stable")]
            found.append([best[:k].sum() / one.evidence for k in (5, 10, 20, len(best))])
    means = np.mean(found, axis=0)
    return {name: round(float(mean), 4) for name, mean in zip(CUTS, means, strict=True)}


def _first(answers: LinearModel, at_home: Sequence[Asked]) -> dict[str, float]:
    """Return how often the newest message, or the former one, is above the others of its thing in homes whose pairs taught nothing."""
    import numpy as np

    first = defaultdict(list)
    for part in range(_PARTS):
        begin, end = (len(at_home) * place // _PARTS for place in (part, part + 1))
        model = Model(answers, learnt_replacing(answers, [*at_home[:begin], *at_home[end:]]))
        for one in at_home[begin:end]:
            if one.others is not None and one.others.any():
                odds = weigh(one.candidates, model).odds
                above = odds[one.right].max(initial=-np.inf) > odds[one.others].max()
                first["former" if one.candidates.tense == "past" else "newest"].append(above)
    return {name: round(float(np.mean(above)), 3) for name, above in first.items()}


def _left_out(asked: dict[str, list[Asked]], l2: float) -> dict[str, float]:
    sums: dict[str, float] = dict.fromkeys(CUTS, 0.0)
    total = sum(1 for some in asked.values() for one in some if one.evidence)
    for name, some in asked.items():
        weights = learnt([one for other, rest in asked.items() if other != name for one in rest], l2=l2)
        share = sum(1 for one in some if one.evidence) / total
        for cut, value in _recall(some, Model(LinearModel(0.0, weights))).items():
            sums[cut] += value * share
    return {cut: round(value, 4) for cut, value in sums.items()}


def _toml(models: dict[str, Model]) -> str:
    lines = [
        "# Learnt by `make lab ARGS=fit` on the corpus of `tests/lab/weeks.py` and on homes, tests/lab/home_*.toml and",
        "# tests/lab/judge/train_*.toml. recall/search/features.py says what each feature is; the sum of weights times features, plus",
        "# bias, is the logarithm of the odds. Whether a message replaces an older one is told in recall/search/models.py.",
    ]
    for name, model in models.items():
        for part, weighed, features in (
            ("answers", model.answers, FEATURES),
            ("replaces", model.replaces, PAIR_FEATURES),
        ):
            lines += ["", f"[{name}.{part}]", f"bias = {weighed.bias:.4f}", "", f"[{name}.{part}.weights]"]
            lines += [
                f"{feature} = {weighed.weights[feature]:.4f}"
                for feature in features
                if feature in weighed.weights
            ]
    return "\n".join(lines) + "\n"
