"""The async face of edgemem: `async with edgemem.aio.open(home) as memory`, and every method is awaited.

Nothing is done on the event loop's thread. `worker` has the threads, and how a method of a synchronous object becomes a
coroutine; `memory` lists the methods, one line each; `hooks` has what an async loop fires. A new method of `Memory` or of its
stores gets its line in `memory`; what it does belongs below.
"""

from __future__ import annotations

from edgemem.aio.hooks import HookRegistry
from edgemem.aio.memory import AsyncMemory, AsyncNotes, AsyncSessions, AsyncStore, open  # noqa: A004 - as `edgemem.open`

__all__ = ["AsyncMemory", "AsyncNotes", "AsyncSessions", "AsyncStore", "HookRegistry", "open"]
