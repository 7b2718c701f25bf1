"""The faults of a profile: one sentence each, with the file, the key, and the value that was meant or expected."""

from __future__ import annotations

import math
from collections.abc import Collection
from pathlib import Path
from typing import Any, cast, get_args

import msgspec

from edgemem.errors import ConfigError
from edgemem.scopes import Level, name_key

MOST_NAMES = 64
"""Of speakers, and of names for one of them, and of letters in one: a family, not a telephone book."""

_KINDS = {"int": "a whole number", "float": "a number", "str": "text", "array": "a list"}


def check_names(file: Path, read: dict[str, Any], profile: type[msgspec.Struct]) -> None:
    """Raise ConfigError where a section or a key is not one of the profile's, or a number has no end."""
    names = profile.__struct_fields__
    # Not `msgspec.structs.fields`, which reads the types of them all: 7 ms of every start.
    defaults = msgspec.structs.asdict(profile())
    keys = {name: defaults[name].__struct_fields__ for name in names if name != "speakers"}
    for section, values in read.items():
        if section not in names:
            home = next((owner for owner, known in keys.items() if section in known), None)
            hint = f"{section} is a key of [{home}]" if home else nearest(section, names)
            raise ConfigError(f"{file}: there is no section [{section}]; {hint}.")
        if not isinstance(values, dict):
            raise ConfigError(f"{file}: [{section}] must be a section with keys of its own.")
        if section == "speakers":
            _check_speakers(file, values)
            continue
        for key, value in values.items():
            if key not in keys[section]:
                raise ConfigError(f"{file}: there is no key {section}.{key}; {_belongs(key, section, keys)}.")
            if isinstance(value, float) and not math.isfinite(value):
                raise ConfigError(f"{file}: {section}.{key} must be a number that ends, not {value}.")


def _belongs(key: str, section: str, keys: dict[str, tuple[str, ...]]) -> str:
    """Tell which key was meant: the same one of another section, or the nearest of this one."""
    homes = [owner for owner, known in keys.items() if key in known]
    return f"it belongs into [{homes[0]}]" if homes else nearest(key, keys[section])


def _check_speakers(file: Path, speakers: dict[str, Any]) -> None:
    keys: dict[str, str] = {}
    for speaker, called in speakers.items():
        if (same := keys.setdefault(name_key(speaker), speaker)) != speaker:
            raise ConfigError(
                f"{file}: speakers.{same} and speakers.{speaker} are one name; give one of the two another."
            )
        if not isinstance(called, list) or not all(isinstance(name, str) for name in called):
            raise ConfigError(
                f'{file}: speakers.{speaker} must be a list of names, such as ["Alice", "Mum"], not {called!r}.'
            )
        if any(
            not name.strip() or len(name) > MOST_NAMES or not name.isprintable()
            for name in (speaker, *called)
        ):
            raise ConfigError(
                f"{file}: every name of speakers.{speaker} must be 1 to {MOST_NAMES} letters on one line."
            )
        if max(len(speakers), len(called)) > MOST_NAMES:
            raise ConfigError(
                f"{file}: [speakers] may hold {MOST_NAMES} people with {MOST_NAMES} names each."
            )


def nearest(name: str, valid: Collection[str]) -> str:
    """Tell which valid name was probably meant, or all there are."""
    import difflib

    matches = difflib.get_close_matches(name, valid, n=1, cutoff=0.5)
    return f"perhaps {matches[0]} was meant" if matches else f"use one of {', '.join(sorted(valid))}"


def as_sentence(file: Path, message: str, read: dict[str, Any]) -> str:
    """Turn `Expected …, got … - at `$.section.key`` into a sentence."""
    what, _, place = message.partition(" - at ")
    where = place.strip("`").removeprefix("$.")
    section, _, key = where.partition(".")
    if not key:
        return f"{file}: [{section}]: {what}."
    if key.endswith("]"):  # a part of a list
        return f"{file}: {where.partition('[')[0]} must be a list of {_KINDS['str']}s."
    value = cast("dict[str, Any]", read[section])[key]
    expected = what.removeprefix("Expected ").partition(", got")[0].replace("`", "")
    kind, _, bound = expected.partition(" ")
    expected = " ".join((_KINDS.get(kind, kind), bound)).strip()
    if what.startswith("Invalid enum"):
        expected = f"one of {', '.join(get_args(Level))}"
    return f"{file}: {where} must be {expected}, not {value!r}."
