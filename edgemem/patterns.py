"""Patterns: regular expressions that are compiled when they are first asked, or ahead of that (see `provisions`).

Python takes milliseconds for one with hundreds of words or signs, and 40 for those that a question is read with. Short
ones stay with `re.compile`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property

from edgemem.provisions import later


class Pattern:
    """A regular expression at the top of a module; asked like a `re.Pattern`, from any thread.

    A method is looked up once, and is the compiled pattern's own from then on: that costs 50 ns a call.
    """

    def __init__(self, *expressions: str, flags: int = 0) -> None:
        """Note expressions of which any will do."""
        self._expressions = expressions
        self._flags = flags
        later(self._compile)

    def _compile(self) -> re.Pattern[str]:
        return self.compiled

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """Return the pattern of the standard library."""
        whole = (
            self._expressions[0]
            if len(self._expressions) == 1
            else "|".join(f"(?:{expression})" for expression in self._expressions)
        )
        return re.compile(whole, self._flags)

    @cached_property
    def search(self) -> Callable[..., re.Match[str] | None]:
        """Find the first place in a text."""
        return self.compiled.search

    @cached_property
    def match(self) -> Callable[..., re.Match[str] | None]:
        """Find it at the beginning of a text."""
        return self.compiled.match

    @cached_property
    def fullmatch(self) -> Callable[..., re.Match[str] | None]:
        """Find it as the whole of a text."""
        return self.compiled.fullmatch

    @cached_property
    def findall(self) -> Callable[[str], list[str]]:
        """Return what stands in all places; of a pattern with groups ask `finditer`."""
        return self.compiled.findall

    @cached_property
    def finditer(self) -> Callable[..., Iterator[re.Match[str]]]:
        """Find all places."""
        return self.compiled.finditer

    @cached_property
    def sub(self) -> Callable[..., str]:
        """Return a text with something else in all places."""
        return self.compiled.sub

    @cached_property
    def split(self) -> Callable[..., list[str]]:
        """Return what stands between all places."""
        return self.compiled.split
