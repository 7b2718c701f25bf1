"""One lasting connection to a model's server: opened when needed, and again after the server closed it."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.errors import ContextOverflowError, ServerError

if TYPE_CHECKING:
    from collections.abc import Generator

    from edgemem.llama.http_address import Address

_CHUNK = 1 << 16
_GONE = (OSError, http.client.HTTPException, ValueError)
"""What reading from a connection raises once one of its ends has closed it."""


class Connection:
    """Asks one thing after the other, from one thread at a time; `cut` may come from any.

    llama-server closes a connection after 5 s of silence, after 100 requests and after each stream. A request that
    finds such a connection is sent once more on a new one: the server had not begun with it.

    Args:
        connect_s: seconds to reach the server.
    """

    def __init__(self, address: Address, *, connect_s: float) -> None:
        self._address = address
        self._connect_s = connect_s
        self._lock = threading.Lock()
        self._http: http.client.HTTPConnection | None = None
        self._cut = False
        self.opened = 0
        """How often a connection was made; with each of them the server may be another one."""
        self.asked = 0
        """How many requests were sent."""

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        with self._lock:
            live, self._http = self._http, None
        if live is not None:
            live.close()

    def cut(self) -> None:
        """End the request that is running, or the next one if none is, until `mend`."""
        with self._lock:
            self._cut = True
            if self._http is not None and self._http.sock is not None:
                _shut(self._http.sock)

    @property
    def is_cut(self) -> bool:
        """Tell whether requests end at once."""
        return self._cut

    def mend(self) -> None:
        """Let requests run after a cut."""
        with self._lock:
            self._cut = False

    def touch(self) -> None:
        """Open a connection unless there is one that lives."""
        self._live()

    def ask(self, method: str, path: str, body: Any = None, *, timeout_s: float) -> bytes:
        """Send a request and return the answer's body.

        Args:
            body: what is sent as JSON.
            timeout_s: seconds of silence after which the server counts as stuck.

        Raises:
            ServerError: there is no server, it is stuck, it went away, or it answers with an error.
        """
        response = self._send(method, path, body, timeout_s)
        return self._whole(response, timeout_s)

    def events(
        self, path: str, body: Any, *, first_s: float, between_s: float
    ) -> Generator[dict[str, Any], None, None]:
        """Send a request and yield the events that answer it; a cut ends them without an error.

        Closing the generator before its end closes the connection, which tells the server to stop.

        Args:
            first_s: seconds of silence allowed before the first event.
            between_s: seconds of silence allowed between two.
        """
        ended = False
        timeout_s = first_s
        try:
            response = self._send("POST", path, body, first_s)
            if response.status != http.client.OK:
                self._whole(response, first_s)
            waiting = b""
            while True:
                data = response.read1(_CHUNK)
                *lines, waiting = (waiting + data).split(b"\n")
                for line in lines:
                    if line.startswith((b"data:", b"error:")) and not line.endswith(b"[DONE]"):
                        timeout_s = self._wait_at_most(between_s)
                        yield self._event(line)
                if not data:
                    ended = True
                    return
        except ServerError:
            if not self._cut:
                raise
        except _GONE as error:
            if not self._cut:
                raise self._failure(error, timeout_s) from error
        finally:
            if not ended:
                self.close()

    def _event(self, line: bytes) -> dict[str, Any]:
        try:
            event: dict[str, Any] = json.loads(line.partition(b":")[2])
        except ValueError as error:
            raise ServerError(f"The server at {self._address.text} sent what is no JSON ({error})") from error
        told = event.get("error", event if line.startswith(b"error:") else None)
        if told is not None:
            raise self._refusal(told)
        return event

    def _wait_at_most(self, seconds: float) -> float:
        if self._http is not None and self._http.sock is not None:
            self._http.sock.settimeout(seconds)
        return seconds

    def _whole(self, response: http.client.HTTPResponse, timeout_s: float) -> bytes:
        try:
            body = response.read()
        except _GONE as error:
            self.close()
            raise self._failure(error, timeout_s) from error
        if response.status == http.client.OK:
            return body
        try:
            told = json.loads(body)["error"]
        except (ValueError, KeyError, TypeError):
            told = {"code": response.status, "message": body[:200].decode("utf-8", "replace")}
        raise self._refusal(told)

    def _send(self, method: str, path: str, body: Any, timeout_s: float) -> http.client.HTTPResponse:
        sent = None if body is None else msgspec.json.encode(body)
        headers = {} if sent is None else {"Content-Type": "application/json"}
        self.asked += 1
        while True:
            opened = self.opened
            live = self._live()
            try:
                live.sock.settimeout(timeout_s)
                live.request(method, path, sent, headers)
                return live.getresponse()
            except _GONE as error:
                self.close()
                if self._cut or self.opened > opened or isinstance(error, TimeoutError):
                    raise self._failure(error, timeout_s) from error

    def _live(self) -> http.client.HTTPConnection:
        if self._http is not None and not _lives(self._http.sock):
            self.close()
        if self._http is not None:
            return self._http
        try:
            made = self._address.connect(self._connect_s)
        except OSError as error:
            raise ServerError(
                f"No server answers at {self._address.text} ({error.strerror or error}); start one, such as "
                "llama-server -m MODEL.gguf"
            ) from error
        if made.family != socket.AF_UNIX:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a request is sent in two parts
        live = http.client.HTTPConnection(self._address.host or "localhost")
        live.auto_open = 0
        live.sock = made
        with self._lock:
            self._http = live
            self.opened += 1
            if self._cut:
                _shut(made)
        return live

    def _failure(self, error: Exception, timeout_s: float) -> ServerError:
        where = self._address.text
        if isinstance(error, TimeoutError):
            return ServerError(
                f"The server at {where} was silent for {timeout_s:g} s; see what keeps it, or give it longer in [chat]"
            )
        return ServerError(
            f"The server at {where} ended in the middle of its answer; see why, and start it again"
        )

    def _refusal(self, error: dict[str, Any]) -> ServerError | ContextOverflowError:
        told = str(error.get("message") or error).strip().rstrip(".")
        if error.get("type") == "exceed_context_size_error":
            return ContextOverflowError(f"The server refuses the prompt ({told}); compact the conversation")
        return ServerError(
            f"The server at {self._address.text} refuses ({told})", code=int(error.get("code") or 0)
        )


def _lives(made: socket.socket | None) -> bool:
    """Tell whether the other end has not closed an idle connection."""
    if made is None:
        return False
    made.settimeout(0)
    try:
        made.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False  # closed, or bytes that nobody asked for


def _shut(made: socket.socket) -> None:
    with suppress(OSError):  # the other end may have been faster
        made.shutdown(socket.SHUT_RDWR)
