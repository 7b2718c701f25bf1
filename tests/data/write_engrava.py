"""Write `engrava.db.gz` with the real package, for the tests of `edgemem import engrava`.

Run in an environment of its own: pip install engrava==0.7.2; python write_engrava.py engrava.db.gz
"""

import asyncio
import gzip
import sys
import tempfile
from pathlib import Path

import aiosqlite
from engrava import (
    EdgeRecord,
    EdgeType,
    KnowledgeSource,
    LifecycleStatus,
    Priority,
    ProvenanceContext,
    SqliteEngravaCore,
    ThoughtRecord,
    ThoughtType,
    ThoughtVisibility,
)


def thought(thought_id: str, essence: str, **more: object) -> ThoughtRecord:
    fields = {
        "thought_type": ThoughtType.OBSERVATION,
        "priority": Priority.P2,
        "lifecycle_status": LifecycleStatus.ACTIVE,
    }
    given = {**fields, "source": "onboarding", **more}
    return ThoughtRecord(
        thought_id=thought_id, essence=essence, content=f"{essence}, as was said in March.", **given
    )


async def write(path: Path) -> None:
    async with aiosqlite.connect(path) as connection:
        connection.row_factory = aiosqlite.Row
        store = SqliteEngravaCore(connection)
        await store.ensure_schema()
        await store.create_thought(
            thought(
                "mail", "Ines prefers email over phone", created_cycle=12, updated_cycle=14, confidence=0.9,
                metadata={"room": "hall", "a": {"b": True}}, valid_from="2026-01-01", valid_until="2036-01-01T00:00:00+01:00",
                confirmation_count=3, access_count=2, last_accessed_at="2026-03-02T00:00:00Z", created_at="2026-03-01T09:00:00Z",
                updated_at="2026-03-02T09:00:00Z", provenance=ProvenanceContext(session_id="k"),
            )
        )  # fmt: skip
        await store.create_thought(
            thought("low", "Ines is low-touch", thought_type=ThoughtType.BELIEF, pinned=True)
        )
        await store.create_thought(
            thought(
                "all", "What Ines likes", thought_type=ThoughtType.REFLECTION, consolidated_from=["mail", "low"],
                source_type=KnowledgeSource.DREAMING, created_cycle=15, updated_cycle=15,
            )
        )  # fmt: skip
        await store.create_thought(
            thought(
                "secret",
                "The gate code is 4711",
                visibility=ThoughtVisibility.PRIVATE,
                expires_at="2036-01-01",
            )
        )
        await store.create_thought(thought("old", "The old kiln", visibility=ThoughtVisibility.PUBLIC))
        await store.update_thought("old", lifecycle_status=LifecycleStatus.ARCHIVED)
        await store.create_edge(
            EdgeRecord(
                edge_id="e1", from_thought_id="low", to_thought_id="mail", edge_type=EdgeType.DERIVED_FROM, weight=0.5,
                created_cycle=14, metadata={"why": "told"}, valid_from="2026-01-01",
            )
        )  # fmt: skip
        await store.create_edge(
            EdgeRecord(
                edge_id="e2", from_thought_id="all", to_thought_id="mail", edge_type=EdgeType.CONSOLIDATED_FROM, weight=1.0,
                created_cycle=0, source=KnowledgeSource.DREAMING,
            )
        )  # fmt: skip
        await store.store_embedding("mail", [0.1, 0.2], model_name="tiny")
        await store.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(write(Path(folder) / "engrava.db"))
        data = (Path(folder) / "engrava.db").read_bytes()
    Path(sys.argv[1]).write_bytes(gzip.compress(data, mtime=0))
