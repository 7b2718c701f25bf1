"""`edgemem facts`, `forget`, `gc`: values of now and of other times, their history; erasing in the truth and every copy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from edgemem.cli import options, printing
from edgemem.cli.printing import answer, counts, moment, plain, print_entries, print_json, shortened
from edgemem.cli.timeline import ASCII, LEGEND, UNICODE, beliefs_of, draw, newest, versions
from edgemem.errors import InvalidInputError, count
from edgemem.fence import check_key, check_session_id
from edgemem.records import Heard
from edgemem.scopes import checked_scope, level_of_scope
from edgemem.store.episodes import text_of_episode
from edgemem.store.facts import items_of
from edgemem.store.rights import written_scope
from edgemem.store.stray_scopes import move_scope

if TYPE_CHECKING:
    from edgemem.cli.printing import Cell
    from edgemem.cli.timeline import Belief
    from edgemem.memory import Memory
    from edgemem.records import Fact, Recalled
    from edgemem.store.db.database import Database

# Shown with each new fact: who meant `user:alice` and wrote `alice` sees it at once.
_READ_BY = {"shared": "anybody", "household": "recognised speakers", "private": "{who} alone"}
_SHOWN = 500  # aged records in a table
_LOOKED_AT = 2000  # keys that a misspelt one is compared with


@click.group(cls=options.Guided, bare="list", single="history")
def facts() -> None:
    """List facts (`facts`), draw the history of one (`facts KEY`), add one or forget one.

    \b
    edgemem facts add alice.allergy hazelnuts --scope user:alice
    edgemem facts add heating.service "twice a year" --valid-from 2024-10-01
    edgemem facts alice.allergy

    Each command has also --home and --json; `edgemem facts add --help` shows the options of one.
    """  # noqa: D301 - click reads the backspace as: do not wrap


@facts.command(name="list", short_help="List the facts that hold, also as of another time.")
@click.option("--scope", help="Only this scope, such as global or user:Mara.")
@click.option("--as-of", type=options.When(), help="What was true at this time.")
@click.option("--known-at", type=options.When(), help="As it was known at this time.")
@options.speaker_option
@options.home_and_json
def list_facts(
    as_of: float | None, known_at: float | None, speaker: str | None, home: Path, as_json: bool, **where: Any
) -> None:
    """List the facts that hold now, or held at another time, or were believed then.

    A time is 2026-11-02 (the end of that day), 2026-11-02T18:30, or seconds since 1970.

    \b
    edgemem facts --as-of 2026-11-02                        true then, as known now
    edgemem facts --as-of 2026-11-02 --known-at 2026-11-03  believed then
    """  # noqa: D301 - click reads the backspace as: do not wrap
    with options.open_existing(home) as memory:
        when = memory.diagnostics.clock.now() if as_of is None else as_of
        entries = memory.store.facts_as_of(
            when, known_at=known_at, reader=options.reader_of(memory, speaker), **where
        )
    if not entries and where["scope"] is not None and not as_json:
        checked_scope(where["scope"])  # an empty list is no answer to a typing error

    def row(fact: Fact) -> tuple[Cell, ...]:
        items = [f"- {shortened(item)}" for item in items_of(fact.json)]
        return fact.key, items or shortened(fact.value), fact.scope, moment(fact.valid_from)

    columns = ("fact", "value", "scope", "since")
    if as_json:
        print_json([_with_json(fact) for fact in entries])
        return
    print_entries(entries, as_json, columns, row, noun="facts", wide=("value",))


@facts.command(short_help="Tell a fact; earlier beliefs stay as history.")
@click.argument("key", shell_complete=options.fact_keys)
@click.argument("words", metavar="VALUE", nargs=-1, required=True)
@click.option(
    "--scope", default="global", show_default=True, help="Whom or what it is about, and who may read it."
)
@click.option("--speaker", help="Who said so.")
@click.option(
    "--valid-from", type=options.Begin(), help="Since when it is true; a date is its beginning.  [now]"
)
@click.option("--valid-to", type=options.When(), help="Until when; a date is its end.  [for ever]")
@click.option("--source", default="command line", show_default=True, help="Where it comes from.")
@options.home_and_json
def add(
    key: str, words: tuple[str, ...], scope: str, speaker: str | None, home: Path, as_json: bool, **rest: Any
) -> None:
    """Tell the fact KEY with its VALUE; the earlier belief about that time stays as history.

    A time is 2026-11-02, 2026-11-02T18:30, or seconds since 1970. A KEY is a path of words, such as alice.allergy. A scope
    is global, env:PLACE for what everybody may hear, household, or user:NAME for what only NAME may read.
    """
    begin, end = rest["valid_from"], rest["valid_to"]
    if begin is not None and end is not None and end <= begin:
        raise InvalidInputError(f"A fact ends after it begins: {moment(end)} is not after {moment(begin)}.")
    value, scope = " ".join(words), checked_scope(scope)
    heard = Heard(speaker=speaker) if speaker else None
    with options.open_home(home) as memory:
        before = memory.store.fact_history(key, scope=scope)
        memory.store.add_fact(key, value, scope=scope, heard=heard, **rest)
        versions = memory.store.fact_history(key, scope=scope)
    newest = versions[-1]
    if as_json:
        print_json(_with_json(newest))
    elif len(versions) == len(before):
        how = " as a doubt" if newest.doubtful and newest.value == value else ""
        click.echo(f"{plain(key)} had that value{how} already; nothing was written.")
    elif newest.doubtful:
        why = newest.disbelieved or "it was heard badly"
        click.echo(f"{plain(key)}: {plain(newest.value)} is not believed: {plain(why)}. It waits as a doubt.")
    else:
        until = f" until {moment(newest.valid_to)}" if newest.valid_to is not None else ""
        click.echo(
            f"{plain(key)}: {plain(newest.value)} ({plain(newest.scope)}), since {moment(newest.valid_from)}{until}; "
            f"read by {_READ_BY[newest.level].format(who=plain(newest.owner or ''))}."
        )


@facts.command(short_help="Draw what was true when, and what was believed when.")
@click.argument("key", shell_complete=options.fact_keys)
@click.option("--scope", help="Only this scope; without it, every scope that has the key.")
@click.option("--ascii", "ascii_only", is_flag=True, help="Draw with plain characters.")
@options.home_and_json
def history(key: str, scope: str | None, ascii_only: bool, home: Path, as_json: bool) -> None:
    """Draw the versions of the fact KEY, the newest as far as there is room: valid time across, recorded time down.

    Follow a line to see the belief from that moment on, and a column to see how the belief about that time
    changed. The stretches between two changes are equally wide.
    """
    with options.open_existing(home) as memory:
        database = memory.diagnostics.database
        scopes = [written_scope(database, scope)] if scope is not None else _scopes(database, key)
        histories = {name: memory.store.fact_history(key, scope=name) for name in scopes}
        beliefs = {name: beliefs_of(database, key, name) for name in scopes}
        now = memory.diagnostics.clock.now()
        if not any(beliefs.values()):
            raise _unknown(database, key, scope)
    if as_json:
        print_json([_with_json(version) for versions in histories.values() for version in versions])
        return
    glyphs = ASCII if ascii_only or not printing.can_print(UNICODE) else UNICODE
    for name, rectangles in beliefs.items():
        click.echo(f"{plain(key)} ({plain(name)}), {count(len(versions(rectangles)), 'version')}\n")
        click.echo("\n".join(draw(rectangles, now=now, width=printing.console().width, glyphs=glyphs)))
        _print_versions(rectangles, histories[name])
    click.echo(click.wrap_text(LEGEND.format(*glyphs), printing.console().width))


def _with_json(fact: Fact) -> Any:
    """Return a fact as JSON, with a value that was given as a list or such as that."""
    return msgspec.to_builtins(fact) | ({} if fact.json is None else {"json": fact.decoded_value})


def _print_versions(beliefs: list[Belief], facts: list[Fact]) -> None:
    stored = {fact.id: fact for fact in facts}
    rows = []
    for number, belief in list(versions(beliefs).items())[-newest(printing.console().width) :]:
        fact, value, by = stored.get(str(belief.statement)), "(no value)", ""
        if fact is not None:
            by = fact.heard.speaker if fact.heard and fact.heard.speaker else fact.source
            value = shortened(fact.value) + (" (replaced)" if fact.superseded_by else "")
        until = moment(belief.valid_to) if belief.valid_to < inf else ""
        rows.append((str(number), value, moment(belief.valid_from), until, by))
    printing.print_table(("", "value", "true from", "until", "told by"), rows, wide=("value", "told by"))
    for fact in (fact for fact in facts if fact.doubtful):
        became = "confirmed" if fact.superseded_by else "refuted" if fact.invalidated_at else "undecided"
        sure = fact.heard.asr_confidence if fact.heard is not None else None
        how = "" if sure is None else f", {sure:.0%} sure"
        why = "" if fact.disbelieved is None else f"; {plain(fact.disbelieved)}"
        what = "not believed" if why else "perhaps misheard"
        click.echo(f"{what}: {plain(fact.value)} ({moment(fact.recorded_at)}{how}{why}; {became})")


@facts.command(short_help="Move the entries of a scope of an unknown form: SCOPE TO.")
@click.argument("scope")
@click.argument("to")
@options.home_and_json
def move(scope: str, to: str, home: Path, as_json: bool) -> None:
    """Move the facts and preferences of SCOPE, which has no known form, to the scope TO.

    Only the operator reads such a scope; `edgemem check` lists them. Nothing is moved where both have one key.
    """
    to = checked_scope(to)
    with options.open_existing(home) as memory:
        database = memory.diagnostics.database
        moved = database.write(lambda tx: move_scope(tx, scope, to))
        memory.diagnostics.index.take_changes()  # the next question finds them in their new scope
        to = written_scope(database, to)
    numbers = {"facts": moved.facts, "preferences": moved.preferences}
    who = _READ_BY[level_of_scope(to)[0]].format(who=plain(to.removeprefix("user:")))
    told = f"Moved {counts(numbers)} from {plain(scope)} to {plain(to)}; read by {who}."
    answer(as_json, {"scope": scope, "to": to, **numbers}, told)


def _unknown(database: Database, key: str, scope: str | None) -> InvalidInputError:
    scopes = _scopes(database, key)
    if scope is not None and scopes:
        return InvalidInputError(f"{key!r} is known in {', '.join(scopes)}, not in {scope!r}.")
    rows = database.query("select distinct key from fact_keys order by id desc limit ?", (_LOOKED_AT,))
    meant = options.did_you_mean(key, (*(known for (known,) in rows), *facts.commands))
    return InvalidInputError(f"No fact {key!r} was ever told; `edgemem facts` lists what there is.{meant}")


def _scopes(database: Database, key: str) -> list[str]:
    rows = database.query("select scope from fact_keys where key = ? order by scope", (key,))
    return [scope for (scope,) in rows]


@click.command(short_help="Erase one thing for good.")
@click.argument("key", required=False, shell_complete=options.fact_keys)
@click.option("--scope", help="Of the fact; needed where several scopes have the key.")
@click.option("--episode", help="Erase the episode with this id, as `edgemem recall` tells it.")
@click.option("--turn", type=int, help="Erase this turn of --session, or of the only conversation.")
@click.option("--said", metavar="WORDS", help="Find what somebody said, and erase it with its turn.")
@click.option("--session", shell_complete=options.session_ids, help="Erase this conversation.")
@click.option("--speaker", help="Erase all that this person said or owns.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.home_and_json
def forget(scope: str | None, yes: bool, home: Path, as_json: bool, **kind: Any) -> None:
    """Erase the fact KEY with every version of it, a turn, an episode, a conversation, or a person; it cannot be taken back.

    What will be erased is quoted first. Backups go too; exports and NOTES.md are yours, and are left alone.

    --said lists what holds the words, newest first, and asks which; with --json it lists only. A turn goes with its answer,
    and with the facts that nothing but its tools told.

    Exit code 3: it is forgotten, and nobody recalls it any more, but a program that reads a file keeps bytes of it there.
    They go by themselves, when a robot that has this home open is idle; `edgemem check` tells which file it is.
    """
    given = {name: value for name, value in kind.items() if value is not None}
    session = given.pop("session", None) if "turn" in given else None
    if len(given) > 1:
        raise InvalidInputError(f"Name one thing to forget; there are {len(given)}: {', '.join(given)}.")
    if not given:
        raise InvalidInputError(
            "Say what to forget: `edgemem forget KEY`, --episode ID, --turn N, --said WORDS, --session ID, or --speaker NAME."
        )
    ((name, value),) = given.items()
    with options.open_existing(home) as memory:
        if name == "speaker":
            _forget_person(memory, value, yes=yes, as_json=as_json)
            return
        if name == "said":
            found, whole = memory.diagnostics.search.utterances(value, None)
            if as_json and not yes:
                print_json({"found": found, "more": max(0, whole - len(found))})
                return
            item = found[0] if whole == 1 else _chosen(found, whole, yes=yes)
            name, session, value, yes = "turn", item.session, item.turn, yes or whole != 1
        more: dict[str, Any] = {}
        if name == "key":
            what, more = _fact(memory, value, scope)
        elif name == "episode":
            what = _episode(memory, value)
        else:
            what, more = _talk(memory, session or kind["session"], value if name == "turn" else None)
        report = {name: value, **more}
        named = {key: given for key, given in report.items() if key in (name, "scope", "session")}
        options.erase(what, partial(memory.forget, **named), report, yes=yes, as_json=as_json)


facts.add_command(forget)


def _fact(memory: Memory, key: str, scope: str | None) -> tuple[str, dict[str, Any]]:
    database = memory.diagnostics.database
    scopes = _scopes(database, key)
    if scope is None and len(scopes) > 1:
        raise InvalidInputError(f"{key!r} is known in {', '.join(scopes)}; say which one with --scope.")
    written = written_scope(database, scope) if scope is not None else next(iter(scopes), "")
    if written not in scopes:
        raise _unknown(database, key, scope)
    versions = memory.store.fact_history(key, scope=written)
    quoted = ", ".join(f"“{plain(version.value)}”" for version in versions[-3:])
    what = f"{plain(key)} ({plain(written)}): {count(len(versions), 'version')}, last {quoted}"
    return what, {"scope": written, "versions": len(versions)}


def _episode(memory: Memory, episode: str) -> str:
    stored = memory.store.get_episode(episode)
    if stored is None:
        raise InvalidInputError(
            f"There is no episode {episode!r}; `edgemem recall` tells the ids of those that it finds."
        )
    return f"the episode {plain(stored.id)}: “{plain(text_of_episode(stored)):.60}”"


def _talk(memory: Memory, session: str | None, n: int | None) -> tuple[str, dict[str, Any]]:
    """Quote a conversation, or turn `n` of it; None: the only one."""
    known = memory.sessions.list_ids()
    session = known[0] if session is None and len(known) == 1 else session
    if session is None:
        raise InvalidInputError("Say which conversation, with --session NAME; `edgemem sessions` lists them.")
    check_session_id(session)
    turns = memory.sessions.journal.read_turns(session, from_n=n or 0)
    turns = [turn for turn in turns if n in (None, turn.n)]
    what = f"conversation {plain(session)}" if n is None else f"turn {n} of {plain(session)}"
    if session not in known or not (turns or n is None):
        raise InvalidInputError(f"There is no {what}; `edgemem sessions` lists what there is.")
    texts = [message.content for turn in turns for message in turn.messages if message.content]
    quoted = f", {'last ' * (n is None)}“{plain(texts[-1 if n is None else 0]):.60}”" if texts else ""
    if n is None:
        number = count(len(turns), "turn")
        return f"the {what}: {number}{quoted}", {"session": session, "turns": len(turns)}
    return f"{what}, with the answer{quoted}", {"session": session}


def _chosen(found: Sequence[Recalled], whole: int, *, yes: bool) -> Recalled:
    """Ask which of some messages is meant; `whole` hold all of the words."""
    if not found:
        raise InvalidInputError("Nobody said anything like that; nothing was erased.")
    rows = [
        (
            str(n),
            moment(item.event_time or item.recorded_at),
            f"{item.speaker or 'a voice'}: {item.text}",
            f"{item.session} {item.turn}",
        )
        for n, item in enumerate(found, start=1)
    ]
    printing.print_table(("", "when", "what was said", "turn"), rows, wide=("what was said",))
    if whole > len(found):
        click.echo(f"and {whole - len(found):,} more")
    if yes:
        raise InvalidInputError(
            "--yes wants one that holds all of the words; name it with --turn and --session."
        )
    chosen: int = options.asked("Which one?", type=click.IntRange(1, len(found)))
    return found[chosen - 1]


def _forget_person(memory: Memory, name: str, *, yes: bool, as_json: bool) -> None:
    from edgemem.store.transfer.export import count_records

    check_key(name, what="a name")
    if not yes:
        held = counts(count_records(memory.export(speaker=name)))
        what = f"what {plain(name)} said or owns ({held or 'only parts of what others own'})"
        options.agreed(f"Erase {what}, and the summaries of those conversations?")
    forgotten = memory.forget(person=name)
    mentions = forgotten.mentions
    if not forgotten.erased and not mentions.count:
        raise InvalidInputError(f"Nothing here was said by {name!r}, or is theirs.")
    if as_json:
        print_json({"speaker": name, **msgspec.to_builtins(forgotten)})
    else:
        erased = counts(forgotten.erased) or "nothing was there"
        click.echo(f"Erased what {plain(name)} said or owned: {erased}.")
        if mentions.count:
            click.echo(f"The name {plain(name)} is still in {count(mentions.count, 'place')}; you decide:")
        for mention in mentions.quoted:
            by = f" ({plain(mention.by)})" if mention.by else ""
            click.echo(f"  {mention.kind} {plain(mention.where)}{by}: {plain(mention.text)}")
        if mentions.count > len(mentions.quoted):
            click.echo(f"  and {mentions.count - len(mentions.quoted)} more")
        for file in forgotten.files:
            click.echo(f"  a damaged file that may hold anything: {file}")
    options.tell_pending(forgotten)


@click.command()
@click.option("--yes", is_flag=True, help="Do it: archive expired thoughts, and erase the rest for good.")
@options.home_and_json
def gc(yes: bool, home: Path, as_json: bool) -> None:
    """Show what has aged, in the order in which it would go, and why; nothing goes without --yes.

    That is what has expired, what was archived long ago, and what the caps of [retention] let go.
    """
    with options.open_existing(home) as memory:
        plan, doubt = memory.retention.plan(), memory.retention.doubt()
        if yes:
            forgotten = memory.retention.erase(plan)
            archived = sum(record.action == "archive" for record in plan)
            report = {"archived": archived, **msgspec.to_builtins(forgotten)}
            erased = counts(forgotten.erased) or "nothing"
            answer(as_json, report, f"Archived {count(archived, 'thought')}, erased {erased}.")
            options.tell_pending(forgotten)
            return
    print_entries(
        plan if as_json else plan[:_SHOWN],
        as_json,
        ("id", "what", "why", "since", "bytes"),
        lambda of: (of.id, of.action, of.reason, moment(of.at), f"{of.bytes:,}"),
        noun="aged records",
        wide=("why",),
    )
    notes = [f"There are {len(plan) - _SHOWN:,} more; --json has all."] if len(plan) > _SHOWN else []
    for note in [*notes, *([f"Nothing can be erased now. {doubt}"] if doubt else [])]:
        click.echo(note, err=True)
