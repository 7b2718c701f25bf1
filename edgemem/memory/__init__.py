"""Memory, the object that most users need: it opens a home and wires all floors below.

`memory` is the object itself and `opened` what stands behind it; `parts` opens files and models, `session` makes the hooks of
one conversation and `extras` those that an operator switches on, `idle` works while nobody speaks, `reload` and `watch` pick
up edited files, `health` and `stats` tell how it goes. A setting is read from `Memory.settings` where it is used, never copied.
"""

from __future__ import annotations

from edgemem.memory.memory import Memory

__all__ = ["Memory"]
