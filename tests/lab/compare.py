"""Recall beside Engrava, plain sqlite-vec and EdgeVox: what each finds of the same texts, and how quickly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec

from edgemem.bench.ground import Bar, NearlyReal, at_least, median, real_embedder, report, say, scratch
from edgemem.config import Profile
from edgemem.errors import InvalidInputError
from lab.bootstrap import gains, read_scores
from lab.peers import K, Peers, write_job
from lab.recall import run as run_recall
from lab.recall_asking import recall_at
from lab.recall_cases import LEFT_OUT, Asked, Case, Said, form_set, read_cases, weeks_case
from lab.recall_home import Filled, KeptVectors, filled
from lab.weeks import weeks
from lab.weeks_world import FormSet

OURS = "edgemem"


def times(rows: int, asked: int, folder: Path, peers: Peers, *, forms: FormSet) -> dict[str, list[float]]:
    """Return the ms of searches among so many messages; ours are timed before and after those of the peers."""
    embedder = NearlyReal()
    case = many(rows, forms)
    questions = [one.text for one in case.asked[:: max(1, len(case.asked) // asked)]][:asked]
    out: dict[str, list[float]] = {OURS: []}
    say(f"{OURS}: {rows} messages …")
    with filled(case, folder, embedder=embedder, profile=Profile()) as here:
        half = _our_times(here, embedder, questions)
        for name in peers.names():
            say(f"{name}: {rows} messages …")
            job, texts = folder / "job", [one.text for one in case.said]
            write_job(job, texts, questions, embedder.embed_texts(texts), embedder.embed_texts(questions))
            told = peers.run(name, job)
            if told is not None:
                out[name] = told["ms"]
        out[OURS] = half + _our_times(here, embedder, questions)
    return out


def _our_times(here: Filled, embedder: NearlyReal, questions: Sequence[str]) -> list[float]:
    recall, out = here.memory.recall, []
    recall("Is somebody there?", k=K, kinds={"turn"})  # reads the index once
    for text in questions:
        before, begun = embedder.query_ms, perf_counter()
        recall(text, k=K, kinds={"turn"})
        out.append((perf_counter() - begun) * 1e3 - (embedder.query_ms - before))
    return out


def many(rows: int, forms: FormSet) -> Case:
    """Return so many messages: the weeks of as many households as it takes."""

    def messages() -> Iterator[Said]:
        seed = 0
        while True:
            seed += 1
            for one in weeks_case(weeks(seed, forms)).said:
                if one.role != "tool":
                    name = f"{seed}:{one.id}"
                    yield msgspec.structs.replace(one, id=name, session=f"{seed}:{one.session}")

    said = tuple(one for _, one in zip(range(rows), messages()))  # noqa: B905 - there is no end of messages
    return Case(f"{rows} messages", said, weeks_case(weeks(1, forms)).asked)


SLOWER = 10.0
SCORES = ("recall@5", "recall@10")
HELD = ("engrava", "edgevox")
"""Peers whose search must take so many times ours; plain sqlite-vec looks at vectors alone."""

Scores = dict[str, dict[str, float]]  # by question and name of the score


def run(
    *,
    data: Path | None = None,
    seed: int = 1,
    forms: str = "unseen",
    rows: int = 10_000,
    asked: int = 40,
    quality: bool = True,
    peers: str = "engrava,sqlite-vec,edgevox",
    named: bool = True,
    venvs: Path | None = None,
    cache: Path | None = None,
    home: Path | None = None,
) -> dict[str, Any]:
    """Ask edgemem and its peers the same questions on the same texts and vectors: what is found, and ms a search.

    Times leave out the embedding of the question. Ours returns texts that were read with the rights of the reader; Engrava
    returns ids alone, and sqlite-vec row numbers.

    Args:
        data: a file of LoCoMo's form for what is found; default: our own corpus.
        rows: messages for the times; 0: no times. Their vectors are real ones of 300 sentences with seeded noise.
        quality: measure what is found; otherwise only times.
        named: give peers each text with its speaker's name in front, and embed it so: they know no speakers, and find
            more so (LoCoMo's open half, recall@10: Engrava .62 and not .50, vectors alone .51 and not .29). Otherwise
            they get what edgemem embeds.
    """
    able = Peers(peers, venvs)
    found: dict[str, Scores] = {}
    timed: dict[str, list[float]] = {}
    with scratch(home) as folder:
        if quality:
            cases = _cases(data, seed, forms)
            found[OURS] = _our_scores(folder, data=data, seed=seed, forms=forms, cache=cache)
            _peer_scores(cases, folder, able, found, named=named, cache=cache)
        if rows:
            timed = times(rows, asked, folder, able, forms=form_set(forms))
    return _report(found, timed, able, rows=rows, asked=asked)


def _cases(data: Path | None, seed: int, forms: str) -> list[Case]:
    if data is None:
        return [weeks_case(weeks(seed, form_set(forms)))]
    form, cases = read_cases(data)
    if form != "locomo":
        raise InvalidInputError(
            f"{data} is not of LoCoMo's form; peers are asked for messages, so use that one."
        )
    return cases


def _our_scores(folder: Path, *, data: Path | None, seed: int, forms: str, cache: Path | None) -> Scores:
    saved = folder / "ours.json"
    run_recall(data=data, seed=seed, forms=forms, cache=cache, save=saved, home=folder)
    return read_scores(saved)


def _peer_scores(
    cases: Sequence[Case],
    folder: Path,
    peers: Peers,
    found: dict[str, Scores],
    *,
    named: bool,
    cache: Path | None,
) -> None:
    from edgemem.llama.embedder import LlamaEmbedder

    settings = Profile().llama
    real = LlamaEmbedder(real_embedder(), n_ctx=settings.embed_context, threads=settings.embed_threads)
    kept = KeptVectors(real, _vectors_file(cache, real.fingerprint))
    try:
        for case in cases:
            said = [one for one in case.said if one.role != "tool"]
            asked = [one for one in case.asked if one.evidence and one.category not in LEFT_OUT]
            spoken = [f"{one.speaker}: {one.text}" if named and one.speaker else one.text for one in said]
            texts = kept.embed_texts(spoken)
            questions = kept.embed_texts([one.text for one in asked])
            for name in peers.names():
                say(f"{name}: {case.name}, {len(asked)} questions …")
                job = folder / "job"
                write_job(job, spoken, [one.text for one in asked], texts, questions)
                told = peers.run(name, job)
                if told is None:
                    found.pop(name, None)
                    continue
                found.setdefault(name, {}).update(_scores(told["ranked"], said, asked))
        kept.save()
    finally:
        real.close()


def _vectors_file(cache: Path | None, fingerprint: str) -> Path | None:
    if cache is None:
        return None
    cache.mkdir(parents=True, exist_ok=True)
    return cache / f"peers-{fingerprint.rpartition(':')[2]}.npz"


def _scores(ranked: Sequence[Sequence[int]], said: Sequence[Said], asked: Sequence[Asked]) -> Scores:
    out = {}
    for rows, one in zip(ranked, asked, strict=True):
        names = [said[row].id for row in rows]
        out[one.id] = {f"recall@{k}": recall_at(names, one.evidence, k) for k in (5, K)}
    return out


def _report(
    found: Mapping[str, Scores], timed: Mapping[str, Sequence[float]], peers: Peers, *, rows: int, asked: int
) -> dict[str, Any]:
    sides: dict[str, dict[str, Any]] = {}
    figures: dict[str, Any] = {
        "side_by_side": sides,
        "rows": rows,
        "asked": asked,
        "versions": peers.versions,
    }
    bars: dict[str, Bar] = {}
    columns = list(dict.fromkeys([*found, *timed]))
    for score in SCORES if found else ():
        means = {name: _mean([one[score] for one in scores.values()]) for name, scores in found.items()}
        sides[score] = {name: means.get(name) for name in columns}
    figures["ours_above"] = {
        name: msgspec.to_builtins(gains(scores, found[OURS]))
        for name, scores in found.items()
        if name != OURS
    }
    if timed:
        ours = median(timed[OURS])
        taken = {name: median(ran) for name, ran in timed.items()}
        sides["search_ms"] = {name: taken.get(name) for name in columns}
        sides["times_ours"] = {name: _ratio(taken.get(name), ours) for name in columns}
        for name in HELD:
            if name in taken:
                bars[f"{name}_times_ours"] = at_least(taken[name] / ours, SLOWER)
    figures["cannot_run"] = peers.absent
    return report("compare", figures, bars)


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / max(1, len(values)), 4)


def _ratio(theirs: float | None, ours: float) -> float | None:
    return None if theirs is None else round(theirs / ours, 2)
