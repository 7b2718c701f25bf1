"""What one turn of the default hooks asks of the tokenizer and of the database, counted: a gain cannot be lost unseen."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import edgemem
from edgemem.bench.ground import KEEP_PLAN, Robot, quiet
from edgemem.config import Profile
from edgemem.inspect.replay import Line, ScriptedCall
from edgemem.llama.template.chat_template import CHATML
from edgemem.llama.tokens.tokenizer import LlamaTokenizer
from edgemem.memory import Memory
from edgemem.session.points import HookRegistry
from edgemem.store.db.database import Database

THINGS = [
    "kettle", "ladder", "lamp", "radio", "drill", "tent", "globe", "piano", "scale", "torch", "kite", "rope",
]  # fmt: skip
MOST_READ = 18  # statements that a turn reads with, where nothing is embedded: 15 when this was written


class Counting(LlamaTokenizer):
    """Notes what is tokenised, and how often a whole prompt is counted."""

    texts: list[str]
    counts: int = 0

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        self.texts.append(text)
        return super().encode(text, special=special)

    def count(self, *given: Any, **how: Any) -> int:
        self.counts += 1
        return super().count(*given, **how)

    def clear(self) -> None:
        self.texts, self.counts = [], 0


@pytest.fixture
def tokenizer(vocabularies: Path) -> Iterator[Counting]:
    with Counting(vocabularies / "ggml-vocab-qwen2.gguf", template=CHATML) as opened:
        opened.clear()
        yield opened


def opened(folder: Path, tokenizer: Counting, **context: Any) -> Memory:
    context = msgspec.structs.replace(Profile().context, **context)
    profile: Profile = msgspec.structs.replace(quiet(), context=context)
    memory = edgemem.open(folder, profile=profile, tokenizer=tokenizer, worker=False)
    for n, thing in enumerate(THINGS):
        memory.store.add_fact(f"{thing}.place", f"shelf {n} behind the {THINGS[n - 1]}", scope="household")
    return memory


def line(n: int) -> Line:
    call = ScriptedCall("keep_plan", {"text": f"look for number {n}", "who": "mara"}, "kept")
    return Line(f"Where is the {THINGS[n % 12]}?", speaker="mara", reply=f"On shelf {n}.", tools=(call,))


def test_a_turn_tokenises_lines_that_memory_may_say_and_no_more(tmp_path: Path, tokenizer: Counting) -> None:
    """Each of them once: what was said is measured in idle time, and the window is guarded by bytes while it is far."""
    with opened(tmp_path, tokenizer) as memory:
        robot = Robot(HookRegistry(memory.hooks(session_id="now")), tools=[KEEP_PLAN])
        told = 0
        for n in range(16):
            tokenizer.clear()
            robot.turn(line(n))
            if n:
                assert tokenizer.counts == 0
                assert all(text.startswith(("- ", "<memory>")) for text in tokenizer.texts)
                assert len(set(tokenizer.texts)) == len(tokenizer.texts) <= 12
                told += len(tokenizer.texts)
            memory.idle(60)
        robot.check()
        assert told


def test_no_turn_counts_a_whole_prompt_where_idle_time_does(tmp_path: Path, tokenizer: Counting) -> None:
    """Over several epochs of a small window; where nobody pauses, the end of a turn does it instead."""
    with opened(tmp_path, tokenizer, window_tokens=2200, summary_tokens=120) as memory:
        hooks = memory.hooks(session_id="now")
        robot = Robot(HookRegistry(hooks), tools=[KEEP_PLAN])
        counts, paused, epochs = 0, 0, set()
        for n in range(50):
            tokenizer.clear()
            robot.turn(line(n))
            counts += tokenizer.counts if n else 0
            tokenizer.clear()
            memory.idle(60)
            paused += tokenizer.counts
            epoch = memory.sessions.journal.latest_epoch("now")
            epochs.add(epoch and epoch.first_turn)
        assert len(epochs) > 2
        assert (counts, paused > 0) == (0, True)
        tokenizer.clear()
        for n in range(15):
            robot.turn(line(n))
        assert tokenizer.counts > 0
        robot.check()


def test_a_turn_reads_with_few_statements(
    tmp_path: Path, tokenizer: Counting, monkeypatch: pytest.MonkeyPatch, patient: None
) -> None:
    """Each of them costs a small board a tenth of a millisecond, and most turns need the same."""
    read: list[str] = []
    query = Database.query

    def counted(self: Database, sql: str, *given: Any, **how: Any) -> Any:
        read.append(sql)
        return query(self, sql, *given, **how)

    monkeypatch.setattr(Database, "query", counted)
    with opened(tmp_path, tokenizer) as memory:
        robot = Robot(HookRegistry(memory.hooks(session_id="now")), tools=[KEEP_PLAN])
        for n in range(6):
            read.clear()
            robot.turn(line(n))
            if n > 1:
                assert 0 < len(read) <= MOST_READ
            memory.idle(60)
        robot.check()
