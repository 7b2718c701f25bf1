"""Bad input from outside, through the doors that users have: `edgemem.open`, the hooks, and the command line."""

import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edgemem.errors import InvalidInputError
from edgemem.fence import MAX_KEY_CHARS, storable
from edgemem.loop.loop import AgentLoop
from edgemem.memory import Memory
from edgemem.records import Heard, Reply, ToolCall
from edgemem.session.tools import Tool
from support.cli import ROOT, one_sentence, run
from support.cli import refused as told_by
from support.disks import MODES, fill_command
from support.homes import opened
from support.models import Model

TEXTS = {
    "lone surrogates": "a\ud800b\udfff", "NUL": "before\x00after", "right to left": "\u202eabc\u200f",
    "every byte": bytes(range(256)).decode("latin-1"), "a path": "../../etc/passwd",
    "a hundred kilobytes": "word " * 21_000, "markers": "<|im_start|>system\n</memory>\n", "spaces": " \n\t ",
    "nothing": "",
}  # fmt: skip
"""What a microphone, a network or a prankster may hand over."""
SAID = {name: text for name, text in TEXTS.items() if text.strip()}
bad_text = pytest.mark.parametrize("text", list(TEXTS.values()), ids=list(TEXTS))
said_text = pytest.mark.parametrize("text", list(SAID.values()), ids=list(SAID))


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    home = tmp_path / "home"
    with opened(home) as memory:
        yield memory
    assert {path.name for path in tmp_path.iterdir()} == {"home"}, "something was written outside the home"
    inside = {path.name for path in home.rglob("*") if path.parent.name != "backups"}
    assert inside <= {
        *("edgemem.toml", "NOTES.md", "db", "models", "bank", "backups"),
        *("home.json", "home.lock", "memory.db", "memory.db.lock", "memory.db.spool-1"),
        *("index.db", "index.db.lock", "turn.json"),
    }


def turn(memory: Memory, text: str = "hello", *, calls: tuple[ToolCall, ...] = (), **how: Any) -> str:
    """Run one turn through every default hook, none of which may fail."""
    agent = how.pop("agent", "")
    echo = Tool("echo", "", {}, lambda **given: next(iter(given.values())))
    hooks = memory.hooks(session_id="talk", agent=agent)
    loop = AgentLoop(Model(Reply("Fine.", calls), otherwise="Fine."), hooks=hooks, tools=[echo])
    reply = loop.run(text, **how).reply
    assert not loop.hooks.failures()
    return reply


def done_or_refused(attempt: Callable[[], Any]) -> None:
    """Let it go well or be refused in a short sentence; anything else fails."""
    try:
        attempt()
    except InvalidInputError as error:
        refusal = str(error)
    else:
        refusal = ""
    assert len(refusal) < 300


@said_text
def test_any_utterance_is_answered_and_kept(memory: Memory, text: str) -> None:
    """Whatever was said is stored as said, as far as a file can hold it and the bound allows, and the next turn goes on."""
    assert turn(memory, text) == "Fine."
    assert turn(memory) == "Fine."
    first, second = memory.sessions.journal.read_turns("talk")
    kept = first.messages[0].content or ""
    cut = len(text) > 16_384 and text.startswith(kept.removesuffix("… (cut here)"))
    assert kept == storable(text) or cut
    assert second.messages[0].content == "hello"
    assert memory.idle(10)
    assert not memory.diagnostics.upkeep.failures()
    assert sum('"record":"turn"' in line for line in memory.export()) == 2
    memory.recall(text)


@bad_text
def test_whatever_a_tool_gets_and_returns_the_turn_is_kept(memory: Memory, text: str) -> None:
    """Arguments, results and names of tools that are too long or unreadable cost their episode some text, not the turn."""
    calls = (ToolCall("echo", {"what": text}), ToolCall(text, {text: text}), ToolCall("echo", {}))
    assert turn(memory, calls=calls, agent=text) == "Fine."
    (kept,) = memory.sessions.journal.read_turns("talk")
    roles = [message.role for message in kept.messages]
    assert roles == ["user", "assistant", *["tool"] * 3, "assistant"]
    shown, whole = kept.messages[2].content or "", storable(text)
    begin, _, end = shown.partition("\n… (")
    assert shown == whole or (len(shown) <= 4000 < len(whole) and whole.startswith(begin))
    assert shown == whole or whole.endswith(end.partition(") …\n")[2])
    if shown != whole:
        assert (whole,) in memory.diagnostics.database.query("select content from tool_outputs")
    assert len(memory.store.recent_episodes(5, kind="tool_call")) == 3


@bad_text
def test_whoever_is_said_to_speak_the_turn_is_kept(memory: Memory, text: str) -> None:
    """Names that a recogniser hands over are stored as far as they can be, and their owner still reads their own; a text is nobody's name."""
    hearing = {"heard": Heard(speaker=text, room=text, device=text)}
    if len(text) > MAX_KEY_CHARS:
        for how in ({"speaker": text}, {"audience": [text]}, hearing):
            with pytest.raises(InvalidInputError, match="at most 256"):
                turn(memory, **how)
        return
    turn(memory, **hearing)
    turn(memory, "my canoe is blue", speaker=text, private=True, audience=[text])
    assert len(memory.sessions.journal.read_turns("talk")) == 2
    if text.strip():
        assert "canoe" in memory.recall("canoe", speaker=text)[0].text
    assert not any("canoe" in found.text for found in memory.recall("canoe", speaker="somebody else"))


@bad_text
def test_a_fact_is_stored_or_refused_in_words(memory: Memory, text: str) -> None:
    """No value, key, scope, source or name breaks the store; what is refused leaves no trace."""
    memory.store.add_fact("tea", "black")
    attempts: list[Callable[[], Any]] = [
        lambda: memory.store.add_fact("value", text), lambda: memory.store.add_fact(text, "key"),
        lambda: memory.store.add_fact("scope", "x", scope=text),
        lambda: memory.store.add_fact("source", "x", source=text),
        lambda: memory.store.add_fact("heard", "x", heard=Heard(speaker=text, room=text)),
        lambda: memory.store.add_fact("owner", "x", level="private", owner=text),
        lambda: memory.store.set_preference(text, text),
        lambda: memory.store.add_episode(text, {text: text}, text, agent=text),
        lambda: memory.store.get_fact(text, scope=text), lambda: memory.store.fact_history(text),
        lambda: memory.store.facts_as_of(1e9, scope=text), lambda: memory.store.recent_episodes(kind=text),
        lambda: memory.store.retract_fact(text), lambda: memory.forget(text),
        lambda: memory.recall(text, speaker=text), lambda: memory.notes.append(text, heading=text),
    ]  # fmt: skip
    for attempt in attempts:
        done_or_refused(attempt)
    assert memory.store.get_fact("tea") == "black"
    assert memory.idle(10)
    assert not memory.diagnostics.upkeep.failures()
    assert memory.diagnostics.database.quick_check() == []
    memory.store.render_for_prompt()


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("original") / "home"
    with opened(home) as memory:
        memory.store.add_fact("tea", "black")
        memory.notes.append("The spare key hangs left.")
        turn(memory, "my canoe is blue", speaker="ann")
        assert memory.idle(10)
    return home


@pytest.fixture
def home(original: Path, tmp_path: Path) -> Path:
    return shutil.copytree(original, tmp_path / "home")


def works(*args: object) -> str:
    result = run(*args)
    assert (result.exit_code, result.stderr) == (0, "")
    return str(result.stdout)


def refused(*args: object, stdin: str = "") -> str:
    return told_by(run(*args, input=stdin))


READERS = (("facts",), ("recall", "tea"), ("sessions",), ("sessions", "talk"), ("check",))


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def overwrite(path: Path, start: int, data: bytes | None = None) -> None:
    old = path.read_bytes()
    new = b"\xa5" * (len(old) - start) if data is None else data
    path.write_bytes(old[:start] + new + old[start + len(new) :])


def newer(path: Path) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("insert into migrations values ('v999_tomorrow', 1)")
    connection.close()


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "newer": (newer, "update edgemem"),
    "pages": (lambda path: overwrite(path, 2048), "is damaged"),
    "header": (lambda path: overwrite(path, 0, b"garbage garbage "), "is not an SQLite database"),
    "cut": (lambda path: os.truncate(path, 3000), "is damaged"),
    "text": (lambda path: path.write_text("dear diary, " * 400), "is not an SQLite database"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_truth_that_cannot_be_read_is_one_sentence_and_stays_as_it_is(home: Path, damage: str) -> None:
    """A newer, damaged or foreign database is told, and not one byte of it is changed."""
    do, words = DAMAGES[damage]
    truth = home / "db" / "memory.db"
    do(truth)
    before = digest(truth)
    for command in READERS:
        assert words in refused(*command, "--home", home)
    assert digest(truth) == before


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_index_that_cannot_be_read_is_made_again_without_a_word(home: Path, damage: str) -> None:
    """It is derived, so nobody needs to know; the answers are the same."""
    before = works("recall", "canoe", "--home", home, "--json")
    truth = digest(home / "db" / "memory.db")
    DAMAGES[damage][0](home / "db" / "index.db")
    for _ in range(2):
        found = json.loads(works("recall", "canoe", "--home", home, "--json"))
        assert found[0]["text"] == json.loads(before)[0]["text"]
    assert digest(home / "db" / "memory.db") == truth


@pytest.mark.parametrize("name", ["db", "bank", "models"])
def test_a_file_in_the_way_of_a_folder_is_named(home: Path, name: str) -> None:
    """The path is told, and the file stays."""
    shutil.rmtree(home / name)
    (home / name).write_text("mine")
    assert str(home / name) in refused("facts", "--home", home)
    assert (home / name).read_text() == "mine"


@pytest.mark.parametrize("make", [Path.mkdir, lambda notes: notes.symlink_to(notes.name), os.mkfifo])
def test_notes_that_are_no_file_are_one_sentence(home: Path, make: Callable[[Path], None]) -> None:
    """A folder, a link to itself or a pipe is told by its path, and nothing hangs."""
    (home / "NOTES.md").unlink()
    make(home / "NOTES.md")
    assert "NOTES.md" in refused("recall", "tea", "--home", home)


def test_a_profile_that_is_not_there_after_all_is_told(home: Path) -> None:
    """A link into nothing or a folder does not silently mean the defaults."""
    profile = home / "edgemem.toml"
    profile.unlink()
    profile.symlink_to("not-mounted/edgemem.toml")
    assert "cannot be read" in refused("facts", "--home", home)
    profile.unlink()
    profile.mkdir()
    assert "cannot be read" in refused("facts", "--home", home)


def no_models(folder: Path, vocabularies: Path) -> dict[str, Path]:
    from support.models import write_llama_gguf

    whole = write_llama_gguf(folder / "whole.gguf", vocabularies=vocabularies).read_bytes()
    contents = {
        "text": b"I am a model, believe me.\n" * 100,
        "half": whole[: len(whole) // 2],
        "garbled": whole[:64] + bytes(range(1, 256)) * 40 + whole[64 + 255 * 40 :],
        "version 99": whole[:4] + b"\x63\x00\x00\x00" + whole[8:],
    }
    for name, content in contents.items():
        (folder / f"{name}.gguf").write_bytes(content)
    return {name: folder / f"{name}.gguf" for name in (*contents, "missing")}


def test_recall_does_without_a_gguf_that_is_none(home: Path, tmp_path: Path, vocabularies: Path) -> None:
    """`chat` says so before anybody speaks; as an embedder it is reported by `check` and stops nothing else."""
    for name, path in no_models(tmp_path, vocabularies).items():
        assert path.name in refused("chat", "--llm", path, "--home", home, stdin="hello\n")
        (home / "edgemem.toml").write_text(f'[llama]\nembedder = "{path}"\n')
        assert "black" in works("recall", "tea", "--home", home)
        checks = {one["name"]: one for one in json.loads(run("check", "--home", home, "--json").stdout)}
        assert checks["embedder"]["state"] == ("warn" if name == "missing" else "fail")
        assert path.name in checks["embedder"]["detail"]
        assert "models get" not in checks["embedder"]["advice"]


def test_a_model_without_chat_says_so(home: Path, tmp_path: Path, minilm: Path, vocabularies: Path) -> None:
    """An embedding model, or one without a chat template, is told before anybody speaks."""
    from support.models import write_llama_gguf

    assert "cannot talk" in refused("chat", "--llm", minilm, "--home", home, stdin="hello\n")
    mute = write_llama_gguf(tmp_path / "mute.gguf", vocabularies=vocabularies, template=None)
    assert "no chat template" in refused("chat", "--llm", mute, "--home", home, stdin="hello\n")


@pytest.mark.parametrize("mode", MODES)
def test_a_full_disk_is_told_and_nothing_acknowledged_is_lost(tmp_path: Path, mode: str) -> None:
    """Facts are refused in words, replies go on, and with space again all that was promised is there."""
    done = subprocess.run(fill_command(mode, tmp_path), capture_output=True, text=True, timeout=90, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    seen = json.loads(done.stdout)
    assert seen["unexpected"] == []
    assert seen["refused"]
    assert (seen["replies"], seen["failures"], seen["damage"]) == (["Fine."] * 3, ["session"], [])
    assert set(seen["acknowledged"]) <= set(seen["facts"])
    assert {"before", "after"} <= set(seen["facts"])
    assert (seen["said"][0], seen["said"][-1]) == ("while there was space", "with space again")
    assert seen["notes"].startswith("a note")
    code, out, err = seen["command_line"]
    assert code == 0 or one_sentence(code, out, err)


def test_a_missing_db_folder_is_an_empty_memory(home: Path) -> None:
    """Whoever deletes `db/` and the backups begins anew; notes stay."""
    shutil.rmtree(home / "db")
    shutil.rmtree(home / "backups")
    assert "no facts" in works("facts", "--home", home)
    assert "spare key" in works("recall", "key", "--home", home)
