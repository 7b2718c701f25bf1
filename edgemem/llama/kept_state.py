"""What a model has evaluated, kept over a reboot: its instructions are not read again, token by token.

The state is taken at the end of a turn, in the thread of the turn, and written in a thread of its own.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from edgemem.errors import CorruptError, EdgememError, StoreError
from edgemem.llama.sequence import copy_out, held_by, put_in, size_of, stamp_of, why_unfit
from edgemem.llama.state_file import (
    StateHeader,
    check_state,
    headers_in,
    make_room,
    read_state,
    remove_states,
    write_state,
)
from edgemem.llama.tokenlog import common_prefix

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.llama.chat import LlamaChat

_log = logging.getLogger(__name__)

LEAST = 64
"""Tokens below which nothing is kept: they are evaluated as fast as a file is found, read and checked."""

_HEADERS = 1 << 20  # bytes that a file may hold beside the data


class KeptState:
    """The state of one chat model's sequence, on disk.

    Everything but the writing happens in the caller's thread: a `Llama` is not thread-safe, and one that was lent
    may be used by its owner between turns.

    Args:
        chat: a model that has not evaluated anything yet, or nothing is put in.
        folder: where the file lies; one for each model and setting of its context.
        keep: the instructions and tools, or the conversation as well.
        max_mb: what all files together may take; a state that is larger is not kept.
        every_h: hours between two writings, however often the prompt's head changes.
        now: seconds since the epoch.
        forgotten: when something was last forgotten; a conversation from before that is neither kept nor used.
    """

    def __init__(
        self,
        chat: LlamaChat,
        folder: Path,
        *,
        keep: Literal["prefix", "whole"],
        max_mb: float,
        every_h: float,
        now: Callable[[], float],
        forgotten: Callable[[], int] = lambda: 0,
    ) -> None:
        self.folder = folder
        self.keep = keep
        self.max_bytes = int(max_mb * 1e6)
        self.every_s = every_h * 3600
        self.off = ""
        """Why nothing is kept for this model; empty if it is."""
        self.fault = ""
        """What was wrong with the newest file that was not used, or with the newest writing."""
        self.ignored = 0
        """How many files were not used."""
        self.closed = False
        self._chat = chat
        self._now = now
        self._forgotten = forgotten
        self._since = forgotten()
        self._put: list[int] = []
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
                self._turn_off(why_unfit(llama))
                self._stamp = stamp_of(llama)
            except OSError as error:
                self._turn_off(f"the model's file cannot be read again ({error.strerror})")
        named = hashlib.sha256(msgspec.json.encode(self._stamp)).hexdigest()[:16]
        self.path = folder / f"state-{named}.bin"
        chat.before_close(self.close)

    def load(self) -> int:
        """Let the model begin with what was kept; return how many tokens it need not evaluate.

        A file that is damaged, of another model or of no use is deleted, counted, and told once.
        """
        if self.off or not self.path.exists():
            return 0
        try:
            header, data = read_state(self.path, max_bytes=self.max_bytes + _HEADERS)
            size = self._chat.tokenizer.vocabulary.size
            check_state(self.path.name, header, stamp=self._stamp, window=self._chat.n_ctx, vocabulary=size)
        except (OSError, CorruptError) as error:
            return self._ignore(str(error))
        if header.kind == "whole" and (self.keep != "whole" or header.forgotten != self._since):
            # A setting was changed, or something in it may have been forgotten: nothing is wrong.
            with suppress(OSError):  # a disk that cannot be written is told by whoever must write
                self.remove()
            return 0
        return self._put_in(header, data)

    def work(self) -> bool:
        """Keep the state if it is due, at the end of a turn; return whether anything was copied."""
        if self.off or self.closed:
            return False
        self._verify()
        if self.keep == "whole" and self._written and self._forgotten() != self._since:
            self.remove()
        if self.off or self._now() < self._not_before or self._writing():
            return False
        if self._looked == self._chat.head and (not self._written or self.path.exists()):
            return False
        with self._chat.if_quiet() as llama:
            if llama is None:
                return False
            kind, ids = self._wanted(llama)
            if self.off or not self._due(ids):
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
            self._written, self._looked = [], None
            remove_states(self.folder)

    def wait(self) -> None:
        """Wait until what is being written is on the disk."""
        if self._writer is not None:
            self._writer.join()

    def close(self) -> None:
        """Keep what is due and finish writing; a second call does nothing."""
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

    def _put_in(self, header: StateHeader, data: memoryview) -> int:
        import numpy as np

        with self._chat.if_quiet() as llama:
            if llama is None or llama.n_tokens:  # it has begun without; what it holds is newer
                return 0
            if not put_in(llama, header.ids, np.frombuffer(data, np.uint8)):
                return self._ignore(f"llama.cpp did not take {self.path.name}")
        if header.kind == "whole":
            with suppress(msgspec.DecodeError):  # without its log only replies are tokenised anew
                self._chat.log.restore(header.log)
        self._put = self._written = header.ids
        self._not_before = self._next(header.at) if header.kind == "whole" else self._not_before
        return len(header.ids)

    def _ignore(self, reason: str) -> int:
        self.ignored += 1
        if self.ignored == 1:
            _log.warning("A kept state is not used, and deleted: %s", reason)
        self.fault = reason
        with suppress(OSError):  # a disk that cannot be written is told by whoever must write
            self.path.unlink(missing_ok=True)
        return 0

    def _verify(self) -> None:
        """Look whether the model really used what was put in, at the end of its first turn."""
        first, put = self._chat.first, self._put
        if not put or first is None:
            return
        self._put = []
        with self._chat.if_quiet() as llama:
            if llama is None or first.stopped == "interrupted":
                return
            common = common_prefix(put, held_by(llama)[: first.prompt_tokens])
        # one token is evaluated in any case: the state has no logits
        if first.evaluated_tokens > max(1, first.prompt_tokens - common) + 1:
            self._turn_off(
                f"the model evaluated {first.evaluated_tokens} tokens although {common} of them were kept"
            )
            self._ignore(self.off)

    def _wanted(self, llama: Any) -> tuple[Literal["prefix", "whole"], list[int]]:
        """Return the ids whose state is to be kept: the head of the newest prompt, or all."""
        held = held_by(llama)
        if not held:
            return "prefix", []
        if (
            self.keep == "whole"
            and self._forgotten() == self._since
            and size_of(llama, len(held)) <= self.max_bytes
        ):
            return "whole", held
        self._looked = self._chat.head
        ids = held[: common_prefix(self._chat.head_ids(), held)]
        size = size_of(llama, len(ids))
        if size > self.max_bytes:
            self._turn_off(
                f"{len(ids)} tokens of this model take {size / 1e6:.1f} MB; raise [chat] keep_state_mb"
                f" above {self.max_bytes / 1e6:g} to keep them"
            )
        return "prefix", ids

    def _due(self, ids: list[int]) -> bool:
        """Tell whether `ids` are worth a writing now."""
        if len(ids) < LEAST or (ids == self._written and self.path.exists()):
            return False
        last = max((header.at for path, header in headers_in(self.folder) if path == self.path), default=None)
        if last is not None:
            self._not_before = self._next(last)
        due = self._now() >= self._not_before
        if not due:
            self._looked = None
        return due

    def _next(self, last: float) -> float:
        """Return when the next writing may come; at once, where the clock says that the last is yet to come."""
        return last + self.every_s if last <= self._now() else float("-inf")

    def _writing(self) -> bool:
        return self._writer is not None and self._writer.is_alive()

    def _start(self, kind: Literal["prefix", "whole"], ids: list[int], data: NDArray[np.uint8]) -> None:
        at = self._now()
        self._not_before = at + self.every_s
        header = StateHeader(
            kind,
            self._stamp,
            ids,
            self._chat.log.dump() if kind == "whole" else b"",
            # The instructions alone hold nothing of what was said.
            self._since if kind == "whole" else self._forgotten(),
            at,
            data.size,
            self._name,
        )
        self._writer = threading.Thread(
            target=self._write, args=(header, data, self._removed), name="edgemem-state", daemon=True
        )
        self._writer.start()

    def _write(self, header: StateHeader, data: NDArray[np.uint8], removed: int) -> None:
        def wanted() -> bool:
            return self._removed == removed and (
                header.kind == "prefix" or self._forgotten() == header.forgotten
            )

        try:
            written = write_state(self.path, header, data.data, still_wanted=wanted)
            with self._lock:
                if written and not wanted():  # forgotten between the last look and the renaming
                    self.path.unlink(missing_ok=True)
                elif written:
                    self._written = header.ids
                    make_room(self.path, max_bytes=self.max_bytes)
        except (OSError, StoreError) as error:
            self._looked = None
            if self._removed != removed:  # its file was deleted while it was written
                return
            reason = error.strerror if isinstance(error, OSError) else error
            if not self.fault:
                _log.warning("The state of %s could not be kept: %s", header.name, reason)
            self.fault = f"the state could not be written: {reason}"
