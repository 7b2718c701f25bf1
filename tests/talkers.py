"""Talkers: models, loops and robots of other processes, for tests of what is stored."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from edgemem.loop.loop import AgentLoop
from edgemem.loop.toolbox import Tool
from edgemem.memory import Memory
from edgemem.records import Message, Reply, ToolCall, Turn

ROOT = Path(__file__).parents[1]
SQLITE = "import sqlite3,sys; c=sqlite3.connect(sys.argv[1]); c.execute('begin immediate')"
LOCK = "import fcntl,sys; f=open(sys.argv[1],'a'); fcntl.flock(f, fcntl.LOCK_EX)"
PROFILE = '[store]\ncommit_wait_s = {wait}\n[llama]\nembedder = ""\n'


class Caller:
    """A model that calls a tool when it is asked for one, and then says what it heard."""

    def complete(self, messages: Any, **_: Any) -> Reply:
        """Answer the newest message."""
        said = messages[-1]["content"].splitlines()[-1]  # behind the block
        if messages[-1]["role"] == "user" and "timer" in said:
            return Reply("One moment.", (ToolCall("timer", {"minutes": 5}),), (7, 8, 9))
        return Reply(f"You said: {said}", (), (1, 2, 3))

    def cut(self, heard_text: str) -> None:
        """Nothing to forget."""


def loop_of(
    memory: Memory, *, session: str = "kitchen", run: Callable[..., Any] = lambda minutes: "set"
) -> Any:
    """Return a loop with all default hooks and one tool."""
    timer = Tool("timer", "Set a timer.", {"type": "object", "properties": {}}, run)
    return AgentLoop(Caller(), hooks=memory.hooks(session_id=session, speaker="alice"), tools=[timer])


def home_with(home: Path, *, wait: float) -> Path:
    """Make a home whose turns wait so many seconds for the disk."""
    home.mkdir()
    (home / "edgemem.toml").write_text(PROFILE.format(wait=wait))
    return home


def turns_of(memory: Memory, session: str = "kitchen") -> list[Turn]:
    """Return what is stored of a session."""
    return memory.sessions.journal.read_turns(session)


def told(turn: Turn) -> list[tuple[str, str | None]]:
    """Return who said what in a turn."""
    return [(message.role, message.content) for message in turn.messages]


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a Python process that runs `code`."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def robot(body: str) -> str:
    """Return a program with the caller of this file, a memory `memory` and the function `loop_of`."""
    return "\n".join(
        (
            "from __future__ import annotations",
            "import json, sys, time",
            "from typing import Any, Callable",
            "import edgemem",
            "from edgemem.loop.loop import AgentLoop, Reply",
            "from edgemem.loop.toolbox import Tool, ToolCall",
            inspect.getsource(Caller),
            inspect.getsource(loop_of),
            "with edgemem.open(sys.argv[1], worker=False) as memory:",
            *(f"    {line}" for line in inspect.cleandoc(body).splitlines()),
        )
    )


class Listener:
    """Answers without repeating anything, and keeps what it was handed last."""

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self.newest = ""
        self.prompt = ""

    def complete(self, messages: Sequence[Message], **_: Any) -> Reply:
        self.newest = next(str(m["content"]) for m in reversed(messages) if m["role"] == "user")
        self.prompt = str(messages)
        return self.replies.pop(0) if self.replies else Reply("Certainly.")

    def cut(self, heard_text: str) -> None:
        """Nothing to forget."""


def files_with(folder: Path, word: str) -> list[str]:
    """Return the names of the files below a folder in which a word stands."""
    return sorted(
        path.name for path in folder.rglob("*") if path.is_file() and word.encode() in path.read_bytes()
    )


@contextmanager
def ordinary_user() -> Iterator[None]:
    """Give up the rights of root, before which no folder is read-only."""
    was = os.geteuid()
    if was == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(was)


@contextmanager
def held(program: str, path: Path) -> Iterator[None]:
    """Have another process hold a file, until the block ends."""
    code = f"{program}; print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == b"held\n"
        try:
            yield
            assert other.poll() is None  # it held the file all the time
        finally:
            other.stdin.close()
            other.wait()


def block_before(memory: Memory, text: str, speaker: str) -> str:
    """Return what memory puts before what somebody says in a new session."""
    hooks = memory.hooks(session_id=f"{speaker} {text}", speaker=speaker)
    loop = AgentLoop(Listener(), hooks=hooks, speaker=speaker)
    content: str = loop.prepare(text).handed[0][-1]["content"]
    loop.abort()
    assert loop.hooks.failures() == []
    return content.removesuffix(text)
