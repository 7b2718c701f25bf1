"""What a model has evaluated is there again after a restart, or it is ignored without harm."""

import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from conftest import HandClock

import edgemem
from edgemem.hooks.builtin import part_of
from edgemem.llama.chat import LlamaChat
from edgemem.llama.state import KeptState, copy_out, headers_in, read_state, write_state
from edgemem.loop.loop import AgentLoop
from edgemem.loop.replies import ChatReplies
from edgemem.memory import Memory
from support.homes import check_of, home_of, warning_of
from support.models import write_llama_gguf

INSTRUCTIONS = "You are a kitchen robot that knows its cups. " * 24
CAP_MB = 64.0
_FORGETFUL = """
import sys, edgemem
with edgemem.open(sys.argv[1], worker=False) as memory: assert memory.store.forget_fact("tea")
"""
"""Ends before it has looked at any file."""
_ROBOT = """
import sys, time
import edgemem
from edgemem.loop.replies import ChatReplies
from edgemem.llama.chat import LlamaChat
from edgemem.loop.loop import AgentLoop
with edgemem.open(sys.argv[1], worker=False) as memory, LlamaChat(sys.argv[2], n_ctx=2048, threads=1) as chat:
    loop = AgentLoop(ChatReplies(chat, max_tokens=4), hooks=memory.hooks(model=chat), instructions=sys.argv[3])
    loop.run("Where is my cup?")
    print(chat.last.evaluated_tokens, flush=True)
    time.sleep(60)
"""


@pytest.fixture(scope="module")
def models(
    tmp_path_factory: pytest.TempPathFactory, vocabularies: Path, chat_model: Callable[[str], Path]
) -> tuple[Path, Path]:
    """Return two chat models that differ in nothing but their random weights."""
    other = tmp_path_factory.mktemp("models") / "other.gguf"
    like = {"vocabulary": "phi-3", "template": "microsoft-Phi-3.5-mini-instruct", "width": 32}
    return chat_model("phi-3"), write_llama_gguf(other, vocabularies=vocabularies, seed=1, **like)


def opened(file: Path, **settings: Any) -> LlamaChat:
    return LlamaChat(file, **{"n_ctx": 1024, "threads": 1, "batch": 256, **settings})


def kept(chat: LlamaChat, folder: Path, **settings: Any) -> KeptState:
    return KeptState(chat, folder, **{"keep": "prefix", "max_mb": CAP_MB, "now": lambda: 1.8e9, **settings})


def said(text: str = "Where is my cup?", instructions: str = INSTRUCTIONS) -> list[dict[str, Any]]:
    return [{"role": "system", "content": instructions}, {"role": "user", "content": text}]


def talk(file: Path, folder: Path, **settings: Any) -> Path:
    with opened(file) as chat:
        state = kept(chat, folder, **settings)
        list(chat.stream(said(), max_tokens=4))
        assert state.work()
        state.wait()
        assert not state.fault
        return state.path


def test_prefix_ends_before_what_was_said(phi3: Path, tmp_path: Path) -> None:
    """The kept ids are those that the prompt begins with whatever is said; nothing of the turn is in the file."""
    path = talk(phi3, tmp_path)
    header, _ = read_state(path, max_bytes=1 << 30)
    with opened(phi3) as chat:
        heads = [chat.tokenizer.render(said(text)).ids for text in ("Yes?", "No, 12!", "Where is my cup?")]
        with chat.if_quiet() as llama:
            assert llama is not None
            llama.eval(header.ids)
            alone = copy_out(llama, len(header.ids))
    assert alone is not None
    assert alone.size == header.size  # not one cell more than those of the ids
    assert header.kind == "prefix"
    assert all(ids[: len(header.ids)] == header.ids for ids in heads)
    assert header.log == b""
    assert path.stat().st_mode & 0o777 == 0o600


def test_whole_conversation_goes_on(phi3: Path, tmp_path: Path) -> None:
    """With the whole kept, a restart evaluates only the new turn, also behind a reply as it was generated."""
    messages = said()
    with opened(phi3) as chat:
        state = kept(chat, tmp_path, keep="whole")
        reply = "".join(chat.stream(messages, max_tokens=24))
        state.close()
        seen = chat.last.prompt_tokens + 24
    messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": "Thanks."}]
    with opened(phi3) as chat:
        state = kept(chat, tmp_path, keep="whole")
        assert state.load() >= seen - 1
        list(chat.stream(messages, max_tokens=2))
        assert chat.last.evaluated_tokens <= chat.last.prompt_tokens - seen + 1


def test_whole_is_neither_used_nor_kept_after_a_forgetting(phi3: Path, tmp_path: Path) -> None:
    """A conversation from before something was forgotten is deleted, and only instructions are kept from then on."""
    forgotten = 7
    talk(phi3, tmp_path, keep="whole", forgotten=lambda: 7)
    assert headers_in(tmp_path)[0][1].kind == "whole"
    for settings in ({"keep": "whole", "forgotten": lambda: 8}, {"keep": "prefix"}):
        path = talk(phi3, tmp_path, keep="whole", forgotten=lambda: 7)
        with opened(phi3) as chat:
            state = kept(chat, tmp_path, **settings)
            assert state.load() == 0
            assert not path.exists()
            assert not state.fault
    with opened(phi3) as chat:
        state = kept(chat, tmp_path, keep="whole", forgotten=lambda: forgotten)
        list(chat.stream(said(), max_tokens=4))
        forgotten = 9
        assert state.work()
        state.wait()
        assert headers_in(tmp_path)[0][1].kind == "prefix"


@pytest.mark.parametrize("where", ["model", "context", "flash"])
def test_state_of_another_model_is_refused(models: tuple[Path, Path], tmp_path: Path, where: str) -> None:
    """A state of other weights, or of the same with another window, is not used even under the right name."""
    path = talk(models[0], tmp_path)
    with opened(models[where == "model"], n_ctx=768 if where == "context" else 1024) as chat:
        if where == "flash":
            with chat.if_quiet() as llama:
                assert llama is not None
                llama.context_params.flash_attn_type = 1
        state = kept(chat, tmp_path)
        assert state.path != path
        assert state.load() == 0
        path.rename(state.path)
        assert state.load() == 0
        assert "was made with another" in state.fault
        assert list(chat.stream(said(), max_tokens=2))
        assert chat.last.evaluated_tokens == chat.last.prompt_tokens


def test_damage_is_ignored_and_told(phi3: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A file cut or changed anywhere is deleted, and told once; the model answers without it."""
    path = talk(phi3, tmp_path)
    good = path.read_bytes()
    dice = random.Random(4)
    with opened(phi3) as chat, caplog.at_level(logging.WARNING):
        state = kept(chat, tmp_path)
        for n in range(60):
            at = dice.randrange(len(good)) if n % 2 else dice.randrange(200)
            if n % 3:
                bad = good[:at] + bytes([good[at] ^ (1 << dice.randrange(8))]) + good[at + 1 :]
            else:
                bad = good[:at]
            path.write_bytes(bad)
            assert state.load() == 0
            assert not path.exists()
            assert state.fault.startswith("a kept state was not used")
        assert len(caplog.records) == 1
        list(chat.stream(said(), max_tokens=2))
        assert chat.last.evaluated_tokens == chat.last.prompt_tokens


def _with(path: Path, data: bytes, **changes: Any) -> None:
    """Write a file whose checksum is right although its content is not."""
    header, _ = read_state(path, max_bytes=1 << 30)
    write_state(path, msgspec.structs.replace(header, **changes), data, still_wanted=lambda: True)


def test_what_llama_cpp_would_choke_on_is_refused(phi3: Path, tmp_path: Path) -> None:
    """Foreign data under a right checksum is not taken: too many tokens, unknown ones, cut data, nonsense."""
    path = talk(phi3, tmp_path)
    raw = path.read_bytes()
    header, data = read_state(path, max_bytes=1 << 30)
    half = bytes(data[: len(data) // 2])
    cases: list[Callable[[], None]] = [
        lambda: _with(path, bytes(data), ids=[5] * 2000),
        lambda: _with(path, bytes(data), ids=[1 << 30] * 80),
        lambda: _with(path, bytes(data), ids=[]),
        lambda: _with(path, bytes(data), ids=header.ids[:-1]),
        lambda: _with(path, bytes(data), size=3),
        lambda: _with(path, half, size=len(half)),
        lambda: _with(path, b"", size=0),
        lambda: _with(path, bytes(len(data))),
        lambda: _with(path, bytes(data), format=9),
        lambda: os.truncate(path, 1 << 40),  # above the cap: not even read
    ]
    with opened(phi3) as chat:
        state = kept(chat, tmp_path)
        for spoil in cases:
            path.write_bytes(raw)
            spoil()
            assert state.load() == 0
            assert not path.exists()
        path.write_bytes(raw)
        assert state.load() == len(header.ids)


def test_state_above_the_cap_is_not_kept(phi3: Path, tmp_path: Path) -> None:
    """A state that is larger than allowed is not written, and the sentence says how large it would be."""
    with opened(phi3) as chat:
        state = kept(chat, tmp_path, max_mb=0.01)
        list(chat.stream(said(), max_tokens=4))
        assert not state.work()
        assert "raise [chat] keep_state_mb" in state.off
    assert not list(tmp_path.iterdir())


def test_written_rarely(phi3: Path, tmp_path: Path, hand: HandClock) -> None:
    """The same instructions are written once; others after some hours, also where the clock ran back between."""
    with opened(phi3) as chat:
        state = kept(chat, tmp_path, now=lambda: hand.wall)

        def turn(instructions: str) -> bool:
            list(chat.stream(said(instructions=instructions), max_tokens=2))
            wrote = state.work()
            state.wait()
            return wrote

        assert turn(INSTRUCTIONS)
        assert not turn(INSTRUCTIONS)
        hand.advance(7 * 3600)
        assert not turn(INSTRUCTIONS)
        assert turn("Else " + INSTRUCTIONS)
        hand.advance(3600)
        assert not turn("Again " + INSTRUCTIONS)
        hand.advance(6 * 3600)
        assert turn("Again " + INSTRUCTIONS)
    with opened(phi3) as chat:
        hand.advance(-9e8)
        state = kept(chat, tmp_path, now=lambda: hand.wall)
        assert turn(INSTRUCTIONS)


def test_states_of_other_models_make_room(models: tuple[Path, Path], tmp_path: Path, hand: HandClock) -> None:
    """All files together stay under the cap: the oldest goes."""
    first = talk(models[0], tmp_path, now=lambda: hand.wall)
    hand.advance(60)
    second = talk(models[1], tmp_path, now=lambda: hand.wall)
    assert first.exists()
    size_mb = second.stat().st_size / 1e6
    with opened(models[1], n_ctx=768) as chat:
        hand.advance(60)
        state = kept(chat, tmp_path, now=lambda: hand.wall, max_mb=2.5 * size_mb)
        list(chat.stream(said(), max_tokens=2))
        assert state.work()
        state.wait()
    assert state.path.exists()
    assert second.exists()
    assert not first.exists()


@pytest.mark.parametrize(
    ("question", "answer", "reason"),
    [("llama_model_n_swa", 512, "sliding window"), ("llama_model_is_recurrent", True, "recurrent")],
)
def test_model_whose_memory_cannot_be_cut_is_left_alone(
    phi3: Path, home: Path, monkeypatch: pytest.MonkeyPatch, question: str, answer: int, reason: str
) -> None:
    """llama.cpp saves no more of a sliding window than the window, and cuts no recurrent memory; `check` says why."""
    import llama_cpp

    monkeypatch.setattr(llama_cpp, question, lambda _model: answer)
    with edgemem.open(home, worker=False) as memory, opened(phi3) as chat:
        part = part_of(memory.hooks(model=chat), "state")
        list(chat.stream(said(), max_tokens=2))
        part.kept.work()
        assert reason in warning_of(memory, "kept state")
    assert not headers_in(home / "db")


def test_robot_whose_plug_is_pulled(phi3: Path, home: Path) -> None:
    """Killed some moment after a turn, the next start evaluates little, or all of it, and answers."""
    dice = random.Random(6)
    evaluated = []
    for seconds in (0.0, dice.random() / 100, None, 0.0):
        command = [sys.executable, "-c", _ROBOT, str(home), str(phi3), INSTRUCTIONS]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            evaluated.append(int(process.stdout.readline()))
            if seconds is None:  # until the state is kept, however long that takes
                while not headers_in(home / "db"):
                    time.sleep(0.01)
            else:
                time.sleep(seconds)
            process.send_signal(signal.SIGKILL)
    assert evaluated[-1] < evaluated[0] / 4  # the conversation has grown by three turns


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return home_of(tmp_path / "home", '[llama]\nembedder = ""\n[time]\nline = false\n')


def robot(chat: LlamaChat, memory: Memory) -> AgentLoop:
    hooks, tools = memory.hooks(model=chat), memory.tools()
    return AgentLoop(ChatReplies(chat, max_tokens=4), hooks=hooks, instructions=INSTRUCTIONS, tools=tools)


def test_a_robot_that_restarts_keeps_its_instructions(phi3: Path, home: Path) -> None:
    """From the second start on the first turn evaluates less than a tenth; `check` says what is kept, how old, and of damage."""
    evaluated: list[int] = []
    for _ in range(2):
        with edgemem.open(home, worker=False) as memory, opened(phi3, n_ctx=2048) as chat:
            assert not robot(chat, memory).run("Where is my cup?").interrupted
            evaluated.append(chat.last.evaluated_tokens)
    assert evaluated[1] < evaluated[0] / 10
    with edgemem.open(home, worker=False) as memory:
        told = check_of(memory, "kept state")
    assert told.state == "ok"
    assert "instructions and tools of phi-3.gguf" in told.detail
    assert " seconds old" in told.detail
    [(path, _)] = headers_in(home / "db")
    path.write_bytes(path.read_bytes()[:-1])
    with edgemem.open(home, worker=False) as memory, opened(phi3, n_ctx=2048) as chat:
        memory.hooks(model=chat)
        assert "damaged or cut short" in warning_of(memory, "kept state")


def test_forgetting_deletes_it(phi3: Path, home: Path) -> None:
    """Whoever is forgotten is in no kept state either, also if another process forgets."""
    with edgemem.open(home, worker=False) as memory, opened(phi3, n_ctx=2048) as chat:
        loop = robot(chat, memory)
        memory.store.add_fact("tea", "black")
        loop.run("Where is my cup?")
        memory.diagnostics.in_use.kept_states()[0].wait()
        assert headers_in(home / "db")
        with edgemem.open(home, worker=False) as other:
            assert other.forget("tea")
        assert not list((home / "db").glob("state-*"))
        assert loop.run("And now?").reply is not None


@pytest.mark.parametrize("moment", ["between turns", "while it is written", "at the renaming"])
def test_no_conversation_is_kept_that_another_process_forgot_of(
    phi3: Path, home: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Whenever another process forgets, the state of the conversation from before is neither written nor left there."""
    hours = 6 if moment == "between turns" else 0
    with (home / "edgemem.toml").open("a") as profile:
        profile.write('[chat]\nkeep_state = "whole"\n')
    with edgemem.open(home, worker=False) as memory, opened(phi3, n_ctx=2048) as chat:
        memory.store.add_fact("tea", "black")
        loop = robot(chat, memory)
        (state,) = memory.diagnostics.in_use.kept_states()
        state.every_s = hours * 3600
        loop.run("Where is my cup?")
        state.wait()
        assert [header.kind for _, header in headers_in(home / "db")] == ["whole"]
        forgotten = []

        def forget() -> None:
            if not forgotten:
                forgotten.append(moment)
                subprocess.run([sys.executable, "-c", _FORGETFUL, str(home)], check=True)

        if moment == "between turns":
            forget()
        else:
            state.remove()
            of, name = (os, "fsync") if moment == "while it is written" else (Path, "replace")
            step = getattr(of, name)
            monkeypatch.setattr(of, name, lambda *args: (by_the_writer() and forget(), step(*args))[1])
        loop.run("And the kettle?")
        state.wait()
        assert forgotten
        assert "whole" not in [header.kind for _, header in headers_in(home / "db")]
        assert not list((home / "db").glob("state-*.part"))


def by_the_writer() -> bool:
    return threading.current_thread().name == "edgemem-state"


def test_switched_off(phi3: Path, home: Path) -> None:
    """Where nothing is to be kept, what was kept is deleted and the model is not touched."""
    with edgemem.open(home, worker=False) as memory, opened(phi3, n_ctx=2048) as chat:
        robot(chat, memory).run("Where is my cup?")
    assert headers_in(home / "db")
    (home / "edgemem.toml").write_text('[llama]\nembedder = ""\n[chat]\nkeep_state = "off"\n')
    with edgemem.open(home, worker=False) as memory, opened(phi3, n_ctx=2048) as chat:
        assert part_of(memory.hooks(model=chat), "state") is None
        assert check_of(memory, "kept state").detail == "switched off ([chat] keep_state)"
    assert not headers_in(home / "db")


def test_a_model_of_two_sessions_has_one_state(phi3: Path, home: Path) -> None:
    """Whichever session talks, what the model has evaluated is kept once."""
    with edgemem.open(home, worker=False) as memory, opened(phi3, n_ctx=2048) as chat:
        sessions = [memory.hooks(session_id=name, model=chat) for name in ("hall", "kitchen")]
        keeping = [part_of(hooks, "state").kept for hooks in sessions]
        assert len(keeping) == 2
        assert memory.diagnostics.in_use.kept_states() == keeping[:1] == keeping[1:]


def test_disk_that_cannot_be_written(phi3: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A failed writing is told once and costs nothing else."""
    folder = tmp_path / "db"
    folder.mkdir()
    with opened(phi3) as chat:
        state = kept(chat, folder)
        state.every_s = 0.0
        list(chat.stream(said(), max_tokens=2))
        shutil.rmtree(folder)
        for _ in range(2):
            assert state.work()
            state.wait()
        assert "could not be written" in state.fault
        assert len(caplog.records) == 1


def test_model_that_streams_is_left_alone(phi3: Path, tmp_path: Path) -> None:
    """Nothing is copied while a reply streams."""
    with opened(phi3) as chat:
        state = kept(chat, tmp_path)
        pieces = chat.stream(said(), max_tokens=8)
        next(pieces)
        assert not state.work()
        pieces.close()
        assert state.work()
