"""A llama-server: what it holds, whether that is still the same, how it is asked, and which of its slots are taken."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.errors import ClosedError, ServerError
from edgemem.llama.http_address import Address
from edgemem.llama.http_connection import Connection
from edgemem.llama.http_reply import Step

if TYPE_CHECKING:
    from collections.abc import Generator

    from edgemem.config import ChatSettings

_LOOK_S = 0.25
"""Seconds between two looks at a server that is loading its model."""
_LOADING, _MISSING = 503, 404


class Holding(msgspec.Struct, frozen=True):
    """What a server holds; two that are equal give the same tokens."""

    model: str
    """The model's file, or the name that the server gives it."""
    n_ctx: int
    """Tokens of the window of one slot."""
    slots: int
    """Conversations that it keeps apart."""
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
        self._asking = Connection(self.address, connect_s=settings.connect_s)
        self.talking = Connection(self.address, connect_s=settings.connect_s)
        """The connection for replies: they last, and tokens are asked for meanwhile."""
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
        """Return how many requests were sent."""
        return self._asking.asked + self.talking.asked

    def ask(self, path: str, body: Any = None) -> dict[str, Any]:
        """Ask what needs no computing by the model; a body makes it a POST."""
        with self._lock:
            if self._closed:
                raise ClosedError("The chat model was closed; open it again")
            method = "GET" if body is None else "POST"
            raw = self._asking.ask(method, path, body, timeout_s=self.settings.answer_s)
        try:
            answer = msgspec.json.decode(raw)
        except msgspec.DecodeError as error:
            raise self._unknown() from error
        if not isinstance(answer, dict):
            raise self._unknown()
        return answer

    def steps(self, asked: dict[str, Any]) -> Generator[Step, None, None]:
        """Yield what the model makes of a prompt; a cut ends it, and closing it tells the server to stop.

        Args:
            asked: what the server documents for `/completion`; how it is answered is set here.
        """
        events = self.talking.events(
            "/completion",
            # A sign of life every 30 s would hide that the model is stuck.
            {
                **asked,
                "stream": True,
                "return_tokens": True,
                "timings_per_token": True,
                "sse_ping_interval": -1,
            },
            first_s=self.settings.first_token_s,
            between_s=self.settings.between_tokens_s,
        )
        try:
            for event in events:
                try:
                    step = msgspec.convert(event, Step)
                except msgspec.ValidationError as error:
                    raise ServerError(
                        f"The server at {self.address.text} answers as no llama-server of 2025 does ({error})"
                    ) from error
                yield step
            if not self.talking.is_cut:
                raise ServerError(f"The server at {self.address.text} ended its answer too early; ask again")
        finally:
            events.close()

    def refresh(self) -> Holding:
        """Return what the server holds now; it is asked only if it closed the connection since the last look.

        A server that holds another model is another process, whose predecessor's connections are closed.
        """
        with self._lock:
            if self._closed:
                raise ClosedError("The chat model was closed; open it again")
            self._asking.touch()
            if self._asking.opened != self._looked:
                self.holds = self._look()
            return self.holds

    def _once_loaded(self, path: str) -> dict[str, Any]:
        """Ask, again and again while the server says that it is still loading its model."""
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
        """Say what answers there, if it is no llama-server that can do what is needed."""
        try:
            raw = self._asking.ask("GET", "/api/version", timeout_s=self.settings.answer_s)
            version = json.loads(raw)["version"]
        except (ServerError, ValueError, KeyError, TypeError):
            return ServerError(
                f"What answers at {self.address.text} is no llama-server, or one from before 2025; start a new one"
            )
        return ServerError(
            f"At {self.address.text} answers Ollama {version}, which neither counts tokens nor takes them, so nothing could "
            "be promised about its cache; run llama-server on the same GGUF and name that"
        )


class Slots:
    """The slots in use, server by server: a conversation with one of its own keeps its prefix."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._used: dict[str, Counter[int]] = {}

    def take(self, server: str, *, slots: int, wanted: int | None = None) -> int:
        """Return the slot that is wanted, or the one that fewest others have."""
        with self._lock:
            used = self._used.setdefault(server, Counter())
            slot = min(range(slots), key=lambda each: used[each]) if wanted is None else wanted
            used[slot] += 1
            return slot

    def spare(self, server: str, *, slots: int, wanted: int | None = None) -> int | None:
        """Return the slot that is wanted, or the last one, if no conversation has it; None where they have all."""
        with self._lock:
            used = self._used.get(server, Counter())
            asked = reversed(range(slots)) if wanted is None else (wanted,)
            return next((slot for slot in asked if not used[slot]), None)

    def free(self, server: str, slot: int) -> None:
        """Give a slot back."""
        with self._lock:
            self._used[server][slot] -= 1


SLOTS = Slots()
"""Those of this process; those of another are not known here, so its slots are named in its profile."""
