"""Hostile files of each kind, what belongs in their place, and the doors at which edgemem meets them."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import NamedTuple

from support.homes import WORDS_ONLY, opened

MARK = "zq_outside_7741"
"""Stands in every file that nothing may read, and in none that may be read."""
STRANGER = 12345
LIMITS = (1 << 12, 1 << 16, 1 << 20, 1 << 22, 1 << 24, 1 << 28)  # bytes at which something of ours ends
SQL = (
    "create trigger evil after insert on {} begin delete from {}; end", "create view evil as select * from {}", "drop table {}",
    "create virtual table evil using fts5(x)", "delete from {}", "alter table {} rename to old", "pragma user_version = 9999",
    "create table facts (key text, value text, user_id text, z text as (zeroblob(900000000)))", "insert into {} select * from {}",
    "create view facts as with recursive n(i) as (select 1 union all select i + 1 from n) select i as key, i as value from n",
)  # fmt: skip
HASTY = re.sub(
    r"(commit|write)_wait_s = \d+", r"\1_wait_s = 0.25", WORDS_ONLY
)  # as a robot waits for its disk, and not as tests do
PROFILE = HASTY.replace("[", "#green\n[", 1) + '[bank]\nbackend = "files"\n[hooks]\nfiles = ["own.py"]\n'
HOOK = "#green\nfrom edgemem import hook as at\n\n\ndef hook(memory):\n    return at('before_llm')(lambda ctx, payload: None)\n"
FACT = {"key": "tea", "value": "green", "scope": "global", "updated_at": 1.7e9, "valid_from": 1.7e9}
TURN = {"at": "2026-11-02T08:02:00+01:00", "say": "The tea is green.", "speaker": "ann", "reply": "Yes."}


class Place(NamedTuple):
    """Where a hostile file goes, what belongs there, and a folder of somebody else to which it may lead."""

    path: Path
    good: bytes
    outside: Path
    rng: Random
    is_folder: bool
    steers: bool

    def write(self, data: bytes) -> None:
        self.path.write_bytes(data)

    def link(self, *targets: str) -> None:
        """Make a link that a stranger owns, absolute or not, perhaps by way of another."""
        target = self.outside / self.rng.choice(targets)
        if self.rng.random() < 0.3:
            target, end = self.outside.parent / "hop", target
            target.symlink_to(end)
        self.path.symlink_to(self.rng.choice([str(target), os.path.relpath(target, self.path.parent)]))
        os.chown(self.path, STRANGER, STRANGER, follow_symlinks=False)

    def owned(self, bits: int, *, by: int = 0) -> None:
        """Write what belongs there, a file or a folder with one, with other rights or another owner."""
        data = marked(self.good) if self.steers and (by or bits & 2) else self.good
        if self.is_folder:
            self.path.mkdir()
        (self.path / "own.py" if self.is_folder else self.path).write_bytes(data)
        self.path.chmod(bits | (bits >> 2 & 0o111 if self.is_folder else 0))
        os.chown(self.path, by, by)

    def database(self, base: bytes, sql: Callable[[list[str]], list[str]]) -> None:
        """Write a database that others have changed."""
        self.write(self.good if self.good.startswith(b"SQLite") else base)
        with closing(sqlite3.connect(self.path, isolation_level=None)) as db:
            tables = db.execute("select name from sqlite_master where type = 'table'").fetchall()
            for statement in sql([f'"{name}"' for (name,) in tables]):
                with suppress(sqlite3.Error):
                    db.executescript(statement)


def marked(data: bytes) -> bytes:
    """Return a file that shows where it was read: as a profile, as Python, or as text."""
    return data.replace(b"#green", f"{MARK}.x = 1".encode()).replace(b"green", MARK.encode())


def device(place: Place) -> None:
    name = Path("/dev", place.rng.choice(["zero", "full", "null", "random", "tty"]))
    if place.rng.random() < 0.5:
        place.path.symlink_to(name)
    else:
        os.mknod(place.path, stat.S_IFCHR | 0o600, name.stat().st_rdev)


def sprinkled(place: Place, *what: bytes) -> None:
    data = bytearray(place.good)
    for _ in range(place.rng.randint(1, 20)):
        at = place.rng.randrange(len(data) + 1)
        data[at:at] = place.rng.choice(what)
    place.write(bytes(data))


def long(place: Place, sizes: list[int], forms: list[tuple[str, str]]) -> None:
    begin, end = place.rng.choice(forms)
    n = place.rng.choice(sizes)
    middle = begin * n + "1" + end * n if len(sizes) == 3 else begin + place.rng.choice("aé\\[") * n + end
    place.write(place.rng.choice([b"", place.good]) + middle.encode())


def sized(place: Place, size: int) -> None:
    place.write(place.good + place.rng.choice([b"\n", b" "]) * (min(size, 1 << 20) - len(place.good)))
    if size > 1 << 20:
        os.truncate(place.path, size)


def kinds(truth: bytes) -> dict[str, Callable[[Place], object]]:
    """Return what makes each kind of hostile file; `truth` is a database of ours."""
    newer = (
        "insert into migrations values ('9{}_later', {}); pragma user_version = {}; create table later (x)"
    )
    foreign = "drop table if exists facts; create table {0} ({1}); insert into {0} values (1{2})"
    forms = [
        ("facts", "key", ""),
        ("messages", "x, y", ", 2"),
        ("moz", "id integer", ""),
        ("sessions", "id, n", ", 'x'"),
    ]
    return {
        "link out": lambda at: at.link("secret", "good"), "link to a folder": lambda at: at.link("folder"),
        "link to nothing": lambda at: at.link("new", "no/new"), "circle": lambda at: at.path.symlink_to(at.path.name),
        "FIFO": lambda at: os.mkfifo(at.path), "socket": lambda at: os.mknod(at.path, stat.S_IFSOCK | 0o600), "device": device,
        "folder": lambda at: (at.path / at.rng.choice("ab") / at.rng.choice("cd")).mkdir(parents=True),
        "owner": lambda at: at.owned(at.rng.choice([0o600, 0o644]), by=STRANGER),
        "group may write": lambda at: at.owned(at.rng.choice([0o620, 0o660, 0o664])),
        "all may write": lambda at: at.owned(at.rng.choice([0o602, 0o606, 0o666])),
        "unreadable": lambda at: at.owned(at.rng.choice([0, 0o200, 0o100])),
        "10 GB": lambda at: sized(at, 10**10 + at.rng.randrange(10**6)),
        "truncated": lambda at: at.write(at.good[: at.rng.randrange(len(at.good) + 1)]),
        "random bytes": lambda at: at.write(at.good[: at.rng.choice([0, 16, 100])] + at.rng.randbytes(at.rng.randrange(1 << 14))),
        "not UTF-8": lambda at: sprinkled(at, b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf5\x80", b"\x80"),
        "NUL": lambda at: sprinkled(at, b"\0", b"\0" * 9),
        "deep": lambda at: long(at, [50, 900, 200_000], [("[", "]"), ('{"a":', "}"), ("a = [", "]"), ("a={a=", "}"), ("[", "")]),
        "huge line": lambda at: long(at, [1 << 16, 1 << 22], [("", ""), ('{"say": "', '"}'), ("- ", "\n"), ('{"facts": "', '"}')]),
        "foreign database": lambda at: at.database(truth, lambda _: [foreign.format(*form) for form in at.rng.sample(forms, 2)]),
        "newer database": lambda at: at.database(
            truth, lambda _: [newer.format(*(at.rng.choice([0, 1, 10**6, 2**31 - 1]) for _ in range(3)))]
        ),
        "edited database": lambda at: at.database(
            truth, lambda tables: [sql.replace("{}", at.rng.choice(tables)) for sql in at.rng.sample(SQL, at.rng.randint(1, 4))]
        ),
        "at a limit": lambda at: sized(at, at.rng.choice(LIMITS) + at.rng.choice([-1, 0, 1])),
    }  # fmt: skip


def samples(folder: Path) -> dict[str, bytes]:
    """Return what belongs at each door; `folder` becomes a home."""
    with opened(folder) as memory:
        memory.store.add_fact("tea", "green", scope="household")
        with memory.session("kitchen").turn("The tea is green.", speaker="ann") as turn:
            turn.reply("Yes.")
        memory.idle(5)
        export = "".join(f"{line}\n" for line in memory.export())
    swarmline = Path(__file__).parents[1] / "data" / "swarmline" / "agent.sqlite"
    return {
        "profile": PROFILE.encode(), "notes": b"# Notes\n\n- The tea is green.\n", "hook": HOOK.encode(), "export": export.encode(),
        "truth": (folder / "db" / "memory.db").read_bytes(), "index": (folder / "db" / "index.db").read_bytes(),
        "edgevox": json.dumps({"facts": [FACT]}).encode(), "swarmline": swarmline.read_bytes(), "script": json.dumps(TURN).encode(),
    }  # fmt: skip


class Door(NamedTuple):
    """A way by which a file comes to edgemem: its places below the folder of a case, what belongs there, and who looks at it."""

    places: str
    sample: str
    looks: str
    steers: bool = False  # what strangers may have written there must not be read
    named: bool = False  # the caller names the file itself, so a link there may be read through


LOOKS = (
    "talk|stats|check|recall tea|inspect prompt tea|notes|bank list|facts|sessions|export|facts add k v|notes add x|backup"
    "|episodes|people list|forget --said tea --yes|restore --yes"
)  # fmt: skip
NAMES = ("x.db", "x.json", "a\nb.db", "\x1b[31mx.json", "\udcff.db", "é" * 60 + ".json", "-x.md")
BESIDE = " ".join(f"home/db/memory.db{end}" for end in ("-wal", "-shm", "-journal", ".lock", ".spool-1"))
DOORS = {
    "JSON": Door("in/@", "edgevox", "JSONMemoryStore|JSONSessionStore", named=True),  # first, for it waits the longest
    "profile": Door("home/edgemem.toml", "profile", LOOKS, steers=True), "notes": Door("home/NOTES.md", "notes", LOOKS, steers=True),
    "prompt": Door("home/bank/PROMPT.md", "notes", "talk|check|inspect prompt tea", steers=True),
    "bank": Door("home/bank/household/MEMORY.md home/bank/shared/a.md home/bank/ann/t/b.md", "notes", LOOKS),
    "hook": Door("home/hooks/own.py", "hook", "talk|check|facts", steers=True),
    "hooks/": Door("home/hooks", "hook", "talk|check|facts", steers=True), "truth": Door("home/db/memory.db", "truth", LOOKS),
    "beside": Door(f"{BESIDE} home/db/home.json home/db/home.lock home/db/turn.json home/db/failures.json", "edgevox", LOOKS),
    "index": Door("home/db/index.db home/db/index.db-wal home/db/index.db.lock", "index", LOOKS),
    "models": Door("home/models/own.gguf home/models/own.gguf.pin home/db/state-1.bin", "edgevox", f"models list|{LOOKS}"),
    "backups": Door("home/backups/memory-20260101T000000.000000Z.db", "truth", LOOKS),
    "folders": Door("home/bank home/models home/backups home/db home/bank/household", "notes", LOOKS),
    "import": Door("in/@", "export", "import", named=True), "edgevox": Door("in/@", "edgevox", "import edgevox", named=True),
    "edgevox/": Door("named/@ named/sessions/@ named/x.db-wal", "edgevox", "import edgevox named"),
    "swarmline": Door("in/@", "swarmline", "import swarmline", named=True),
    "swarmline/": Door("named/@ named/ann/t/memory/@ named/ann named/x.db-wal", "swarmline", "import swarmline named"),
    "restore": Door("in/@", "truth", "restore --yes", named=True), "replay": Door("in/@", "script", "replay", named=True),
    "backup to": Door("in/@", "truth", "backup"), "export to": Door("in/@", "export", "export"),
    "Python": Door("in/@", "truth", "SQLiteMemoryStore|SQLiteSessionStore", named=True),
}  # fmt: skip
