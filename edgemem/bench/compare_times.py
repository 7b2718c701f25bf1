"""How long a search takes among many messages: ours, and those of peers on the same texts and vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter

import msgspec

from edgemem.bench.ground import NearlyReal
from edgemem.bench.peers.jobs import K, Peers, write_job
from edgemem.bench.recall_cases import Case, Said, weeks_case
from edgemem.bench.recall_home import Filled, filled
from edgemem.bench.report import say
from edgemem.bench.weeks import FormSet, weeks
from edgemem.config import Profile

OURS = "edgemem"


class Timed(msgspec.Struct):
    """What was measured of one system."""

    ms: list[float] = []
    fill_s: float = 0.0
    """To store and index all messages."""


def times(rows: int, asked: int, folder: Path, peers: Peers, *, forms: FormSet) -> dict[str, Timed]:
    """Return the ms of searches among so many messages; ours are timed before and after those of the peers."""
    embedder = NearlyReal()
    case = many(rows, forms)
    questions = [one.text for one in case.asked[:: max(1, len(case.asked) // asked)]][:asked]
    out: dict[str, Timed] = {OURS: Timed()}
    begun = perf_counter()
    say(f"{OURS}: {rows} messages …")
    with filled(case, folder, embedder=embedder, profile=Profile()) as here:
        out[OURS].fill_s = perf_counter() - begun
        half = _our_times(here, embedder, questions)
        for name in peers.names():
            say(f"{name}: {rows} messages …")
            job, texts = folder / "job", [one.text for one in case.said]
            write_job(job, texts, questions, embedder.embed_texts(texts), embedder.embed_texts(questions))
            told = peers.run(name, job)
            if told is not None:
                out[name] = Timed(ms=told["ms"], fill_s=told["fill_s"])
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
