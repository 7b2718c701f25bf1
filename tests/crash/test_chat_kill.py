"""`edgemem chat` killed with -9: what was answered is there row for row, and the talk goes on where it was."""

import codecs
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import edgemem
from edgemem.llama.tokens.tokenizer import LlamaTokenizer
from edgemem.store.spool import read_foreign_spool, spool_paths
from edgemem.store.turns import STATES
from support.homes import eventually, home_of
from support.kills import TRUTH, rows, select
from support.selection import LONG

ROOT = Path(__file__).parents[2]
BEFORE_COMMIT, AFTER_COMMIT = 1, 0
"""Whether the robot stops just before the step that commits the turn, or just after it."""

# The real command, with a hook that writes down prompts and answers, and a stop at the end of a turn, which is the moment at which the
# test pulls the plug.
WATCHED = """
import json, sys, time
from edgemem.cli import main
from edgemem.session.points import AFTER_LLM, BEFORE_LLM, ON_RUN_END
from edgemem.memory import Memory
from edgemem.session.stored import StoredSession

log, before, turn, *arguments = sys.argv[1:]

class Watch:
    points = frozenset({BEFORE_LLM, AFTER_LLM})
    priority = 0

    def __call__(self, point, ctx, payload):
        names = ("messages", "now") if point == BEFORE_LLM else ("content", "tokens")
        with open(log, "a") as file:
            print(json.dumps({name: payload.get(name) for name in names}), file=file)

class Hold:
    points = frozenset({ON_RUN_END})
    priority = 0
    ended = 0

    def __call__(self, point, ctx, payload):
        Hold.ended += 1
        if self.ended == int(turn):
            print("held", flush=True)
            time.sleep(600)

if int(before):
    commit, hold = StoredSession.commit, Hold()
    StoredSession.commit = lambda self, moment: (hold(ON_RUN_END, None, None), commit(self, moment))[1]

plain = Memory.hooks
Memory.hooks = lambda self, **settings: [*plain(self, **settings), Watch(), *([] if int(before) else [Hold()])]
main(arguments)
"""


class Talk:
    def __init__(self, home: Path, model: Path, *program: str) -> None:
        options = [*["--session", "kitchen", "--max-tokens", "8", "--json", "--home"], home, "--llm", model]
        self.process = subprocess.Popen(
            [sys.executable, *(program or ("-m", "edgemem")), "chat", *map(str, options)],
            **dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE),
            text=True,
            cwd=ROOT,
        )

    def tell(self, *texts: str) -> None:
        self.process.stdin.write("".join(f"{text}\n" for text in texts))
        self.process.stdin.flush()

    def line(self) -> str:
        line = self.process.stdout.readline()
        assert line.endswith("\n"), self.process.communicate()[1]
        return line.strip()

    def say(self, text: str) -> dict[str, Any]:
        self.tell(text)
        answer: dict[str, Any] = json.loads(self.line())
        assert answer["said"] == text
        return answer

    def kill(self) -> tuple[list[dict[str, Any]], str]:
        self.process.send_signal(signal.SIGKILL)
        assert self.process.wait() == -signal.SIGKILL
        said = self.process.stdout.read()  # with the lines read ahead, which `communicate` passes over
        _, status = self.process.communicate()
        # The kill may have cut the last line off.
        lines = [line for line in said.splitlines(keepends=True) if line.endswith("\n")]
        return [json.loads(line) for line in lines if line.startswith("{")], status

    def bye(self) -> str:
        _, status = self.process.communicate("/quit\n", timeout=60)
        assert self.process.returncode == 0, status
        return status


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a home that waits for a slow disk, so that an answer is printed when its turn is durable."""
    profile = (
        '[store]\ncommit_wait_s = 60.0\n[llama]\nembedder = ""\n[idle]\nsettle_s = 0.05\nindex_rows = 1\n'
    )
    return home_of(tmp_path / "home", profile)


def states(home: Path) -> list[str]:
    return [STATES[state] for (state,) in select(home, "select state from turns order by n")]


def accepted(home: Path) -> bytes:
    spools = spool_paths(home / "db" / "memory.db")
    return b"".join(text for path in spools for text in read_foreign_spool(path)[0])


def replies(home: Path) -> list[tuple[int, str | None, tuple[int, ...]]]:
    with edgemem.open(home, worker=False) as memory:
        return [
            (turn.n, message.content, message.tokens)
            for turn in memory.sessions.journal.read_turns("kitchen")
            for message in turn.messages
            if message.role == "assistant"
        ]


def test_ten_turns_and_three_kills(home: Path, chat_model: Callable[[str], Path], tmp_path: Path) -> None:
    """Killed before a commit, after one and in between, ten turns come out as if nobody had pulled the plug."""
    log = tmp_path / "log.jsonl"

    def talk(priority: int = 0, turn: int = 0) -> Talk:
        return Talk(home, chat_model("qwen2"), "-c", WATCHED, str(log), str(priority), str(turn))

    # Between the reply and the commit: the turn is there with its reply, and marked unfinished.
    robot = talk(BEFORE_COMMIT, 4)
    answers = [robot.say(f"Number {n} is on the table.") for n in range(3)]
    before = rows(home)
    robot.tell("Number 3 is on the table.")
    assert robot.line() == "held"
    eventually(lambda: b'"assistant"' in accepted(home))
    robot.kill()
    assert rows(home) == before
    edgemem.open(home, worker=False).close()
    assert states(home) == ["complete"] * 3 + ["unfinished"]
    after = rows(home)
    assert all(after[table][: len(before[table])] == before[table] for table in TRUTH)
    assert [row[4] for row in after["messages"][6:7]] == ["Number 3 is on the table."]

    # It goes on: nothing but the mark has changed. Right after the commit a turn is complete, answered or not.
    robot = talk(AFTER_COMMIT, 3)
    answers += [robot.say(f"Number {n} is on the table.") for n in (4, 5)]
    resumed = rows(home)
    assert resumed["messages"][: len(after["messages"])] == after["messages"]
    assert states(home) == ["complete"] * 3 + ["unfinished"] + ["complete"] * 2
    robot.tell("Number 6 is on the table.")
    assert robot.line() == "held"
    _, status = robot.kill()
    assert "the last turn of session kitchen had been cut off" in status
    after = rows(home)
    assert all(after[table][: len(resumed[table])] == resumed[table] for table in TRUTH)
    assert states(home) == ["complete"] * 3 + ["unfinished"] + ["complete"] * 3

    # Between two turns, when only upkeep may be at work.
    robot = talk()
    answers.append(robot.say("Number 7 is on the table."))
    kept = rows(home)
    assert "cut off" not in robot.kill()[1]
    assert rows(home) == kept

    robot = talk()
    answers += [robot.say(f"Number {n} is on the table.") for n in (8, 9)]
    assert robot.bye() == ""
    assert rows(home)["messages"][: len(kept["messages"])] == kept["messages"]
    assert states(home) == ["complete"] * 3 + ["unfinished"] + ["complete"] * 6
    said = select(home, "select content from messages where role = 'user' order by id")
    assert said == [(f"Number {n} is on the table.",) for n in range(10)]

    # What was generated is stored as generated, also where the answer was never printed.
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    asked, generated = entries[::2], entries[1::2]
    stored = replies(home)
    assert stored == [(n, one["content"], tuple(one["tokens"])) for n, one in enumerate(generated)]
    answered = [n for n in range(10) if n not in (3, 6)]
    assert [answer["reply"] for answer in answers] == [stored[n][1] for n in answered]

    # Every prompt begins with the one before and its reply, over the restarts too: text and token ids.
    with LlamaTokenizer(chat_model("qwen2")) as tokenizer:
        prompts = [tokenizer.render(one["messages"], now=one["now"]) for one in asked]
        for n in range(9):
            shown = prompts[n + 1].text
            assert shown.startswith(prompts[n].text + str(generated[n]["content"]).strip())
            grown = [*asked[n]["messages"], {"role": "assistant", "content": generated[n]["content"]}]
            history = tokenizer.render(grown, now=asked[n]["now"], add_generation_prompt=False)
            assert prompts[n + 1].ids[: prompts[n].n] == prompts[n].ids
            assert prompts[n + 1].ids[: history.n] == history.ids


@pytest.mark.long
def test_killed_at_random_moments(home: Path, chat_model: Callable[[str], Path]) -> None:
    """Whenever the kill comes: all that was answered is complete, one turn at most unfinished, nothing is lost."""
    chance = random.Random(11)
    kept: list[tuple[Any, ...]] = []
    count = unfinished = 0
    for round_ in range(6 if LONG else 2):
        robot = Talk(home, chat_model("phi-3"))
        told = [f"Round {round_}, number {n}." for n in range(1000)]
        robot.tell(*told)
        answers = [json.loads(robot.line())]
        # Every other time the kill waits for the narrow moment between a reply and its commit.
        narrow = round_ % 2 == 1
        end = time.monotonic() + chance.uniform(0.0, 0.12) + narrow
        while time.monotonic() < end and not (narrow and accepted(home)):
            time.sleep(0.0005)
        more, status = robot.kill()
        edgemem.open(home, worker=False).close()  # what was accepted is taken over, once
        answers += more
        assert len(answers) < len(told)
        assert ("cut off" in status) == (unfinished == 1)
        assert [answer["said"] for answer in answers] == told[: len(answers)]
        now = select(home, "select id, turn, role, content, unheard, tokens from messages order by id")
        assert now[: len(kept)] == kept
        mine = states(home)[count:]
        assert len(mine) - len(answers) in (0, 1)
        assert mine[: len(answers)] == ["complete"] * len(answers)
        assert set(mine[len(answers) :]) <= {"complete", "unfinished"}
        unfinished = mine[-1:].count("unfinished")
        texts = [(role, content) for _, _, role, content, _, _ in now[len(kept) :]]
        heard = ((("user", one["said"]), ("assistant", one["reply"])) for one in answers)
        acknowledged = [part for turn in heard for part in turn]
        assert texts[: len(acknowledged)] == acknowledged
        assert texts[len(acknowledged) :][:1] in ([], [("user", told[len(answers)])])
        kept, count = now, count + len(mine)
    with LlamaTokenizer(chat_model("phi-3")) as tokenizer:
        for _, content, tokens in replies(home):
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            assert decoder.decode(b"".join(map(tokenizer.vocabulary.piece, tokens))).lstrip() == content
