"""Scopes and names: what a scope is, who it belongs to, and when two names mean one person (law 7 of the design).

A scope has one of five forms: `global`, `user`, `household`, `env:<place>` and `user:<name>`. What edgemem itself writes
has one of these, or is refused; what came from elsewhere under another scope is the operator's alone.
"""

from __future__ import annotations

import difflib
import sys
import unicodedata
from typing import Literal

from edgemem.errors import InvalidInputError
from edgemem.fence import check_key, look_alike, storable

Level = Literal["shared", "household", "private"]
"""Who may read a record: anyone, recognised speakers, or its owner alone (law 7 of the design)."""

RANK: dict[Level, int] = {"shared": 0, "household": 1, "private": 2}

PERSON, PLACE = "user:", "env:"

_WORDS = ("global", "user", "household")
_BLANK = {"user": "NAME", "env": "PLACE"}
_HEADS = tuple(_BLANK)
_FORMS = "global, household, user:NAME or env:PLACE"
_NEAR = 0.8
"""How alike a word and the meant form must be; `users` and `user` are .89, `session` and `user` .55."""


def name_key(name: str) -> str:
    """Return a name stripped, case-folded and in NFC: Unicode's caseless match. NFKC would make one person of two names."""
    if name.isascii() and "\x00" not in name:
        return name.strip().lower()
    folded = unicodedata.normalize("NFD", storable(name).strip()).casefold()
    return unicodedata.normalize("NFC", folded)


def most_private(*levels: Level) -> Level:
    """Return the most closed of some levels; shared of none."""
    return max(levels, key=RANK.__getitem__, default="shared")


def scope_of(name: str) -> str:
    """Return the scope of a person."""
    return PERSON + name.strip()


def person_of(scope: str) -> str | None:
    """Return whose scope this is; None if it is not that of one person."""
    return (scope[len(PERSON) :].strip() or None) if scope.startswith(PERSON) else None


def is_known_form(scope: str) -> bool:
    """Tell whether a scope has one of the five forms."""
    place = scope.startswith(PLACE) and bool(scope[len(PLACE) :].strip())
    return scope in _WORDS or place or person_of(scope) is not None


def level_of_scope(scope: str) -> tuple[Level, str | None]:
    """Return a scope's level and owner; one of an unknown form is private to nobody: only the operator reads it."""
    if scope == "household":
        return "household", None
    if (owner := person_of(scope)) is not None:
        return "private", owner
    return ("shared" if is_known_form(scope) else "private"), None


def without_spaces(scope: str) -> str:
    """Return a scope without spaces around it and around its colon; one of an unknown form as it is."""
    head, colon, rest = scope.strip().partition(":")
    tidy = f"{head.strip()}{colon}{rest.strip()}"
    # One that is a default shall be found to be that.
    return sys.intern(tidy) if is_known_form(tidy) else scope


def checked_scope(scope: str) -> str:
    """Return a scope of a known form without spaces around it; raise InvalidInputError for any other."""
    check_key(scope, what="a scope")
    tidy = without_spaces(scope)
    if not is_known_form(tidy):
        raise InvalidInputError(f"There is no scope {scope.strip()!r:.100}; {_hint(scope)}.")
    return tidy


def not_mistyped(scope: str) -> str:
    """Return a scope, of whatever form, without spaces around it; raise InvalidInputError if it is nearly a known one."""
    check_key(scope, what="a scope")
    tidy = without_spaces(scope)
    if not is_known_form(tidy) and meant_by(scope) is not None:
        raise InvalidInputError(f"The scope {scope.strip()!r:.100} is mistyped; {_hint(scope)}.")
    return tidy


def meant_by(scope: str) -> str | None:
    """Return the known form that a mistyped one means, such as user:Mara for Users:Mara; None if it is like none."""
    text = scope.strip()
    plain = look_alike(text)
    head, colon, _ = plain.partition(":")
    if not colon:
        return plain if plain in _WORDS else None
    near = difflib.get_close_matches(head.strip(), _WORDS + _HEADS, n=1, cutoff=_NEAR)
    if not near or near[0] not in _HEADS:
        return next(iter(near), None)
    rest = text[len(head) + 1 :].strip()
    return f"{near[0]}:{rest or _BLANK[near[0]]}"


def _hint(scope: str) -> str:
    text = scope.strip()
    if (meant := meant_by(scope)) is None:
        meant = next(iter(difflib.get_close_matches(look_alike(text), _WORDS, n=1, cutoff=_NEAR)), None)
    if meant is None and ":" not in look_alike(text):
        return f"write {PERSON + text!r:.80} for what is theirs alone, {PLACE + text!r:.80} for a place, household or global"
    return f"write {'one of ' + _FORMS if meant is None else repr(meant)[:100]}"
