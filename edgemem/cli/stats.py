"""`edgemem stats`: how much there is, what it takes, what waits, and how the newest turn went."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgemem.cli.options import home_option, json_option, open_existing
from edgemem.cli.printing import moment, print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgemem.hooks.turn_log import TurnFigures
    from edgemem.memory.stats import Stats


@click.command()
@click.option(
    "--prometheus",
    "textfile",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write them for node_exporter's textfile collector, such as /var/lib/node_exporter/edgemem.prom.",
)
@home_option
@json_option
def stats(textfile: Path | None, home: Path, as_json: bool) -> None:
    """Count what there is, what it takes on disk, how it grows and what waits; no word of it is shown.

    With --prometheus the figures go into a file that node_exporter's textfile collector reads (its option
    --collector.textfile.directory names the folder), replaced in one step. A line for cron, one file for each home:

    \b
    * * * * * edgemem stats --home ~/.edgemem/kitchen --prometheus /var/lib/node_exporter/kitchen.prom
    """  # noqa: D301 - click reads the backspace as: do not wrap
    from edgemem.memory.stats import gather

    with open_existing(home) as memory:
        found = gather(memory)
    if textfile is not None:
        from edgemem.cli.prometheus import metrics_of, render, write_textfile

        write_textfile(textfile, render(metrics_of(found)))
    if as_json:
        print_json(found)
    elif textfile is None:
        print_table(("figure", "value"), _rows(found), wide=("value",))


def _rows(found: Stats) -> Iterator[tuple[str, str]]:
    """Yield what a person wants to know, most important first."""
    for name, n in found.counts.items():
        yield name.replace("_", " "), f"{n:,}"
    for name, size in found.disk_bytes.items():
        if size:
            yield f"{name} on disk", _bytes(size)
    for name, value in found.per_day.items():
        yield f"{name.replace('_', ' ')} a day", _bytes(value) if name == "bytes" else f"{value:,.1f}"
    for name, n in found.waiting.items():
        yield f"{name} waiting", f"{n:,}"
    yield "oldest waits for", f"{found.lag_s:,.0f} s"
    for failure in found.failures:
        yield (
            "failed",
            f"{failure.hook} at {failure.point}, {failure.count:,} times; `edgemem check` tells more",
        )
    if not found.clock_trusted:
        yield "clock", "not trusted; `edgemem check` tells more"
    if found.last_turn is not None:
        yield from _turn_rows(found.last_turn)


def _turn_rows(turn: TurnFigures) -> Iterator[tuple[str, str]]:
    yield "newest turn", moment(turn.at)
    yield (
        "  before the model",
        f"{turn.hooks_ms:.1f} ms, of which recall {turn.recall_ms:.1f}, embedding {turn.embed_ms:.1f}",
    )
    yield "  model", f"{turn.model_ms / 1e3:.2f} s"
    yield "  commit", f"{turn.commit_ms:.1f} ms"
    about = "" if turn.counted else "about "
    yield (
        "  tokens",
        f"{about}{turn.new_tokens:,} new, {about}{turn.reused_tokens:,} reused, {turn.block_tokens:,} of memory",
    )
    late = ", late" if turn.late else ""
    yield "  candidates", f"{turn.candidates:,}{late}"
    if turn.heard_early:
        yield "recall ahead", f"ready at the end of {turn.ready_early:,} of {turn.heard_early:,} sentences"


def _bytes(size: float) -> str:
    for unit, least in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= least:
            return f"{size / least:.1f} {unit}"
    return f"{size:.0f} bytes"
