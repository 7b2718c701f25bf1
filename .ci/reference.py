"""`make reference`: writes docs/profile.md and docs/commands.md from the code that they are about.

The profile's page is made of the docstrings, types and defaults of `edgemem.config`, the page of commands of what
each command tells of itself with `--help`. A test holds that the committed pages are these.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import click
import msgspec

from edgemem import config as profile
from edgemem.cli import main as command_line

DOCS = Path(__file__).resolve().parent.parent / "docs"
MADE = "<!-- `make reference` writes this page from the code; what is written here by hand is lost. -->"
PROFILE = """# The profile

`edgemem.toml` in the home holds what you change; every other key keeps its default. [Operate a robot](operations.md#change-a-setting)
tells how it is changed while the robot runs. `configs/default.toml` holds the same keys, to copy from.
"""
COMMANDS = """# Command line

`--home PATH` says where the memory lives; without it the variable `EDGEMEM_HOME` does, and without that it is `~/.edgemem`. `--json`
prints JSON. The exit code is 0, 1 where something went wrong, 2 where the line was mistyped.
"""
SHARED = ("--home", "--json")
"""Options that many commands have, told once."""


def pages() -> dict[Path, str]:
    """Return the text of each page."""
    return {DOCS / "profile.md": profile_page(), DOCS / "commands.md": commands_page()}


def profile_page() -> str:
    """Return every table of the profile with its keys."""
    module = ast.parse(inspect.getsource(profile))
    classes = {node.name: node for node in module.body if isinstance(node, ast.ClassDef)}
    lines = [MADE, "", PROFILE]
    types = get_type_hints(profile.Profile, include_extras=True)
    notes = _notes(classes["Profile"])
    for table in msgspec.structs.fields(profile.Profile):
        section = types[table.name]
        if table.name in notes:
            lines += [f"## `[{table.name}]`", "", f"{notes[table.name]} ({_values(section)})", ""]
            continue
        about = (inspect.getdoc(section) or "").partition(": ")[2]
        lines += [f"## `[{table.name}]`", "", about[:1].upper() + about[1:], ""]
        lines += ["| key | default | values | |", "|---|---|---|---|"]
        keys, values = _notes(classes[section.__name__]), get_type_hints(section, include_extras=True)
        lines += [
            f"| `{name}` | `{msgspec.json.encode(default).decode()}` | {_values(values[name])} | {_cell(keys[name])} |"
            for name, default in msgspec.structs.asdict(section()).items()
        ]
        lines.append("")
    return "\n".join(lines)


def _notes(node: ast.ClassDef) -> dict[str, str]:
    """Return the docstring behind each field of a class."""
    return {
        field.target.id: " ".join(note.value.value.split())
        for field, note in zip(node.body, node.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(note, ast.Expr)
        and isinstance(note.value, ast.Constant)
    }


def _values(kind: Any) -> str:
    """Return what a value may be, in words."""
    if get_origin(kind) is Literal:
        return " or ".join(f"`{msgspec.json.encode(value).decode()}`" for value in get_args(kind))
    if get_origin(kind) is Annotated:
        base, bounds = get_args(kind)
        noun = "whole number" if base is int else "number"
        if bounds.gt is not None:
            return f"{noun} above {bounds.gt}"
        if bounds.le in (None, 2**31 - 1):
            return f"{noun} from {bounds.ge}"
        return f"{noun} from {bounds.ge} to {bounds.le:,}"
    nouns = {bool: "`true` or `false`", str: "text", tuple: "list of texts", dict: "table"}
    return nouns[get_origin(kind) or kind]


def commands_page() -> str:
    """Return what every command tells of itself."""
    return "\n".join([MADE, "", COMMANDS, *_command(command_line, "edgemem", None)])


def _command(command: click.Command, name: str, parent: click.Context | None) -> Iterator[str]:
    """Yield the lines about a command, and about those within it."""
    context = click.Context(command, info_name=name.rpartition(" ")[2], parent=parent)
    if parent is not None:
        usage = " ".join([name, *command.collect_usage_pieces(context)])
        yield from (f"{'#' * len(name.split())} `{name}`", "", f"`{usage}`", "")
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith("\b"):
            examples = (
                re.split(r"(?<!:)  +(?:# )?", line, maxsplit=1) for line in paragraph.splitlines()[1:]
            )
            yield from (f"- `{line}`" + "".join(f": {note}" for note in notes) for line, *notes in examples)
        else:
            yield " ".join(paragraph.split())
        yield ""
    options = [param for param in command.params if isinstance(param, click.Option) and not param.hidden]
    shared = [name for option in options for name in option.opts if name in SHARED and not _differs(option)]
    records = [option.get_help_record(context) for option in options if not {*option.opts} & {*shared}]
    if records:
        yield from ("| option | |", "|---|---|")
        yield from (f"| `{_cell(record[0])}` | {_cell(record[1])} |" for record in records if record)
        yield ""
    if shared:
        yield from (
            f"{'Also' if records else 'Options:'} {' and '.join(f'`{name}`' for name in shared)}.",
            "",
        )
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            within = command.get_command(context, inner)
            if within is not None and not within.hidden:
                yield from _command(within, f"{name} {inner}", context)


def _differs(option: click.Option) -> bool:
    """Tell whether an option of a shared name means something else here."""
    return not (option.help or "").startswith(("Where the memory lives", "Print JSON."))


def _cell(text: str) -> str:
    """Return a text as a cell of a table."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
