"""Recall beside Engrava, plain sqlite-vec and EdgeVox: what each finds of the same texts and vectors, and how quickly."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from edgemem.bench.bootstrap import paired
from edgemem.bench.ground import NearlyReal, real_embedder, scratch
from edgemem.bench.peers.environment import (
    PEERS,
    CannotRunError,
    Peer,
    cache_folder,
    python_of,
    run_peer,
    version_of,
)
from edgemem.bench.recall import LEFT_OUT, read_scores
from edgemem.bench.recall import run as run_recall
from edgemem.bench.recall_cases import Asked, Case, Said, read_cases, weeks_case
from edgemem.bench.recall_home import KeptVectors, filled
from edgemem.bench.recall_scores import recall_at
from edgemem.bench.report import Bar, at_least, median, report, say
from edgemem.bench.weeks import FormSet, weeks
from edgemem.config import Profile
from edgemem.errors import InvalidInputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from edgemem.bench.recall_home import Filled

OURS = "edgemem"
K = 10
SLOWER = 10.0
SCORES = ("recall@5", "recall@10")
HELD = ("engrava", "edgevox")
"""Peers whose search must take so many times ours; plain sqlite-vec looks at vectors alone."""


class Ran(msgspec.Struct):
    """What was measured of one system."""

    scores: dict[str, dict[str, float]] = {}
    """By question."""
    ms: list[float] = []
    fill_s: float = 0.0


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

    Each peer runs in a virtual environment of its own; one that cannot run here is named with the reason. Times leave out
    the embedding of the question, of ours too. What ours returns are texts that were read with the rights of the reader;
    Engrava returns ids alone, and sqlite-vec row numbers.

    Args:
        data: a file of LoCoMo's form for what is found; default: our own corpus.
        seed: of our own corpus.
        forms: its words.
        rows: messages for the times; 0: no times. Their vectors are real ones of 300 sentences with seeded noise.
        asked: questions for the times.
        quality: measure what is found; otherwise only times.
        peers: which, with commas.
        named: give peers each text with its speaker's name in front, and embed it so: they know no speakers, and find
            more so (LoCoMo's open half, recall@10: Engrava .62 and not .50, vectors alone .51 and not .29). Otherwise
            they get what edgemem embeds.
        venvs: where the environments are kept; default: the cache that other benches use.
        cache: as of `bench recall`.
        home: where scratch files go; default: the temporary files.
    """
    wanted = [one.strip() for one in peers.split(",") if one.strip()]
    for one in wanted:
        if one not in PEERS:
            raise InvalidInputError(f"There is no peer {one!r}; say some of: {', '.join(PEERS)}.")
    pythons, absent, versions = _pythons(wanted, venvs or cache_folder())
    found: dict[str, Ran] = {}
    times: dict[str, Ran] = {}
    with scratch(home) as folder:
        if quality:
            cases = _cases(data, seed, forms)
            found[OURS] = _our_scores(folder, data=data, seed=seed, forms=forms, cache=cache)
            _peer_scores(cases, folder, pythons, absent, found, named=named, cache=cache)
        if rows:
            times = _times(rows, asked, folder, pythons, absent, forms=forms)
    return _report(found, times, absent, versions, rows=rows, asked=asked)


def _pythons(
    wanted: Sequence[str], folder: Path
) -> tuple[dict[str, Path], dict[str, str], dict[str, str | None]]:
    """Return a Python for each peer, why there is none for others, and versions."""
    pythons: dict[str, Path] = {}
    absent: dict[str, str] = {}
    versions: dict[str, str | None] = {}
    for name in wanted:
        peer = PEERS[name]
        try:
            say(f"{name}: making its environment, if there is none …")
            pythons[name] = python_of(peer, folder)
            versions[name] = version_of(peer, pythons[name])
        except CannotRunError as error:
            pythons.pop(name, None)
            absent[name] = str(error)
    return pythons, absent, versions


def _cases(data: Path | None, seed: int, forms: str) -> list[Case]:
    if data is None:
        return [weeks_case(weeks(seed, _forms(forms)))]
    form, cases = read_cases(data)
    if form != "locomo":
        raise InvalidInputError(
            f"{data} is not of LoCoMo's form; peers are asked for messages, so use that one."
        )
    return cases


def _forms(name: str) -> FormSet:
    for form in get_args(FormSet):
        if form == name:
            named: FormSet = form
            return named
    raise InvalidInputError(f"There are no forms {name!r}; say one of: {', '.join(get_args(FormSet))}.")


# -- what is found -------------------------------------------------------------------------------------


def _our_scores(folder: Path, *, data: Path | None, seed: int, forms: str, cache: Path | None) -> Ran:
    saved = folder / "ours.json"
    run_recall(data=data, seed=seed, forms=forms, cache=cache, save=saved, home=folder)
    return Ran(read_scores(saved))


def _peer_scores(
    cases: Sequence[Case],
    folder: Path,
    pythons: dict[str, Path],
    absent: dict[str, str],
    found: dict[str, Ran],
    *,
    named: bool,
    cache: Path | None,
) -> None:
    """Have each peer asked the questions of all cases."""
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
            for name in list(pythons):
                say(f"{name}: {case.name}, {len(asked)} questions …")
                job = folder / "job"
                _write_job(job, spoken, [one.text for one in asked], texts, questions)
                told = _run(PEERS[name], pythons, absent, job)
                if told is None:
                    found.pop(name, None)
                    continue
                scores = _scores(told["ranked"], said, asked)
                ran = found.setdefault(name, Ran({}))
                ran.scores = {**ran.scores, **scores}
        kept.save()
    finally:
        real.close()


def _vectors_file(cache: Path | None, fingerprint: str) -> Path | None:
    if cache is None:
        return None
    cache.mkdir(parents=True, exist_ok=True)
    return cache / f"peers-{fingerprint.rpartition(':')[2]}.npz"


def _scores(
    ranked: Sequence[Sequence[int]], said: Sequence[Said], asked: Sequence[Asked]
) -> dict[str, dict[str, float]]:
    out = {}
    for rows, one in zip(ranked, asked, strict=True):
        names = [said[row].id for row in rows]
        out[one.id] = {f"recall@{k}": recall_at(names, one.evidence, k) for k in (5, 10)}
    return out


# -- how quickly ---------------------------------------------------------------------------------------


def _times(
    rows: int,
    asked: int,
    folder: Path,
    pythons: dict[str, Path],
    absent: dict[str, str],
    *,
    forms: str,
) -> dict[str, Ran]:
    """Return the ms of searches among so many messages; ours are timed before and after those of the peers."""
    embedder = NearlyReal()
    case = _many(rows, _forms(forms))
    questions = [one.text for one in case.asked[:: max(1, len(case.asked) // asked)]][:asked]
    out: dict[str, Ran] = {OURS: Ran()}
    begun = perf_counter()
    say(f"{OURS}: {rows} messages …")
    with filled(case, folder, embedder=embedder, profile=Profile()) as here:
        out[OURS].fill_s = perf_counter() - begun
        half = _our_times(here, embedder, questions)
        for name in list(pythons):
            say(f"{name}: {rows} messages …")
            job, texts = folder / "job", [one.text for one in case.said]
            _write_job(job, texts, questions, embedder.embed_texts(texts), embedder.embed_texts(questions))
            told = _run(PEERS[name], pythons, absent, job)
            if told is not None:
                out[name] = Ran(ms=told["ms"], fill_s=told["fill_s"])
        out[OURS].ms = half + _our_times(here, embedder, questions)
    return out


def _our_times(here: Filled, embedder: NearlyReal, questions: Sequence[str]) -> list[float]:
    recall, out = here.memory.recall, []
    recall("Is somebody there?", k=K, kinds={"turn"})  # reads the index once
    for text in questions:
        before, begun = embedder.query_ms, perf_counter()
        recall(text, k=K, kinds={"turn"})
        out.append((perf_counter() - begun) * 1e3 - (embedder.query_ms - before))
    return out


def _many(rows: int, forms: FormSet) -> Case:
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


# -- both ----------------------------------------------------------------------------------------------


def _write_job(
    folder: Path,
    texts: Sequence[str],
    questions: Sequence[str],
    vectors: NDArray[np.float32],
    queries: NDArray[np.float32],
) -> None:
    import numpy as np

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "job.json").write_bytes(msgspec.json.encode({"texts": texts, "questions": questions, "k": K}))
    np.save(folder / "texts.npy", vectors)
    np.save(folder / "questions.npy", queries)


def _run(peer: Peer, pythons: dict[str, Path], absent: dict[str, str], job: Path) -> dict[str, Any] | None:
    try:
        return run_peer(peer, pythons[peer.name], job)
    except CannotRunError as error:
        absent[peer.name] = str(error)
        del pythons[peer.name]
        return None


def _report(
    found: dict[str, Ran],
    times: dict[str, Ran],
    absent: dict[str, str],
    versions: dict[str, str | None],
    *,
    rows: int,
    asked: int,
) -> dict[str, Any]:
    sides: dict[str, dict[str, Any]] = {}
    figures: dict[str, Any] = {"side_by_side": sides, "rows": rows, "asked": asked, "versions": versions}
    bars: dict[str, Bar] = {}
    columns = list(dict.fromkeys([*found, *times]))
    for score in SCORES if found else ():
        means = {name: _mean([one[score] for one in ran.scores.values()]) for name, ran in found.items()}
        sides[score] = {name: means.get(name) for name in columns}
    figures["ours_above"] = {
        name: {
            score: msgspec.structs.asdict(_above(found[OURS], ran, score)) for score in SCORES
        }
        for name, ran in found.items() if name != OURS
    }  # fmt: skip
    if times:
        ours = median(times[OURS].ms)
        taken = {name: median(ran.ms) for name, ran in times.items()}
        sides["search_ms"] = {name: taken.get(name) for name in columns}
        sides["times_ours"] = {name: _ratio(taken.get(name), ours) for name in columns}
        sides["fill_s"] = {name: _rounded(times.get(name)) for name in columns}
        for name in HELD:
            if name in taken:
                bars[f"{name}_times_ours"] = at_least(taken[name] / ours, SLOWER)
    figures["cannot_run"] = absent
    return report("compare", figures, bars)


def _above(ours: Ran, theirs: Ran, score: str) -> Any:
    both = [name for name in ours.scores if name in theirs.scores]
    return paired([theirs.scores[name][score] for name in both], [ours.scores[name][score] for name in both])


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / max(1, len(values)), 4)


def _ratio(theirs: float | None, ours: float) -> float | None:
    return None if theirs is None else round(theirs / ours, 2)


def _rounded(ran: Ran | None) -> float | None:
    return None if ran is None else round(ran.fill_s, 1)
