"""`edgemem models`: fetch, list and verify models."""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from edgemem.cli.options import json_option
from edgemem.cli.printing import console, print_json, print_table
from edgemem.errors import ModelError
from edgemem.llama.catalog import (
    DEFAULT_EMBEDDER,
    ModelEntry,
    check_file,
    entry_of,
    find_model,
    folder_to_write,
    load_catalogue,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@click.group()
def models() -> None:
    """Fetch, list and verify models.

    They are looked for in $EDGEMEM_MODELS, in `models/` of a memory's home and of a checkout, and in
    ~/.local/share/edgemem/models.
    """


@models.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the models of the catalogue and where they lie."""
    rows = [_describe(entry, find_model(entry.name)) for entry in load_catalogue()]
    if as_json:
        print_json(rows)
        return
    print_table(
        ["model", "kind", "MB", "RAM MB", "dimensions", "context", "licence"],
        [
            [
                row["name"],
                row["kind"],
                f"{row['bytes'] / 1e6:.0f}",
                str(row["ram_mb"]),
                str(row["dimensions"]),
                str(row["context"]),
                row["licence"],
            ]
            for row in rows
        ],
    )
    for row in rows:
        click.echo(f"{row['name']}: {row['path'] or 'not here; edgemem models get ' + row['name']}")


@models.command(short_help="Fetch a model, check it and put it where it is found.")
@click.argument("name", default=DEFAULT_EMBEDDER)
@click.option("--quiet", is_flag=True, help="Say nothing if it is there already.")
@json_option
def get(name: str, quiet: bool, as_json: bool) -> None:
    """Fetch a model, by default the embedder all-minilm-l6-v2, check it and put it where it is found."""
    entry = entry_of(name)
    path, fetched = _right_one(entry), False
    if path is None:
        from edgemem.llama.fetch import fetch_model

        with _ended_by_sigterm(), _progress(entry.name) as tell:
            path, fetched = fetch_model(entry, folder_to_write(), progress=tell), True
    if as_json:
        print_json({**_describe(entry, path), "fetched": fetched})
    elif fetched:
        click.echo(f"{entry.name} is ready: {path}")
    elif not quiet:
        click.echo(f"{entry.name} is there and right: {path}")


@models.command(short_help="Compare model files with the catalogue, byte for byte.")
@click.argument("name", required=False)
@json_option
def verify(name: str | None, as_json: bool) -> None:
    """Compare model files with the catalogue, byte for byte; without a name, all that are there."""
    wanted = [entry_of(name)] if name else load_catalogue()
    rows = [_verify(entry) for entry in wanted if name or find_model(entry.name)]
    if as_json:
        print_json(rows)
    elif not rows:
        click.echo("No model of the catalogue is on this machine; type: edgemem models get")
    else:
        for row in rows:
            mark = click.style("ok ", fg="green") if row["ok"] else click.style("bad", fg="red")
            click.echo(f"{mark} {row['name']}: {row['detail'] or row['path']}")
    if not all(row["ok"] for row in rows):
        sys.exit(1)


def _describe(entry: ModelEntry, path: Path | None) -> dict[str, Any]:
    return {
        "name": entry.name,
        "kind": entry.kind,
        "bytes": entry.bytes,
        "dimensions": entry.dimensions,
        "context": entry.context,
        "ram_mb": entry.ram_mb,
        "licence": entry.licence,
        "path": str(path) if path else None,
    }


def _right_one(entry: ModelEntry) -> Path | None:
    """Return the file that would be used, if it is what the catalogue pins."""
    path = find_model(entry.name)
    try:
        if path is not None:
            check_file(entry, path)
    except ModelError:
        return None
    return path


def _verify(entry: ModelEntry) -> dict[str, Any]:
    path = find_model(entry.name)
    try:
        if path is None:
            raise ModelError(f"{entry.name} is not on this machine; type: edgemem models get {entry.name}")
        check_file(entry, path)
    except ModelError as error:
        return {"name": entry.name, "path": str(path) if path else None, "ok": False, "detail": str(error)}
    return {"name": entry.name, "path": str(path), "ok": True, "detail": ""}


@contextmanager
def _progress(name: str) -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar on stderr for each stage; off a terminal, one line for each."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    shown = console(stderr=True)
    bars: dict[str, Any] = {}
    with Progress(
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), console=shown
    ) as progress:

        def tell(stage: str, done: int, of: int) -> None:
            if stage not in bars:
                bars[stage] = progress.add_task(f"{stage} {name}", total=of)
            progress.update(bars[stage], completed=done)

        yield tell


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Turn SIGTERM into an exit that cleans up behind itself."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
