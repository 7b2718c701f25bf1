"""Hostile: files that strangers left, of each kind at each door, and role markers of each family through each door to the prompt."""

from __future__ import annotations

import ctypes
import faulthandler
import io
import logging
import os
import resource
import shutil
import signal
import stat
import sys
import time
import unicodedata
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager, redirect_stdout
from multiprocessing import get_context
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import msgspec
from click.testing import CliRunner

import edgemem
from edgemem.bench.ground import at_most, report
from edgemem.cli import main
from edgemem.cli.printing import plain
from edgemem.errors import EdgememError, InvalidInputError
from lab.hostile_files import DOORS, LIMITS, MARK, NAMES, Door, Place, kinds, marked, samples
from lab.hostile_markers import stray_markers

FAULTS = ("hangs", "reads outside", "writes outside", "tracebacks", "answers of no one sentence")
WORK_S, WAIT_S, DEAD_S = 5, 20, 60
"""Seconds of its own work, and of waiting beside others' work, after which a case hangs; after which its process is ended."""
MEMORY = 3 << 30
NAME = "\x1b[31m\x1b[1medgemem:\x1b[0m"
Case = tuple[str, int, str, str]
"""A kind, the number of its variant, a fault or nothing, and how it showed."""


class Hang(BaseException):
    """A case that took too long; no handler of ours may take it for an error."""


class Runner(CliRunner):
    """Lets go of what was printed; click keeps each stream that it ever saw, with gigabytes after some thousand cases."""

    @contextmanager
    def isolation(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        with super().isolation(*args, **kwargs) as streams:
            yield streams
        for stream in streams:
            stream.truncate(0)


def run(*, variants: int = 200, door: str = "", processes: int = 2, markers: bool = True) -> dict[str, Any]:
    """Count hangs, reads and writes outside, tracebacks and long answers at hostile files, and role markers in a prompt; needs root."""
    if os.geteuid():
        raise InvalidInputError("Only root can make files of others; run it as root, in a container.")
    doors = [name for name in DOORS if not door or name in door.split(",")]
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with (
        TemporaryDirectory(prefix="lab-", dir=place) as folder,
        ProcessPoolExecutor(processes, get_context("spawn")) as pool,
    ):
        played = {
            pool.submit(play, name, variants, Path(folder, f"{n}")): name for n, name in enumerate(doors)
        }
        cases: list[tuple[str, str, int, str, str]] = []
        for future in as_completed(played):
            name, door_cases = played[future], future.result()
            cases += [(name, *case) for case in door_cases]
            faults = [case for case in door_cases if case[2]]
            print(f"{name}: {variants} of each kind, faults: {faults[:9]}", file=sys.stderr, flush=True)
    sums = Counter(what for *_, what, _ in cases)
    cells = {kind: dict.fromkeys(doors, 0) for _, kind, *_ in cases}
    for name, kind, _, what, _ in cases:
        cells[kind][name] += bool(what)
    figures = {
        "cases": sums[""],
        **{fault: sums[fault] for fault in FAULTS},
        **(stray_markers() if markers else {}),
    }
    first = [f"{what}: {kind} at {name}, {n}: {shown}" for name, kind, n, what, shown in cases if what][:40]
    bars = {name: at_most(figures[name], 0) for name in (*FAULTS, "markers unfenced") if name in figures}
    table = {kind: " ".join(map(str, row.values())) for kind, row in cells.items()}
    made = report("hostile", {"faults at": " ".join(doors), "of": table, **figures, "first": first}, bars)
    if not made["ok"]:
        sys.exit(msgspec.json.format(msgspec.json.encode(made)).decode())
    return made


def play(door: str, variants: int, folder: Path) -> list[Case]:
    """Play the cases of a door."""
    logging.disable(logging.CRITICAL)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    os.environ |= {"EDGEMEM_CACHE": str(folder), "EDGEMEM_MODELS": str(folder), "HOME": str(folder)}
    signal.signal(signal.SIGALRM, _hang)
    signal.signal(signal.SIGPROF, _hang)
    folder.mkdir()
    good = samples(folder / "home")
    cases: list[Case] = []
    for kind, make in kinds(good["truth"]).items():
        for n in range(variants):
            place = _prepare(folder, DOORS[door], good, Random(f"{kind} {door} {n}"))
            make(place)
            cases += [(kind, n, "", ""), *((kind, n, *fault) for fault in _faults(DOORS[door], place, kind))]
    return cases


def _hang(*_: object) -> NoReturn:
    raise Hang


def _prepare(folder: Path, door: Door, good: dict[str, bytes], rng: Random) -> Place:
    case = folder / "case"
    shutil.rmtree(case, ignore_errors=True)
    shutil.copytree(folder / "home", case / "home")
    files = {
        "home/edgemem.toml": "profile",
        "home/hooks/own.py": "hook",
        "home/bank/household/MEMORY.md": "notes",
    }
    at = rng.choice(door.places.split(" ")).replace("@", rng.choice(NAMES))
    files |= {"named/fine.json": "edgevox"} if at.startswith("named") else {}
    for name, sample in files.items():
        (case / name).parent.mkdir(parents=True, exist_ok=True)
        (case / name).write_bytes(good[sample])
    (case / "outside" / "folder").mkdir(parents=True)
    for name in ("secret", "good", "folder/own.py", "folder/MEMORY.md", "folder/memory.db", "folder/x.json"):
        (case / "outside" / name).write_bytes(
            MARK.encode() if name == "secret" else marked(good[door.sample])
        )
    path = case / at
    path.parent.mkdir(parents=True, exist_ok=True)
    is_folder = path.is_dir()
    shutil.rmtree(path) if is_folder else path.unlink(missing_ok=True)
    return Place(path, good[door.sample], case / "outside", rng, is_folder, door.steers)


def _faults(door: Door, place: Place, kind: str) -> Iterator[tuple[str, str]]:
    """Yield what goes wrong when something looks at a place, and how it shows."""
    case, before, looks = place.outside.parent, _state(place.outside), door.looks.split("|")
    for look in place.rng.sample(looks, min(len(looks), place.rng.choice([1, 1, 1, 2]))):
        begun, code, printed, error = time.process_time(), 0, "", ""
        faulthandler.dump_traceback_later(DEAD_S, exit=True)
        signal.setitimer(signal.ITIMER_REAL, WAIT_S)
        signal.setitimer(signal.ITIMER_PROF, WORK_S)
        try:
            with _rights(all_files=kind != "unreadable" and place.rng.random() < 0.5):
                code, printed, error = _look(look, case, place.path)
        except Hang:
            begun = -WORK_S
        except BaseException as fault:  # noqa: BLE001 - that is what is counted
            yield "tracebacks", f"{look}: {fault!r:.300}"
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.setitimer(signal.ITIMER_PROF, 0)
            faulthandler.cancel_dump_traceback_later()
        if time.process_time() - begun > WORK_S:
            yield "hangs", look
        text = printed + error
        steering = {
            c for c in (error if look == "export" else text) if unicodedata.category(c) in ("Cc", "Cs")
        } - {*"\n\t"}
        lines = error.splitlines()
        told = look in ("check", "replay") or (len(lines) == 1 and lines[0].startswith("edgemem: "))
        if "Traceback" in text or "fault of edgemem" in text:
            yield "tracebacks", f"{look}: {text[-300:]!r}"
        elif (code in (1, 2) and not told) or code not in (0, 1, 2, 3) or "[Errno" in text or steering:
            yield "answers of no one sentence", f"{look}: {code} {text[-300:]!r}"
        if not (door.named and kind.startswith("link")) and (
            MARK in text or _holds_mark(case / "home", place.path)
        ):
            yield "reads outside", f"{look}: {text[-200:]!r}"
        if (now := _state(place.outside)) != before:
            yield "writes outside", f"{look}: {now ^ before}"
            before = now


def _look(look: str, case: Path, path: Path) -> tuple[int, str, str]:
    """Return the exit code of a command, or of what a program does, with what it prints."""
    if look == "talk" or look[0].isupper():
        with redirect_stdout(io.StringIO()) as out:
            try:
                _talk(case / "home") if look == "talk" else _open(look, path)
            except EdgememError as error:
                return 1, plain(out.getvalue()), f"edgemem: {plain(str(error))}\n"
        return 0, plain(out.getvalue()), ""
    words = [str(case / word) if word == "named" else word for word in look.split()]
    named = [str(path)] if path.parent.name == "in" else []
    result = Runner().invoke(main, [*words, *named, "--home", str(case / "home")], color=True)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr.replace(NAME, "edgemem:")


def _talk(home: Path) -> None:
    with edgemem.open(home, worker=False, watch=False) as memory:
        with memory.session("evening").turn("What tea is there?", speaker="ann") as turn:
            print(turn.messages)
            turn.reply("Yes.")
        memory.idle(1)
        print(memory.recall("tea", speaker="ann"))


def _open(name: str, path: Path) -> None:
    stores = (
        edgemem.SQLiteMemoryStore,
        edgemem.SQLiteSessionStore,
        edgemem.JSONMemoryStore,
        edgemem.JSONSessionStore,
    )
    with {store.__name__: store for store in stores}[name](path) as store:
        if isinstance(store, (edgemem.SQLiteSessionStore, edgemem.JSONSessionStore)):
            print(store.list_ids(), store.load("x"))
        else:
            store.add_fact("k", "v")
            print(store.facts())


def _state(folder: Path) -> set[tuple[object, ...]]:
    """Return what is in a folder of others: names, rights, bytes."""
    places = [folder, *folder.rglob("*")]
    return {(str(at), at.lstat().st_mode, at.read_bytes() if at.is_file() else b"") for at in places}


def _holds_mark(home: Path, hostile: Path) -> bool:
    """Tell whether bytes of outside came into the home, but in the hostile file itself."""
    paths = (Path(folder, name) for folder, _, names in os.walk(home) for name in names)
    ours = ((path, path.lstat()) for path in paths if path != hostile and hostile not in path.parents)
    small = (path for path, status in ours if stat.S_ISREG(status.st_mode) and status.st_size < LIMITS[-2])
    return any(MARK.encode() in path.read_bytes() for path in small)


@contextmanager
def _rights(*, all_files: bool) -> Iterator[None]:
    """Take from root for a while what lets it read any file (DAC_OVERRIDE and DAC_READ_SEARCH)."""
    libc, header, held = ctypes.CDLL(None), (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    libc.capget(header, held)
    libc.capset(header, (ctypes.c_uint32 * 6)(held[0] & (~0 if all_files else ~6), *held[1:]))
    try:
        yield
    finally:
        libc.capset(header, held)
