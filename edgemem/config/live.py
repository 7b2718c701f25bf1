"""The settings that hold now: one holder for a whole memory, so that a changed profile reaches everybody at once."""

from __future__ import annotations

from edgemem.config.profile import Profile


class Settings:
    """Holds the profile in force.

    Keep the holder and read `settings.now.context.block_tokens` where the number is used. Do not keep the number. A
    memory exchanges `now` in idle time or when a turn begins, never within a turn of that session; a turn of another
    session that overlaps it goes on with the new profile.

    Args:
        profile: what holds until another is set; default: the defaults.
    """

    def __init__(self, profile: Profile | None = None) -> None:
        self.now = profile or Profile()
