"""`edgemem facts`: what is held to be true, was, and was thought to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from edgemem.cli.options import ListOrShow, When, home_option, json_option, open_existing, speaker_option
from edgemem.cli.printing import moment, print_json, print_table
from edgemem.errors import InvalidInputError
from edgemem.records import Fact, Reader

if TYPE_CHECKING:
    from pathlib import Path


@click.group(cls=ListOrShow)
def facts() -> None:
    """List facts (`facts`), also as of another time, or tell the history of one (`facts KEY`).

    `edgemem facts list --help` tells how to choose a time, a scope, a reader and a home, and `--json`.
    """


@facts.command(name="list", short_help="List the facts that hold, also as of another time.")
@click.option("--scope", help="Only this scope, such as global or user:Mara.")
@click.option("--as-of", type=When(), help="What was true at this time.")
@click.option("--known-at", type=When(), help="As it was known at this time.")
@speaker_option
@home_option
@json_option
def list_facts(
    scope: str | None,
    as_of: float | None,
    known_at: float | None,
    speaker: str | None,
    home: Path,
    as_json: bool,
) -> None:
    """List the facts that hold now, or held at another time, or were believed then.

    A time is 2026-11-02 (the end of that day), 2026-11-02T18:30, or seconds since 1970.
    """
    reader = None if speaker is None else Reader(speaker)
    with open_existing(home) as memory:
        if as_of is None and known_at is None:
            found = memory.store.facts(scope=scope, reader=reader)
        else:
            when = as_of if as_of is not None else memory.clock.now()
            found = memory.store.facts_as_of(when, scope=scope, known_at=known_at, reader=reader)
    if as_json:
        print_json(found)
    elif not found:
        click.echo("There are no facts to show.")
    else:
        print_facts(found)


@facts.command()
@click.argument("key")
@click.option("--scope", help="Only this scope; without it, every scope that has the key.")
@home_option
@json_option
def show(key: str, scope: str | None, home: Path, as_json: bool) -> None:
    """Tell every version of the fact KEY, and what replaced it."""
    with open_existing(home) as memory:
        named = memory.store.database.query(
            "select scope from fact_keys where key = ? order by scope", (key,)
        )
        scopes = [scope] if scope is not None else [row[0] for row in named]
        found = [version for one in scopes for version in memory.store.fact_history(key, scope=one)]
    if not found:
        raise InvalidInputError(f"No fact {key!r} was ever told; `edgemem facts` lists what there is.")
    if as_json:
        print_json(found)
        return
    print_table(
        ("scope", "value", "true from", "until", "learnt"),
        (
            (
                fact.scope,
                fact.value + (" (replaced)" if fact.superseded_by else ""),
                moment(fact.valid_from),
                moment(fact.valid_to),
                moment(fact.recorded_at),
            )
            for fact in found
        ),
        wide=("value",),
    )


def print_facts(found: list[Fact]) -> None:
    """Print facts as a table."""
    print_table(
        ("fact", "value", "scope", "since"),
        ((fact.key, fact.value, fact.scope, moment(fact.valid_from)) for fact in found),
        wide=("value",),
    )
