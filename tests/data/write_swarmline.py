"""Write the files of this folder with the real package, for the tests of `edgemem import swarmline`.

Run in an environment of its own: pip install swarmline==1.6.10 sqlalchemy aiosqlite; python write.py FOLDER
Its tables belong to the application; these are what its statements ask for.
"""

import asyncio
import datetime
import sqlite3
import sys
from pathlib import Path

from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from swarmline.memory import SQLiteMemoryProvider
from swarmline.memory.episodic_sqlite import SqliteEpisodicMemory
from swarmline.memory.episodic_types import Episode
from swarmline.memory.procedural_sqlite import SqliteProceduralMemory
from swarmline.memory.procedural_types import Procedure, ProcedureStep
from swarmline.memory.types import GoalState, ToolEvent
from swarmline.memory_bank.db_provider import DatabaseMemoryBankProvider
from swarmline.memory_bank.schema import get_memory_bank_ddl

TABLES = (Path(__file__).parent / "swarmline_tables.sql").read_text()
THEN = datetime.datetime(2026, 3, 15, 9, 30, tzinfo=datetime.timezone.utc)


async def write(folder: Path) -> None:
    agent = folder / "agent.db"
    with sqlite3.connect(agent) as database:
        database.executescript("".join([TABLES, *(f"{statement};" for statement in get_memory_bank_ddl())]))
    engine = create_async_engine(f"sqlite+aiosqlite:///{agent}")
    sessions = async_sessionmaker(engine, expire_on_commit=False)
    memory = SQLiteMemoryProvider(sessions)
    for user in ("Alice", "Bob"):
        await memory.ensure_user(user)
    call = {"name": "fetch", "arguments": '{"what": "the red cup"}'}
    for user, role, text, more in (
        ("Alice", "user", "Fetch the red cup, please.", {}),
        ("Alice", "assistant", "", {"tool_calls": [{"id": "c1", "type": "function", "function": call}]}),
        ("Alice", "tool", "the left path is blocked", {"name": "fetch"}),
        ("Alice", "assistant", "I cannot reach it.", {"metadata": {"mood": "sorry"}}),
        ("Bob", "user", "My locker code is 4711.", {}),
        ("Bob", "assistant", "Noted.", {}),
    ):
        await memory.save_message(user, "kitchen", role, text, **more)
    await memory.upsert_fact("Alice", "diet", "vegan")
    await memory.upsert_fact("Alice", "diet", "vegetarian", topic_id="party")
    await memory.upsert_fact("Alice", "shoe_size", 38, source="ai_inferred")
    await memory.upsert_fact("Alice", "address", {"street": "Elm Road", "number": "42"}, source="mcp")
    await memory.upsert_fact("Bob", "locker", "4711")
    await memory.save_summary("Alice", "kitchen", "Alice wanted the red cup; the left path was blocked.", 4)
    goal = GoalState("garden", "Plant tomatoes", 12, 3, "sowing", {"next": "water"}, True)
    await memory.save_goal("Alice", goal)
    await memory.save_session_state("Alice", "kitchen", "host", ["fetch"], "abc", delegation_turn_count=2)
    await memory.save_phase_state("Bob", "moving in", "boxes in the hall")
    event = ToolEvent("kitchen", "fetch", {"what": "the red cup"}, {"error": "blocked"}, 840)
    await memory.save_tool_event("Alice", event)
    bank = DatabaseMemoryBankProvider(sessions, user_id="Alice", topic_id="garden")
    await bank.write_file("MEMORY.md", "# Garden\n- [plan](plans/beds.md)")
    await bank.write_file("plans/beds.md", "Tomatoes stand by the south wall.")
    await engine.dispose()
    episodes = SqliteEpisodicMemory(str(folder / "episodes.db"))
    later, mug = THEN + datetime.timedelta(hours=1), "Fetched the green mug by the right path."
    cup, tags, used = "Lost the red cup on the left path.", ("fetch", "mug"), ("navigate", "grip")
    for episode in (
        Episode("ep-1", mug, ("right path",), used, "success", "kitchen", THEN, tags, {"seconds": 41}),
        Episode("ep-2", cup, (), used[:1], "failure", "kitchen", later, tags[:1]),
    ):
        await episodes.store(episode)
    procedures = SqliteProceduralMemory(str(folder / "procedures.db"))
    steps = (
        ProcedureStep("navigate", {"to": "shelf"}, "at the shelf"),
        ProcedureStep("grip", {"what": "{cup}"}),
    )
    about = ("Fetch a cup", "Fetches a cup by the right path.", "fetch a cup")
    await procedures.store(Procedure("proc-1", *about, steps, 2, 1, ("fetch",), {"by": "Alice"}))
    await procedures.record_outcome("proc-1", success=True)
    for store in (episodes, procedures):
        vars(store)["_conn"].close()  # it closes its file nowhere


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    asyncio.run(write(folder))
    for file in folder.glob("*.db"):
        with sqlite3.connect(file) as database:
            database.execute("pragma journal_mode = delete")
            database.execute("pragma page_size = 512")
            database.execute("vacuum")
