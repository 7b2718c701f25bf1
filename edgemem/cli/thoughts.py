"""`edgemem thoughts`, `why`, `query`: the graph of what is remembered, the reasons for a thing, and questions in SQL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgemem.cli import options
from edgemem.cli.printing import moment, plain, print_entries, print_json, print_table, shortened
from edgemem.context.block.render import Today, told_as_chain
from edgemem.errors import InvalidInputError
from edgemem.recall.people.names import spelled
from edgemem.store.db.connection import Answer, query_file, query_tables
from edgemem.store.rights import reading_rule, with_stored_spelling
from edgemem.store.thoughts import OURS, SHOWN_KINDS, STORED
from edgemem.thoughts import LifecycleStatus, Priority, ThoughtType, seconds

if TYPE_CHECKING:
    from edgemem.memory import Memory
    from edgemem.records import Reader
    from edgemem.store.edges import Reasons
    from edgemem.thoughts import EdgeRecord, ThoughtRecord

QUERY_S, MOST_ROWS = 5.0, 10_000
_ENDS = {"thoughts": (), "edges": ("source_id", "target_id"), "contested": ("id", "doubt")}
"""The views that a query may read, with the columns that hold ids of thoughts."""


@click.group(cls=options.Guided, bare="list", single="show")
def thoughts() -> None:
    """List stored thoughts (`thoughts`), show one of any kind (`thoughts ID`), or what it hangs together with."""


@thoughts.command("list")
@click.option("--type", "thought_type", type=click.Choice([*ThoughtType]), help="Only of this type.")
@click.option(
    "--status", "lifecycle_status", type=click.Choice([*LifecycleStatus]), help="Only with this status."
)
@click.option("--priority", type=click.Choice([*Priority]), help="Only of this priority.")
@click.option(
    "--kind",
    "kinds",
    type=click.Choice(SHOWN_KINDS),
    multiple=True,
    default=STORED,
    show_default=True,
    help="Of this kind; may be repeated.",
)
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="At most so many.")
@options.home_and_json
def list_thoughts(home: Path, as_json: bool, **filters: Any) -> None:
    """List stored thoughts, or what is shown as one, those of the highest cycle first."""
    with options.open_existing(home) as memory:
        entries = memory.thoughts.list_thoughts(include_expired=True, **filters)

    def row(thought: ThoughtRecord) -> tuple[str, ...]:
        return thought.thought_id, thought.thought_type, thought.lifecycle_status, thought.essence

    print_entries(
        entries, as_json, ("id", "type", "status", "essence"), row, noun="thoughts", wide=("essence",)
    )


@thoughts.command()
@click.argument("thought_id", metavar="ID")
@options.speaker_option
@options.home_and_json
def show(thought_id: str, speaker: str | None, home: Path, as_json: bool) -> None:
    """Show a thought: a stored one by its id, another record by its kind and number, such as fact:1764500000000000."""
    with options.open_existing(home) as memory:
        thought = memory.thoughts.get_thought(thought_id, reader=options.reader_of(memory, speaker))
    if thought is None:
        raise InvalidInputError(
            f"There is no thought {thought_id!r:.80} to show; `edgemem recall --json` tells ids."
        )
    if as_json:
        print_json(thought)
        return
    fields = ((name, getattr(thought, name)) for name in thought.__struct_fields__)
    print_table(
        ("field", "value"),
        [(name, shortened(str(value))) for name, value in fields if value not in (None, {}, ())],
    )


@thoughts.command("related")
@click.argument("thought_id", metavar="ID")
@click.option("--depth", type=click.IntRange(1, 2), default=1, show_default=True, help="Edges between.")
@options.speaker_option
@options.home_and_json
def list_related(thought_id: str, depth: int, speaker: str | None, home: Path, as_json: bool) -> None:
    """List the edges around a thought, nearest first."""
    with options.open_existing(home) as memory:
        reader = options.reader_of(memory, speaker)
        edges = memory.thoughts.related(thought_id, depth, reader=reader)
        ends = {end for _, edge in edges for end in edge.ends}
        essences = {
            end: thought.essence
            for end in ends
            if (thought := memory.thoughts.get_thought(end, reader=reader))
        }

    def row(found: tuple[int, EdgeRecord]) -> tuple[str, ...]:
        distance, edge = found
        return (
            str(distance),
            essences.get(edge.from_thought_id, ""),
            edge.edge_type,
            essences.get(edge.to_thought_id, ""),
        )

    print_entries(edges, as_json, ("at", "from", "type", "to"), row, noun="edges", wide=("from", "to"))


@click.command()
@click.argument("name", metavar="KEY|ID", shell_complete=options.fact_keys)
@click.option("--scope", help="Only this scope, where a key is in several.")
@options.speaker_option
@options.home_and_json
def why(name: str, scope: str | None, speaker: str | None, home: Path, as_json: bool) -> None:
    """Tell why something is remembered: who said it, when, in which words; what it replaced, and what contests it."""
    with options.open_existing(home) as memory:
        reader = options.reader_of(memory, speaker)
        reasons = [memory.why(thought_id, reader=reader) for thought_id in _ids(memory, name, scope, reader)]
        told = [why for why in reasons if why is not None]
        chains = [
            "" if reader else _chain_of(memory, why.thought) for why in told
        ]  # versions are the operator's
    if not told:
        raise InvalidInputError(f"Nothing is remembered under {name!r:.80}; `edgemem facts` lists keys.")
    if as_json:
        print_json([why._asdict() for why in told])
        return
    for why, chain in zip(told, chains, strict=True):
        _print(why, chain)


def _ids(memory: Memory, name: str, scope: str | None, reader: Reader | None) -> list[str]:
    """Return the ids that a key or an id means: of a key, the facts that hold."""
    if OURS.match(name) or memory.thoughts.get_thought(name, reader=reader) is not None:
        return [name]
    now = memory.diagnostics.clock.now()
    facts = memory.store.facts_as_of(now, scope=scope, reader=reader)
    named = [fact for fact in facts if fact.key == name] or [
        fact for fact in facts if spelled(fact.key) == spelled(name)
    ]
    return [f"fact:{fact.id}" for fact in named]


def _chain_of(memory: Memory, thought: ThoughtRecord) -> str:
    """Return what values a fact has had, as a chain tells it; empty where it had no other, or is no fact."""
    kind, _, number = thought.thought_id.partition(":")
    now = memory.diagnostics.clock.now()
    facts = memory.store.facts_as_of(now) if kind == "fact" else []
    for fact in facts:
        if fact.id == number:
            versions = memory.store.fact_history(fact.key, scope=fact.scope)
            values = {one.valid_from or 0.0: one.value for one in versions if not one.doubtful}
            newest = sorted(values.items(), reverse=True)
            if len(newest) > 1:
                return told_as_chain(fact.key, [(value, since) for since, value in newest], Today(now))
    return ""


def _print(why: Reasons, chain: str) -> None:
    click.echo(plain(f"{why.thought.content} ({why.thought.thought_type}, {why.thought.lifecycle_status})"))
    if chain:
        click.echo(f"  {plain(chain)}")
    confirmed = why.thought.confirmation_count
    click.echo(
        f"  since {moment(seconds(why.thought.created_at))}, from {plain(why.thought.source)}, confirmed {confirmed} times"
    )
    for lead, thoughts_ in (("said", why.said), ("before", why.before), ("contested by", why.contested)):
        for thought in thoughts_:
            at = moment(seconds(thought.created_at))
            click.echo(f"  {lead}: {shortened(plain(thought.content))} ({plain(thought.source)}, {at})")


@click.command()
@click.argument("sql", metavar="SELECT")
@options.speaker_option
@options.home_and_json
def query(sql: str, speaker: str | None, home: Path, as_json: bool) -> None:
    """Answer a question in SQL, which only reads, for at most 5 seconds and 10,000 rows.

    There are the views thoughts, edges and contested, and the operator may read the tables too. With --speaker there are only the
    views, and only what that person may read.

    \b
    edgemem query "select id, essence from thoughts where pinned"
    """  # noqa: D301 - click reads the backspace as: do not wrap
    with options.open_existing(home) as memory:
        database = memory.diagnostics.database
        database.flush()
        if speaker is None:
            found = query_file(database.source, sql, seconds=QUERY_S, most=MOST_ROWS)
        else:
            reader = with_stored_spelling(database, options.reader_of(memory, speaker))
            found = filtered(memory, sql, reader)
    if not found.is_whole:
        click.echo(f"These are the first {MOST_ROWS:,} rows.", err=True)
    if as_json:
        print_json([dict(zip(found.columns, row, strict=True)) for row in found.rows])
    else:
        print_table(
            found.columns,
            [["" if cell is None else shortened(str(cell)) for cell in row] for row in found.rows],
        )


def filtered(memory: Memory, sql: str, reader: Reader | None) -> Answer:
    """Answer from copies of the views that hold what a reader may read, and nothing else."""
    database, (rule, values) = memory.diagnostics.database, reading_rule(reader)
    tables: dict[str, tuple[list[str], list[tuple[Any, ...]]]] = {}
    known: set[str] = set()
    for view, ends in _ENDS.items():
        names = database.query("select name from pragma_table_info(?)", (view,))
        columns = [name for (name,) in names if name not in ("level", "owner")]
        rows = database.query(f"select {', '.join(columns)} from {view} where {rule}", values)  # noqa: S608 - our own
        places = [columns.index(end) for end in ends]
        tables[view] = columns, [row for row in rows if known.issuperset(row[place] for place in places)]
        if view == "thoughts":
            known = {row[0] for row in rows}
    return query_tables(tables, sql, seconds=QUERY_S, most=MOST_ROWS)
