"""The robot's clock over jumps of the wall clock and reboots; and what is made once, when it is first needed or ahead of that."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from edgemem.clock import RELEASED, Clock
from edgemem.preload import Pattern, preload, preload_later, preloaded

HOUR, YEAR = 3600.0, 365.25 * 86400.0


def test_a_wall_that_was_set_back_stops_time_but_not_order(hand):
    """Ticks go on by microseconds until the wall has caught up, and trust says how far it is behind."""
    first = hand.clock.tick()
    hand.wall -= HOUR
    assert hand.clock.tick() == first + 1
    hand.advance(HOUR / 2)
    assert hand.clock.tick() == first + 2
    assert hand.clock.now() == (first + 2) / 1e6
    trust = hand.clock.trust()
    assert not trust.trusted
    assert "30 minutes" in trust.reason
    hand.advance(HOUR)
    assert hand.clock.tick() == int(hand.wall * 1e6)
    assert hand.clock.trust().trusted


def test_a_forward_jump_and_return_does_not_run_further_away(hand):
    """After a day in the future the clock waits there for the wall, instead of staying a day ahead for ever."""
    hand.wall += 86400
    far = hand.clock.tick()
    hand.wall -= 86400
    assert [hand.advance(3600) or hand.clock.tick() for _ in range(9)] == [far + n for n in range(1, 10)]
    hand.advance(86400)
    assert hand.clock.tick() == int(hand.wall * 1e6)


def test_a_board_that_boots_in_1970_goes_on_from_its_newest_tick(hand):
    """A reading before the release of the software is ignored: time runs on by the monotonic clock."""
    newest = hand.clock.tick()
    wall = [100.0]
    monotonic = [0.0]
    clock = Clock(wall=lambda: wall[0], monotonic=lambda: monotonic[0])
    clock.witness(newest)
    monotonic[0] = wall[0] = 60.0
    assert clock.tick() == newest + 60_000_000
    assert not clock.trust().trusted
    assert "release" in clock.trust().reason
    wall[0] = hand.wall + HOUR
    assert clock.tick() == int(wall[0] * 1e6)
    assert clock.trust().trusted


def test_one_absurd_reading_does_not_poison_later_times(hand):
    """A wall decades ahead of all that is known is ignored, and believed again when it is right again."""
    newest = hand.clock.tick()
    hand.wall += 40 * YEAR
    hand.monotonic += 1
    assert hand.clock.tick() == newest + 1_000_000
    trust = hand.clock.trust()
    assert not trust.trusted
    assert "40 years" in trust.reason
    hand.wall -= 40 * YEAR - 2
    assert hand.clock.tick() == int(hand.wall * 1e6)
    assert hand.clock.trust().trusted


def test_a_wall_that_is_no_number_is_ignored():
    """Not-a-number from a broken time source neither stops nor breaks the clock."""
    clock = Clock(wall=lambda: float("nan"), monotonic=lambda: 0.0)
    assert clock.now() == RELEASED
    assert clock.tick() < clock.tick()
    assert not clock.trust().trusted


def test_now_is_never_before_the_newest_tick(hand):
    """What was written a moment ago is not in the future, even when another process wrote it."""
    hand.clock.witness(int((hand.wall + 5) * 1e6))
    assert hand.clock.now() == hand.wall + 5
    assert hand.clock.tick() > int((hand.wall + 5) * 1e6)


def test_threads_never_get_the_same_tick():
    """Ticks are unique over threads."""
    clock, ticks = Clock(), []
    threads = [
        threading.Thread(target=lambda: ticks.extend([clock.tick() for _ in range(500)])) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(ticks)) == 2000


def test_ticks_grow_while_the_wall_stands_still(clock):
    """Every tick is larger than the one before, however many are taken in one microsecond."""
    ticks = [clock.tick() for _ in range(1000)]
    assert ticks == sorted(set(ticks))
    assert clock.tick(after=ticks[-1] + 10**6) == ticks[-1] + 10**6 + 1


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
