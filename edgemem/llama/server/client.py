"""A llama-server: its address, the connections to it, and its answers."""

from __future__ import annotations

import http.client
import ipaddress
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Collection, Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from edgemem.errors import ClosedError, ConfigError, ContextOverflowError, ServerError

if TYPE_CHECKING:
    from edgemem.config import ChatSettings

CONNECT_S = 2.0  # seconds to reach the server: microseconds on this machine
_GONE = (OSError, http.client.HTTPException, ValueError)  # of reading from a closed connection
ANSWER_S = 10.0
"""Seconds to wait for work without the model, such as tokens of a text; they share the processor."""
BETWEEN_TOKENS_S = 120.0
"""Seconds of silence within a reply: a batch of another conversation's prompt may come between."""
_LOOK_S = 0.25  # between two looks at a server that is loading its model
_LOADING, _MISSING = 503, 404


class Address(msgspec.Struct, frozen=True):
    """One server: a host and a port, or the file of a Unix domain socket."""

    text: str
    host: str = ""
    port: int = 0
    file: str = ""

    @classmethod
    def parse(cls, text: str, *, hosts: Collection[str] = ()) -> Address:
        """Read `http://127.0.0.1:8080` or `unix:///run/llama.sock`; of other machines, only `hosts` may be named."""
        host, port = "", 80
        with suppress(ValueError):
            parts = urlsplit(text)
            if parts.scheme == "unix" and parts.path and not parts.hostname:
                return cls(text, file=parts.path)
            if parts.scheme == "http" and not (parts.path.strip("/") or parts.query or parts.username):
                port, host = parts.port or 80, parts.hostname or ""
        if not host:
            raise ConfigError(
                f"{text!r} names no server; write an address such as http://127.0.0.1:8080 or unix:///run/llama.sock"
            )
        if host == "localhost":  # RFC 6761: no name server is ever asked for it
            host = "127.0.0.1"
        with suppress(ValueError):
            if ipaddress.ip_address(host).is_loopback:
                return cls(text, host=host, port=port)
        if host not in {name.strip("[]").lower() for name in hosts}:
            raise ConfigError(
                f"{host} is not this machine, and nothing may leave it unasked; if you mean it, name the host under "
                f'[chat] server_hosts = ["{host}"] in the profile'
            )
        return cls(text, host=host, port=port)

    @property
    def place(self) -> str:
        """The part that two spellings of one server have in common."""
        return self.file or f"{self.host}:{self.port}"

    def connect(self, timeout_s: float) -> socket.socket:
        """Return a connected socket; raise OSError like any other."""
        if not self.file:
            return socket.create_connection((self.host, self.port), timeout_s)
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connected.settimeout(timeout_s)
            connected.connect(self.file)
        except BaseException:
            connected.close()
            raise
        return connected


class Timings(msgspec.Struct, frozen=True):
    """The server's figures of its work on the prompt."""

    prompt_n: int = 0


class Step(msgspec.Struct, frozen=True):
    """One event: a token that was made, the end of the reply, or a refusal."""

    timings: Timings = Timings()
    content: str = ""
    tokens: tuple[int, ...] = ()
    tokens_predicted: int = 0
    stop: bool = False
    stop_type: str = ""
    error: dict[str, Any] | None = None


class Connection(http.client.HTTPConnection):
    """Asks one thing after the other, from one thread at a time; `cut` may come from any.

    llama-server closes a connection after 5 s of silence, 100 requests or a stream. A request that finds it closed is sent once
    more on a new one: the server had not begun with it.
    """

    def __init__(self, address: Address) -> None:
        super().__init__(address.host or "localhost")
        self._address = address
        self.is_cut = False
        self.opened = 0
        """Connections made; behind each the server may be another one."""
        self.asked = 0
        """Requests sent."""

    def connect(self) -> None:
        """Open the connection."""
        try:
            self.sock = connected = self._address.connect(CONNECT_S)
        except OSError as error:
            raise ServerError(
                f"No server answers at {self._address.text} ({error.strerror or error}); start one, such as "
                "llama-server -m MODEL.gguf"
            ) from error
        if connected.family != socket.AF_UNIX:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a request is sent in two parts
        self.opened += 1
        if self.is_cut:
            self.cut()

    def cut(self) -> None:
        """End the running request, or else the next one, until `mend`."""
        self.is_cut = True
        connected = self.sock
        if connected is not None:
            with suppress(OSError):  # the other end, or a close, may have been faster
                connected.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """Let requests run after a cut."""
        self.is_cut = False

    def touch(self) -> None:
        """Open a connection unless there is one that lives."""
        if not _lives(self.sock):
            self.close()
            self.connect()

    def ask(self, path: str, body: Any = None, *, timeout_s: float) -> bytes:
        """Return the answer, to a POST where there is a body of JSON; after `timeout_s` of silence the server is stuck."""
        return self._whole(self._send(path, body, timeout_s), timeout_s)

    def steps(self, path: str, body: Any, *, first_s: float, between_s: float) -> Generator[Step, None, None]:
        """Send a request and yield the model's steps, allowing seconds of silence before the first and between two.

        A cut ends that without an error; closing the generator closes the connection, which tells the server to stop.
        """
        ended = False
        timeout_s = first_s
        try:
            response = self._send(path, body, first_s)
            if response.status != http.client.OK:
                self._whole(response, first_s)
            for line in response:
                if line.startswith((b"data:", b"error:")):
                    timeout_s = between_s
                    if self.sock is not None:
                        self.sock.settimeout(timeout_s)
                    yield self._step(line)
            ended = True
        except ServerError:
            if not self.is_cut:
                raise
        except _GONE as error:
            if not self.is_cut:
                raise self.failure(error, timeout_s) from error
        finally:
            if not ended:
                self.close()

    def _step(self, line: bytes) -> Step:
        kind, _, data = line.partition(b":")
        try:
            step = msgspec.json.decode(data, type=Step)
            refusal = step.error if kind == b"data" else msgspec.json.decode(data, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise ServerError(
                f"The server at {self._address.text} answers as no llama-server of 2025 does ({error})"
            ) from error
        if refusal is not None:
            raise self._refusal(refusal)
        return step

    def _whole(self, response: http.client.HTTPResponse, timeout_s: float) -> bytes:
        try:
            body = response.read()
        except _GONE as error:
            self.close()
            raise self.failure(error, timeout_s) from error
        if response.status == http.client.OK:
            return body
        try:
            refusal = json.loads(body)["error"]
        except (ValueError, KeyError, TypeError):
            refusal = {"code": response.status, "message": body[:200].decode("utf-8", "replace")}
        raise self._refusal(refusal)

    def _send(self, path: str, body: Any, timeout_s: float) -> http.client.HTTPResponse:
        sent = None if body is None else msgspec.json.encode(body)
        method, headers = ("GET", {}) if sent is None else ("POST", {"Content-Type": "application/json"})
        self.asked += 1
        while True:
            opened = self.opened
            self.touch()
            try:
                self.sock.settimeout(timeout_s)
                self.request(method, path, sent, headers)
                return self.getresponse()
            except _GONE as error:
                self.close()
                if self.is_cut or self.opened > opened or isinstance(error, TimeoutError):
                    raise self.failure(error, timeout_s) from error

    def failure(self, error: Exception | None = None, timeout_s: float = 0.0) -> ServerError:
        """Return the error to raise where an answer did not come whole."""
        fault = "ended in the middle of its answer; see why, and start it again"
        if isinstance(error, TimeoutError):
            fault = f"was silent for {timeout_s:g} s; see what keeps it, or give it longer in [chat]"
        return ServerError(f"The server at {self._address.text} {fault}")

    def _refusal(self, error: dict[str, Any]) -> ServerError | ContextOverflowError:
        message = str(error.get("message") or error).strip().rstrip(".")
        if error.get("type") == "exceed_context_size_error":
            return ContextOverflowError(
                f"The server refuses the prompt ({message}); compact the conversation"
            )
        return ServerError(
            f"The server at {self._address.text} refuses ({message})", code=int(error.get("code") or 0)
        )


def _lives(connected: socket.socket | None) -> bool:
    if connected is None:
        return False
    connected.settimeout(0)
    try:
        connected.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False  # closed, or bytes that nobody asked for


class Holding(msgspec.Struct, frozen=True):
    """A server's model and window; two that are equal give the same tokens."""

    model: str
    """The model's file, or the server's name for it."""
    n_ctx: int
    """Tokens of one slot's window."""
    slots: int
    template: str
    bos: str
    eos: str
    n_vocab: int
    figures: tuple[int, ...]
    """Kind of the vocabulary, number and bytes of the weights."""


class LlamaServer:
    """The server at one address; questions may come from several threads, each is answered in its turn."""

    def __init__(self, address: str, settings: ChatSettings) -> None:
        self.address = Address.parse(address, hosts=settings.server_hosts)
        self.settings = settings
        self._lock = threading.RLock()
        self._asking = Connection(self.address)
        self.talking = Connection(self.address)
        """For replies: they last, and tokens are asked for meanwhile."""
        self._looked = 0
        self._closed = False
        try:
            self.holds = self._look()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connections; a second call does nothing."""
        self._closed = True
        with self._lock:
            self._asking.close()
            self.talking.close()

    @property
    def asked(self) -> int:
        """The number of requests sent."""
        return self._asking.asked + self.talking.asked

    def ask(self, path: str, body: Any = None) -> dict[str, Any]:
        """Ask what needs no model; a body makes it a POST."""
        with self._lock:
            self._check_open()
            raw = self._asking.ask(path, body, timeout_s=ANSWER_S)
        try:
            return msgspec.json.decode(raw, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise self._unknown() from error

    def steps(self, asked: dict[str, Any]) -> Generator[Step, None, None]:
        """Yield the steps of a `/completion`; a cut ends it, and closing it tells the server to stop."""
        # A sign of life every 30 s would hide that the model is stuck.
        answered = {"stream": True, "return_tokens": True, "timings_per_token": True, "sse_ping_interval": -1}
        yield from self.talking.steps(
            "/completion",
            {**asked, **answered},
            first_s=self.settings.first_token_s,
            between_s=BETWEEN_TOKENS_S,
        )
        if not self.talking.is_cut:
            raise self.talking.failure()

    def check(self) -> None:
        """Raise ServerError where, since the connection closed, a server with another model has taken its place."""
        with self._lock:
            self._check_open()
            self._asking.touch()
            if self._asking.opened == self._looked:
                return
            holds = self._look()
            if holds != self.holds:
                self._looked = 0
                raise ServerError(
                    f"The server at {self.address.text} now holds another model or window ({holds.model}); open it again"
                )

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("The chat model was closed; open it again")

    def _once_loaded(self, path: str) -> dict[str, Any]:
        for _ in range(1 + int(self.settings.load_s / _LOOK_S)):
            try:
                return self.ask(path)
            except ServerError as error:
                if error.code != _LOADING:
                    raise
            time.sleep(_LOOK_S)
        raise ServerError(
            f"The server at {self.address.text} has not loaded its model within {self.settings.load_s:g} s; give it "
            "longer with load_s under [chat]",
            code=_LOADING,
        )

    def _look(self) -> Holding:
        try:
            props = self._once_loaded("/props")
            opened = self._asking.opened
            window = int(props["default_generation_settings"]["n_ctx"])
            (model,) = self.ask("/v1/models")["data"]
            about = model["meta"]
            holds = Holding(
                model=str(props.get("model_path") or props.get("model_alias") or ""),
                n_ctx=window,
                slots=int(props.get("total_slots", 1)),
                template=str(props.get("chat_template") or ""),
                bos=str(props.get("bos_token") or ""),
                eos=str(props.get("eos_token") or ""),
                n_vocab=int(about["n_vocab"]),
                figures=tuple(int(about.get(key, 0)) for key in ("vocab_type", "n_params", "size")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise self._unknown() from error
        except ServerError as error:
            if error.code != _MISSING:
                raise
            raise self._unknown() from error
        self._looked = opened
        return holds

    def _unknown(self) -> ServerError:
        return ServerError(
            f"What answers at {self.address.text} is no llama-server, or one from before 2025; start a new one. Ollama neither "
            "counts tokens nor takes them: run llama-server on the same GGUF"
        )


class Slots:
    """The slots in use, server by server, so that a conversation keeps its prefix in one of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._used: dict[str, Counter[int]] = {}

    def reserve(self, server: str, *, slots: int, preferred: int) -> int:
        """Return the preferred slot, or, for -1, the one that fewest others have."""
        with self._lock:
            used = self._used.setdefault(server, Counter())
            slot = min(range(slots), key=lambda number: used[number]) if preferred < 0 else preferred
            used[slot] += 1
            return slot

    def spare(self, server: str, *, slots: int, preferred: int) -> int | None:
        """Return the preferred slot, or, for -1, the last that no conversation has; None where all are taken."""
        with self._lock:
            used = self._used.get(server, Counter())
            asked = reversed(range(slots)) if preferred < 0 else (preferred,)
            return next((slot for slot in asked if not used[slot]), None)

    def free(self, server: str, slot: int) -> None:
        """Give a slot back."""
        with self._lock:
            self._used[server][slot] -= 1


SLOTS = Slots()
"""Those of this process; a profile names its slots where other processes share the server."""
