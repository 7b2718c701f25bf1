"""`edgemem bench NAME`: measure this machine.

A benchmark is a module of `edgemem.bench`, or of a package in a checkout, with a function `run(*, …) -> dict`. The first
paragraph of its docstring is the help, its keyword arguments are the options; a name that is a word of Python's ends in `_`
there. A mapping of figures to columns under `side_by_side` is printed as a table.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import click

import edgemem.bench
from edgemem.cli.options import json_option
from edgemem.cli.printing import print_json, print_table

TYPES: dict[str, Any] = {"int": int, "float": float, "str": str, "Path": click.Path(path_type=Path)}
SIDES = "side_by_side"


class Benches(click.Group):
    """Makes a command of each benchmark of a package when it is called."""

    def __init__(self, package: ModuleType, **how: Any) -> None:
        super().__init__(**how)
        self._package = package

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the benchmarks; what they share has no `run`."""
        return [name for name in sorted(self._modules()) if self.get_command(ctx, name) is not None]

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one benchmark."""
        module = self._modules().get(cmd_name)
        if module is None:
            return None
        run = getattr(import_module(f"{self._package.__name__}.{module}"), "run", None)
        return command_for(cmd_name, run) if callable(run) else None

    def _modules(self) -> dict[str, str]:
        return {part.name.rstrip("_"): part.name for part in pkgutil.iter_modules(self._package.__path__)}


bench = Benches(
    edgemem.bench,
    name="bench",
    help="Measure this machine; figures are ratios to something measured in the same run.",
)


def command_for(name: str, run: Callable[..., Mapping[str, Any]]) -> click.Command:
    """Return a command that runs a benchmark and prints its figures."""

    def show(as_json: bool, **options: Any) -> None:
        figures = run(**options)
        if as_json:
            print_json(figures)
        else:
            _print(figures)

    command = click.command(name=name, help=(inspect.getdoc(run) or "").partition("\n\n")[0])(
        json_option(show)
    )
    command.params += [_option(parameter) for parameter in inspect.signature(run).parameters.values()]
    return command


def _print(figures: Mapping[str, Any]) -> None:
    rest = dict(figures)
    if sides := rest.pop(SIDES, None):
        columns = ("figure", *next(iter(sides.values())))
        rows = [(name, *map(_shown, values.values())) for name, values in sides.items()]
        print_table(columns, rows)
    if bars := rest.pop("bars", None):
        rows = [
            (name, _shown(bar["figure"]), _shown(bar["bar"]), "kept" if bar["ok"] else "missed")
            for name, bar in bars.items()
        ]
        print_table(("bar", "figure", "limit", ""), rows)
    print_table(("figure", "value"), _flat(rest), wide=("figure", "value"))


def _option(parameter: inspect.Parameter) -> click.Option:
    flag = "--" + parameter.name.replace("_", "-")
    if isinstance(parameter.default, bool):
        return click.Option([f"{flag}/--no-{flag[2:]}"], default=parameter.default, show_default=True)
    named, _, rest = str(parameter.annotation).partition(" ")
    if named.startswith("tuple["):  # "tuple[Path, Path] | None"
        types = f"{named}{rest}".removeprefix("tuple[").partition("]")[0].split(",")
        return click.Option(
            [flag], type=tuple(TYPES[type_name] for type_name in types), default=parameter.default
        )
    return click.Option([flag], type=TYPES.get(named, str), default=parameter.default, show_default=True)


def _flat(figures: Mapping[str, Any], name: str = "") -> Iterator[tuple[str, str]]:
    for key, value in figures.items():
        dotted = f"{name}.{key}" if name else key
        if isinstance(value, dict):
            yield from _flat(value, dotted)
        else:
            yield dotted, _shown(value)


def _shown(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
