"""`edgemem stats`: how much there is, what it takes, what waits, and how the newest turn went.

The text format of Prometheus, for the textfile collector of node_exporter: metrics in, text out, written at once.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import click
from msgspec.structs import asdict

import edgemem
from edgemem.cli.options import home_and_json, open_existing
from edgemem.cli.printing import moment, print_json, print_table
from edgemem.errors import InvalidInputError
from edgemem.store.tool_events import tool_stats

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from edgemem.hooks.turn_log import TurnFigures
    from edgemem.memory.stats import Stats
    from edgemem.store.tool_events import ToolStats


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
    tenths and 99 of 100 of its calls took at most, among the newest 10,000 calls.

    With --prometheus the figures go into a file that node_exporter's textfile collector reads (its option
    --collector.textfile.directory names the folder), replaced in one step. A line for cron, one file for each home:

    \b
    * * * * * edgemem stats --home ~/.edgemem/kitchen --prometheus /var/lib/node_exporter/kitchen.prom
    """  # noqa: D301 - click reads the backspace as: do not wrap
    with open_existing(home) as memory:
        if tools:
            _print_tools(tool_stats(memory.diagnostics.database), as_json)
            return
        figures = memory.diagnostics.stats()
    if textfile is not None:
        write_textfile(textfile, render(metrics_of(figures)))
    if as_json:
        print_json({"version": edgemem.__version__, **asdict(figures)})
    elif textfile is None:
        print_table(("figure", "value"), _rows(figures), wide=("value",))


def _print_tools(figures: Sequence[ToolStats], as_json: bool) -> None:
    if as_json:
        print_json(figures)
    elif not figures:
        click.echo("No tool was called yet.")
    else:
        rows = [
            (
                of.tool,
                f"{of.calls:,}",
                f"{of.failures:,} ({of.failure_rate:.0%})",
                *("" if ms is None else f"{ms:,.0f} ms" for ms in (of.p50_ms, of.p90_ms, of.p99_ms)),
            )
            for of in figures
        ]
        print_table(("tool", "calls", "failed", "median", "90 %", "99 %"), rows, wide=("tool",))


def _rows(figures: Stats) -> Iterator[tuple[str, str]]:
    """Yield what a person wants to know, most important first."""
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
            f"{failure.hook} at {failure.point}, {failure.count:,} times; `edgemem check` tells more",
        )
    if not figures.clock_trusted:
        yield "clock", "not trusted; `edgemem check` tells more"
    if figures.last_turn is not None:
        yield from _turn_rows(figures.last_turn)


def _turn_rows(turn: TurnFigures) -> Iterator[tuple[str, str]]:
    about, late = "" if turn.counted else "about ", ", late" if turn.late else ""
    parts = f"recall {turn.recall_ms:.1f}, embedding {turn.embed_ms:.1f}"
    yield "newest turn", moment(turn.at)
    yield "  before the model", f"{turn.hooks_ms:.1f} ms, of which {parts}"
    yield "  model", f"{turn.model_ms / 1e3:.2f} s"
    yield "  commit", f"{turn.commit_ms:.1f} ms"
    tokens = f"{about}{turn.new_tokens:,} new, {about}{turn.reused_tokens:,} reused"
    yield "  tokens", f"{tokens}, {turn.block_tokens:,} of memory"
    yield "  candidates", f"{turn.candidates:,}{late}"
    if turn.heard_early:
        yield "recall ahead", f"ready at the end of {turn.ready_early:,} of {turn.heard_early:,} sentences"


def _bytes(size: float) -> str:
    for unit, least in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= least:
            return f"{size / least:.1f} {unit}"
    return f"{size:.0f} bytes"


class Metric(NamedTuple):
    """One metric with its samples."""

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    samples: Sequence[tuple[Mapping[str, str], float]]


def metrics_of(stats: Stats) -> list[Metric]:
    """Return what a look at a memory says, in base units: seconds and bytes.

    Each sample carries the home, or the files of two robots' memories on one machine would be taken for one.
    """
    growth = dict(stats.per_day)
    growth_bytes = growth.pop("bytes", 0.0)
    gauges: list[tuple[str, str, str, Mapping[str, float]]] = [
        ("info", "The version that looked.", "version", {edgemem.__version__: 1}),
        ("records", "What is remembered, by kind.", "kind", stats.counts),
        ("disk_bytes", "Size on disk, by part of the home.", "part", stats.disk_bytes),
        ("growth_rows_per_day", "Rows that came in each day of the last week.", "kind", growth),
        ("growth_bytes_per_day", "Bytes that came in each day of the last week.", "", {"": growth_bytes}),
        ("index_waiting", "What idle time has still to do.", "kind", stats.waiting),
        ("index_lag_seconds", "How long the oldest row has waited for the index.", "", {"": stats.lag_s}),
        ("clock_trusted", "Whether the wall clock can be believed.", "", {"": stats.clock_trusted}),
    ]
    if turn := stats.last_turn:
        figures, stages = asdict(turn), ("recall", "embed", "hooks", "model", "commit")
        took = {stage: figures[f"{stage}_ms"] / 1e3 for stage in stages}
        tokens = {kind: figures[f"{kind}_tokens"] for kind in ("new", "reused", "block")}
        early = (
            "Turns of the newest process that were heard before their end, and those with recall ready then."
        )
        gauges += [
            ("last_turn_timestamp_seconds", "When the newest turn ended.", "", {"": turn.at}),
            ("last_turn_seconds", "What the stages of the newest turn took.", "stage", took),
            ("last_turn_tokens", "Tokens of the newest turn's prompts.", "kind", tokens),
            ("last_turn_candidates", "What the newest recall weighed.", "", {"": turn.candidates}),
            ("last_turn_late", "Whether the newest recall hit its deadline.", "", {"": turn.late}),
            ("early_turns", early, "kind", {"heard": turn.heard_early, "ready": turn.ready_early}),
        ]
    home = {"home": stats.home}
    metrics = [
        Metric(
            f"edgemem_{name}",
            "gauge",
            text,
            [({**home, **({label: key} if label else {})}, value) for key, value in values.items()],
        )
        for name, text, label, values in gauges
    ]
    failures = [({**home, "hook": f.hook, "point": f.point}, f.count) for f in stats.failures]
    counted = "Failures of hooks that are on record."
    metrics.append(Metric("edgemem_hook_failures_total", "counter", counted, failures))
    return [metric for metric in metrics if metric.samples]


def render(metrics: Iterable[Metric]) -> str:
    """Return metrics in the text format, version 0.0.4."""
    lines = []
    for metric in metrics:
        help_text = metric.help.replace("\\", "\\\\").replace("\n", "\\n")
        lines += [f"# HELP {metric.name} {help_text}", f"# TYPE {metric.name} {metric.kind}"]
        for labels, value in metric.samples:
            named = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
            lines.append(f"{metric.name}{{{named}}} {value:.15g}" if named else f"{metric.name} {value:.15g}")
    return "\n".join(lines) + "\n"


def write_textfile(path: Path, text: str) -> None:
    """Put a file where the collector reads it, whole or not at all, and readable for the collector's own user."""
    if path.suffix != ".prom":
        raise InvalidInputError(
            f"node_exporter reads only files that end in .prom; name {path}.prom instead."
        )
    if not path.parent.is_dir():
        raise InvalidInputError(f"There is no folder {path.parent}; name the one that node_exporter reads.")
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.chmod(0o644)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
