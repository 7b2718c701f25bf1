"""What a JSON memory holds: facts, preferences and episodes in memory, as changes leave them and questions find them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.fence import check_key
from edgemem.records import Episode, Fact, Heard, Level, Preference
from edgemem.scopes import name_key, person_of, scope_of, without_spaces
from edgemem.store.arguments import checked_heard, checked_name, lookup
from edgemem.store.beliefs import fact_of, history_of
from edgemem.store.doubts import doubt_of
from edgemem.store.episodes import checked_payload
from edgemem.store.facts import storable_value
from edgemem.store.heard import heard_columns, heard_of
from edgemem.store.rights import LEVELS, level_and_owner, level_of_episode
from edgemem.store.timeline import Doubt, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgemem.store.rectangles import Rectangle


class JsonMemory:
    """Facts, preferences and episodes in memory; the store around it sees to locks and to the file."""

    def __init__(self, *, doubtful_below: float = 0.0) -> None:
        self.doubtful_below = doubtful_below
        self.timelines: dict[tuple[str, str], Timeline] = {}
        """By scope and key."""
        self.preferences: dict[tuple[str, str], Preference] = {}
        """By scope and key."""
        self.episodes: list[Episode] = []
        """Oldest first."""
        self._people: dict[str, str] = {}
        """Each person's name as it was first written, by its key."""

    def scope(self, scope: str) -> str:
        """Return a scope as it stands here, however the name of a person in it is written."""
        scope = lookup(without_spaces(scope) if isinstance(scope, str) else scope, "a scope")
        person = person_of(scope)
        return scope if person is None else scope_of(self._people.get(name_key(person), person))

    def _spell(self, name: str | None) -> str | None:
        return self._people.setdefault(name_key(name), name.strip()) if name and name_key(name) else name

    # Changes; each can be done again on another memory, and tells whether anything changed

    def say(self, scope: str, key: str, said: Rectangle, recorded: int, *, now: bool = False) -> bool:
        """Believe a value of a key, or doubt it."""
        self._spell(person_of(without_spaces(scope)))
        scope = self.scope(scope)
        timeline = self.timelines.get((scope, key))
        if timeline is None:
            timeline = self.timelines[scope, key] = Timeline(doubtful_below=self.doubtful_below)
        heard = (self._spell(said.heard[0]), *said.heard[1:])
        return timeline.say(said._replace(owner=self._spell(said.owner), heard=heard), recorded, now=now)

    def forget_fact(self, scope: str, key: str) -> bool:
        """Erase a key with all that was ever said of it."""
        return self.timelines.pop((self.scope(scope), key), None) is not None

    def put_preference(self, key: str, value: str, scope: str, tick: int) -> bool:
        """Keep the newest value of a preference."""
        check_key(key)
        check_key(scope, what="a scope")
        self._spell(person_of(without_spaces(scope)))
        scope = self.scope(scope)
        level, owner = level_and_owner(scope, None, None, None)
        value = storable_value(value, what="the value of a preference")
        self.preferences[scope, key] = Preference(key, value, tick / 1e6, scope, LEVELS[level], owner)
        return True

    def forget_preference(self, scope: str, key: str) -> bool:
        """Erase a preference."""
        return self.preferences.pop((self.scope(scope), key), None) is not None

    def append_episode(self, episode: Episode, keep: int) -> bool:
        """Add an episode, and drop the oldest beyond `keep` (0: none)."""
        heard = episode.heard
        if heard is not None:
            heard = msgspec.structs.replace(heard, speaker=self._spell(heard.speaker))
        self.episodes.append(msgspec.structs.replace(episode, owner=self._spell(episode.owner), heard=heard))
        if keep > 0:
            del self.episodes[:-keep]
        return True

    def forget_episode(self, episode_id: str) -> bool:
        """Erase an episode."""
        at = next((n for n, episode in enumerate(self.episodes) if episode.id == episode_id), None)
        if at is None:
            return False
        del self.episodes[at]
        return True

    # Questions

    def believed(self, t: float, known_at: int | None = None) -> Iterator[Fact]:
        """Yield what holds at `t`, as believed now or at `known_at` (microseconds since the epoch)."""
        for (scope, key), timeline in self.timelines.items():
            held = timeline.at(t, known_at=known_at)
            if held is not None and held.rectangle.value is not None:
                columns = _columns(scope, key, held.rectangle, held.known_to)
                yield fact_of(columns, misheard=timeline.is_unsure(held.rectangle))

    def history(self, scope: str, key: str) -> list[Fact]:
        """Return every version of a fact that was ever said, and what was doubted of it, in recorded order."""
        scope = self.scope(scope)
        timeline = self.timelines.get((scope, key))
        if timeline is None:
            return []
        rows = [
            (*_columns(scope, key, held.rectangle, held.known_to), held.rectangle.id, held.recorded)
            for held in timeline
            if held.rectangle.value is not None
        ]
        doubted = [_doubt(scope, key, doubt) for doubt in timeline.doubts]
        misheard = {held.rectangle.origin for held in timeline if timeline.is_unsure(held.rectangle)}
        return sorted([*history_of(rows, misheard), *doubted], key=lambda fact: int(fact.id))

    def doubts(self) -> list[Fact]:
        """Return what was heard badly, contradicts what was heard well, and is not settled; oldest first."""
        found = [
            _doubt(scope, key, doubt)
            for (scope, key), timeline in self.timelines.items()
            for doubt in timeline.doubts
            if doubt.settled is None
        ]
        return sorted(found, key=lambda fact: int(fact.id))


def checked_episode(
    kind: str,
    payload: dict[str, Any],
    outcome: str,
    *,
    tick: int,
    agent: str = "",
    heard: Heard | None = None,
    level: Level | None = None,
    owner: str | None = None,
) -> Episode:
    """Return an episode as it can be stored; raise InvalidInputError if it cannot."""
    check_key(kind, what="the kind of an episode")
    number, who = level_and_owner("", level_of_episode(level, checked_heard(heard)), owner, heard)
    return Episode(
        kind,
        msgspec.json.decode(checked_payload(payload)),
        storable_value(outcome, what="the outcome of an episode"),
        tick / 1e6,
        checked_name(agent, "the agent of an episode"),
        str(tick),
        LEVELS[number],
        who,
        heard_of(heard_columns(heard)),
    )


def _columns(scope: str, key: str, what: Rectangle, known_to: int | None) -> tuple[Any, ...]:
    return (
        *(key, what.value, scope, what.origin, what.source, what.valid_from, what.valid_to),
        *(known_to, what.supersedes, what.level, what.owner, *what.heard),
    )


def _doubt(scope: str, key: str, doubt: Doubt) -> Fact:
    what = doubt.rectangle._replace(supersedes=doubt.confirmed_by)  # where a row of doubts has it
    return doubt_of(_columns(scope, key, what, doubt.settled))
