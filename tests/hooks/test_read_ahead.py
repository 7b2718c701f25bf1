"""A model reads the prompt of a new epoch in idle time, in the conversation's own context, and yields to speech."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from llama_cpp import Llama

from edgemem.errors import ClosedError
from edgemem.hooks.builtin import part_of
from edgemem.llama import LlamaChat
from edgemem.llama.backend import held_by
from edgemem.llama.chat import AHEAD_BATCH
from edgemem.loop.loop import AgentLoop
from edgemem.loop.replies import ChatReplies
from edgemem.memory import Memory
from edgemem.session.log import log_of
from support import homes

INSTRUCTIONS = "You are a kitchen robot that knows its cups. " * 8
WINDOW = 1024
REPLY = 8
IDLE_S = 60.0


@pytest.fixture
def chat(phi3: Path) -> Iterator[LlamaChat]:
    with opened(phi3) as chat:
        yield chat


@pytest.fixture(autouse=True)
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgemem.context.compaction.planner.HIGH_WATER", 0.7)


def opened(file: Path) -> LlamaChat:
    return LlamaChat(file, n_ctx=WINDOW, threads=1, batch=256)


BOUNDS = f"window_tokens = {WINDOW}\nreply_tokens = 64\nblock_tokens = 20\nsummary_tokens = 60\n"
HOME_SETTINGS = f'[chat]\nkeep_state = "off"\n[idle]\nsettle_s = 0.0\n[context]\n{BOUNDS}'
"""Of a home whose window is full after some fifteen turns."""


def open_home(home: Path, *, worker: bool = False) -> Memory:
    return homes.opened(home, HOME_SETTINGS, worker=worker)


def never() -> bool:
    return False


class Kitchen:
    def __init__(self, memory: Memory, chat: LlamaChat, session: str = "kitchen") -> None:
        self.chat = chat
        hooks = memory.hooks(session_id=session, speaker="mara", model=chat)
        self.hook = part_of(hooks, "compaction")
        self.loop = AgentLoop(
            ChatReplies(chat, max_tokens=REPLY), hooks=hooks, instructions=INSTRUCTIONS, speaker="mara"
        )
        self.turns = 0

    def turn(self) -> list[dict[str, Any]]:
        self.turns += 1
        result = self.loop.run(f"The {self.turns}th cup is in drawer {self.turns}, behind the old kettle.")
        assert not self.loop.hooks.failures()
        return result.handed[0]

    def until_prepared(self) -> None:
        while not self.hook.work(stop=never):
            assert self.turns < 40
            self.turn()

    def read_all(self) -> int:
        steps = 0
        while self.hook.read_ahead(stop=never):
            steps += 1
        return steps

    def own_tokens(self, handed: list[dict[str, Any]]) -> int:
        count = self.chat.tokenizer.count
        return count(handed) - count(handed[:-1], add_generation_prompt=False)

    def answers_as_cold(self, file: Path, handed: list[dict[str, Any]]) -> bool:
        """Tell whether a fresh model says the same to the newest prompt, token for token."""
        started_at = log_of(self.loop.ctx).prompt_log.epoch.started_at
        with opened(file) as fresh:
            list(fresh.stream(handed, max_tokens=REPLY, now=started_at))
            assert fresh.last.evaluated_tokens == fresh.last.prompt_tokens
            return fresh.last.ids == self.chat.last.ids and len(fresh.last.ids) == REPLY


@pytest.fixture
def kitchen(memory: Memory, chat: LlamaChat) -> Kitchen:
    return Kitchen(memory, chat)


def test_an_epochs_first_turn_reads_only_its_own_words(
    phi3: Path, kitchen: Kitchen, memory: Memory, chat: LlamaChat
) -> None:
    """Idle time reads its prompt, and the model says what it would say cold."""
    kitchen.until_prepared()
    memory.idle(IDLE_S)
    handed = kitchen.turn()
    assert "Earlier in this conversation:" in handed[1]["content"]
    own = kitchen.own_tokens(handed)
    assert own <= chat.last.evaluated_tokens <= own + 1
    assert kitchen.answers_as_cold(phi3, handed)


def test_speech_stops_the_reading_at_once(phi3: Path, kitchen: Kitchen, chat: LlamaChat) -> None:
    """Of a prompt that was read in part, the first turn of the epoch reads the rest; a stopped batch leaves no trace."""
    kitchen.until_prepared()
    for _ in range(2):
        assert kitchen.hook.read_ahead(stop=never)
    with chat.if_quiet() as llama:
        before = held_by(llama)
    assert not kitchen.hook.read_ahead(stop=lambda: True)
    handed = kitchen.turn()
    with chat.if_quiet() as llama:
        assert held_by(llama)[: len(before)] == before
    own, read = kitchen.own_tokens(handed), chat.last.evaluated_tokens
    assert own < read <= chat.last.prompt_tokens - 2 * AHEAD_BATCH
    assert kitchen.answers_as_cold(phi3, handed)


def test_a_forgotten_fact_is_read_no_more(memory: Memory, kitchen: Kitchen, chat: LlamaChat) -> None:
    """A summary that told of it begins its epoch without it, and idle time reads the changed prompt."""
    memory.store.add_fact("pin", "4711", scope="household")
    kitchen.until_prepared()
    assert kitchen.hook.prepared is not None
    kitchen.hook.prepared = msgspec.structs.replace(
        kitchen.hook.prepared, summary="A cup.\nrecall_fact -> pin = 4711"
    )
    assert kitchen.read_all() > 1
    memory.forget("pin", scope="household")
    assert kitchen.read_all() > 1
    handed = kitchen.turn()
    assert "4711" not in repr(handed)
    assert chat.last.evaluated_tokens <= kitchen.own_tokens(handed) + 1


def test_the_cache_of_another_conversation_is_left_alone(
    phi3: Path, kitchen: Kitchen, memory: Memory, chat: LlamaChat
) -> None:
    """Nothing is read where the model talks with another session since, where its owner lent it, or once it is closed."""
    kitchen.until_prepared()
    list(chat.stream([{"role": "user", "content": "Hello."}], max_tokens=2))
    assert kitchen.read_all() == 0
    chat.close()
    assert kitchen.read_all() == 0
    lent = Llama(str(phi3), n_ctx=WINDOW, n_threads=1, n_threads_batch=1, verbose=False)
    with LlamaChat.wrap(lent) as borrowed:
        other = Kitchen(memory, borrowed, "garden")
        other.until_prepared()
        assert other.read_all() == 0
    lent.close()


def test_a_closed_model_stops_no_other_session(phi3: Path, memory: Memory, chat: LlamaChat) -> None:
    """A conversation whose model was closed when an epoch was due is left alone; that of another model goes on."""
    with opened(phi3) as other:
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
def test_closing_in_the_middle(phi3: Path, tmp_path: Path, first: str) -> None:
    """Whichever is closed first while the idle worker reads: it stops, nothing fails, and a restart goes on."""
    home = tmp_path / "home"
    with open_home(home, worker=True) as memory, opened(phi3) as chat:
        kitchen = Kitchen(memory, chat)
        worker = memory.diagnostics.upkeep
        worker.hold(kitchen)
        kitchen.until_prepared()
        with chat.if_quiet() as llama:
            before = held_by(llama)
        worker.release(kitchen)
        while llama.n_tokens >= len(before):
            time.sleep(0.001)
        (chat if first == "chat" else memory).close()
        assert first == "memory" or not memory.diagnostics.upkeep.failures()
        with pytest.raises(ClosedError):
            (chat.side_chat if first == "chat" else memory.check)()
    with open_home(home) as memory, opened(phi3) as chat:
        kitchen = Kitchen(memory, chat)
        kitchen.loop.run("Is anybody there?")
        assert not kitchen.loop.hooks.failures()


def test_turns_beside_the_worker(phi3: Path, tmp_path: Path) -> None:
    """With the idle worker at it all the while, a turn reads its own words, and an epoch begins as in a model that is cold."""
    with open_home(tmp_path / "home", worker=True) as memory, opened(phi3) as chat:
        kitchen, begun = Kitchen(memory, chat), set()
        for n in range(40):
            seen = chat.last.prompt_tokens + len(chat.last.ids)
            handed = kitchen.turn()
            first = log_of(kitchen.loop.ctx).prompt_log.epoch.first_turn
            if first not in begun:
                assert kitchen.answers_as_cold(phi3, handed)
            else:
                assert chat.last.evaluated_tokens <= chat.last.prompt_tokens - seen + 1
            begun.add(first)
            time.sleep(0.003 * (n % 7))
        assert len(begun) > 2
        assert not memory.diagnostics.upkeep.failures()
