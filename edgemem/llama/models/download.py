"""A download over https that goes on where it broke off, into a folder where files appear whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import ssl
import urllib.request
from contextlib import contextmanager, suppress
from http.client import HTTPException
from typing import TYPE_CHECKING
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

import msgspec

from edgemem.errors import DiskFullError, DownloadError
from edgemem.llama.models.catalog import sha256_of
from edgemem.store.db.files import sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from http.client import HTTPMessage, HTTPResponse
    from pathlib import Path
    from typing import IO

    Progress = Callable[[str, int, int], None]
    """Hears the stage, and bytes or tensors done and in all."""

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


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


def check_space(what: str, folder: Path, needed: int) -> None:
    """Raise DiskFullError, before anything is written, unless the folder's disk has `needed` bytes free."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise DiskFullError(
            f"{what} needs {mb(needed)} free, and the disk of {folder} has {mb(free)}; "
            "free some, or name another folder in EDGEMEM_MODELS"
        )


def explain(error: OSError, folder: Path) -> Exception:
    """Word what a disk refused when nothing of the work was kept."""
    # numpy says only how much it could not write, without an errno
    if error.errno is None or error.errno in FULL:
        return DiskFullError(
            f"The disk of {folder} became full; free some space and try again. No half file was left"
        )
    return DownloadError(
        f"{folder} cannot be written ({error.strerror or error}); name another in EDGEMEM_MODELS"
    )


def mb(count: int) -> str:
    """Return bytes as MB."""
    return f"{count / 1e6:,.0f} MB"


_MIB = 1 << 20
MARK_EVERY = 64 * _MIB
"""Bytes that a pulled plug costs at most."""


class Begun(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the note beside a part says."""

    url: str
    etag: str
    """By which the server tells versions of the file apart; empty if it does not, byte for byte."""
    length: int
    """Bytes of the whole file; 0 if the server did not say."""
    kept: int
    """Bytes that are really on the disk. After a pulled plug a file may be longer than that, and hold nonsense."""


class Part:
    """The file of a download from one URL, whose name ends in `.part`, and its note; a context that closes it."""

    def __init__(self, path: Path, url: str) -> None:
        self.path = path
        # the ending is one that .gitignore knows
        self._note = path.with_name(f"{path.name.removesuffix('.part')}.json.part")
        self._file = -1
        self.count = 0
        self.begun = Begun(url=url, etag="", length=0, kept=0)
        try:
            begun = msgspec.json.decode(self._note.read_bytes(), type=Begun)
        except (FileNotFoundError, msgspec.DecodeError):
            begun = self.begun
        # without an ETag nothing tells whether the rest would be of the same file
        if begun.url == url and begun.etag and path.exists() and 0 < begun.kept <= path.stat().st_size:
            self.begun = begun
        else:
            self.drop()

    def start(self, begun: Begun) -> None:
        """Open for writing behind the bytes that are kept; what stands after them goes."""
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        os.ftruncate(self._file, begun.kept)
        self.count = os.lseek(self._file, 0, os.SEEK_END)
        self._write_note(begun)

    def add(self, chunk: bytes) -> None:
        """Append bytes; now and then make sure that they are on the disk."""
        rest = memoryview(chunk)
        while rest:
            rest = rest[os.write(self._file, rest) :]
        self.count += len(chunk)
        if self.count - self.begun.kept >= MARK_EVERY:
            self.mark()

    def mark(self) -> None:
        """Make sure that what was written is on the disk, and note how much it is."""
        os.fsync(self._file)
        self._write_note(msgspec.structs.replace(self.begun, kept=self.count))

    def drop(self) -> None:
        """Remove the file and its note."""
        self.close()
        self._note.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)
        self.begun = msgspec.structs.replace(self.begun, etag="", length=0, kept=0)

    def place(self, target: Path) -> None:
        """Give the finished file its name."""
        put_in_place(self.path, target)
        self._note.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _write_note(self, begun: Begun) -> None:
        # replaced in one step: with a full disk the older note stays, and is true of a shorter beginning
        self.begun = begun
        part = self._note.with_name(f"{self._note.name}.part")
        try:
            part.write_bytes(msgspec.json.encode(begun))
            part.replace(self._note)
        except OSError:
            part.unlink(missing_ok=True)
            raise


TIMEOUT_S = 30.0
"""Seconds of silence after which a server is given up."""
_CHUNK = 1 << 16  # small enough that the bar moves on a slow line
_RESERVE = 16_000_000  # bytes that a download leaves free: the memory itself writes to the same disk
_HERE = ("127.0.0.1", "::1", "localhost")
_BY_HAND = "bring the file yourself and type: edgemem models add FILE"


def download(part: Part, *, tell: Progress, sha256: str, size: int, advice: str) -> str:
    """Bring a GGUF to the part's file and return its sha256.

    What breaks off is kept for the next call. What is wrong is removed. Plain http goes no further than this machine.

    Args:
        tell: hears `downloading`, the bytes that are there, and how many there will be.
        sha256: what the file must have; empty if nobody knows.
        size: bytes that the file must have; 0 if nobody knows.
        advice: what to do when the server has another file than the known one.
    """
    url = part.begun.url
    loopback = urlsplit(url).hostname in _HERE
    _check_url(url, loopback)
    if not part.begun.kept or part.begun.kept != part.begun.length:
        opener = urllib.request.build_opener(
            _Redirects(loopback), *([urllib.request.ProxyHandler({})] if loopback else [])
        )
        answer = _ask(opener, part.begun)
        if answer.status == 206 and not _goes_on(answer, part.begun):
            answer.close()
            part.drop()
            answer = _ask(opener, part.begun)
        with answer:
            _take(answer, part, size, advice, tell)
    digest = sha256_of(part.path)
    if sha256 and digest != sha256:
        part.drop()
        raise DownloadError(
            f"{url} sent a file with another checksum than the known one; nothing was kept or replaced; {advice}"
        )
    return digest


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


def _ask(opener: urllib.request.OpenerDirector, begun: Begun) -> HTTPResponse:
    """Ask for the file, or for what is missing of it."""
    url = begun.url
    request = urllib.request.Request(url, headers={"User-Agent": "edgemem", "Accept-Encoding": "identity"})  # noqa: S310  (https was checked)
    if begun.kept:
        request.add_header("Range", f"bytes={begun.kept}-")
        request.add_header("If-Range", begun.etag)
    try:
        answer: HTTPResponse = opener.open(request, timeout=TIMEOUT_S)
    except HTTPError as error:
        with error:
            if error.code == 416 and begun.kept:  # it has become shorter: another file
                return _ask(opener, msgspec.structs.replace(begun, kept=0))
            raise DownloadError(_refused(error.code, url)) from error
    except (OSError, HTTPException, ValueError) as error:
        raise DownloadError(_unreachable(error, url)) from error
    if answer.status == 206 and not begun.kept:
        answer.close()
        raise DownloadError(_refused(206, url))
    return answer


def _goes_on(answer: HTTPResponse, begun: Begun) -> bool:
    """Tell whether a partial answer is the rest of what has begun: not every server looks at If-Range."""
    begins = answer.headers.get("Content-Range", "").startswith(f"bytes {begun.kept}-")
    return begins and bool(answer.headers.get("ETag") == begun.etag)


def _take(answer: HTTPResponse, part: Part, size: int, advice: str, tell: Progress) -> None:
    """Write what the server sends behind the bytes that are on disk; a failure keeps those that came before it."""
    begun = part.begun
    if answer.status != 206:
        # also where the rest was asked for: the server cannot begin in the middle, or has a newer file
        etag = answer.headers.get("ETag", "")
        etag = "" if etag.startswith("W/") else etag
        begun = Begun(url=begun.url, etag=etag, length=answer.length or 0, kept=0)
    if size and begun.length and begun.length != size:
        part.drop()
        raise DownloadError(
            f"{begun.url} has {begun.length:,} bytes, and the known file {size:,}; nothing was kept or replaced; {advice}"
        )
    try:
        check_space(f"The rest of {begun.url}", part.path.parent, begun.length - begun.kept + _RESERVE)
        part.start(begun)
        try:
            for chunk in _chunks(answer, part):
                part.add(chunk)
                tell("downloading", part.count, begun.length or part.count)
        finally:
            part.mark()
            if part.count == 0:
                part.drop()
    except OSError as error:
        raise _unwritten(error, part) from error
    if part.count == 0 or begun.length not in (0, part.count):
        raise _broken_off(part, "the connection was closed")


def _chunks(answer: HTTPResponse, part: Part) -> Iterator[bytes]:
    """Yield what a server sends."""
    try:
        while chunk := answer.read(_CHUNK):
            yield chunk
    except (OSError, HTTPException) as error:
        raise _broken_off(part, _reason(error)) from error


def _unwritten(error: OSError, part: Part) -> Exception:
    """Word what the disk refused; what it had taken before stays, and is gone on with."""
    kept = part.begun.kept
    if not kept:
        with suppress(OSError):  # a disk that takes nothing away either is told about by the first error
            part.drop()
    if error.errno not in FULL or not kept:
        return explain(error, part.path.parent)
    return DiskFullError(
        f"The disk of {part.path.parent} became full; {mb(kept)} are kept in {part.path.name}. "
        "Free some space and type the same command to go on, or delete that file"
    )


def _broken_off(part: Part, reason: str) -> DownloadError:
    if not part.count:
        return DownloadError(f"The download broke off before its first byte ({reason}); try again")
    of = f" of {part.begun.length:,}" if part.begun.length else ""
    return DownloadError(
        f"The download broke off after {part.count:,}{of} bytes ({reason}); they are kept, type the same command to go on"
    )


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
