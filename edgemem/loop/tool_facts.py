"""Facts as tools reach them: what the speaker of a turn may read, and the scope and key under which a new value goes (law 2)."""

from __future__ import annotations

from itertools import chain, count
from typing import TYPE_CHECKING, Any

from edgemem.context.block.delta import closed_to
from edgemem.errors import EdgememError, InvalidInputError
from edgemem.fence import check_key
from edgemem.languages.words import is_safety_key, says_in_confidence
from edgemem.recall.people.names import About, spelled, subject_of, without_speaker
from edgemem.records import Fact, Reader, as_ours
from edgemem.scopes import Level, is_known_form, level_of_scope, name_key, person_of, scope_of, without_spaces
from edgemem.store.edges import reasons_for
from edgemem.store.memory_store import TableMemoryStore
from edgemem.store.protocols import abilities_of
from edgemem.store.rights import readable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from edgemem.session.tools import ToolTurn
    from edgemem.store.edges import Reasons

MYSELF = "me"

SCOPES: dict[Level, str] = {"shared": "global", "household": "household", "private": MYSELF}
"""The scope for each level of openness; the schema offers these to every speaker (law 2)."""

_LEAST_BESIDE = -0.4
"""Log odds from which on a statement is about its speaker where one of two people's values would replace the other (`make lab ARGS=statements`)."""


class RefusedError(EdgememError):
    """The speaker may not do this, or did not mean it; told to the model as an answer."""


class ToolFacts:
    """The facts of a store for the speakers of turns; a user's own store may know only scopes."""

    def __init__(self, store: Any) -> None:
        self._store, self.levelled = store, isinstance(store, TableMemoryStore)

    def read(self, turn: ToolTurn, scope: str | None, key: str | None = None) -> list[Fact]:
        """Return what holds now and may be told in this turn, newest first: all, or under one name, perhaps with the speaker's before it."""
        scope = None if scope is None else checked_scope(scope, turn)
        if self.levelled:
            facts: list[Fact] = self._store.facts(scope=scope, reader=turn.reader)
        else:
            ours = [as_ours(fact, Fact) for fact in self._store.facts(scope=scope)]
            facts = [fact for fact in ours if readable(turn.reader, *closed_to(fact))]
        if key is None:
            return facts
        own = named_after(turn.reader.key, without_speaker(key, turn.reader.key)).casefold()
        named = [fact for fact in facts if fact.key.casefold() == key.casefold()]
        return named or [fact for fact in facts if fact.key.casefold() == own]

    def versions(self, key: str, scope: str) -> list[Fact]:
        """Return every value that a key has had; of a store without history, the one that holds."""
        history = abilities_of(self._store).fact_history
        if history is not None:
            return [as_ours(fact, Fact) for fact in history(key, scope=scope)]
        return [as_ours(fact, Fact) for fact in self._store.facts(scope=scope) if fact.key == key]

    def is_disbelieved(self, key: str, value: str, scope: str) -> bool | None:
        """Tell whether a value waits beside a fact because of who said it; None: it does not wait."""
        doubts: list[Fact] = self._store.doubts(scope=scope) if self.levelled else []
        waiting = [old for old in doubts if (old.key, old.value) == (key, value)]
        return any(old.disbelieved is not None for old in waiting) if waiting else None

    def reasons(self, fact: Fact, reader: Reader | None) -> Reasons | None:
        """Return why a fact is remembered; None of a user's own store."""
        if not self.levelled:
            return None
        return reasons_for(self._store.database, f"fact:{fact.id}", reader=reader)

    def key_for(self, turn: ToolTurn, scope: str, key: str, value: str) -> tuple[str, About | None]:
        """Return the key for a value, and whom it is about: with their name before it, and a number behind where it would replace another's."""
        speaker, text = turn.reader.key, turn.utterance
        if turn.is_inner or not text:
            return key, None
        held = {spelled(fact.key): fact for fact in reversed(self.read(turn, scope))}
        subject = subject_of(text, key, value, speaker)
        fact = held.get(spelled(named_after(subject.name, subject.trait) if subject.name else key))
        if fact and fact.value != value and _is_told_by_another(fact, speaker):
            subject = subject_of(text, key, value, speaker, least=_LEAST_BESIDE)
        about = subject.about
        if about == "speaker" and person_of(scope):
            return key, about
        if subject.name:
            key = named_after(subject.name, subject.trait)
            # Of two dangers to somebody both stay, unless they correct themselves.
            if about == "speaker" or not is_safety_key(spelled(subject.trait)):
                return key, about
        for name in chain((key,), (f"{key} {n}" for n in count(2))):
            fact = held.get(spelled(name))
            if (
                fact is None
                or fact.value == value
                or (about is None and not self._belongs_to_other(fact, speaker))
            ):
                return name, about
        raise AssertionError  # the names do not end

    def holds_list(self, turn: ToolTurn, scope: str, key: str) -> bool:
        """Tell whether a list of this name is in a scope, of what may be told in this turn."""
        lists = (fact for fact in self.read(turn, scope) if fact.json and fact.json.startswith("["))
        return any(spelled(fact.key) == spelled(key) for fact in lists)

    def list_scope(self, turn: ToolTurn, scope: str, key: str, *, removes: bool) -> str:
        """Return where the list is that is meant where no scope is given: nothing is added where more people read it."""
        others = [*([MYSELF] * bool(turn.reader.key)), *(["global"] * removes)]
        if person_of(scope) or self.holds_list(turn, scope, key):
            return scope
        return next((checked_scope(one, turn) for one in others if self.holds_list(turn, one, key)), scope)

    def list_key(self, turn: ToolTurn, scope: str, key: str, items: str) -> str:
        """Return the key of a list, with a name before it where the speaker says whose it is: my packing list."""
        if turn.is_inner or not turn.utterance or person_of(scope):
            return key
        subject = subject_of(turn.utterance, key, items, turn.reader.key)
        return named_after(subject.name, subject.trait) if subject.name else key

    def _belongs_to_other(self, fact: Fact, speaker: str) -> bool:
        """Tell whether a value without a name is that of another person, who said it of themselves or warned of something."""
        if not _is_told_by_another(fact, speaker):
            return False
        if is_safety_key(spelled(fact.key)):
            return True
        reasons = self.reasons(fact, None)
        teller = name_key(fact.heard.speaker or "") if fact.heard else ""
        return any(
            subject_of(told.content, fact.key, fact.value, teller, least=_LEAST_BESIDE).about == "speaker"
            for told in (reasons.said if reasons else ())
        )


def _is_told_by_another(fact: Fact, speaker: str) -> bool:
    """Tell whether a fact was said by one recognised person and not by another, who speaks now."""
    teller = fact.heard and fact.heard.speaker
    return bool(speaker and teller) and name_key(teller or "") != speaker


def scope_to_write(scope: str | None, default: Level | None, turn: ToolTurn) -> str:
    """Return where a fact goes; words said in private or in confidence stay there, whatever the model asks for.

    Args:
        default: the level of a fact without a scope; None: global, as in EdgeVox.
    """
    if turn.is_private or says_in_confidence(turn.utterance):
        scope = MYSELF
    elif scope is None:
        scope = "global" if default is None else SCOPES[default]
        # A stranger's words are shared.
        scope = scope if turn.reader.key or level_of_scope(scope)[0] == "shared" else "global"
    return checked_scope(scope, turn)


def checked_scope(scope: str, turn: ToolTurn) -> str:
    """Return a scope as it is stored, if the speaker may use it."""
    check_key(scope, what="a scope")
    reader = turn.reader
    if scope.strip() == MYSELF:
        if not reader.key:
            raise RefusedError("Refused: nobody knows who is speaking, so nothing private is kept or told.")
        return scope_of(reader.speaker or "")
    scope = without_spaces(scope)
    if not is_known_form(scope):
        raise InvalidInputError(f"There is no scope {scope!r:.80}; use one of {', '.join(SCOPES.values())}.")
    level, owner = level_of_scope(scope)
    if owner is not None and name_key(owner) != reader.key:
        raise RefusedError("Refused: that belongs to somebody else, so it is neither told nor changed.")
    if level == "household" and not reader.key:
        raise RefusedError("Refused: nobody knows who is speaking, so only the scope global can be used.")
    return scope


def check_owner(versions: Iterable[Fact], turn: ToolTurn) -> None:
    """Raise RefusedError where something ever said under a name is somebody else's."""
    speaker = Reader(turn.reader.speaker)
    if not all(readable(speaker, *closed_to(version)) for version in versions):
        raise RefusedError("Refused: that name is taken by what belongs to somebody else. Use another name.")


def named_after(speaker: str, key: str) -> str:
    """Return a key with somebody's name before it."""
    return f"{speaker.replace(' ', '_')}.{key}"
