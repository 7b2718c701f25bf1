"""Off the record, killed with -9: whenever the process dies, no file of the home has a byte of it, nor has the memory that Linux shows as files."""

import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest

import edgemem
from edgemem import Tool
from support.homes import WORDS_ONLY, files_with, home_of, turns_of
from support.kills import start
from support.loops import speak
from support.selection import LONG

KILLS = 300 if LONG else 10
MARK = "quagga"
LOOK = Tool("look", "Looks.", {"type": "object", "properties": {}}, lambda **_: f"a {MARK}")


def call(name: str, **arguments: object) -> dict[str, object]:
    return {"id": name, "function": {"name": name, "arguments": arguments}}


def talk(home: str, seed: int, pipe: int) -> None:
    """Talk on and off the record for ever, with all that a turn may do; write a byte into a pipe each time."""
    chance = random.Random(seed)
    with edgemem.open(home) as memory:
        tools = [LOOK, *memory.tools(include=["remember_fact", "notes"])]
        rooms = [memory.session(name, tools=tools, speaker="alice") for name in ("kitchen", "hall")]
        while True:
            room = chance.choice(rooms)
            os.write(pipe, b".")
            speak(room, "Good morning.", "Hello.", *[call("look_up")] * chance.randrange(2))
            if chance.random() < 0.5:
                room.off_the_record("on")
            else:
                speak(room, "Don't remember anything from now on.", "Fine.")
            for _ in range(chance.randrange(1, 4)):
                with room.turn(f"It is a {MARK}.") as turn:
                    assert turn.messages
                    turn.call(call("look", what=MARK))
                    turn.call(call("remember_fact", key="pet", value=MARK))
                    turn.call(call("notes", action="write", text=MARK))
                    assert turn.messages
                    turn.reply(f"A {MARK}, I see.")
                    if chance.random() < 0.3:
                        turn.abort()
                if chance.random() < 0.3:
                    room.interrupt(f"A {MARK},")
            if chance.random() < 0.2:
                memory.idle(0.1)
            room.off_the_record("off")


def kill(home: str, kills: int) -> None:
    """Kill robots of one home at random moments, one after the other; print where a byte of it is left."""
    chance = random.Random(7)
    for seed in range(kills):
        begun, pipe = os.pipe()
        child = os.fork()
        if not child:
            talk(home, seed, pipe)
        for _ in range(chance.randrange(4)):  # 0: it dies while it begins
            os.read(begun, 1)
        time.sleep(chance.uniform(0, 0.2))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(begun), os.close(pipe)
        scratch = [
            path for folder in Path("/dev/shm").glob(".edgemem-*") for path in files_with(folder, MARK)
        ]
        sys.stdout.write(f"{seed} {files_with(Path(home), MARK) + scratch}\n")
        sys.stdout.flush()


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_kill_leaves_no_byte_of_it(tmp_path: Path) -> None:
    """Nor does the next opening, which takes up what was on the record."""
    home = home_of(tmp_path / "home", WORDS_ONLY)
    code = f"import test_off_the_record_kill as robot\nrobot.kill({str(home)!r}, {KILLS})"
    told, _ = start(code).communicate(timeout=3600)
    assert told.splitlines() == [f"{seed} []" for seed in range(KILLS)]
    with edgemem.open(home, worker=False) as memory:
        memory.idle(5)
        assert {turn.messages[0].content for turn in turns_of(memory)} == {"Good morning."}
    assert files_with(home, MARK) == []
