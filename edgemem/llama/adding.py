"""Models that the operator brings: a GGUF becomes one of a home's models, found by its name."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from edgemem.errors import InvalidInputError, ModelError
from edgemem.llama.catalog import compare, expected, find_entry, load_catalogue
from edgemem.llama.description import Description, check_fits, describe
from edgemem.llama.folder import alone_in, check_space, explain, put_in_place, silent
from edgemem.llama.pins import Pin, pin_path, sha256_of, write_pin

if TYPE_CHECKING:
    from edgemem.llama.catalog import ModelEntry
    from edgemem.llama.folder import Progress

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MIB = 1 << 20
_NO_LINK = (errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.EACCES)


def add_model(
    file: Path,
    folder: Path,
    *,
    name: str | None = None,
    query_prefix: str = "",
    text_prefix: str = "",
    progress: Progress | None = None,
) -> tuple[str, Path, Description]:
    """Take a GGUF into a folder of models, pin it, and return its name, its place and what it is.

    It is linked where the disk can do that, else copied. With a name of the catalogue it is that model, and must fit.

    Args:
        name: how it will be called; None takes the file's own name.
        query_prefix: what an embedder outside of the catalogue wants before a question.
        text_prefix: the same before what is stored.
        progress: hears `copying` or `checking`, and bytes done and in all.
    """
    name = _name_of(file) if name is None else name
    file = (
        file.expanduser().resolve()
    )  # behind its name: a hub's cache holds links to files named by checksum
    if not file.is_file():
        raise ModelError(f"There is no model file {file}; name a GGUF that is on this machine")
    entry = find_entry(name)
    if not _NAME.fullmatch(name):
        raise InvalidInputError(
            f"{name[:100]!r} cannot be the name of a model; use letters, digits, dots and dashes"
        )
    told = describe(file) if entry is None else check_fits(entry, file)
    if (query_prefix or text_prefix) and (entry is not None or told.kind != "embedder"):
        raise InvalidInputError(
            f"Prefixes are for an embedder that the catalogue does not know; {name} is none"
        )
    target = folder / (entry.file if entry is not None else f"{name}.gguf")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with alone_in(folder):
            _take(file, target, entry, (query_prefix, text_prefix), progress or silent)
    except OSError as error:
        raise explain(error, folder) from error
    return name, target, told


def remove_model(path: Path) -> bool:
    """Remove a model's file, with its pin and whatever a download of it began; return whether there was any."""
    begun = path.with_name(f"{path.name}.part"), path.with_name(f"{path.name}.json.part")
    there = [each for each in (path, pin_path(path), *begun) if os.path.lexists(each)]
    for each in there:
        each.unlink(missing_ok=True)
    return bool(there)


def _name_of(file: Path) -> str:
    """Return the name of the catalogue's model whose file is called like this, or one made of the file's own name."""
    for entry in load_catalogue():
        if entry.file == file.name:
            return entry.name
    return re.sub(r"[^A-Za-z0-9._-]+", "-", file.name.removesuffix(".gguf")).strip("-.")[:100]


def _take(
    file: Path, target: Path, entry: ModelEntry | None, prefixes: tuple[str, str], tell: Progress
) -> None:
    size = file.stat().st_size
    sha256 = _sum(file, tell)
    known = expected(entry, target) if entry is not None and entry.sha256 else None
    if known is not None:
        compare(file, size=known[0], sha256=known[1], advice="name another file")
    if target.exists() and sha256_of(target) != sha256:
        raise ModelError(
            f"{target} is another model of that name; remove it with `edgemem models remove`, or choose a name with --as"
        )
    # first the pin: its file is never there without it
    write_pin(
        target,
        Pin(sha256=sha256, bytes=size, origin=str(file), query_prefix=prefixes[0], text_prefix=prefixes[1]),
    )
    if not target.exists():
        made = target.with_name(f"{target.name}.added.part")
        made.unlink(missing_ok=True)
        try:
            _link_or_copy(file, made, sha256, tell)
            put_in_place(made, target)
        except BaseException:
            made.unlink(missing_ok=True)
            pin_path(target).unlink()
            raise


def _link_or_copy(file: Path, made: Path, sha256: str, tell: Progress) -> None:
    try:
        os.link(file, made)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
    else:
        return
    size = file.stat().st_size
    check_space(f"A copy of {file}", made.parent, size + _MIB)
    with file.open("rb") as source, made.open("wb") as copy:
        done = 0
        while chunk := source.read(_MIB):
            copy.write(chunk)
            done += len(chunk)
            tell("copying", done, size)
    compare(made, size=size, sha256=sha256, advice="the file changed while it was copied; try again")


def _sum(file: Path, tell: Progress) -> str:
    tell("checking", 0, 1)
    digest = sha256_of(file)
    tell("checking", 1, 1)
    return digest
