"""The block before an utterance: recalled items that matter for it, and the notes.

A store without recall is listed, the newest first, as EdgeVox does; items that share a word with the utterance, or mean
something like it where the store can tell, come before the others.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Protocol

import msgspec

from edgemem.clock import Clock, local
from edgemem.config import InjectionSettings, NotesSettings, Profile, Settings
from edgemem.context.bargein import interruption
from edgemem.context.block.delta import changes, lines_for, value_as_recalled
from edgemem.context.block.render import LINE_CHARS, Today, day_text
from edgemem.context.block.select import FittingLines, fit_lines, select_items
from edgemem.context.budget import TokenCache, estimate
from edgemem.fence import BULLET, clean, storable
from edgemem.llama.tokens.estimate import EstimateTokenizer
from edgemem.recall.text.analyse import analyse
from edgemem.records import BlockLine, Episode, Fact, Held, Preference, Reader, Recalled, Subject, as_ours
from edgemem.scopes import level_of_scope
from edgemem.session.log import Moment, SessionLog
from edgemem.store.bank.rules import MEMORY_FILE
from edgemem.store.notes import NotesFile, last_lines
from edgemem.store.pending_erasures import last_forgotten
from edgemem.store.protocols import MemoryStore, abilities_of
from edgemem.store.rights import readable
from edgemem.store.spool import DeferredWrites
from edgemem.store.turn_steps import EraseBlocks

if TYPE_CHECKING:
    from edgemem.context.budget import Budget
    from edgemem.context.prompt import Committed, PromptLog
    from edgemem.store.bank.bank import MemoryBank

Pair = tuple[str, str]

Recaller = Callable[[str, "Reader | None"], Sequence[Recalled]]
"""Finds items for an utterance and a reader, best first."""

KEEP_UP_S = 0.05
"""What the end of a turn may cost a store that embeds: nobody notices it beside the reply that is being spoken."""

_PREFERENCE_ID = re.compile(r"\bpreference:(\d+)\b")

_WORD = re.compile(r"\w{3,}")

_LINE_CHARS = 240

TODAY = "today:"
"""How the id of a line begins that tells what the day brings."""
_NOW = re.compile(r"now:(\d{1,10})")
"""The id of the line that says day and time, with seconds since the epoch."""
_PAUSE_S = 3600.0  # seconds of silence after which the time is said again

CLOSED = (
    "{file} is for recognised speakers and was left out, because nobody knows who speaks ([notes] level)."
)

log = logging.getLogger("edgemem.hooks")


class Agenda(Protocol):
    """What knows what a day brings."""

    def today(self, reader: Reader | None) -> list[BlockLine]:
        """Return lines for what this day brings, as far as a reader may know it."""


class MemoryBlock:
    """Puts recalled items into the newest user message, as a delta, once a turn.

    Args:
        max_facts, max_episodes: the most candidates of each.
        header: a line that opens the block.
        max_chars: the most text that is candidate.
        recall: None lists the store.
        settings: `[injection]`; None: `max_chars`, and all is said, whatever its score.
        budget: bounds the tokens of the block; None: the caps above do.
        sizes: counts of tokens, shared with others; None: estimates.
        clock: tells what day it is, and with which year a day long past is said; None: nobody knows.
        agenda: tells in the first turn of a day what it brings; None: nobody does.
    """

    name = "memory"

    def __init__(
        self,
        store: MemoryStore,
        *,
        max_facts: int = 20,
        max_episodes: int = 5,
        header: str = "",
        max_chars: int = 1200,
        recall: Recaller | None = None,
        sizes: TokenCache | None = None,
        settings: Settings | None = None,
        budget: Budget | None = None,
        clock: Clock | None = None,
        agenda: Agenda | None = None,
    ) -> None:
        self.store = store
        self._can = abilities_of(store)
        self._later = DeferredWrites(store)
        self.max_facts = max_facts
        self.header = header
        self.max_episodes = max_episodes
        everything = InjectionSettings(max_chars=max_chars, useless_per_useful=math.inf)
        self._settings = settings or Settings(Profile(injection=everything))
        self._budget = budget
        self.last: list[Recalled] = []
        """The items recalled for the newest turn, before they were cut to the block."""
        self._listing = Listing(store)
        self._recall = recall or self._listed
        self._sizes = sizes or TokenCache(EstimateTokenizer())
        self._clock, self._agenda = clock, agenda

    @property
    def max_chars(self) -> int:
        """Return the most characters of all candidates."""
        return self._settings.now.injection.max_chars

    @property
    def block_tokens(self) -> int | None:
        """Return the most tokens of the whole block; None: no such bound."""
        return None if self._budget is None else self._budget.plan["memory"]

    @property
    def floor(self) -> float:
        """Return how likely something must be to help."""
        return self._settings.now.injection.floor

    def end(self, moment: Moment) -> None:
        """Write what tools of this turn added, and, while the reply is spoken, do what no worker does."""
        if self._can.database is None:  # what a store writes later is durable now, or as soon as it can be
            self._later.settle(moment.log.commit_wait_s)
        if self._recall == self._listed and self._listing.version() is not None:
            self._listing.follow()
        if self._can.embed_pending is not None:
            end = monotonic() + KEEP_UP_S
            self._can.embed_pending(stop=lambda: monotonic() > end)

    def fill(self, moment: Moment) -> None:
        """Fill the block before the first call of the model."""
        if moment.prompt.hop > 0:
            return
        log, prompt_log = moment.log, moment.log.prompt_log
        log.value_exists = None if log.is_kept_in(self._can.database) else self._exists
        prompt_log.never_aloud = self._can.never_aloud or prompt_log.never_aloud
        chosen = self._lines(log)
        block = prompt_log.put("memory", chosen.lines, header=self.header, tokens=chosen.tokens)
        if block and [part.shown for part in prompt_log.sections.values()] == [tuple(chosen.lines)]:
            self._sizes.note(block, chosen.tokens)

    def _lines(self, log: SessionLog) -> FittingLines:
        prompt_log = log.prompt_log
        committed = prompt_log.committed()
        visible, cut_off, utterance = committed.visible, committed.cut_off, prompt_log.utterance
        lines: list[BlockLine] = []
        # The line quotes an answer that was cut off, and is as private.
        if cut_off is not None:
            heard = clean("" if cut_off.unkept else last_lines(cut_off.heard_until or "", 120), max_chars=120)
            text = f"- you were interrupted after: {heard}" if heard else "- you were interrupted"
            lines.append(BlockLine(interruption(cut_off.n), text, cut_off.answer, cut_off.owner))
        lines += self._changed(prompt_log.reader, committed, log)
        self.last = list(self._recall(utterance, prompt_log.reader))
        question = analyse(utterance)
        worth = select_items(self.last, self.floor, utterance=question, answer=prompt_log.answer)
        considered = self.considered([item for item in worth if item.score or not item.safety])
        now = None if self._clock is None else self._clock.now()
        today = Today(now, self._settings.now.time.tzinfo(), question.language)
        candidates = lines_for(
            considered,
            visible=visible,
            kept=self._exists,
            is_in_conversation=prompt_log.holds,
            question=question,
            today=today,
        )
        coming = prompt_log.redacted(self._coming(prompt_log))
        abouts = {line.subject for line in (*lines, *coming) if line.subject is not None}
        lines += [line for line in candidates if line.subject is None or line.subject not in abouts]
        lines = prompt_log.redacted(lines)
        # The time, what the day brings, what may hurt somebody, and lists, which alone are longer than a line, take no other line's place.
        names = {item.name for item in considered if item.safety or item.named_list}
        names |= {line.item for line in lines if len(line.line) > LINE_CHARS + len(BULLET)}
        time = [*self._time(prompt_log, today), *coming]
        safety = [line for line in lines if line.item in names]
        more = _more_dangers([item for item in worth if item.safety and not item.score], visible)
        count, tokens = self._sizes.tokens, math.inf if self.block_tokens is None else self.block_tokens
        return fit_lines(
            [*time, *safety, *more, *(line for line in lines if line.item not in names)],
            tokens=tokens
            + beside_budget(time, count)
            + sum(count(f"{line.line}\n") for line in [*safety, *more]),
            count=count,
            header=self.header,
            recalled=[item for item in considered if item.name not in names],
            question=question,
            today=today,
        )

    def _time(self, prompt_log: PromptLog, today: Today) -> list[BlockLine]:
        """Return the line of day and time, once an epoch, on another day and after a pause; none where the clock may be wrong."""
        if not (self._settings.now.time.line and self._clock is not None and self._clock.trust().trusted):
            return []
        now, zone = self._clock.now(), self._settings.now.time.tzinfo()
        moment, visible = local(now, zone), prompt_log.committed().visible
        told = [int(match[1]) for name in visible if (match := _NOW.fullmatch(name))]
        if told:
            spoke = max(told[-1], (prompt_log.turns[-1].tick or 0) / 1e6)
            if local(told[-1], zone).date() == moment.date() and now - spoke < _PAUSE_S:
                return []
        text = f"- now: {day_text(moment, 'whole with weekday', today)}, {moment:%H:%M}"
        return [BlockLine(f"now:{now:.0f}", text, "shared")]

    def _coming(self, prompt_log: PromptLog) -> list[BlockLine]:
        """Return what the day brings, in its first turn that this prompt holds."""
        if self._agenda is None or self._clock is None or not self._clock.trust().trusted:
            return []
        now, zone = self._clock.now(), self._settings.now.time.tzinfo()
        spoke = prompt_log.turns[-1].tick if prompt_log.turns else None
        if spoke is not None and local(spoke / 1e6, zone).date() == local(now, zone).date():
            return []
        visible = prompt_log.committed().visible
        return [line for line in self._agenda.today(prompt_log.reader) if line.id not in visible]

    def _changed(self, reader: Reader | None, committed: Committed, log: SessionLog) -> list[BlockLine]:
        gone: list[BlockLine] = []

        def exists(item: BlockLine) -> bool:
            holds = self._exists(item)
            gone.extend([] if holds else [item])
            return holds

        changed = changes(committed.visible, lambda abouts: self.current(abouts, reader), kept=exists)
        if gone and log.value_exists is not None and log.journal is not None:
            # The store could not reach the blocks of this file when it erased.
            pairs = {item.fact or item.preference or ("", "") for item in gone}
            log.epoch_writes.append(EraseBlocks(tuple(sorted(pairs))))
        holds = committed.holds_fact
        return [line for line in changed if line.fact is None or not holds(line.fact[1], line.value)]

    def current(self, abouts: Collection[Subject], reader: Reader | None) -> dict[Subject, Held]:
        """Return whether a reader may know the present values of facts and preferences, and those values."""
        pairs = [(scope, key) for kind, scope, key in abouts if kind == "fact"]
        values = {("fact", *pair): held for pair, held in self._facts_now(pairs, reader).items()}
        wishes = [about for about in abouts if about[0] == "preference"]
        if wishes:
            values.update(dict.fromkeys(wishes, Held(True, None)))
            for wish in self._preferences():
                about = ("preference", wish.scope, storable(wish.key or ""))
                if about in values:
                    may = readable(reader, wish.level, wish.owner)
                    values[about] = Held(may, wish.value if may else None, wish.level, wish.owner)
        return values

    def _facts_now(self, pairs: Collection[Pair], reader: Reader | None) -> Mapping[Pair, Held]:
        read = self._can.read_values
        if read is not None and pairs:
            # A store of the user's own may tell no more than whether it may be read, and the value.
            return {pair: Held(*held) for pair, held in read(pairs, reader=reader).items()}
        readers = {scope: level_of_scope(scope) for scope, _ in pairs}
        return {
            (scope, key): Held(
                readable(reader, *readers[scope]), self.store.get_fact(key, scope=scope), *readers[scope]
            )
            for scope, key in pairs
        }

    def _preferences(self) -> list[Recalled]:
        return [value_as_recalled(as_ours(wish, Preference)) for wish in self.store.preferences()]

    def _exists(self, item: BlockLine) -> bool:
        """Tell whether the store still holds a shown value, at least as history: it was not erased."""
        if item.fact is not None:
            scope, key = item.fact
            # Without a history, a store keeps only what holds now.
            versions = history(key, scope=scope) if (history := self._can.fact_history) else ()
            values = {version.value for version in versions} or {self.store.get_fact(key, scope=scope)}
            return item.value in {storable(value) for value in values if value is not None}
        if any(
            (wish.scope, storable(wish.key or "")) == item.preference
            and storable(wish.value or "") == item.value
            for wish in self._preferences()
        ):
            return True
        # A preference has no history. Its id is the time at which it was written: nothing was forgotten since?
        database, written = self._can.database, _PREFERENCE_ID.search(item.id)
        return database is not None and written is not None and last_forgotten(database) < int(written[1])

    def considered(self, recalled: Sequence[Recalled]) -> list[Recalled]:
        """Return the items that may become lines, before tokens are counted."""
        left = {"fact": self.max_facts, "episode": self.max_episodes}
        chars = self.max_chars
        out = []
        for item in recalled:
            size = min(len(item.text), LINE_CHARS)
            if not item.safety:  # it stands beside all of this
                if left.get(item.kind, 1) <= 0 or size > chars:
                    continue
                if item.kind in left:
                    left[item.kind] -= 1
                chars -= size
            out.append(item)
        return out

    def _listed(self, utterance: str, reader: Reader | None) -> list[Recalled]:
        return self._listing.look(utterance, reader, max_facts=self.max_facts, max_episodes=self.max_episodes)


def beside_budget(lines: Iterable[BlockLine], count: Callable[[str], int]) -> int:
    """Return the tokens of those lines that take no memory's place in a block's budget: of day and time, and what the day brings."""
    return sum(count(f"{line.line}\n") for line in lines if line.id.startswith(("now:", TODAY)))


def _more_dangers(items: Iterable[Recalled], visible: Collection[str]) -> list[BlockLine]:
    """Return one line that tells how many dangers have none, and whose they are; each further item has an empty one, to be erased by."""
    new = {name: item for item in items if (name := f"more:{item.kind}:{item.id}") not in visible}
    whose = dict.fromkeys(
        (item.key or "").rpartition(".")[0] or item.speaker or "others" for item in new.values()
    )
    text = clean(
        f"{len(new)} more dangers, told of or by {', '.join(whose)}: search for “allergies”",
        max_chars=LINE_CHARS,
    )
    return [
        BlockLine(
            name,
            "" if n else f"- {text}",
            item.level,
            item.owner,
            None if item.kind != "fact" else (item.scope, item.key or ""),
        )
        for n, (name, item) in enumerate(new.items())
    ]


class Listing:
    """Lists a store's facts, preferences and episodes; not thread-safe, it belongs to the loop's thread."""

    def __init__(self, store: MemoryStore) -> None:
        self._store, can = store, abilities_of(store)
        self._recall = can.recall_facts
        self.version: Callable[[], tuple[int, ...] | None] = can.facts_version or (lambda: None)
        """Returns a value that changes with every written fact; None where a store of a user's own cannot tell."""
        self._version: tuple[int, ...] | None = None
        self._facts: list[tuple[Recalled, frozenset[str]]] = []
        """The newest first, as of that version, each with its words."""

    def look(
        self, utterance: str, reader: Reader | None, *, max_facts: int, max_episodes: int
    ) -> list[Recalled]:
        """Return at most so many facts and episodes that a reader may know, best first, and all preferences."""
        self.follow()
        recall = self._recall
        near: Sequence[Recalled] = recall(utterance, k=max_facts, reader=reader) if recall is not None else ()
        # Their order is what counts: all are said that have room, as in EdgeVox.
        facts = {fact.id: msgspec.structs.replace(fact, score=0.5) for fact in near}
        asked = frozenset(_WORD.findall(utterance.lower()))
        for fact, _ in sorted(self._facts, key=lambda known: -len(asked & known[1])):
            if readable(reader, fact.level, fact.owner):
                facts.setdefault(fact.id, fact)
        wishes = [value_as_recalled(as_ours(wish, Preference)) for wish in self._store.preferences()]
        episodes = self._store.recent_episodes(max_episodes) if max_episodes > 0 else ()
        rest = [*wishes, *(_lived(as_ours(episode, Episode)) for episode in episodes)]
        return [
            *list(facts.values())[:max_facts],
            *(item for item in rest if readable(reader, item.level, item.owner)),
        ]

    def follow(self) -> None:
        """Read the facts if any was written since, or the store cannot tell."""
        now = self.version()
        if now is None or now != self._version:
            facts = [value_as_recalled(as_ours(fact, Fact)) for fact in self._store.facts()]
            facts.sort(key=lambda fact: -fact.recorded_at)
            self._facts = [(fact, frozenset(_WORD.findall(fact.text.lower()))) for fact in facts]
            self._version = now


def _lived(episode: Episode) -> Recalled:
    text = f"{episode.kind} {episode.payload.get('name', '')}: {episode.outcome}"
    at, level, owner = episode.timestamp, episode.level, episode.owner
    return Recalled("episode", f"{at}", text, 0.4, recorded_at=at, level=level, owner=owner)


def shown_line(line: str) -> str:
    """Return a line of the notes as a model is shown it; empty where it says nothing."""
    return clean(line.lstrip("# "), max_chars=_LINE_CHARS)


class NotesBlock:
    """Puts the tail of the notes into the newest user message, and later only lines not shown yet.

    Args:
        max_chars: of the file's end, unless `settings` say it.
        budget: bounds the tokens; None: no such bound.
        bank: its MEMORY.md are shown as well, in what the notes leave of the tokens.
    """

    name = "notes"

    def __init__(
        self,
        notes: NotesFile,
        *,
        max_chars: int = 1500,
        header: str = "Notes:",
        settings: Settings | None = None,
        budget: Budget | None = None,
        bank: MemoryBank | None = None,
    ) -> None:
        self.notes = notes
        self._settings = settings or Settings(Profile(notes=NotesSettings(inject_chars=max_chars)))
        self._budget = budget
        self._bank = bank
        self.header = header.lstrip("# ")
        self.note = ""
        """Why the notes are not in the newest prompt; empty where they may be read."""
        self._warned = False

    @property
    def max_chars(self) -> int:
        """Return the most characters of the file's end that are shown."""
        return self._settings.now.notes.inject_chars

    def fill(self, moment: Moment) -> None:
        """Add the notes, and MEMORY.md of the bank, before the first call of the model."""
        if moment.prompt.hop > 0:
            return
        prompt_log = moment.log.prompt_log
        notes, files = self._notes(prompt_log), self._memory_files(prompt_log)
        if not notes and not files:
            return
        # The newest note first: where not all fit, the oldest ones go, and before them the ends of the files.
        count = self._count_fitting([*(line for line, _ in reversed(notes)), *files])
        committed = prompt_log.committed()
        kept = [line for line, text in notes[max(0, len(notes) - count) :] if not committed.holds_note(text)]
        kept += files[: max(0, count - len(notes))]
        lines = [line for line in kept if line.id not in committed.visible]
        if not lines:
            return
        # Lines that the prompt holds already count to their bound too, so this is an estimate for the log alone.
        tokens = estimate("\n".join([self.header, *(line.line for line in lines)]))
        prompt_log.put("notes", lines, header=self.header, tokens=tokens)

    def _notes(self, prompt_log: PromptLog) -> list[tuple[BlockLine, str]]:
        """Return the newest lines of the notes as they are shown and as the file has them, if they may be read."""
        level, most = self.notes.level, self.max_chars
        self.note = (
            "" if readable(prompt_log.reader, level, None) else CLOSED.format(file=self.notes.path.name)
        )
        if self.note:
            if not self._warned:
                log.warning(self.note)
                self._warned = True
            return []
        return [
            (BlockLine(f"note:{line}", f"- {line}", level), text)
            for text in self.notes.tail(most).splitlines()
            if (line := shown_line(text))
        ]

    def _memory_files(self, prompt_log: PromptLog) -> list[BlockLine]:
        """Return the first lines of MEMORY.md: of the speaker in this session, of the household, of anyone."""
        reader = prompt_log.reader
        if self._bank is None or not (limits := self._bank.limits()).enabled:
            return []
        lines, speaker = [], None if reader is None else reader.speaker
        for level, owner, text in self._bank.memory_files(speaker, prompt_log.session):
            if readable(reader, level, owner):
                first = (line.removeprefix("- ") for line in text.splitlines()[: limits.auto_load_max_lines])
                shown = filter(None, map(shown_line, first))
                lines += [
                    BlockLine(f"{MEMORY_FILE}:{level}:{line}", f"- {line}", level, owner) for line in shown
                ]
        return lines

    def _count_fitting(self, lines: Sequence[BlockLine]) -> int:
        """Return how many of the first lines are within the budget, shown already or not."""
        if not lines or self._budget is None:
            return len(lines)
        encode = self._budget.tokenizer.encode
        left = self._budget.plan["notes"] - len(encode(f"{self.header}\n"))
        for count, line in enumerate(lines):
            left -= len(encode(f"{line.line}\n"))
            if left < 0:
                return count
        return len(lines)
