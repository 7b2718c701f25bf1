"""A profile for tests that need no model: recall goes by words alone, and no model's file is opened."""

from __future__ import annotations

from edgemem.config import LlamaSettings, Profile

BY_WORDS = Profile(llama=LlamaSettings(embedder=""))
