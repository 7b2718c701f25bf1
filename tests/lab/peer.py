"""What a peer's own Python runs: `peer.py NAME FOLDER` fills the peer and asks it, and prints JSON.

The folder holds `job.json` (texts, questions, k) and, row for row, `texts.npy` and `questions.npy`. What is printed: for
each question the rows found, best first, and the milliseconds of the search alone. This file imports nothing of edgemem.
All peers fail on SQLite before 3.41, so `pysqlite3` takes the place of `sqlite3` before they are imported.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import os
import sys
import traceback
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

Search = Callable[[str, Any], "list[int]"]  # takes a question and its vector, returns rows, best first
_AT_ONCE = 2000


def engrava(folder: Path, texts: Sequence[str], vectors: Any, k: int) -> Search:
    """Fill Engrava as its own `remember` does, one transaction for many rows, and search by its hybrid."""
    engrava_: Any = importlib.import_module("engrava")
    config = folder / "engrava.yaml"
    dimension = vectors.shape[1]
    config.write_text(
        f"database:\n  path: {json.dumps(str(folder / 'engrava.db'))}\n"
        f"extensions:\n  vector:\n    backend: sqlite-vec\n    dimension: {dimension}\n",
        encoding="utf-8",
    )
    loop = asyncio.new_event_loop()
    core = loop.run_until_complete(engrava_.SqliteEngravaCore.from_config(config))

    async def fill(begin: int) -> None:
        some = range(begin, min(begin + _AT_ONCE, len(texts)))
        async with core.suspend_auto_commit():
            await core.bulk_store([_thought(engrava_, n, texts[n]) for n in some])
            for n in some:
                await core.store_embedding(str(n), vectors[n].tolist(), model_name="same")

    for begin in range(0, len(texts), _AT_ONCE):
        loop.run_until_complete(fill(begin))

    def search(text: str, vector: Any) -> list[int]:
        found = loop.run_until_complete(core.search_hybrid(text, vector, top_k=k))
        return [int(name) for name, _ in found.results]

    return search


def _thought(engrava_: Any, n: int, text: str) -> Any:
    return engrava_.ThoughtRecord(
        thought_id=str(n),
        thought_type=engrava_.ThoughtType.NOTE,
        essence=text[:200],
        content=text,
        priority=engrava_.Priority.P3,
        lifecycle_status="ACTIVE",
        source="remember",
    )


def sqlite_vec(folder: Path, _texts: Sequence[str], vectors: Any, k: int) -> Search:
    sqlite: Any = importlib.import_module("sqlite3")
    extension: Any = importlib.import_module("sqlite_vec")
    db = sqlite.connect(str(folder / "vec.db"))
    db.enable_load_extension(True)
    extension.load(db)
    dimension = int(vectors.shape[1])
    db.execute(f"create virtual table vec using vec0(embedding float[{dimension}] distance_metric=cosine)")
    with db:
        db.executemany(
            "insert into vec (rowid, embedding) values (?, ?)",
            ((n, row.tobytes()) for n, row in enumerate(vectors)),
        )

    def search(_text: str, vector: Any) -> list[int]:
        sql = "select rowid from vec where embedding match ? and k = ? order by distance"
        return [row for (row,) in db.execute(sql, (vector, k))]

    return search


def edgevox(folder: Path, texts: Sequence[str], vectors: Any, k: int) -> Search:
    # Its package of agents imports microphones and model hubs; the memory modules in it need none of that.
    package = types.ModuleType("edgevox.agents")
    found = importlib.util.find_spec("edgevox")
    if found is None or found.origin is None:
        raise ImportError("edgevox is not installed")
    package.__path__ = [str(Path(found.origin).parent / "agents")]
    sys.modules["edgevox.agents"] = package
    module: Any = importlib.import_module("edgevox.agents.memory_vec")
    given: list[Any] = [vectors[0]]
    store = module.VectorMemoryStore(
        folder / "edgevox.db", embed_fn=lambda _: given[0], embedding_dim=int(vectors.shape[1])
    )
    for n, text in enumerate(texts):
        given[0] = vectors[n]
        store.add_fact(str(n), text)

    def search(text: str, vector: Any) -> list[int]:
        given[0] = vector
        return [int(fact.key) for fact, _ in store.search_facts(text, k=k)]

    return search


PEERS = {"engrava": engrava, "sqlite-vec": sqlite_vec, "edgevox": edgevox}


def main(name: str, folder: Path) -> dict[str, Any]:
    sys.modules["sqlite3"] = importlib.import_module("pysqlite3")
    sys.modules["sqlite3.dbapi2"] = sys.modules["sqlite3"]
    np: Any = importlib.import_module("numpy")
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    vectors, queries = np.load(folder / "texts.npy"), np.load(folder / "questions.npy")
    search = PEERS[name](folder, job["texts"], vectors, job["k"])
    # Engrava takes a list of numbers, the others bytes or an array.
    given = [row.tolist() if name == "engrava" else row.tobytes() for row in queries]
    if name == "edgevox":
        given = list(queries)
    if given:
        search(job["questions"][0], given[0])  # opens what is opened once
    ranked, ms = [], []
    for text, vector in zip(job["questions"], given):  # noqa: B905 - as many of both
        begun = perf_counter()
        ranked.append(search(text, vector))
        ms.append((perf_counter() - begun) * 1e3)
    return {"ranked": ranked, "ms": ms}


if __name__ == "__main__":
    code = 1
    try:
        print(json.dumps(main(sys.argv[1], Path(sys.argv[2]))), flush=True)
        code = 0
    except Exception:  # noqa: BLE001 - said, and told by the code
        traceback.print_exc()
    sys.stderr.flush()
    # A peer's threads may never end (aiosqlite's do not where a connection was left open), and nobody needs them any more.
    os._exit(code)
