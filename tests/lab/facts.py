"""What it takes to know what is true now, what was true, and what was believed, over a long history."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from edgemem.bench.ground import at_most, report, say, scratch, timed_ms
from edgemem.clock import Clock
from edgemem.store.db.transaction import Transaction
from edgemem.store.facts import assert_fact
from edgemem.store.memory_store import SQLiteMemoryStore

KEYS = 20
SCOPE = "household"
STEP_S = 60.0
START = 1_790_000_000.0
_ROUNDS_A_WRITE = 50


def run(*, superseded: int = 100_000, times: int = 200, home: Path | None = None) -> dict[str, Any]:
    """Time facts of one scope over many superseded versions, against its 20 rows fetched by primary key."""
    moment = [START]
    clock = Clock(wall=lambda: moment[0], monotonic=lambda: moment[0] - START)
    with scratch(home) as folder, SQLiteMemoryStore(folder / "facts.db", clock=clock) as store:
        say(f"writing {superseded} superseded versions …")
        last = _write(store, superseded // KEYS + 1, moment)
        whens = {"start": START + STEP_S / 2, "middle": START + (last - START) / 2, "end": last + STEP_S / 2}
        moment[0] = whens["end"]
        questions = _questions(store, whens)
        baseline = _rows_by_key(store, whens["end"])
        say("asking …")
        spent: dict[str, list[float]] = {name: [] for name in questions}
        base: list[float] = []
        for name, ask in questions.items():
            if not ask():
                raise AssertionError(f"{name} found nothing")
        for _ in range(times):
            base.append(timed_ms(baseline))
            for name, ask in questions.items():
                spent[name].append(timed_ms(ask))
        rows_ms = statistics.median(base)
        adding = _adding(store, folder, moment, times=max(5, times // 4))
    medians = {name: statistics.median(values) for name, values in spent.items()}
    ratios = {name: round(value / rows_ms, 3) for name, value in medians.items()}
    figures = {
        "superseded": superseded,
        "rows_by_primary_key_ms": round(rows_ms, 4),
        "ms": {name: round(value, 4) for name, value in medians.items()},
        "times_primary_key": ratios,
        **adding,
    }
    bars = {
        "get_fact": at_most(max(v for k, v in ratios.items() if k.startswith("get_fact")), 3.0),
        "facts_as_of": at_most(max(v for k, v in ratios.items() if " known_at " not in k), 3.0),
        "facts_as_of_known_at": at_most(max(v for k, v in ratios.items() if " known_at " in k), 3.0),
        "add_fact_to_empty_store": at_most(adding["add_fact_growth"], 3.0),
    }
    return report("facts", figures, bars)


def _write(store: SQLiteMemoryStore, versions: int, moment: list[float]) -> float:
    """Give every key `versions` values, one after the other; return when the last became true."""
    for begin in range(0, versions, _ROUNDS_A_WRITE):
        for version in range(begin, min(begin + _ROUNDS_A_WRITE, versions)):
            moment[0] = START + version * STEP_S

            def write(tx: Transaction, version: int = version) -> None:
                for key in range(KEYS):
                    assert_fact(tx, _key(key), _value(key, version), scope=SCOPE, valid_from=moment[0])

            store.database.write(write)
    return moment[0]


def _questions(store: SQLiteMemoryStore, whens: dict[str, float]) -> dict[str, Callable[[], Any]]:
    """Return what is asked: of each moment, what is believed now and what was believed at each moment."""
    asked: dict[str, Callable[[], Any]] = {"get_fact": lambda: store.get_fact(_key(7), scope=SCOPE)}
    for when, t in whens.items():
        asked[f"facts_as_of {when}"] = partial(store.facts_as_of, t, scope=SCOPE)
        for known, at in whens.items():
            asked[f"facts_as_of {when} known_at {known}"] = partial(
                store.facts_as_of, t, scope=SCOPE, known_at=at
            )
    return asked


def _rows_by_key(store: SQLiteMemoryStore, t: float) -> Callable[[], Any]:
    """Return the yardstick: the rows of the same 20 facts by primary key, one statement, as tuples."""
    ids = [int(fact.id) for fact in store.facts_as_of(t, scope=SCOPE)]
    if len(ids) != KEYS:
        raise AssertionError(f"{len(ids)} facts hold where {KEYS} should")
    sql = f"select * from facts where id in ({', '.join('?' * len(ids))})"
    return lambda: store.database.query(sql, ids)


def _adding(store: SQLiteMemoryStore, folder: Path, moment: list[float], *, times: int) -> dict[str, float]:
    """Time a durable `add_fact` here and in a store without a history, in turn."""
    clock = Clock(wall=lambda: moment[0], monotonic=lambda: moment[0] - START)
    full: list[float] = []
    empty: list[float] = []
    with SQLiteMemoryStore(folder / "empty.db", clock=clock) as fresh:
        for n in range(times):
            moment[0] += STEP_S
            for target, spent in ((store, full), (fresh, empty)):
                add = partial(target.add_fact, _key(n % KEYS), f"new {n}", scope=SCOPE)
                spent.append(timed_ms(add))
    here, there = statistics.median(full), statistics.median(empty)
    return {
        "add_fact_ms": round(here, 4),
        "add_fact_empty_ms": round(there, 4),
        "add_fact_growth": round(here / there, 3),
    }


def _key(n: int) -> str:
    return f"thing_{n}.place"


def _value(n: int, version: int) -> str:
    return f"shelf {(n * 7 + version) % 4096} in the cellar"
