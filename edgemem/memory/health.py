"""Health: what works in this home on this machine, and what to do about the rest."""

from __future__ import annotations

import logging
import os
import re
import shlex
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence, Sized
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Literal

from edgemem.clock import span
from edgemem.context.compaction.model import ModelSummarizer, SummaryCounts
from edgemem.errors import ClosedError, ReplacedError, ServerError, StoreError, TemplateError, count
from edgemem.llama.models.catalog import MULTILINGUAL, find_entry
from edgemem.llama.protocols import model_file
from edgemem.llama.server.chat import HttpSide, find_no_slot
from edgemem.llama.state import headers_in
from edgemem.llama.template.append_only import appends_only
from edgemem.recall.text.analyse import language_in
from edgemem.records import Check
from edgemem.scopes import meant_by
from edgemem.session.prompt import WINDOW
from edgemem.session.stored import TURNS_WAIT
from edgemem.store.backups import backup_paths
from edgemem.store.db.connection import foreign_parts, vec0_version
from edgemem.store.db.wal import stamp_of
from edgemem.store.kinds import TRUTH
from edgemem.store.stray_scopes import stray_scopes
from edgemem.store.turns import count_reasons

if TYPE_CHECKING:
    from edgemem.llama.protocols import Tokenizer
    from edgemem.memory.opened import Home

    Finding = tuple[Literal["ok", "warn", "fail"], str, str]

_log = logging.getLogger(__name__)

_LISTED = 20
_VOICE = re.compile(r"(?:[^\W\d_]+[ _-])?\d+")  # a number, or of the form of speaker_3
_CONTESTED = "select key from contested union select source_id from stored_edges where type = 'CONTESTED_BY' order by 1"
_HEARD, _FEWEST = 200, 20  # of the newest messages, those whose language is told, and the fewest that tell it
SPARE_MB = 200  # below this much free space a robot that logs and learns will soon stop doing so


def _ok(detail: str) -> Finding:
    return "ok", detail, ""


def _warn(detail: str, advice: str) -> Finding:
    return "warn", detail, advice


def _fail(detail: str, advice: str) -> Finding:
    return "fail", detail, advice


def _database(home: Home) -> Finding:
    database = home.database
    try:
        database.check_files()
    except ReplacedError as error:
        return _fail(str(error), "Then see whether it is all there: edgemem check")
    except StoreError as error:
        # Somebody else writes, or the disk refuses: what can be read is told all the same.
        _log.info("The files of the database could not be compared: %s", error)
    version = str(database.query("select sqlite_version()")[0][0])
    wrong = database.quick_check()
    size = sum(path.stat().st_size for path in (home.path / "db").iterdir() if path.is_file()) / 1e6
    if wrong:
        newest = home.backups.newest()
        save = f"save what can be read with `sqlite3 {database.path} .recover`"
        advice = "Stop the robot: edgemem restore" if newest else f"Stop the robot and {save}."
        return _fail(f"SQLite {version} finds damage: {wrong[0]}", advice)
    if foreign := foreign_parts(database.query, TRUTH):
        advice = "Look at it with sqlite3 and drop it: no backup that holds it is put back."
        return _warn(f"not as edgemem makes it: {', '.join(foreign[:_LISTED])}", advice)
    return _ok(f"SQLite {version}, WAL, {size:.1f} MB on disk, no damage found")


def _turns(home: Home) -> Finding:
    journal = home.sessions.journal
    backlogs = (journal.backlog(), journal.backlog_of_others())
    backlog = max(backlogs, key=lambda backlog: (backlog.unkept, backlog.turns))
    if backlog.unkept:
        advice = "Free some space, or let the database go, before the program that has them ends: they are written then."
        return _warn(str(backlog), advice)
    if backlog.turns:
        return _warn(str(backlog), "They are tried again by themselves; nothing is lost.")
    return _ok("none")


def _backups(home: Home) -> Finding:
    every_h, newest = home.profile.backup.every_h, home.backups.newest()
    idle = "Leave the robot idle for a minute; if it stays, see `upkeep`."
    try:
        home.backups.check_folder()
    except StoreError as error:
        return _warn(str(error), "Until then none is made.")
    if newest is None and not every_h:
        return _warn("switched off ([backup] every_h)", "edgemem backup makes one by hand.")
    newest_at = home.database.created_at() if newest is None else stamp_of(newest)
    hours = home.database.now() / 3600 - newest_at / 3.6e9
    if newest is None:
        if hours < every_h:
            return _ok("none yet; one is made when nobody speaks")
        return _warn(f"there is none, and the memory is {span(hours * 3600)} old", idle)
    count = len(home.backups.own())
    others = len(backup_paths(home.backups.folder)) - count
    detail = (
        f"{count} kept, the newest is {span(hours * 3600)} old and was good when it was made: {newest.name}"
    )
    if others:
        detail += f"; {others} of another memory, or damaged, stay until you remove them"
    if every_h and home.database.last_tick() > newest_at and hours > 2 * every_h:
        return _warn(detail, idle)
    return _ok(detail)


def _erasing(home: Home) -> Finding:
    pending = home.eraser.pending()
    if not pending:
        return _ok("what was forgotten is gone from every file")
    files = "; ".join(
        f"{', '.join(name for name, reason in pending.items() if reason == why)} ({why})"
        for why in dict.fromkeys(pending.values())
    )
    return _warn(
        f"what was forgotten may still stand in {files}; nobody recalls it",
        "It goes by itself when nobody speaks. If it stays, end other programs that read these files.",
    )


def _losses(home: Home) -> Finding:
    """Report losses until somebody acknowledges them, and files put aside."""
    losses, sentences = home.truth.losses(), []
    if losses:
        newest = losses[-1]
        if newest.backup:
            what = f"{newest.backup} was put back, what was learnt after {_moment(newest.until)} is lost"
        elif newest.until:
            what = "there was no good backup of the one before, so it was taken as it is"
        else:
            what = "there was no good backup, so the memory began empty"
        sentences.append(f"{_moment(newest.at)}: {newest.fault.rstrip('.')}; {what}{_more(losses)}")
    if aside := home.truth.aside():
        files = f"{', '.join(path.name for path in aside)} in {home.truth.folder}"
        sentences.append(
            f"{files} was put aside, and keeps what is forgotten; delete it when it is not needed"
        )
    detail = "; ".join(sentences)
    if losses:
        return _warn(detail, "When you have seen this: edgemem check --acknowledge")
    return _ok(detail or "none")


def _more(rows: Sized) -> str:
    return f" (and {len(rows) - 1} more)" if len(rows) > 1 else ""


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


def _names(home: Home) -> Finding:
    stray = stray_scopes(home.database)
    voices = [
        name for (name,) in home.database.query("select distinct name from names") if _VOICE.fullmatch(name)
    ]
    if voices and not stray:
        more = f" and {len(voices) - _LISTED} more" if len(voices) > _LISTED else ""
        return _warn(
            f"voices that have no name yet: {', '.join(voices[:_LISTED])}{more}",
            f"Say who it is: edgemem people rename {shlex.quote(voices[0])} NAME, or merge where NAME is known already.",
        )
    if not stray:
        return _ok("every scope has a known form, and every voice a name")
    listed = ", ".join(f"{row.scope} ({row.facts + row.preferences})" for row in stray[:_LISTED])
    more = f" and {len(stray) - _LISTED} more" if len(stray) > _LISTED else ""
    first = stray[0].scope
    return _warn(
        f"scopes of unknown forms, which the operator alone reads: {listed}{more}",
        f"Move what stands there: edgemem facts move {shlex.quote(first)} {shlex.quote(meant_by(first) or 'user:NAME')}",
    )


def _contested(home: Home) -> Finding:
    names = [name for (name,) in home.database.query(_CONTESTED)]
    if not names:
        return _ok("nothing is contested")
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return _warn(
        f"{count(len(names), 'memory')} contested: {', '.join(names[:_LISTED])}{more}",
        f"See by what: edgemem why {shlex.quote(names[0])}. It is settled when somebody of trust says which is right.",
    )


def _vectors(_home: Home) -> Finding:
    version = vec0_version()
    return _ok(f"sqlite-vec {version}" if version else "sqlite-vec cannot be loaded; only labs need it")


def _index(home: Home) -> Finding:
    if home.index_fault and not home.database.read_only:
        detail = f"{home.index_fault.rstrip('.')}; until then it is made in memory at each start"
        return _warn(detail, "Move away what stands there, or mend its rights, and restart.")
    return _ok(home.index_fault or "in its file")


def _embedder(home: Home) -> Finding:
    name = home.profile.llama.embedder
    advice = "Name another in edgemem.toml under [llama] embedder."
    if name and find_entry(name) is not None:
        advice = f"edgemem models get {name}"
    if home.embedder_fault:
        return _fail(home.embedder_fault, advice)
    if home.embedder is None:
        return _warn(f"{name or 'none'}: not here; recall goes by words alone", advice)
    path = model_file(home.embedder)
    if path is not None and not path.is_file():
        words = f"{path} is gone; without it recall goes by words alone, and its vectors are kept until it is back"
        return _warn(words, advice)
    detail = f"{name}, {home.embedder.dimensions} dimensions, {home.profile.llama.embed_threads} thread"
    waiting = home.index.pending()["vectors"]
    if waiting:
        detail += (
            f"; waiting for vectors: {count(waiting, 'text')}, found by words until idle time has made them"
        )
    if foreign := _foreign_language(home, home.embedder.languages):
        return _warn(
            f"{detail}; most of the newest messages are in a language that it does not know ({foreign})",
            f'Type: edgemem models get {MULTILINGUAL}. Then write embedder = "{MULTILINGUAL}" under [llama] of edgemem.toml.',
        )
    return _ok(detail)


def _foreign_language(home: Home, known: Sequence[str]) -> str:
    """Return the language, none of those known, that most of the newest messages are in; none known: many are."""
    sql = "select content from messages where role = 'user' and content is not null and dropped is null order by id desc limit ?"
    texts = [text for (text,) in home.database.query(sql, (_HEARD,))] if known else []
    (language, times), *_ = Counter(map(language_in, texts)).most_common(1) or [("", 0)]
    return language if language not in known and 2 * times > len(texts) >= _FEWEST else ""


def _disk(home: Home) -> Finding:
    if home.database.read_only:
        detail = f"{home.database.path} is read-only: what is there can be read, nothing more is stored"
        advice = (
            "Mount it read-write, or mend its rights, and restart; edgemem backup DISK saves what is there."
        )
        return _fail(detail, advice)
    if not os.access(home.path, os.W_OK):
        return _fail(f"{home.path} cannot be written", "Mount it read-write, or mend its rights.")
    free = shutil.disk_usage(home.path).free / 1e6
    if free < SPARE_MB:
        return _warn(f"{free:.0f} MB free", "Free some space; what is stored is safe.")
    return _ok(f"{free / 1e3:.1f} GB free at {home.path}")


def _clock(home: Home) -> Finding:
    trust, zone = home.clock.trust(), home.profile.time.zone
    if trust.trusted and not zone and time.timezone == 0 and not time.daylight:
        return _warn(
            "the machine is in UTC, and so the days of the household begin at midnight there",
            'Write [time] zone = "Europe/Berlin", or where the household lives; "UTC" where that is right.',
        )
    if trust.trusted:
        return _ok(trust.reason)
    return _warn(trust.reason, "Let the clock be set (NTP or an RTC); the order of memories is right anyway.")


def _upkeep(home: Home) -> Finding:
    failures = home.upkeep.failures()
    if failures:
        worst = failures[0]
        often = "" if worst.times == 1 else f" {worst.times} times"
        return _warn(f"{worst.step} failed{often}: {worst.message}", "See the log.")
    waiting = [count(n, name.removesuffix("s")) for name, n in home.search.pending().items() if n]
    words = f"waiting for idle time: {', '.join(waiting)}; words find them until then"
    return _ok(words if waiting else "nothing left to do")


def _bank(home: Home) -> Finding:
    if faults := home.bank.faults():
        advice = "What is beyond the bytes of a file is not recalled; shorten or delete files, or raise `limits` under [bank]."
        return _warn(f"{faults[0]}{_more(faults)}", advice)
    files = home.bank.files()
    return _ok(f"{count(len(files), 'file')}, {sum(file.size for file in files) / 1e3:,.1f} kB")


def _files(home: Home) -> Finding:
    if problems := home.reload.problems:
        problem = next(iter(problems.values()))
        return _warn(f"{problem}{_more(problems)}", "Mend the file; it is read again by itself.")
    if unread := home.reload.unread():
        return _warn(f"{unread[0]}{_more(unread)}", "Until then edgemem does without, or trusts the group.")
    if 0 < home.notes.max_size_chars < len(home.notes.read()):
        words = f"{home.notes.path} is longer than its bound, and only its end is recalled"
        return _warn(words, "The next note cuts it, and keeps a copy; put the rest into the bank.")
    if fault := home.reload.fault:
        return _warn(fault, "Until then files are looked at every few seconds.")
    if note := home.reload.restart_note():
        return _warn(note, "Restart edgemem when it suits.")
    return _ok("changes of the profile, notes and hooks are picked up while running")


def _hooks(home: Home) -> Finding:
    failures = [failure for failure in home.failures.read() if failure.hook != WINDOW]
    journal = home.sessions.journal
    if not journal.backlog().turns and not journal.backlog_of_others().turns:
        failures = [failure for failure in failures if TURNS_WAIT not in failure.message]
    if not failures:
        return _ok("no failure on record")
    worst = max(failures, key=lambda failure: failure.count)
    often = "once" if worst.count == 1 else f"at least {worst.count} times"
    return _warn(
        f"{worst.hook} failed at {worst.point}, {often}: {worst.message}{_more(failures)}",
        f"Replies went on without it. When it is mended, delete {home.failures.path}.",
    )


def _tokenizer(home: Home) -> Finding:
    """Tell what the chat templates in use cost: that of the memory's own tokenizer, and those of the models of its sessions."""
    own = [home.tokenizer] if home.tokenizer.exact else []
    using = [budget.tokenizer for budget in list(home.in_use.budgets) if budget.tokenizer.exact]
    costs = dict(filter(None, map(_append_only, [*own, *using])))
    if not costs:
        return _ok(
            "none of its own: counts are exact where a chat model lends its tokenizer, and estimates elsewhere"
        )
    detail = "; ".join(costs)
    if any(costs.values()):
        return _warn(detail, "Replies are right, only later; pass another chat template if that is too slow.")
    return _ok(detail)


def _append_only(tokenizer: Tokenizer) -> tuple[str, bool] | None:
    """Return what a chat template costs, and whether it costs anything; None where its model was closed meanwhile."""
    try:
        tokenizer.count([{"role": "user", "content": "Hello."}])
        appends, when = appends_only(tokenizer)
    except TemplateError as error:
        return str(error), True
    except ClosedError:
        return None
    except ServerError as error:
        return f"exact; its chat template could not be looked at: {str(error).rstrip('.')}", False
    rewrites = f"the chat template renders earlier messages differently {when}"
    if not appends:
        return f"{rewrites}: what changes is read again each turn", True
    if when:
        return f"exact; {rewrites}, and is kept from it", False
    return "exact; the chat template only appends", False


def _window(home: Home) -> Finding:
    context = home.profile.context
    overflows = [failure for failure in home.failures.read() if failure.hook == WINDOW]
    if overflows:
        often = "" if overflows[0].count == 1 else f", at least {overflows[0].count} times"
        advice = (
            "Give the hooks the model (`hooks(model=…)`), or name its window under [context] window_tokens; then delete "
            f"{home.failures.path}."
        )
        return _warn(f"a prompt did not fit{often}: {overflows[0].message}", advice)
    known = {budget.window_tokens: budget for budget in list(home.in_use.budgets)}
    too_small = next(filter(None, (budget.head_fault() for budget in known.values())), "")
    if too_small:
        advice = "Until then every part of a prompt has less than its least."
        return _fail(too_small, advice)
    window = min(known, default=context.window_tokens)
    if window < context.window_tokens:
        return _warn(
            f"the model's has {window:,} tokens and the profile says {context.window_tokens:,}: the model's counts",
            f"Set window_tokens = {window} under [context], or open the model with a larger n_ctx (its server: -c).",
        )
    models = [budget.model_window for budget in known.values() if budget.model_window]
    whose = f"; the model's has {max(models):,}" if models else ""
    return _ok(f"{window:,} tokens, as the profile says{whose}")


def _state(home: Home) -> Finding:
    here = home.in_use.kept_states()
    for kept in here:
        if kept.off:
            return _warn(f"nothing is kept: {kept.off}", "A restart evaluates the whole prompt.")
    if home.profile.chat.keep_state == "off":
        return _ok("switched off ([chat] keep_state)")
    what = {"prefix": "instructions and tools", "whole": "the whole conversation"}
    states = [
        f"{what[header.kind]} of {header.name}: {len(header.ids):,} tokens, {path.stat().st_size / 1e6:.1f} MB,"
        f" {span(home.database.now() - header.at)} old"
        for path, header in headers_in(home.path / "db")
    ]
    faults = [kept.fault for kept in here if kept.fault]
    if faults:
        advice = "The prompt is evaluated anew; the state is kept again by itself."
        return _warn("; ".join([*faults, *states]), advice)
    return _ok("; ".join(states) or "none yet; a chat model in this process writes it after a turn")


def _compaction(home: Home) -> Finding:
    settings = home.profile.compaction
    writer, slotless = _writer(home)
    counts = SummaryCounts.from_reasons(count_reasons(home.database))
    detail = "; ".join(filter(None, (writer, counts.as_text())))
    if slotless:
        return _warn(detail, 'Or set summarizer = "extractive" under [compaction].')
    if settings.summarizer == "model" and counts.poor:
        advice = 'Take a larger chat model, or set summarizer = "extractive" under [compaction], which costs nothing.'
        return _warn(detail, advice)
    return _ok(detail)


def _writer(home: Home) -> tuple[str, str]:
    """Return how summaries are made, and why the chat model does not write them although the profile says so."""
    settings, chat = home.profile.compaction, home.profile.chat
    extractive, why = "summaries are made of sentences that were said", ""
    if settings.summarizer == "extractive":
        return extractive, ""
    remote = bool(chat.server)
    used = [compaction.planner.summarizer for compaction in list(home.in_use.compactions)]
    if used:  # what the sessions of this process really have
        writers = [summarizer.model for summarizer in used if isinstance(summarizer, ModelSummarizer)]
        remote = any(isinstance(model, HttpSide) for model in writers)
        if not writers:
            why = (chat.server and find_no_slot(chat)) or (
                "no session has a chat model that could write them; give the hooks one (`hooks(model=…)`), in this process"
                " or with a second slot of its server (-np 2)"
            )
    elif remote:
        why = find_no_slot(chat)
    if why:
        return f"{extractive}: {why}", why
    here = f"in a second context of {settings.summary_ctx:,} tokens"
    return f"the chat model writes summaries {'in another slot of its server' if remote else here}", ""


CHECKS: dict[str, Callable[[Home], Finding]] = {
    "database": _database, "unwritten turns": _turns, "backups": _backups, "erasing": _erasing, "lost data": _losses,
    "people": _names, "contested": _contested, "index": _index, "vectors": _vectors, "embedder": _embedder, "tokenizer": _tokenizer,
    "window": _window, "kept state": _state, "compaction": _compaction, "disk": _disk, "clock": _clock,
    "upkeep": _upkeep, "hot reload": _files, "bank": _bank, "hooks": _hooks,
}  # fmt: skip


def check(home: Home) -> list[Check]:
    """Look at every part of an open home."""
    return [Check(name, *look(home)) for name, look in CHECKS.items()]
