"""The robot's clock over jumps of the wall clock and reboots."""

import threading

from edgemem.clock import RELEASED, Clock

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
