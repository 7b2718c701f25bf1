"""A download over https, and a folder where files appear whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import ssl
import urllib.request
from contextlib import contextmanager
from http.client import HTTPException
from typing import TYPE_CHECKING
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from edgemem.errors import DiskFullError, DownloadError
from edgemem.store.db.files import sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from http.client import HTTPMessage, HTTPResponse
    from pathlib import Path
    from typing import IO

    Progress = Callable[[str, int, int], None]
    """Hears the stage, and bytes or tensors done and in all."""

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
TIMEOUT_S = 30.0
"""Seconds of silence after which a server is given up."""
_CHUNK = 1 << 16  # small enough that the bar moves on a slow line
_RESERVE = 16_000_000  # bytes that a download leaves free: the memory itself writes to the same disk
_HERE = ("127.0.0.1", "::1", "localhost")
_BY_HAND = "bring the file yourself and type: edgemem models add FILE"


def silent(_stage: str, _done: int, _of: int) -> None:
    """Be the progress that nobody wants to hear."""


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Wait until no other process brings a model into this folder."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def put_in_place(part: Path, target: Path) -> None:
    """Move a finished file to its name so that, even with the plug pulled, it is there whole or not at all."""
    sync(part)
    part.replace(target)
    sync(target.parent)


def check_space(purpose: str, folder: Path, needed: int) -> None:
    """Raise DiskFullError, before anything is written, unless the folder's disk has `needed` bytes free."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise DiskFullError(
            f"{purpose} needs {_mb(needed)} free, and the disk of {folder} has {_mb(free)}; "
            "free some, or name another folder in EDGEMEM_MODELS"
        )


def explain(error: OSError, folder: Path) -> Exception:
    """Return the error to raise for a disk that refused when nothing of the work was kept."""
    # numpy says only how much it could not write, without an errno
    if error.errno is None or error.errno in FULL:
        return DiskFullError(
            f"The disk of {folder} became full; free some space and try again. No half file was left"
        )
    return DownloadError(
        f"{folder} cannot be written ({error.strerror or error}); name another in EDGEMEM_MODELS"
    )


def download(url: str, part: Path, *, size: int, tell: Progress) -> str:
    """Bring a file, asking once for the rest where the connection breaks off, and return its sha256.

    Plain http goes no further than this machine.

    Args:
        part: where it is written; left there, whatever happens.
        size: bytes that the file must have; 0 if nobody knows.
        tell: hears `downloading`, the bytes that are there, and how many there will be.
    """
    loopback = urlsplit(url).hostname in _HERE
    _check_url(url, loopback)
    opener = urllib.request.build_opener(
        _Redirects(loopback), *([urllib.request.ProxyHandler({})] if loopback else [])
    )
    digest, done, length, etag = hashlib.sha256(), 0, size, ""
    with part.open("wb") as file:
        while True:
            again = done > 0
            with _ask(opener, url, done, etag) as answer:
                if not again:
                    length, etag = _begun(answer, url, size, part.parent)
                fault = ""
                while not fault:
                    chunk, fault = _read(answer)
                    file.write(chunk)
                    digest.update(chunk)
                    done += len(chunk)
                    tell("downloading", done, length or done)
                    if not chunk:
                        break
            if done and not fault and length in (0, done):
                return digest.hexdigest()
            if again or not (done and etag):
                of = f" of {length:,}" if length else ""
                raise DownloadError(
                    f"The download of {url} broke off after {done:,}{of} bytes ({fault or 'the connection was closed'}); "
                    "nothing was kept or replaced, try again"
                )


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a redirect only to where a download may come from."""

    def __init__(self, loopback: bool) -> None:
        self._loopback = loopback

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        try:
            _check_url(newurl, self._loopback)
        except DownloadError:
            fp.close()
            raise
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _check_url(url: str, loopback: bool) -> None:
    where = urlsplit(url)
    if where.scheme != "https" and not (loopback and where.scheme == "http" and where.hostname in _HERE):
        raise DownloadError(
            f"{url} is not an https address, and nobody could tell who answers; nothing was fetched"
        )


def _ask(opener: urllib.request.OpenerDirector, url: str, done: int, etag: str) -> HTTPResponse:
    """Ask for the file, or for the rest of it behind `done` bytes."""
    request = urllib.request.Request(url, headers={"User-Agent": "edgemem", "Accept-Encoding": "identity"})  # noqa: S310  (https was checked)
    if done:
        request.add_header("Range", f"bytes={done}-")
        request.add_header("If-Range", etag)
    try:
        answer: HTTPResponse = opener.open(request, timeout=TIMEOUT_S)
    except HTTPError as error:
        with error:
            raise DownloadError(_refused(error.code, url)) from error
    except (OSError, HTTPException, ValueError) as error:
        raise DownloadError(_unreachable(error, url)) from error
    right = 206 if done else 200
    rest = answer.headers.get("Content-Range", "").startswith(f"bytes {done}-")
    # Not every server looks at If-Range.
    if answer.status != right or (done and not (rest and answer.headers.get("ETag") == etag)):
        answer.close()
        raise DownloadError(
            f"The download of {url} broke off after {done:,} bytes, and the rest of that file cannot be had; try again"
            if done
            else _refused(answer.status, url)
        )
    return answer


def _begun(answer: HTTPResponse, url: str, size: int, folder: Path) -> tuple[int, str]:
    """Return the length of a file, 0 if the server does not say, and the tag of this very version, if it has one."""
    length, etag = answer.length or 0, answer.headers.get("ETag", "")
    if size and length and length != size:
        raise DownloadError(
            f"{url} has {length:,} bytes, and the known file {size:,}; nothing was kept or replaced"
        )
    check_space(url, folder, length + _RESERVE)
    return length, "" if etag.startswith("W/") else etag


def _read(answer: HTTPResponse) -> tuple[bytes, str]:
    """Return what comes next, and why nothing more does."""
    try:
        return answer.read(_CHUNK), ""
    except (OSError, HTTPException) as error:
        return b"", _reason(error)


def _mb(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"


def _refused(code: int, url: str) -> str:
    host = urlsplit(url).hostname
    if code in (404, 410):
        return f"{url} is not there ({code}); perhaps it was moved: update edgemem, or {_BY_HAND}"
    if code in (401, 403):
        return f"{host} does not give {url} to everybody ({code}); get it with a browser, then {_BY_HAND}"
    if 300 <= code < 400:
        return f"{host} sends on to where nothing may be fetched from; {_BY_HAND}"
    return f"{host} answered {code}; try again later"


def _unreachable(error: Exception, url: str) -> str:
    host = urlsplit(url).hostname
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, ssl.SSLCertVerificationError):
        return (
            f"{host} could not prove who it is ({reason.verify_message}); a wrong clock on this machine looks "
            "the same, so look at that first"
        )
    return (
        f"There is no way to {host} ({_reason(reason)}); go online, or fetch {url} on another computer, "
        "carry it over and type: edgemem models add FILE"
    )


def _reason(error: object) -> str:
    if isinstance(error, TimeoutError):
        return "it fell silent"
    text = error.strerror if isinstance(error, OSError) else None
    return str(text or error) or type(error).__name__
