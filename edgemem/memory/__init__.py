"""Memory, the object that most users need: it opens a home and wires all floors below.

`memory` is the object itself, and shows only the parts for users. It holds a `Home` of `opened`, which all other
modules are handed: `session` makes the hooks of one conversation, `idle` works while nobody speaks, `reload` picks up
edited files, `health` and `stats` tell how it goes. A setting is read from `Home.settings` where it is used, never copied.
"""

from __future__ import annotations

from edgemem.memory.memory import Memory

__all__ = ["Memory"]
