"""Random names and scopes: whatever is written is read by exactly whom the answer says, or it is refused."""

import random
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import edgemem
from edgemem import JSONMemoryStore, SQLiteMemoryStore
from edgemem.errors import EdgememError
from edgemem.loop.loop import AgentLoop
from edgemem.memory import Memory
from edgemem.records import Reader
from support.cli import run
from support.models import Listener
from support.selection import LONG

_AT_ONCE = 20  # scopes, and as many names, that one memory is given

_NAMES = [
    "Mara", "Zoë", "Jürgen Groß", "Đặng Thị Hà", "Ἀθηνᾶ", "İpek", "ﬁona", "Ǆuro", "Ann", "o'Neil", "李雷", "ᾳ",
    "me", "7",
]  # fmt: skip
_MARKS = ["\u0301", "\u0308", "\u0323", "\u0345", "\u200b", "\u200d", "\ufeff", "\u202e"]
_ALIKE = str.maketrans("aeocpxyAEOCPX", "аеосрхуАЕОСРХ")
_SPACES = [" ", "  ", "\t", "\u00a0", "\u3000", "\n"]
_HEADS = [
    "user:", "User:", "users:", "usr:", "USER :", "env:", "ENV:", "env", ":", "", "global", "household",
    "uѕer:", "ｕser：",
]  # fmt: skip
_BAD = ["\x00", "\x07", "\ud800", "\u2028", "x" * 4096, "é" * 2048]


def spelled(dice: random.Random, name: str) -> str:
    changes = [
        str.upper, str.lower, str.title, str.swapcase, lambda text: unicodedata.normalize("NFD", text),
        lambda text: unicodedata.normalize("NFC", text), lambda text: unicodedata.normalize("NFKC", text),
        lambda text: text.translate(_ALIKE),
        lambda text: text[: len(text) // 2] + dice.choice(_MARKS) + text[len(text) // 2 :],
        lambda text: dice.choice(_SPACES) + text + dice.choice(_SPACES),
        lambda text: text + dice.choice(_BAD), lambda text: "".join(dice.sample(text, len(text))),
        lambda _: "", lambda _: "".join(chr(dice.randrange(1, 0x3000)) for _ in range(dice.randrange(1, 9))),
    ]  # fmt: skip
    for change in dice.sample(changes, dice.choice([0, 1, 1, 2, 3])):
        name = change(name)
    return name


def random_scope(dice: random.Random, names: Sequence[str]) -> str:
    name = spelled(dice, dice.choice(names)) if dice.random() < 0.8 else ""
    head = dice.choice(_HEADS) if dice.random() < 0.5 else "user:"
    return head + name if dice.random() < 0.9 else spelled(dice, head + name)


def clean_name(name: str) -> str:
    """Return a name as a file can hold it, by another way than edgemem's."""
    whole = "".join("\ufffd" if 0xD800 <= ord(c) < 0xE000 else c for c in name)
    return whole.replace("\0", "").strip()


def same(entry: str, other: str) -> bool:
    decomposed = (unicodedata.normalize("NFD", clean_name(name)) for name in (entry, other))
    return len({unicodedata.normalize("NFD", name.casefold()) for name in decomposed}) == 1


def may_read(scope: str, name: str) -> bool:
    if scope in ("global", "user") or scope.startswith("env:"):
        return True
    if scope == "household":
        return bool(clean_name(name))
    return scope.startswith("user:") and bool(clean_name(name)) and same(scope[5:], name)


def refused(error: EdgememError) -> None:
    recalled = str(error)
    assert recalled.endswith(".")
    assert "\n" not in recalled
    assert len(recalled) < 500


def read_by_whom_the_answer_says(store: Any, names: Sequence[str], scopes: dict[str, str]) -> None:
    """Check who reads what: `scopes` are the answers' scopes by value."""
    for name in names:
        expected = {value for value, scope in scopes.items() if may_read(scope, name)}
        assert {fact.value for fact in store.facts(reader=Reader(name))} & set(scopes) == expected
    assert {fact.value for fact in store.facts()} >= set(scopes)
    strangers = {value for value, scope in scopes.items() if may_read(scope, "")}
    for nobody in (Reader(), Reader(" "), Reader(names[0], frozenset({""}))):
        assert {fact.value for fact in store.facts(reader=nobody)} & set(scopes) == strangers


def add_all(store: Any, scopes: Sequence[str], mark: str) -> dict[str, str]:
    """Add a fact under each scope; return the scopes of those that were taken, as the answer gives them, by value."""
    taken: dict[str, str] = {}
    for n, scope in enumerate(scopes):
        value = f"{mark}{n}"
        try:
            store.add_fact(value, value, scope=scope)
        except EdgememError as error:
            refused(error)
            continue
        (fact,) = (fact for fact in store.facts() if fact.value == value)
        taken[value] = fact.scope
        if fact.scope.startswith("user:"):
            # The answer names the person that was meant, perhaps as the name was first written.
            assert same(scope.partition(":")[2], fact.scope[5:])
        elif fact.scope != scope:
            assert fact.scope == scope.strip() or fact.scope.startswith("env:")
    return taken


def say_all(memory: Memory, names: Sequence[str]) -> dict[str, str]:
    """Have each say something in private, and have a tool remember something; return who by what was said."""
    spoken: dict[str, str] = {}
    for n, name in enumerate(names):
        loop = AgentLoop(Listener(), hooks=memory.hooks(session_id=f"s{n}"))
        loop.run(f"The number of my locker is said{n}.", speaker=name, private=True)
        spoken[f"said{n}"] = name
        tools = {tool.name: tool for tool in memory.tools(speaker=name)}
        try:
            answer = tools["remember_fact"].run(key=f"tool{n}", value=f"tool{n}", scope="me")
        except EdgememError as error:
            refused(error)
            continue
        if answer.startswith("Remembered"):
            spoken[f"tool{n}"] = name
        else:
            assert answer.startswith("Refused")
            assert not clean_name(name)
    return spoken


@pytest.mark.long
@pytest.mark.usefixtures("patient")
def test_random_names_and_scopes_are_read_by_exactly_whom_the_answer_says(tmp_path: Path) -> None:
    """Through stores, tools, hooks, recall and the command line: read as the answer says or refused, never wider."""
    tried, seed = 0, 0
    while tried < (10_000 if LONG else 200):
        dice = random.Random(seed)
        names = [spelled(dice, dice.choice(_NAMES)) for _ in range(_AT_ONCE)]
        scopes = [random_scope(dice, names) for _ in range(_AT_ONCE)]
        tried, seed = tried + len(names) + len(scopes), seed + 1
        home = tmp_path / f"home{seed}"
        with edgemem.open(home, worker=False) as memory:
            taken = add_all(memory.store, scopes, "fact")
            known = re.compile("global|user|household|user:.*|env:.*", re.DOTALL)
            assert all(map(known.fullmatch, taken.values()))
            read_by_whom_the_answer_says(memory.store, names, taken)
            spoken = say_all(memory, heard := [name for name in names if len(name) <= 256])
            if seed % 2:
                memory.idle(seconds=30)
            for name in dice.sample(heard, 5):
                found = memory.recall("number of my locker", speaker=name, k=99, kinds={"turn"})
                recalled = {word for item in found for word in spoken if f"{word}." in item.text}
                # What an unknown voice says is shared, unless it is marked; then nobody is told.
                own = {word for word, who in spoken.items() if clean_name(who) and same(who, name)}
                assert recalled == {word for word in own if word[:4] == "said"}
                listed = next(tool for tool in memory.tools(speaker=name) if tool.name == "list_facts").run()
                for word, who in spoken.items():
                    if word[:4] == "tool" and f" {word} " in listed:
                        assert same(who, name)
                    if word[:4] == "tool" and same(who, name):
                        assert {word} <= {fact.value for fact in memory.store.facts(reader=Reader(name))}
        kind, file = ((SQLiteMemoryStore, "seed.db"), (JSONMemoryStore, "seed.json"))[seed % 2]
        with kind(home / file) as store:
            answers = add_all(store, scopes, "seed")
            read_by_whom_the_answer_says(store, names, answers)
        with kind(home / file) as store:  # once more, as it was written down
            assert {fact.value: fact.scope for fact in store.facts()} == answers
            read_by_whom_the_answer_says(store, names, answers)
        scope = dice.choice(scopes)
        if "\0" not in scope and not scope.startswith("-"):
            given = run("facts", "add", "door", "cli7", "--scope", scope, "--home", home)
            assert given.exit_code in (0, 1), given.output
            with edgemem.open(home, worker=False) as memory:
                written = {fact.value: fact.scope for fact in memory.store.facts() if fact.value == "cli7"}
                assert bool(written) == (given.exit_code == 0)
                read_by_whom_the_answer_says(memory.store, names, written)
