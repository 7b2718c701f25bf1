"""Provisions and patterns: made once, when they are first needed or ahead of that."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from edgemem.preload import Pattern, preload, preload_later, preloaded


@pytest.fixture(autouse=True)
def _nothing_missing() -> None:
    preload()


def test_threads_that_need_one_thing_at_once_make_it_once() -> None:
    """The others wait for the first: what reads a file by its classes must not be done by two at once."""
    made: list[int] = []
    begun, together = threading.Event(), threading.Barrier(4)

    @preloaded
    def table() -> list[int]:
        made.append(1)
        begun.wait(0.05)
        return made

    def ask() -> list[int]:
        together.wait(60)
        return table()

    with ThreadPoolExecutor(4) as threads:
        tables = [asked.result() for asked in [threads.submit(ask) for _ in range(4)]]
    assert made == [1]
    assert all(table is made for table in tables)


def test_it_stops_between_two_when_somebody_speaks() -> None:
    """What is not made by then is made the next time."""
    made: list[str] = []
    preload_later(lambda: made.append("first"))
    preload_later(lambda: made.append("second"))
    assert preload(lambda: bool(made))
    assert made == ["first"]
    assert not preload(lambda: True)
    assert preload()
    assert made == ["first", "second"]


def test_several_expressions_are_compiled_by_laying_in() -> None:
    """Each stands for itself, and whoever asks waits for nothing; one that is wrong says so when it is made."""
    pattern = Pattern("^a|b$", "c")
    assert "compiled" not in vars(pattern)
    assert preload()
    assert "compiled" in vars(pattern)
    assert [bool(pattern.search(text)) for text in ("ax", "xb", "xcx", "xax")] == [True, True, True, False]
    Pattern("(")
    with pytest.raises(re.error):
        preload()
