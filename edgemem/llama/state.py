"""The state of a model, kept over a reboot: its instructions are not read again, token by token.

It is taken at the end of a turn, in the turn's thread, and written in a thread of its own. A file is `EDGESTAT`, the sha256 of
everything behind it, the length of the header (4 bytes, little-endian), the header in msgpack, and llama.cpp's bytes; it is whole
or not there, and is read only if every bit of it is right.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from edgemem.config import open_file, read_file
from edgemem.errors import CorruptError, EdgememError, StoreError
from edgemem.llama import backend
from edgemem.llama.header import sampled
from edgemem.llama.protocols import common_prefix
from edgemem.preload import np
from edgemem.store.db.files import write_private

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Buffer

    from edgemem.llama.chat import LlamaChat

FORMAT = 1
_MAGIC = b"EDGESTAT"
_LENGTH = struct.Struct("<I")
_DIGEST = 32
_BEGIN = len(_MAGIC) + _DIGEST + _LENGTH.size
LEAST = 64
"""Fewer tokens are evaluated as fast as a file is found, read and checked."""
_HEADER = 1 << 20  # bytes that a file may hold beside the data
_SEQUENCE = 0  # llama-cpp-python evaluates everything in this one
_ASIDE = 1
_SETTINGS = (
    *("type_k", "type_v", "flash_attn_type", "offload_kqv", "swa_full", "kv_unified", "n_seq_max"),
    *("rope_scaling_type", "rope_freq_base", "rope_freq_scale"),
    *("yarn_ext_factor", "yarn_attn_factor", "yarn_beta_fast", "yarn_beta_slow", "yarn_orig_ctx"),
)
_log = logging.getLogger(__name__)


class StateHeader(msgspec.Struct, frozen=True):
    """The header of a kept state."""

    kind: Literal["prefix", "whole"]
    """Instructions and tools alone, or the conversation as well."""
    stamp: dict[str, str]
    """Values that the data depends on: where one differs, it is of no use."""
    ids: list[int]
    log: bytes
    forgotten: int
    """Tick of the newest forgetting by then: an older state may hold what went."""
    at: float
    """Seconds since the epoch."""
    size: int
    name: str = ""
    """The model's file, for people."""
    format: int = FORMAT


def write_state(path: Path, header: StateHeader, data: Buffer, *, still_wanted: Callable[[], bool]) -> bool:
    """Write a state file in one step; return False, and leave no file, if nobody wants it when it is ready."""
    raw = msgspec.msgpack.encode(header)
    rest = _LENGTH.pack(len(raw)) + raw
    digest = hashlib.sha256(rest)
    digest.update(data)
    # 0600 from the first byte on: a whole state holds a conversation.
    part = path.with_suffix(".part")
    return write_private(path, _MAGIC + digest.digest() + rest, data, part=part, stands=still_wanted)


def read_state(path: Path, *, max_bytes: int) -> tuple[StateHeader, memoryview]:
    """Read a file and check every byte; raise CorruptError where anything is wrong."""
    if path.stat().st_size > max_bytes:
        raise CorruptError(f"{path.name} is larger than [chat] keep_state_mb allows")
    # Read, not mapped: a mapped file that is cut short kills the process.
    raw = memoryview(read_file(path, most=max_bytes))
    header, end = _header(path, raw)
    begin = len(_MAGIC) + _DIGEST
    if hashlib.sha256(raw[begin:]).digest() != raw[len(_MAGIC) : begin] or len(raw) - end != header.size:
        raise CorruptError(f"{path.name} is damaged or cut short")
    return header, raw[end:]


def headers_in(folder: Path, glob: str = "state-*.bin") -> list[tuple[Path, StateHeader]]:
    """Return the kept states with a readable header, without a look at their data."""
    headers = []
    for path in sorted(folder.glob(glob)):
        with suppress(OSError, CorruptError), open_file(path) as file:
            headers.append((path, _header(path, memoryview(file.read(_HEADER)))[0]))
    return headers


def remove_states(folder: Path, *, before: int | None = None) -> None:
    """Delete kept states, all or those `before` a forgetting's tick, and parts of writings that were cut off."""
    headers = [] if before is None else headers_in(folder, "state-*")
    newer = {path for path, header in headers if before is not None and header.forgotten >= before}
    for path in set(folder.glob("state-*")) - newer:
        if path.is_symlink() or not path.is_dir():  # a folder is somebody else's, and no state
            path.unlink(missing_ok=True)


def _header(path: Path, raw: memoryview) -> tuple[StateHeader, int]:
    if len(raw) < _BEGIN or raw[: len(_MAGIC)] != _MAGIC:
        raise CorruptError(f"{path.name} is no kept state")
    end = _BEGIN + _LENGTH.unpack_from(raw, _BEGIN - _LENGTH.size)[0]
    try:
        header = msgspec.msgpack.decode(raw[_BEGIN:end], type=StateHeader)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptError(f"{path.name} is damaged or cut short") from error
    if header.format != FORMAT:
        raise CorruptError(f"{path.name} has format {header.format}, and this edgemem reads {FORMAT}")
    return header, end


def stamp_of(llm: Any) -> dict[str, str]:
    """Return what a state depends on: the model, llama.cpp, and the settings of its context."""
    context, model, path = llm.context_params, llm.model_params, Path(llm.model_path)
    return {
        "llama-cpp-python": str(backend.llama().__version__),
        "system": backend.llama().llama_print_system_info().decode("utf-8", "replace"),
        "model": f"{path.stat().st_size}:{sampled(path).hexdigest()}",
        "lora": f"{llm.lora_path or ''} {llm.lora_scale if llm.lora_path else ''}".strip(),
        "n_gpu_layers": str(model.n_gpu_layers),
        "n_ctx": str(context.n_ctx),
        # Older llama.cpp has fewer of them.
        **{name: str(getattr(context, name)) for name in _SETTINGS if hasattr(context, name)},
    }


def copy_out(llm: Any, tokens: int) -> NDArray[np.uint8] | None:
    """Return the state of the first `tokens` of the sequence, which goes on as it was; None if llama.cpp fails.

    llama.cpp saves whole sequences only, so a second one owns the rest meanwhile: in a cache of one stream, as a `Llama`'s is,
    this only changes the owner of cells.
    """
    api = backend.llama()
    memory = api.llama_get_memory(llm.ctx)
    api.llama_memory_seq_cp(memory, _SEQUENCE, _ASIDE, -1, -1)
    try:
        if not api.llama_memory_seq_rm(memory, _SEQUENCE, tokens, -1):
            return None
        size = int(api.llama_state_seq_get_size(llm.ctx, _SEQUENCE))
        data = np.empty(size, np.uint8)
        copied = api.llama_state_seq_get_data(llm.ctx, _pointer(data), size, _SEQUENCE)
        return data if copied == size else None
    finally:
        api.llama_memory_seq_cp(memory, _ASIDE, _SEQUENCE, -1, -1)
        api.llama_memory_seq_rm(memory, _ASIDE, -1, -1)


def put_in(llm: Any, ids: Sequence[int], data: NDArray[np.uint8]) -> bool:
    """Let the sequence hold just `ids`, whose state is `data`; return whether llama.cpp took it: if not, it is empty."""
    api = backend.llama()
    memory = api.llama_get_memory(llm.ctx)
    if (
        api.llama_state_seq_set_data(llm.ctx, _pointer(data), data.size, _SEQUENCE) != data.size
        or api.llama_memory_seq_pos_min(memory, _SEQUENCE) != 0
        or api.llama_memory_seq_pos_max(memory, _SEQUENCE) != len(ids) - 1
    ):
        api.llama_memory_seq_rm(memory, _SEQUENCE, -1, -1)
        llm.reset()
        return False
    llm.input_ids[: len(ids)] = ids
    llm.n_tokens = len(ids)
    llm._requires_eval = True  # as Llama.load_state does: there are no logits yet
    return True


def _pointer(data: NDArray[np.uint8]) -> Any:
    return data.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))


class KeptState:
    """The state of one chat model's sequence, on disk.

    All but the writing happens in the caller's thread: a `Llama` is not thread-safe, and a lent one may be used by its owner
    between turns. The files of a folder, one a model and setting of its context, take at most `max_mb`. A conversation from
    before the newest forgetting, whose tick `forgotten` returns, is neither kept nor used.
    """

    def __init__(
        self,
        chat: LlamaChat,
        folder: Path,
        *,
        keep: Literal["prefix", "whole"],
        max_mb: float,
        now: Callable[[], float],
        forgotten: Callable[[], int] = lambda: 0,
    ) -> None:
        self.keep = keep
        self.max_bytes = int(max_mb * 1e6)
        self.every_s = 6 * 3600.0
        """Seconds between two writings, which wear the card."""
        self.off = ""
        """Why nothing is kept for this model; empty if something is."""
        self.fault = ""
        """Of the newest file that was not used, or of the newest writing."""
        self.closed = False
        self.chat = chat
        self._now = now
        self._forgotten = forgotten
        self._since = forgotten()
        self._written: list[int] = []
        self._looked: Any = None
        self._not_before = float("-inf")
        self._writer: threading.Thread | None = None
        self._lock = threading.Lock()
        self._removed = 0
        self._stamp: dict[str, str] = {}
        with chat.if_quiet() as llama:
            if llama is None:
                self.off = "the model is in use or closed"
                return
            self._name = Path(llama.model_path).name
            try:
                self._turn_off(backend.why_unfit(llama))
                self._stamp = stamp_of(llama)
            except OSError as error:
                self._turn_off(f"the model's file cannot be read again ({error.strerror})")
        digest = hashlib.sha256(msgspec.json.encode(self._stamp)).hexdigest()[:16]
        self.path = folder / f"state-{digest}.bin"
        chat.before_close(self.close)

    def load(self) -> int:
        """Let a fresh model begin with the kept state, and return the tokens spared; a bad file is deleted, and told once."""
        if self.off or not self.path.exists():
            return 0
        try:
            header, data = read_state(self.path, max_bytes=self.max_bytes + _HEADER)
            self._check(header)
        except (OSError, CorruptError) as error:
            return self._ignore(str(error))
        if header.kind == "whole" and (self.keep != "whole" or header.forgotten != self._since):
            # A setting was changed, or something in it may have been forgotten: nothing is wrong.
            with suppress(OSError):  # a disk that cannot be written is told by those who must write
                self.remove()
            return 0
        # At once, where by the clock the last writing is yet to come.
        self._not_before = header.at + self.every_s if header.at <= self._now() else float("-inf")
        return self._put_in(header, data)

    def work(self) -> bool:
        """Keep the state if it is due, at the end of a turn; return whether anything was copied."""
        if self.off or self.closed:
            return False
        if self.keep == "whole" and self._written and self._forgotten() != self._since:
            self.remove()
        writing = self._writer is not None and self._writer.is_alive()
        same = self._looked == self.chat.head and self.path.exists()
        if writing or same or self._now() < self._not_before:
            return False
        with self.chat.if_quiet() as llama:
            if llama is None:
                return False
            kind, ids = self._to_keep(llama)
            if self.off or len(ids) < LEAST:
                return False
            if ids == self._written and self.path.exists():
                self._looked = self.chat.head if kind == "prefix" else None
                return False
            data = copy_out(llama, len(ids))
        if data is None:
            self._turn_off("llama.cpp could not copy this model's state")
            return False
        self._start(kind, ids, data)
        return True

    def remove(self) -> None:
        """Delete every kept state of the folder, also one that is being written."""
        with self._lock:
            self._removed += 1
            self._written = []
            remove_states(self.path.parent)

    def wait(self) -> None:
        """Wait until the newest writing is on disk."""
        if self._writer is not None:
            self._writer.join()

    def close(self) -> None:
        """Keep the state if it is due and finish writing; a second call does nothing."""
        self.wait()
        try:
            self.work()
        except EdgememError as error:  # the model is freed all the same
            self.fault = str(error)
        self.wait()
        self.closed = True

    def _turn_off(self, why: str) -> None:
        if why:
            _log.warning("Nothing is kept of %s over a restart: %s", self._name, why)
        self.off = why

    def _check(self, header: StateHeader) -> None:
        """Refuse a state of another model or context, which llama.cpp must not be handed."""
        if header.stamp != self._stamp:
            raise CorruptError(f"{self.path.name} was made with another model, llama.cpp or context")
        known = range(self.chat.vocabulary.size)
        if not 0 < len(header.ids) < self.chat.n_ctx or not all(token in known for token in header.ids):
            raise CorruptError(f"{self.path.name} holds tokens for which the model has no place")

    def _put_in(self, header: StateHeader, data: memoryview) -> int:
        with self.chat.if_quiet() as llama:
            if llama is None or llama.n_tokens:  # it has begun without; what it holds is newer
                return 0
            if not put_in(llama, header.ids, np.frombuffer(data, np.uint8)):
                return self._ignore(f"llama.cpp did not take {self.path.name}")
        if header.kind == "whole":
            with suppress(msgspec.DecodeError):  # without its log only replies are tokenised anew
                self.chat.log.restore(header.log)
        self._written = header.ids
        return len(header.ids)

    def _ignore(self, reason: str) -> int:
        if not self.fault:
            _log.warning("A kept state is not used, and deleted: %s", reason)
        self.fault = f"a kept state was not used: {reason}"
        with suppress(OSError):  # a disk that cannot be written is told by those who must write
            self.path.unlink(missing_ok=True)
        return 0

    def _to_keep(self, llm: Any) -> tuple[Literal["prefix", "whole"], list[int]]:
        """Return the ids to keep: the head of the newest prompt, or all."""
        held = backend.held_by(llm)
        if not held:
            return "prefix", []
        unspoilt = self.keep == "whole" and self._forgotten() == self._since
        token = backend.llama().llama_state_seq_get_size(llm.ctx, _SEQUENCE) / len(held)
        if unspoilt and token * len(held) <= self.max_bytes:
            return "whole", held
        ids = held[: common_prefix(self.chat.head_ids(), held)]
        size = int(token * len(ids))
        if size > self.max_bytes:
            self._turn_off(
                f"{len(ids)} tokens of this model take {size / 1e6:.1f} MB; raise [chat] keep_state_mb"
                f" above {self.max_bytes / 1e6:g} to keep them"
            )
        return "prefix", ids

    def _start(self, kind: Literal["prefix", "whole"], ids: list[int], data: NDArray[np.uint8]) -> None:
        at = self._now()
        self._not_before = at + self.every_s
        # The instructions alone hold nothing of a conversation.
        log, since = (self.chat.log.dump(), self._since) if kind == "whole" else (b"", self._forgotten())
        header = StateHeader(kind, self._stamp, ids, log, since, at, data.size, self._name)
        self._writer = threading.Thread(
            target=self._write, args=(header, data, self._removed), name="edgemem-state", daemon=True
        )
        self._writer.start()

    def _write(self, header: StateHeader, data: NDArray[np.uint8], removed: int) -> None:
        def is_current() -> bool:
            return self._removed == removed and (
                header.kind == "prefix" or self._forgotten() == header.forgotten
            )

        try:
            written = write_state(self.path, header, data.data, still_wanted=is_current)
            with self._lock:
                if written and not is_current():  # forgotten between the last look and the renaming
                    self.path.unlink(missing_ok=True)
                elif written:
                    self._written = header.ids
                    self._make_room()
        except (OSError, StoreError) as error:
            if self._removed != removed:  # its file was deleted while it was written
                return
            reason = error.strerror if isinstance(error, OSError) else error
            if not self.fault:
                _log.warning("The state of %s could not be kept: %s", header.name, reason)
            self.fault = f"the state could not be written: {reason}"

    def _make_room(self) -> None:
        room = self.max_bytes - self.path.stat().st_size
        others = [(header.at, path) for path, header in headers_in(self.path.parent) if path != self.path]
        for _, path in sorted(others, reverse=True):
            room -= path.stat().st_size
            if room < 0:
                path.unlink(missing_ok=True)
