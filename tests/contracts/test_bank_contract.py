"""What the bank must do, in a folder and in the database."""

import sqlite3
import subprocess
import sys
import unicodedata
from contextlib import closing

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import edgemem
from edgemem.aio import MemoryBankProvider, get_memory_bank_ddl
from edgemem.config import BankSettings
from edgemem.errors import InvalidInputError, MemoryBankViolation
from edgemem.store.bank.rules import scope_of_user, validate_memory_path
from support.homes import BY_WORDS
from support.refusals import refusal

BACKENDS = ("files", "database")
UNSAFE = ("", "/etc/passwd", "plans/../../x.md", "a\\b.md", "a\0.md", "a//b.md", "plans/.hidden", "x" * 300)


@pytest.fixture(params=BACKENDS)
def opened(request, tmp_path, clock):
    """Return what opens a home whose bank is of each kind, with limits."""
    memories = []

    def open_home(**limits):
        bank = BankSettings(request.param, limits)
        profile = msgspec.structs.replace(BY_WORDS, bank=bank)
        memories.append(edgemem.open(tmp_path / "home", profile=profile, worker=False, clock=clock))
        return memories[-1]

    yield open_home
    for memory in memories:
        memory.close()


def test_a_file_is_written_read_appended_to_and_deleted(opened):
    """Each bank fulfils the protocol that tools are written against; what is appended begins a line, in a file that is made."""
    for bank in (opened().bank.for_person("Ann"), opened().bank.shared):
        assert isinstance(bank, MemoryBankProvider)
        assert bank.read_file("plans/a.md") is None
        bank.append_to_file("plans/a.md", "one")
        bank.append_to_file("plans/a.md", "two")
        bank.write_file("b.md", "three")
        assert bank.read_file("plans/a.md") == "one\ntwo"
        assert (bank.list_files(), bank.list_files("plans/")) == (["b.md", "plans/a.md"], ["plans/a.md"])
        bank.delete_file("plans/a.md")
        bank.delete_file("plans/a.md")
        assert bank.list_files() == ["b.md"]


def test_people_and_topics_are_apart(opened):
    """What one person has in one topic is in no other bank, and names mean one person in any spelling."""
    bank = opened().bank
    bank.for_person("Mara", "one").write_file("a.md", "mine")
    bank.household.write_file("a.md", "ours")
    bank.shared.write_file("a.md", "anyone's")
    assert bank.for_person(" mARA", "one").read_file("a.md") == "mine"
    assert bank.for_person("Mara", "two").read_file("a.md") is None
    assert bank.for_person("Bob", "one").read_file("a.md") is None
    assert [file.place for file in bank.files()] == ["household/a.md", "shared/a.md", "Mara/one/a.md"]


@pytest.mark.parametrize("path", UNSAFE)
def test_unsafe_paths_are_refused(opened, path):
    """A path that could lead out of the bank, or hide in it, is refused and named; deleting it does nothing."""
    bank = opened().bank.for_person("Ann")
    for act in (
        bank.read_file,
        lambda path: bank.write_file(path, "x"),
        lambda path: bank.append_to_file(path, "x"),
    ):
        with pytest.raises(MemoryBankViolation) as refused:
            act(path)
        assert refused.value.path in (path, None)
    bank.delete_file(path)


@pytest.mark.parametrize("name", ["household", "Shared", " HOUSEHOLD ", ""])
def test_what_stands_for_others_is_no_name(opened, name):
    """The household and anyone are no people."""
    refusal(InvalidInputError, opened().bank.for_person, name)


@pytest.mark.parametrize("name", ["a/b", "..", ".hidden", "50%", "Zoë ☕", "a\\b", "%2F", "CON"])
def test_any_name_is_a_person_and_a_topic(opened, name):
    """A name that is no name of a file is kept all the same, and nothing stands outside of the bank."""
    memory = opened()
    memory.bank.for_person(name, name).write_file("a.md", "x")
    assert memory.bank.for_person(name, name).read_file("a.md") == "x"
    assert [(file.scope, file.topic) for file in memory.bank.files()] == [(scope_of_user(name), name)]
    assert sorted(path.name for path in memory.home.iterdir()) == ["backups", "bank", "db", "models"]


def test_paths_that_differ_in_case_or_form_are_one_file(opened):
    """Two spellings of a path are the same file, which keeps the first one."""
    bank = opened().bank.for_person("Ann")
    bank.write_file("Plans/Café.md", "one")
    bank.write_file(unicodedata.normalize("NFD", "plans/CAFÉ.md"), "two")
    assert bank.list_files() == ["Plans/Café.md"]
    assert bank.read_file("PLANS/café.MD") == "two"
    bank.delete_file("plans/café.md")
    assert bank.list_files() == []


def test_limits_are_kept_by_write_and_append(opened):
    """Size of a file and of all, number and depth bound what is written; what was there before stays."""
    bank = opened(max_file_size_bytes=1024, max_total_size_bytes=2048, max_entries=3).bank.for_person("Ann")
    bank.write_file("a.md", "x" * 1000)
    large, deep = ((bank.write_file, "b.md", 1025), (bank.append_to_file, "a.md", 24)), "a/b/c.md"
    for act, path, size in (*large, (bank.write_file, deep, 1), (bank.append_to_file, deep, 1)):
        refusal(MemoryBankViolation, act, path, "x" * size)
    refusal(MemoryBankViolation, bank.read_file, deep)
    bank.append_to_file("a.md", "x" * 23)
    bank.write_file("b.md", "x" * 1000)
    refusal(MemoryBankViolation, bank.write_file, "c.md", "x" * 25, match="2,049 bytes, of")
    bank.write_file("c.md", "x")
    refusal(MemoryBankViolation, bank.write_file, "d.md", "", match="4 files, of")
    assert bank.list_files() == ["a.md", "b.md", "c.md"]
    assert bank.read_file("a.md") == "x" * 1000 + "\n" + "x" * 23


def test_a_bank_over_its_limits_can_be_read_and_made_smaller(opened):
    """Where limits were lowered, reading works, what grows is refused, what shrinks is taken, and it is told."""
    first = opened()
    first.bank.for_person("Ann").write_file("a.md", "x" * 3000)
    first.bank.for_person("Ann").write_file("b/c.md", "y")
    first.close()
    memory = opened(max_file_size_bytes=1024, max_total_size_bytes=2048, max_entries=1, max_depth=1)
    bank = memory.bank.for_person("Ann")
    assert bank.read_file("a.md") == "x" * 3000
    assert bank.read_file("b/c.md") == "y"
    assert len(memory.bank.faults()) == 4
    refusal(MemoryBankViolation, bank.append_to_file, "a.md", "more", match="shorten")
    bank.write_file("a.md", "x" * 2500)
    bank.delete_file("b/c.md")
    bank.write_file("a.md", "short")
    assert memory.bank.faults() == []


@pytest.mark.parametrize("content", ["half \ud800", "nul \0", 3, None])
def test_what_is_no_text_is_refused(opened, content):
    """What cannot be kept as it is is refused, and nothing is made."""
    bank = opened().bank.for_person("Ann")
    for act in (bank.write_file, bank.append_to_file):
        refusal(InvalidInputError, act, "a.md", content)
    assert bank.list_files() == []


def test_what_is_old_goes_in_idle_time(opened, hand):
    """Files that were not changed for so many days are deleted by upkeep, and no other."""
    memory = opened(retention_days=10)
    memory.bank.for_person("Ann").write_file("old.md", "x")
    hand.advance(9 * 86400)
    memory.bank.for_person("Ann").write_file("new.md", "x")
    memory.idle(seconds=60)
    assert memory.bank.for_person("Ann").list_files() == ["new.md", "old.md"]
    hand.advance(2 * 86400)
    memory.idle(seconds=60)
    assert memory.bank.for_person("Ann").list_files() == ["new.md"]


APPENDER = """
import sys, threading
import edgemem
with edgemem.open(sys.argv[1], worker=False) as memory:
    def work(name):
        for n in range(10):
            memory.bank.for_person("Ann").append_to_file("log.md", f"{name}{n}")
    threads = [threading.Thread(target=work, args=(name,)) for name in sys.argv[2]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_what_several_writers_append_is_all_there(opened):
    """Threads and programs that write one file lose no line of each other."""
    memory = opened()
    backend = memory.profile.bank.backend
    (memory.home / "edgemem.toml").write_text(f'[llama]\nembedder = ""\n[bank]\nbackend = "{backend}"\n')
    commands = [[sys.executable, "-c", APPENDER, str(memory.home), names] for names in ("ab", "cd")]
    running = [subprocess.Popen(command) for command in commands]
    assert [process.wait(120) for process in running] == [0, 0]
    lines = str(memory.bank.for_person("Ann").read_file("log.md")).splitlines()
    assert sorted(lines) == sorted(f"{name}{n}" for name in "abcd" for n in range(10))


names = st.sampled_from(["a.md", "A.md", "b/c.md", "B/C.md", "b/d.md", "é.md", "e\u0301.md", "x/y/z.md"])
calls = st.lists(
    st.tuples(
        st.sampled_from(["write_file", "append_to_file", "delete_file"]), names, st.text("xy\n", max_size=9)
    )
)


@given(calls)
@settings(max_examples=30)
def test_both_kinds_do_the_same(tmp_path_factory, sequence):
    """Any sequence of calls leaves the same files in a folder and in the database."""
    seen = []
    for backend in BACKENDS:
        profile = msgspec.structs.replace(BY_WORDS, bank=BankSettings(backend=backend))
        home = tmp_path_factory.mktemp("home")
        with edgemem.open(home, profile=profile, worker=False) as memory:
            bank, refused = memory.bank.for_person("Ann"), []
            for act, path, text in sequence:
                given_ = (path,) if act == "delete_file" else (path, text)
                try:
                    getattr(bank, act)(*given_)
                except MemoryBankViolation:
                    refused.append(path)
            seen.append((refused, [(path, bank.read_file(path)) for path in bank.list_files()]))
    assert seen[0] == seen[1]


def test_the_statements_of_the_seed_make_its_table():
    """They run as they are, and a path is checked to the depth that is given."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(";".join(get_memory_bank_ddl()))
        columns = [row[1] for row in database.execute("pragma table_info(memory_bank)")]
    assert columns == ["id", "user_id", "topic_id", "path", "content", "created_at", "updated_at"]
    assert "serial" in get_memory_bank_ddl("postgres")[0]
    validate_memory_path("a/b/c.md", max_depth=3)
    refusal(MemoryBankViolation, validate_memory_path, "a/b/c.md")
