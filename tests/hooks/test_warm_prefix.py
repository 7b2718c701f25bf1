"""A new epoch begins when the model has read its prompt in idle time; until then the old one goes on untouched."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from ggufs import write_llama_gguf
from llama_cpp import Llama

import edgemem
from edgemem.config import Profile
from edgemem.context.prompt.log import PromptLog
from edgemem.errors import ClosedError
from edgemem.hooks.compaction import ContextCompactionHook
from edgemem.hooks.conversation import conversation_of
from edgemem.llama.backend import held_by
from edgemem.llama.chat import LlamaChat
from edgemem.llama.second_context import BATCH
from edgemem.llama.tokens.log import common_prefix
from edgemem.loop.loop import AgentLoop, TurnResult
from edgemem.loop.replies import ChatReplies
from edgemem.memory import Memory
from edgemem.records import Epoch

INSTRUCTIONS = "You are a kitchen robot that knows its cups. " * 8
WINDOW = 1024
REPLY = 8
IDLE_S = 60.0


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory, vocabularies: Path) -> Path:
    """Return a real chat model of random weights."""
    path = tmp_path_factory.mktemp("model") / "phi-3.gguf"
    template = "microsoft-Phi-3.5-mini-instruct"
    return write_llama_gguf(path, vocabularies=vocabularies, vocabulary="phi-3", template=template, width=32)


@pytest.fixture
def chat(file: Path) -> Iterator[LlamaChat]:
    """Return the model, opened as a robot would."""
    with opened(file) as chat:
        yield chat


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """Return a memory that reads ahead, and whose upkeep runs when it is told to."""
    with open_home(tmp_path / "home") as memory:
        yield memory


def opened(file: Path) -> LlamaChat:
    """Open the model."""
    return LlamaChat(file, n_ctx=WINDOW, threads=1, batch=256)


@pytest.fixture(autouse=True)
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have epochs begin early."""
    monkeypatch.setattr("edgemem.context.compaction.planner.HIGH_WATER", 0.7)


def open_home(home: Path, *, warm: bool = True, worker: bool = False) -> Memory:
    """Open a home whose window is full after some fifteen turns."""
    plain = Profile()
    replace = msgspec.structs.replace
    context = replace(
        plain.context, window_tokens=WINDOW, reply_tokens=64, block_tokens=20, summary_tokens=60
    )
    profile = replace(
        plain,
        llama=replace(plain.llama, embedder=""),
        chat=replace(plain.chat, keep_state="off"),
        idle=replace(plain.idle, settle_s=0.0),
        compaction=replace(plain.compaction, warm=warm),
        context=context,
    )
    return edgemem.open(home, profile=profile, worker=worker, watch=False)


def never() -> bool:
    """Speak never."""
    return False


class Kitchen:
    """One conversation with a real model, step by step."""

    def __init__(self, memory: Memory, chat: LlamaChat, session: str = "kitchen") -> None:
        self.memory = memory
        self.chat = chat
        hooks = memory.hooks(session_id=session, speaker="mara", model=chat)
        (self.hook,) = [hook for hook in hooks if isinstance(hook, ContextCompactionHook)]
        self.loop = AgentLoop(
            ChatReplies(chat, max_tokens=REPLY), hooks=hooks, instructions=INSTRUCTIONS, speaker="mara"
        )
        self.turns = 0

    @property
    def prompt_log(self) -> PromptLog:
        """Return what the model sees."""
        return conversation_of(self.loop.ctx).prompt_log

    @property
    def prefix(self) -> Any:
        """Return what reads ahead."""
        assert self.hook.warming is not None
        return self.hook.warming.prefix

    def turn(self) -> TurnResult:
        """Say something new, and check that what the model read was new."""
        seen = self.chat.last.prompt_tokens + len(self.chat.last.ids)
        before = self.prompt_log.epoch if self.turns else None
        said = f"The {self.turns}th cup stands in drawer {self.turns}, behind the old kettle."
        result = self.loop.run(said)
        assert not self.loop.hooks.failures()
        if before is self.prompt_log.epoch:
            new = self.chat.last.prompt_tokens - seen
            assert new <= self.chat.last.evaluated_tokens <= new + 1
        self.turns += 1
        return result

    def in_epoch(self, epoch: Epoch) -> bool:
        """Tell whether this is the epoch that has begun."""
        now = self.prompt_log.epoch
        return (now.first_turn, now.summary) == (epoch.first_turn, epoch.summary)

    def until_prepared(self) -> Epoch:
        """Talk until an epoch waits to be read ahead."""
        for _ in range(40):
            self.turn()
            if self.hook.work(stop=never):
                assert self.hook.prepared is not None
                return self.hook.prepared
        raise AssertionError("no epoch became due")

    def read_some(self, batches: int) -> None:
        """Read so many batches ahead."""
        wanted = self.prefix.tokens_read + batches * BATCH
        while self.prefix.tokens_read < wanted:
            assert self.hook.warm(stop=never)

    def read_all(self) -> int:
        """Read ahead until nothing is left; return in how many steps."""
        steps = 0
        while self.hook.warm(stop=never):
            steps += 1
        return steps

    def own_tokens(self, handed: list[dict[str, Any]]) -> int:
        """Return what the newest utterance and the markers behind it take."""
        count = self.chat.tokenizer.count
        return count(handed) - count(handed[:-1], add_generation_prompt=False)

    def same_as_cold(self, file: Path, handed: list[dict[str, Any]]) -> bool:
        """Tell whether a fresh model says the same to the newest prompt, token for token."""
        with opened(file) as fresh:
            list(fresh.stream(handed, max_tokens=REPLY, now=self.prompt_log.epoch.started_at))
            assert fresh.last.evaluated_tokens == fresh.last.prompt_tokens
            return fresh.last.ids == self.chat.last.ids and len(fresh.last.ids) == REPLY


def test_first_turn_reads_only_its_own_words(file: Path, tmp_path: Path) -> None:
    """Behind the switch the model reads the utterance alone, and says what it would say cold; without, the whole turns."""
    read = {}
    for warm in (False, True):
        with open_home(tmp_path / str(warm), warm=warm) as memory, opened(file) as chat:
            kitchen = Kitchen(memory, chat)
            epoch = kitchen.until_prepared()
            memory.idle(IDLE_S)
            handed = kitchen.turn().handed[0]
            assert kitchen.prompt_log.epoch.first_turn == epoch.first_turn
            assert "Earlier in this conversation:" in handed[1]["content"]
            read[warm] = chat.last.evaluated_tokens, kitchen.own_tokens(handed)
            assert kitchen.same_as_cold(file, handed)
            kitchen.turn()
    own = read[True][1]
    assert own <= read[True][0] <= own + 1
    assert read[False][0] > 4 * own


def test_speech_in_the_middle_goes_on_with_the_old_epoch(file: Path, memory: Memory, chat: LlamaChat) -> None:
    """Turns between two batches read only their own words, and nothing that was read ahead is read twice."""
    kitchen = Kitchen(memory, chat)
    kitchen.until_prepared()
    old = kitchen.prompt_log.epoch
    for _ in range(2):
        kitchen.read_some(1)
        assert not kitchen.hook.warm(stop=lambda: True)
        kitchen.turn()  # which checks what was read
        assert kitchen.prompt_log.epoch is old
    assert kitchen.prefix.tokens_read == 2 * BATCH
    with chat.if_quiet() as llama:
        before = held_by(llama)
    kitchen.read_all()
    with chat.if_quiet() as llama:
        after = held_by(llama)
    assert kitchen.prefix.tokens_read == len(after) - common_prefix(before, after)
    handed = kitchen.turn().handed[0]
    assert kitchen.prompt_log.epoch.reason == "high water, read ahead"
    assert chat.last.evaluated_tokens <= kitchen.own_tokens(handed) + 1
    assert kitchen.same_as_cold(file, handed)


def test_forgetting_throws_away_what_was_read(memory: Memory, chat: LlamaChat) -> None:
    """What was read before a fact was forgotten is gone at once, and is read anew; the epoch then begins warm."""
    kitchen = Kitchen(memory, chat)
    memory.store.add_fact("pin", "4711", scope="household")
    epoch = kitchen.until_prepared()
    kitchen.hook.prepared = msgspec.structs.replace(epoch, summary="A cup.\nrecall_fact -> pin = 4711")
    kitchen.read_some(3)
    with chat.if_quiet() as llama:
        before = held_by(llama)
    assert memory.forget("pin", scope="household")
    kitchen.read_all()
    with chat.if_quiet() as llama:
        shared = common_prefix(before, held_by(llama))
        whole = len(held_by(llama)) - shared
    assert kitchen.prefix.tokens_read == 3 * BATCH + whole
    handed = kitchen.turn().handed[0]
    assert kitchen.prompt_log.epoch.reason == "high water, read ahead"
    assert kitchen.prompt_log.epoch.summary == "A cup."
    assert chat.last.evaluated_tokens <= kitchen.own_tokens(handed) + 1


def test_forgetting_after_the_move_is_obeyed(memory: Memory, chat: LlamaChat) -> None:
    """A summary that told of what was forgotten is not used, though its prompt was read: the turn reads another one."""
    kitchen = Kitchen(memory, chat)
    memory.store.add_fact("pin", "4711", scope="household")
    epoch = kitchen.until_prepared()
    kitchen.hook.prepared = msgspec.structs.replace(epoch, summary="recall_fact -> pin = 4711\nA cup.")
    kitchen.read_all()
    assert kitchen.prefix.moved == 1
    memory.forget("pin", scope="household")
    handed = kitchen.turn().handed[0]
    assert kitchen.prompt_log.epoch.first_turn == epoch.first_turn
    assert "4711" not in json.dumps(handed)
    assert kitchen.prompt_log.epoch.reason == "high water"
    assert chat.last.evaluated_tokens > 2 * kitchen.own_tokens(handed)


@pytest.mark.parametrize("batches", [0, 4])
def test_a_full_window_forces_the_switch(file: Path, memory: Memory, chat: LlamaChat, batches: int) -> None:
    """Who never falls silent gets the new epoch when nothing fits any more; what was read until then is used."""
    kitchen = Kitchen(memory, chat)
    epoch = kitchen.until_prepared()
    kitchen.read_some(batches)
    for _ in range(20):
        handed = kitchen.turn().handed[0]
        if kitchen.prompt_log.epoch.first_turn == epoch.first_turn:
            break
    assert kitchen.in_epoch(epoch)
    new = chat.last.prompt_tokens - kitchen.prefix.tokens_read
    assert kitchen.prefix.moved == bool(batches)
    assert new - 110 < chat.last.evaluated_tokens < new
    assert kitchen.same_as_cold(file, handed)
    assert not kitchen.hook.warm(stop=never)


def test_a_lent_model_is_touched_only_in_the_turn(file: Path, memory: Memory) -> None:
    """Its owner may be using it between turns: what was read goes into its cache when the next turn begins."""
    lent = Llama(str(file), n_ctx=WINDOW, n_threads=1, n_threads_batch=1, verbose=False)
    with LlamaChat.of(lent) as chat:
        kitchen = Kitchen(memory, chat)
        kitchen.until_prepared()
        for _ in range(2):
            before = held_by(lent)
            kitchen.read_some(2)
            assert kitchen.hook.warming.waits()
            kitchen.turn()
            assert held_by(lent)[: len(before)] == before
        before = held_by(lent)
        kitchen.read_all()
        assert held_by(lent) == before
        assert kitchen.prefix.moved == 0
        handed = kitchen.turn().handed[0]
        assert kitchen.prompt_log.epoch.reason == "high water, read ahead"
        assert chat.last.evaluated_tokens <= kitchen.own_tokens(handed) + 1
        assert kitchen.same_as_cold(file, handed)
    lent.close()


def test_a_closed_model_stops_no_other_session(file: Path, tmp_path: Path) -> None:
    """A conversation whose model was closed when an epoch was due is left alone; that of another model goes on."""
    with open_home(tmp_path / "home", warm=False) as memory, opened(file) as chat, opened(file) as other:
        closed, open_one = Kitchen(memory, chat), Kitchen(memory, other, "garden")
        for kitchen in (closed, open_one):
            while not kitchen.hook.due():
                kitchen.turn()
        chat.close()
        assert not closed.hook.work(stop=never)
        assert closed.hook.prepared is None
        memory.idle(IDLE_S)
        assert not memory.diagnostics.upkeep.failures()
        assert open_one.hook.prepared is not None


@pytest.mark.parametrize("first", ["chat", "memory"])
def test_closing_in_the_middle(file: Path, tmp_path: Path, first: str) -> None:
    """Whichever is closed first while the idle worker reads: it stops, nothing fails, and a restart goes on."""
    home = tmp_path / "home"
    with open_home(home, worker=True) as memory, opened(file) as chat:
        kitchen = Kitchen(memory, chat)
        worker = memory.diagnostics.upkeep
        worker.hold(kitchen)
        kitchen.until_prepared()
        worker.release(kitchen)
        while kitchen.prefix.tokens_read == 0:
            time.sleep(0.001)
        (chat if first == "chat" else memory).close()
        assert first == "memory" or not memory.diagnostics.upkeep.failures()
        with pytest.raises(ClosedError):
            (chat.ahead if first == "chat" else memory.check)()
        chat.close()
    with open_home(home) as memory, opened(file) as chat:
        kitchen = Kitchen(memory, chat)
        kitchen.loop.run("Is anybody there?")
        assert not kitchen.loop.hooks.failures()


def test_turns_beside_the_worker(file: Path, tmp_path: Path) -> None:
    """With the idle worker at it all the while, every turn reads its own words alone, in old epochs and in new ones."""
    with open_home(tmp_path / "home", worker=True) as memory, opened(file) as chat:
        kitchen = Kitchen(memory, chat)
        chance = random.Random(3)
        epochs: list[str] = []
        for n in range(60):
            before = kitchen.prompt_log.epoch if n else None
            handed = kitchen.turn().handed[0]
            if before is not None and kitchen.prompt_log.epoch is not before:
                epochs.append(kitchen.prompt_log.epoch.reason)
                if epochs[-1].endswith("read ahead"):
                    assert chat.last.evaluated_tokens <= kitchen.own_tokens(handed) + 1
            time.sleep(chance.uniform(0.0, 0.02))
            while len(epochs) % 2 == 0 and kitchen.hook.prepared is not None and kitchen.hook.warming.waits():
                time.sleep(0.001)  # every other epoch has all the time that it needs
        assert not memory.diagnostics.upkeep.failures()
    assert len(epochs) > 2
    assert "high water, read ahead" in epochs


def test_check_says_what_it_costs(memory: Memory, chat: LlamaChat) -> None:
    """What it takes, and how many epochs began warm."""
    kitchen = Kitchen(memory, chat)
    kitchen.until_prepared()
    kitchen.read_all()
    kitchen.turn()
    (told,) = [check for check in memory.check() if check.name == "compaction"]
    assert told.state == "ok"
    assert (
        "reads a new epoch's prompt in idle time (9 MB with a model of 0.5 B and 88 MB with 3 B"
        in told.detail
    )
    assert told.detail.endswith("before 1 of 1 epochs")
