"""`edgemem check`, `stats`: what works on this machine; sizes, growth, waiting work and the newest turn."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import asdict

import edgemem
from edgemem.cli.models import file_at, llm_option, not_both, server_option, tokenizer_of
from edgemem.cli.options import home_and_json, open_existing, open_home
from edgemem.cli.printing import console, moment, plain, print_entries, print_json, print_table
from edgemem.errors import InvalidInputError, count
from edgemem.records import Check
from edgemem.store.db.files import write_private
from edgemem.store.episodes import tool_stats

if TYPE_CHECKING:
    from edgemem.memory.stats import Stats
    from edgemem.session.figures import TurnFigures
    from edgemem.store.episodes import ToolStats

COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command()
@llm_option
@server_option
@click.option("--acknowledge", is_flag=True, help="You have seen what was lost: tell of it no more.")
@home_and_json
def check(llm: Path | None, server: str | None, acknowledge: bool, home: Path, as_json: bool) -> None:
    """Tell what works on this machine, and what to do about the rest; exit code 1 if something needed fails.

    With a chat model it also tells what its chat template costs each turn, and whether its window is the profile's.
    """
    not_both(llm, server)
    if acknowledge:
        with open_existing(home) as memory:
            memory.diagnostics.truth.acknowledge()
    checks = _checked(home, file_at(llm, home), server)
    if as_json:
        print_json(checks)
    else:
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(width=4)
        grid.add_column(no_wrap=True)
        grid.add_column(ratio=1, overflow="fold")
        for row in checks:
            detail = Text(plain(row.detail))
            if row.advice:
                detail.append(f"\n{plain(row.advice)}", style="bold")
            grid.add_row(Text(row.state, style=COLOURS.get(row.state, "")), Text(plain(row.name)), detail)
        console().print(grid)
    if any(row.state == "fail" for row in checks):
        sys.exit(1)


def _checked(home: Path, file: Path | None, server: str | None) -> list[Check]:
    """Return the checks; where no home is yet, those of the machine alone, because looking makes none."""
    home = home.expanduser()
    checks = []
    with ExitStack() as stack:
        if home.exists():
            memory = stack.enter_context(open_existing(home))
        else:
            advice = "Name another with --home, or begin this one: edgemem facts add KEY VALUE"
            checks.append(Check("home", "warn", f"there is no memory at {home}; this is the machine", advice))
            folder = stack.enter_context(TemporaryDirectory(prefix="edgemem-check-"))
            memory = stack.enter_context(open_home(Path(folder), worker=False))
        tokenizer = stack.enter_context(tokenizer_of(file, server, memory))
        using = tokenizer and memory.diagnostics.budget(tokenizer=tokenizer)
        checks += memory.check()
        del using  # until now: of what nobody holds, the check tells nothing
    return checks


@click.command()
@click.argument("tools", required=False, type=click.Choice(["tools"]))
@click.option(
    "--prometheus",
    "textfile",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write them for node_exporter's textfile collector, such as /var/lib/node_exporter/edgemem.prom.",
)
@home_and_json
def stats(tools: str | None, textfile: Path | None, home: Path, as_json: bool) -> None:
    """Count what there is, what it takes on disk, how it grows and what waits; no word of it is shown.

    `edgemem stats tools` tells of each tool how often it was called, how often it failed, and the milliseconds that half, nine
    tenths and 99 of 100 of its calls took at most, among those whose episodes are kept.

    With --prometheus the figures go into a file that node_exporter's textfile collector reads (its option
    --collector.textfile.directory names the folder), replaced in one step. A line for cron, one file for each home:

    \b
    * * * * * edgemem stats --home ~/.edgemem/kitchen --prometheus /var/lib/node_exporter/kitchen.prom
    """  # noqa: D301 - click reads the backspace as: do not wrap
    with open_existing(home) as memory:
        if tools:
            called = tool_stats(memory.diagnostics.database)
            columns = ("tool", "calls", "failed", "median", "90 %", "99 %")
            print_entries(called, as_json, columns, _tool_row, noun="calls of tools", wide=("tool",))
            return
        from edgemem.memory.stats import gather

        figures = gather(memory.diagnostics)
    if textfile is not None:
        failed = {f"{failure.hook} at {failure.point}": failure.count for failure in figures.failures}
        turn = None if figures.last_turn is None else asdict(figures.last_turn)
        numbers = {**asdict(figures), "failures": failed, "last_turn": turn}
        write_textfile(textfile, render(numbers, home=figures.home))
    if as_json:
        print_json({"version": edgemem.__version__, **asdict(figures)})
    elif textfile is None:
        print_table(("figure", "value"), _rows(figures), wide=("value",))


def _tool_row(tool: ToolStats) -> tuple[str, ...]:
    failed = f"{tool.failures:,} ({tool.failure_rate:.0%})"
    times = ("" if ms is None else f"{ms:,.0f} ms" for ms in (tool.p50_ms, tool.p90_ms, tool.p99_ms))
    return tool.tool, f"{tool.calls:,}", failed, *times


def _rows(figures: Stats) -> Iterator[tuple[str, str]]:
    for name, n in figures.counts.items():
        yield name.replace("_", " "), f"{n:,}"
    for name, size in figures.disk_bytes.items():
        if size:
            yield f"{name} on disk", _bytes(size)
    for name, value in figures.per_day.items():
        yield f"{name.replace('_', ' ')} a day", _bytes(value) if name == "bytes" else f"{value:,.1f}"
    for name, n in figures.waiting.items():
        yield f"{name} waiting", f"{n:,}"
    yield "oldest waits for", f"{figures.lag_s:,.0f} s"
    for failure in figures.failures:
        yield (
            "failed",
            f"{failure.hook} at {failure.point}, {count(failure.count, 'time')}; `edgemem check` tells more",
        )
    if not figures.clock_trusted:
        yield "clock", "not trusted; `edgemem check` tells more"
    if figures.last_turn is not None:
        yield from _turn_rows(figures.last_turn)


def _turn_rows(turn: TurnFigures) -> Iterator[tuple[str, str]]:
    late = ", late" if turn.late else ""
    parts = f"recall {turn.recall_ms:.1f}, embedding {turn.embed_ms:.1f}"
    yield "newest turn", moment(turn.at)
    yield "  before the model", f"{turn.hooks_ms:.1f} ms, of which {parts}"
    yield "  model", f"{turn.model_ms / 1e3:.2f} s"
    yield "  commit", f"{turn.commit_ms:.1f} ms"
    tokens = f"{turn.new_tokens:,} new, {turn.reused_tokens:,} reused, " if turn.counted else ""
    yield "  tokens", f"{tokens}{turn.block_tokens:,} of memory"
    yield "  candidates", f"{turn.candidates:,}{late}"
    if turn.heard_early:
        yield (
            "recall ahead",
            f"ready at the end of {turn.ready_early:,} of {count(turn.heard_early, 'sentence')}",
        )


def _bytes(size: float) -> str:
    for unit, least in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= least:
            return f"{size / least:.1f} {unit}"
    return f"{size:.0f} bytes"


def render(figures: Mapping[str, Any], *, home: str) -> str:
    """Return figures in Prometheus' text format 0.0.4; each sample has the home: two robots' files are collected together."""
    lines = []
    for name, value in figures.items():
        by_kind = value if isinstance(value, dict) else {"": value}
        numbers = {kind: number for kind, number in by_kind.items() if isinstance(number, (int, float))}
        if numbers:
            lines.append(f"# TYPE edgemem_{name} gauge")
        for kind, number in numbers.items():
            label = f',kind="{_escaped(kind)}"' if kind else ""
            lines.append(f'edgemem_{name}{{home="{_escaped(home)}"{label}}} {number:.15g}')
    return "\n".join(lines) + "\n"


def write_textfile(path: Path, text: str) -> None:
    """Put a file where the collector reads it, whole or not at all, and readable for the collector's user."""
    if path.suffix != ".prom":
        raise InvalidInputError(f"node_exporter reads only files that end in .prom; name {path}.prom.")
    if not path.parent.is_dir():
        raise InvalidInputError(f"There is no folder {path.parent}; name the one that node_exporter reads.")
    write_private(path, text.encode(), mode=0o644)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
