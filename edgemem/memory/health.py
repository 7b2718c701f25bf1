"""Health: what works in this home on this machine, and what to do about the rest; `model_health` looks at models."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from edgemem.config.faults import removed_note
from edgemem.config.profile import removed_keys
from edgemem.errors import ReplacedError, StoreError
from edgemem.hooks.persist import TURNS_WAIT
from edgemem.hooks.prompt import WINDOW
from edgemem.llama.models.catalog import find_entry
from edgemem.llama.protocols import model_file
from edgemem.memory.model_health import (
    age_of,
    check_compaction,
    check_state,
    check_tokenizer,
    check_window,
    ok,
    warn,
)
from edgemem.memory.watch import fault_of_watching
from edgemem.recall.rank.rerank import MOST as RERANK_MOST
from edgemem.records import Check
from edgemem.scopes import meant_by
from edgemem.store.backups import backup_paths
from edgemem.store.db.wal import stamp_of
from edgemem.store.spellings import joined_names, stray_scopes

if TYPE_CHECKING:
    from collections.abc import Sized

    from edgemem.llama.protocols import Embedder, Reranker
    from edgemem.memory.opened import OpenHome

_log = logging.getLogger(__name__)

_LISTED = 20
"""Scopes that are named; of more, their number is told."""
SPARE_MB = 200
"""Below this much free space a robot that logs and learns will soon stop doing so."""


def check(memory: OpenHome) -> list[Check]:
    """Look at everything that edgemem stands on."""
    return [
        _database(memory),
        _turns(memory),
        _backups(memory),
        _erasing(memory),
        _losses(memory),
        _names(memory),
        _index(memory),
        _vectors(memory),
        _embedder(memory),
        _reranker(memory),
        check_tokenizer(memory),
        check_window(memory),
        check_state(memory),
        check_compaction(memory),
        _disk(memory),
        _clock(memory),
        _upkeep(memory),
        _files(memory),
        _profile(memory),
        _hooks(memory),
    ]


def _database(memory: OpenHome) -> Check:
    database = memory.database
    try:
        database.check_files()
    except ReplacedError as error:
        return Check("database", "fail", str(error), "Then see whether it is all there: edgemem check")
    except StoreError as error:
        # Somebody else writes, or the disk refuses: what can be read is told all the same.
        _log.info("The files of the database could not be compared: %s", error)
    version = str(database.query("select sqlite_version()")[0][0])
    wrong = database.quick_check()
    size = sum(path.stat().st_size for path in (memory.home / "db").iterdir() if path.is_file()) / 1e6
    if wrong:
        newest = memory.backups.newest()
        save = f"save what can be read with `sqlite3 {database.path} .recover`"
        advice = "Stop the robot: edgemem restore" if newest else f"Stop the robot and {save}."
        return Check("database", "fail", f"SQLite {version} finds damage: {wrong[0]}", advice)
    return ok("database", f"SQLite {version}, WAL, {size:.1f} MB on disk, no damage found")


def _turns(memory: OpenHome) -> Check:
    journal = memory.sessions.journal
    backlogs = (journal.backlog(), journal.backlog_of_others())
    backlog = max(backlogs, key=lambda backlog: (backlog.unkept, backlog.turns))
    if backlog.unkept:
        advice = "Free some space, or let the database go, before the program that has them ends: they are written then."
        return warn("turns", str(backlog), advice)
    if backlog.turns:
        return warn("turns", str(backlog), "They are tried again by themselves; nothing is lost.")
    return ok("turns", "all are written")


def _backups(memory: OpenHome) -> Check:
    every_h, newest = memory.profile.backup.every_h, memory.backups.newest()
    idle = "Leave the robot idle for a minute; if it stays, see `upkeep`."
    try:
        memory.backups.check_folder()
    except StoreError as error:
        return warn("backups", str(error), "Until then none is made.")
    if newest is None and not every_h:
        return warn("backups", "switched off ([backup] every_h)", "edgemem backup makes one by hand.")
    newest_at = memory.database.born() if newest is None else stamp_of(newest)
    hours = memory.database.now() / 3600 - newest_at / 3.6e9
    if newest is None:
        if hours < every_h:
            return ok("backups", "none yet; one is made when nobody speaks")
        return warn("backups", f"there is none, and the memory is {age_of(hours)} old", idle)
    count = len(memory.backups.own())
    others = len(backup_paths(memory.backups.folder)) - count
    detail = f"{count} kept, the newest is {age_of(hours)} old and was good when it was made: {newest.name}"
    if others:
        detail += f"; {others} of another memory, or damaged, stay until you remove them"
    if every_h and memory.database.high_water() > newest_at and hours > 2 * every_h:
        return warn("backups", detail, idle)
    return ok("backups", detail)


def _erasing(memory: OpenHome) -> Check:
    pending = memory.erasing()
    if not pending:
        return ok("erasing", "what was forgotten is gone from every file")
    files = "; ".join(
        f"{', '.join(name for name, reason in pending.items() if reason == why)} ({why})"
        for why in dict.fromkeys(pending.values())
    )
    return warn(
        "erasing",
        f"what was forgotten may still stand in {files}; nobody recalls it",
        "It goes by itself when nobody speaks. If it stays, end other programs that read these files.",
    )


def _losses(memory: OpenHome) -> Check:
    """Tell what was lost while nobody stood beside, until somebody says that they have seen it; and what lies aside."""
    losses, sentences = memory.truth.losses(), []
    if losses:
        newest = losses[-1]
        if newest.backup:
            what = f"{newest.backup} was put back, what was learnt after {_moment(newest.until)} is lost"
        elif newest.until:
            what = "there was no good backup of the one before, so it was taken as it is"
        else:
            what = "there was no good backup, so the memory began empty"
        sentences.append(f"{_moment(newest.at)}: {newest.fault.rstrip('.')}; {what}{_more(losses)}")
    if aside := memory.truth.aside():
        files = f"{', '.join(path.name for path in aside)} in {memory.truth.folder}"
        sentences.append(
            f"{files} was put aside, and keeps what is forgotten; delete it when it is not needed"
        )
    detail = "; ".join(sentences)
    if losses:
        return warn("losses", detail, "When you have seen this: edgemem check --acknowledge")
    return ok("losses", detail or "none")


def _more(rows: Sized) -> str:
    """Return how many there are beside the one that is told."""
    return f" (and {len(rows) - 1} more)" if len(rows) > 1 else ""


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


def _names(memory: OpenHome) -> Check:
    """Tell which scopes nobody but the operator reads, and which names became one person's."""
    stray, joined = stray_scopes(memory.database), joined_names(memory.database)
    sentences = [f"{pair.other} and {pair.kept} were written as two people, and are one" for pair in joined]
    if not stray:
        return ok("names", "; ".join(sentences) or "every scope has a known form")
    listed = ", ".join(f"{row.scope} ({row.facts + row.preferences})" for row in stray[:_LISTED])
    more = f" and {len(stray) - _LISTED} more" if len(stray) > _LISTED else ""
    first = stray[0].scope
    return warn(
        "names",
        "; ".join([f"scopes of unknown forms, which the operator alone reads: {listed}{more}", *sentences]),
        f"Move what stands there: edgemem facts move {shlex.quote(first)} {shlex.quote(meant_by(first) or 'user:NAME')}",
    )


def _vectors(memory: OpenHome) -> Check:
    version = memory.index.vec_version
    if version is None:
        return warn(
            "vectors",
            "sqlite-vec cannot be loaded into this Python's SQLite; searching goes on without it, only slower",
            "Use a Python whose sqlite3 can load extensions, such as the system's.",
        )
    return ok("vectors", f"sqlite-vec {version}")


def _index(memory: OpenHome) -> Check:
    if memory.index_fault and not memory.database.read_only:
        detail = f"{memory.index_fault.rstrip('.')}; until then it is made in memory at each start"
        return warn("index", detail, "Move away what stands there, or mend its rights, and restart.")
    return ok("index", memory.index_fault or "in its file")


def _embedder(memory: OpenHome) -> Check:
    name = memory.profile.llama.embedder
    advice = "Name another in edgemem.toml under [llama] embedder."
    if name and find_entry(name) is not None:
        advice = f"edgemem models get {name}"
    if memory.embedder_fault:
        return Check("embedder", "fail", memory.embedder_fault, advice)
    if memory.embedder is None:
        return warn("embedder", f"{name or 'none'}: not here; recall goes by words alone", advice)
    if gone := _gone(memory.embedder):
        words = f"{gone}; without it recall goes by words alone, and its vectors are kept until it is back"
        return warn("embedder", words, advice)
    detail = f"{name}, {memory.embedder.dimensions} dimensions, {memory.profile.llama.embed_threads} thread"
    waiting = memory.index.pending()["vectors"]
    if waiting:
        detail += f"; {waiting:,} texts wait for their vectors, and are found by their words until idle time has made them"
    return ok("embedder", detail)


def _gone(model: Embedder | Reranker | None) -> str:
    path = model_file(model)
    return f"{path} is gone" if path is not None and not path.is_file() else ""


def _reranker(memory: OpenHome) -> Check:
    settings, last, gone = memory.profile.recall, memory.last_recall(), _gone(memory.reranker)
    fault = memory.reranker_fault or last.rerank_fault
    if fault or gone:
        advice = "Until then the first order stays. Name another in edgemem.toml under [recall] rerank."
        return warn("reranker", fault or f"{gone}; after a restart nothing is read again", advice)
    if memory.reranker is None:
        return ok("reranker", "none ([recall] rerank)")
    name = settings.rerank or "the caller's own"
    detail = f"{name}, reads {RERANK_MOST} at most in {settings.rerank_ms:g} ms"
    if last.reranked or last.rerank_late:
        late = ", and was late for more" if last.rerank_late else ""
        detail += f"; read {last.reranked} in the newest recall, in {last.rerank_ms:.0f} ms{late}"
    return ok("reranker", detail)


def _disk(memory: OpenHome) -> Check:
    if memory.database.read_only:
        detail = f"{memory.database.path} is read-only: what is there can be read, nothing more is stored"
        advice = (
            "Mount it read-write, or mend its rights, and restart; edgemem backup DISK saves what is there."
        )
        return Check("disk", "fail", detail, advice)
    if not os.access(memory.home, os.W_OK):
        return Check(
            "disk", "fail", f"{memory.home} cannot be written", "Mount it read-write, or mend its rights."
        )
    free = shutil.disk_usage(memory.home).free / 1e6
    if free < SPARE_MB:
        return warn("disk", f"{free:.0f} MB free", "Free some space; what is stored is safe.")
    return ok("disk", f"{free / 1e3:.1f} GB free at {memory.home}")


def _clock(memory: OpenHome) -> Check:
    trust = memory.clock.trust()
    if trust.trusted:
        return ok("clock", trust.reason)
    return warn(
        "clock",
        trust.reason,
        "Let the clock be set (NTP or an RTC); the order of memories is right all the same.",
    )


def _upkeep(memory: OpenHome) -> Check:
    failures = memory.diagnostics.idle_failures()
    if failures:
        worst = failures[0]
        often = "" if worst.times == 1 else f" {worst.times} times"
        return warn("upkeep", f"{worst.step} failed{often}: {worst.message}", "See the log.")
    waiting = [f"{count:,} {name}" for name, count in memory.pending().items() if count]
    words = f"{', '.join(waiting)} wait for idle time, and are found by their words until then"
    return ok("upkeep", words if waiting else "nothing left to do")


def _files(memory: OpenHome) -> Check:
    """Look at what was changed by hand while this process runs, and at whether another one would notice."""
    reload = memory.reload
    watcher, problems = reload.watcher, reload.problems
    if problems:
        problem = next(iter(problems.values()))
        return warn("files", f"{problem}{_more(problems)}", "Mend the file; it is read again by itself.")
    if fault := watcher.fault or (fault_of_watching(memory.home) if watcher.state == "waiting" else ""):
        return warn("files", fault, "Until then files are looked at every few seconds.")
    if note := reload.restart_note():
        return warn("files", note, "Restart edgemem when it suits.")
    return ok("files", "changes of the profile, notes, hooks and models are picked up while running")


def _profile(memory: OpenHome) -> Check:
    """Tell which keys of the profile edgemem once had and has no more."""
    source = memory.reload.source
    names = removed_keys(source) if source is not None and source.is_file() else ()
    if source is None or not names:
        return ok("profile", "every key is known")
    detail = f"{', '.join(names)} in {source.name}: edgemem knows that no more, and ignores it"
    return warn("profile", detail, removed_note(names))


def _hooks(memory: OpenHome) -> Check:
    failures = [failure for failure in memory.failures.read() if failure.hook != WINDOW]
    journal = memory.sessions.journal
    if not journal.backlog().turns and not journal.backlog_of_others().turns:
        failures = [failure for failure in failures if TURNS_WAIT not in failure.message]
    if not failures:
        return ok("hooks", "no failure on record")
    worst = max(failures, key=lambda failure: failure.count)
    often = "once" if worst.count == 1 else f"at least {worst.count} times"
    return warn(
        "hooks",
        f"{worst.hook} failed at {worst.point}, {often}: {worst.message}{_more(failures)}",
        f"Replies went on without it. When it is mended, delete {memory.failures.path}.",
    )
