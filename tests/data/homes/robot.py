"""Make a home as an older edgemem left it when its process was killed: run it with that edgemem on the path.

PYTHONPATH=older/checkout python robot.py HOME
"""

import os
import sqlite3
import sys
import time
from pathlib import Path

import edgemem
from edgemem.hooks import BEFORE_LLM, ON_RUN_END, ON_RUN_START, AgentResult, HookRegistry, TurnContext
from edgemem.records import Session

home = Path(sys.argv[1])
home.mkdir(parents=True)
(home / "edgemem.toml").write_text(
    '[store]\nbusy_timeout_s = 0.05\ncommit_wait_s = 1.0\n[llama]\nembedder = ""\n'
)
memory = edgemem.open(home, worker=False)
memory.store.add_fact("car.color", "red", scope="household", valid_from=1_700_000_000.0)
memory.store.add_fact("car.color", "blue", scope="household", valid_from=1_750_000_000.0)
memory.store.add_fact("allergies", "hazelnuts", scope="user:Alice")
memory.store.add_fact("allergies", "hazelnuts and kiwi", scope="user:alice")
memory.store.add_fact("doctor", "Dr. Weber", scope="household")
memory.store.forget_fact("doctor", scope="household")
memory.store.set_preference("language", "German")
memory.store.add_episode("fetch_cup", {"path": "left"}, "failed", agent="Pip")
memory.notes.append("The bins go out on Tuesday.")
rooms = {
    name: (HookRegistry(memory.hooks(session_id=name, speaker="alice")), Session())
    for name in ("kitchen", "hall")
}


def turn(text: str, *, room: str = "kitchen", ends: bool = True) -> None:
    """Say something to the robot."""
    hooks, session = rooms[room]
    ctx = TurnContext(session)
    hooks.fire(ON_RUN_START, ctx, {"task": text})
    session.messages.append({"role": "user", "content": text})
    hooks.fire(BEFORE_LLM, ctx, {"messages": session.messages, "hop": 0, "tools": []})
    if ends:
        reply = f"You said: {text}"
        session.messages.append({"role": "assistant", "content": reply})
        hooks.fire(ON_RUN_END, ctx, AgentResult(reply))


turn("The spare key hangs behind the boiler.")
turn("Between us: the ring is in the piano.")
memory.idle(seconds=5)
turn("What is the car color?", room="hall")
turn("Where does the spare key hang?", room="hall")
with edgemem.JSONMemoryStore(home / "facts.json") as store:
    store.add_fact("bike", "green", scope="household")
    store.add_episode("wave", {"hand": "left"}, "ok", agent="Pip")
with edgemem.JSONSessionStore(home / "sessions") as sessions:
    said = Session()
    said.messages.append({"role": "user", "content": "Where is the ladder?"})
    said.messages.append({"role": "assistant", "content": "In the shed."})
    sessions.save("garage", said)
with edgemem.SQLiteSessionStore(home / "sessions.db") as sessions:
    sessions.save("garage", said)
(home / "export.jsonl").write_text("".join(line + "\n" for line in memory.export()))
other = sqlite3.connect(home / "db" / "memory.db", isolation_level=None)
other.execute("begin immediate")
turn("The ladder is in the shed.")
turn("The new code is K16.", ends=False)
time.sleep(1.5)
other.execute("rollback")
os._exit(9)
