"""The settings of a robot: every bound and budget in one profile, its faults, and the settings that hold now.

`profile` says which keys there are and holds the values in force, `faults` checks what an operator wrote. Change a
default in `profile` together with `configs/default.toml`.
"""

from __future__ import annotations

from edgemem.config.profile import (
    BackupSettings,
    BankSettings,
    ChatSettings,
    CompactionSettings,
    ContextSettings,
    HookSettings,
    IdleSettings,
    InjectionSettings,
    LlamaSettings,
    LogSettings,
    MemorySettings,
    NotesSettings,
    Profile,
    RecallSettings,
    Settings,
    StoreSettings,
    ToolSettings,
    load_profile,
    profile_named,
    profile_names,
)

__all__ = [
    "BackupSettings",
    "BankSettings",
    "ChatSettings",
    "CompactionSettings",
    "ContextSettings",
    "HookSettings",
    "IdleSettings",
    "InjectionSettings",
    "LlamaSettings",
    "LogSettings",
    "MemorySettings",
    "NotesSettings",
    "Profile",
    "RecallSettings",
    "Settings",
    "StoreSettings",
    "ToolSettings",
    "load_profile",
    "profile_named",
    "profile_names",
]
