"""A conversation written down: the JSON-lines form that `edgemem demo` and `edgemem replay` play.

Each line is one turn, a JSON object. `say` is needed, and `at` in the first; blank lines are skipped.

    {"at": "2026-11-02T08:02:00+01:00", "speaker": "Mara", "say": "I'm allergic to peanuts.",
     "reply": "Noted. No peanuts.", "remember": [{"key": "mara.allergy", "value": "peanuts"}]}

    at           when it was said: ISO 8601 with a zone, or seconds since the epoch; default: a minute after the last
    speaker      who spoke; null is a voice that the robot does not recognise
    say          the utterance
    reply        what the model answers in the script
    session      the conversation that the turn belongs to; default: the one before, at first `kitchen`
    tools        tools that the model calls: [{"name", "arguments", "result" or "error"}]
    remember     facts that it stores: [{"key", "value", "scope", "valid_from", "valid_to"}]; value null: no longer so
    heard        {"asr_confidence", "speaker_confidence", "room", "device"}
    present      who else is in the room and hears the answer
    private      true: the speaker wants this turn kept from the others
    interrupted  the part of `reply` that was heard before somebody cut in
    must         texts that must be in front of the model in this turn (what was just said does not count)
    must_not     texts that must not be
    id, reply_id names of the utterance and of the reply, for `evidence`
    evidence     ids that recall should find for this utterance

LoCoMo's form is one JSON file of many conversations, each with dated sessions and questions.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from edgemem.errors import InvalidInputError
from edgemem.records import Heard

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


Moment = datetime | float
"""ISO 8601 with a zone, or seconds since the epoch."""

_NOT_SAID = 0.0
_FIRST_SESSION = "kitchen"
_PAUSE = timedelta(minutes=1)


class ScriptedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool that the scripted model calls, and how that ends."""

    name: str
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    result: str | None = None
    error: str | None = None


class ScriptedFact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fact that the scripted model stores; value None: from then on there is none."""

    key: str
    value: str | None
    scope: str = "household"
    valid_from: Moment | None = None
    valid_to: Moment | None = None


class ScriptedEar(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the microphones knew about an utterance."""

    asr_confidence: float | None = None
    speaker_confidence: float | None = None
    room: str | None = None
    device: str | None = None


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One turn of a script; the docstring of the module tells what each field means."""

    say: str
    at: Moment = _NOT_SAID
    speaker: str | None = None
    reply: str = ""
    session: str = ""
    tools: tuple[ScriptedCall, ...] = ()
    remember: tuple[ScriptedFact, ...] = ()
    heard: ScriptedEar = ScriptedEar()
    present: tuple[str, ...] = ()
    private: bool = False
    interrupted: str | None = None
    must: tuple[str, ...] = ()
    must_not: tuple[str, ...] = ()
    id: str = ""
    reply_id: str = ""
    evidence: tuple[str, ...] = ()

    @property
    def local(self) -> datetime:
        """Return when it was said, in the zone that the script gives."""
        return self.at if isinstance(self.at, datetime) else datetime.fromtimestamp(self.at, tz=timezone.utc)

    @property
    def time(self) -> float:
        """Return when it was said, in seconds since the epoch."""
        return seconds(self.at)

    def as_heard(self) -> Heard:
        """Return how the utterance came to the robot's ears, as records keep it."""
        ear = self.heard
        return Heard(
            speaker=self.speaker,
            speaker_confidence=ear.speaker_confidence,
            asr_confidence=ear.asr_confidence,
            device=ear.device,
            room=ear.room,
            event_time=self.time,
        )


class Question(NamedTuple):
    """A question about a whole conversation, and the ids of the lines that answer it."""

    text: str
    evidence: tuple[str, ...]
    category: int


_ADVERSARIAL = 5
"""LoCoMo's category of questions that the conversation does not answer."""


def seconds(moment: Moment) -> float:
    """Return a moment of a script in seconds since the epoch."""
    return moment.timestamp() if isinstance(moment, datetime) else moment


def read_script(path: Path) -> list[Line]:
    """Read a JSON-lines script, filling in the times and sessions that it leaves out."""
    decoder = msgspec.json.Decoder(Line)
    lines: list[Line] = []
    for number, raw in enumerate(_read(path).splitlines(), start=1):
        if not raw.strip():
            continue
        where = f"{path.name}, line {number}"
        try:
            line = decoder.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidInputError(f"{where}: {_plain(error)}.") from None
        lines.append(_completed(line, lines[-1] if lines else None, where))
    if not lines:
        raise InvalidInputError(f"{path.name} holds no lines; a script needs at least one turn.")
    return lines


def is_locomo(path: Path) -> bool:
    """Tell LoCoMo's form (one JSON list) from a script (JSON lines)."""
    return _read(path).lstrip()[:1] == b"["


def read_locomo(path: Path, sample: str | None = None) -> tuple[list[Line], list[Question]]:
    """Read one conversation of LoCoMo and its answerable questions.

    Whoever opens a session is its user and the other one its assistant, so that every turn begins with the user.
    A photo is told by its caption. Without `sample` the first conversation is taken.
    """
    try:
        data = msgspec.json.decode(_read(path), type=list[_Sample])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path.name} is not in LoCoMo's form: {_plain(error)}.") from None
    names = [conversation.sample_id for conversation in data]
    chosen = next((conversation for conversation in data if sample in (None, conversation.sample_id)), None)
    if chosen is None:
        raise InvalidInputError(f"{path.name} has no sample {sample!r}; it has {', '.join(names) or 'none'}.")
    lines = [line for session in _sessions(chosen, path) for line in session]
    return lines, [
        Question(qa.question, tuple(_evidence(qa.evidence)), qa.category)
        for qa in chosen.qa
        if qa.category != _ADVERSARIAL and qa.evidence
    ]


class _Speech(msgspec.Struct):
    speaker: str
    dia_id: str
    text: str
    blip_caption: str | None = None

    @property
    def words(self) -> str:
        return f"{self.text} [shows a photo: {self.blip_caption}]" if self.blip_caption else self.text


class _Asked(msgspec.Struct):
    question: str
    category: int
    evidence: list[str] = []


class _Sample(msgspec.Struct):
    sample_id: str
    conversation: dict[str, Any]
    qa: list[_Asked] = []


def _sessions(sample: _Sample, path: Path) -> Iterator[list[Line]]:
    """Yield the turns of each session, in order."""
    talk = sample.conversation
    numbers = sorted(int(key[8:]) for key in talk if key.startswith("session_") and key[8:].isdigit())
    for number in numbers:
        where = f"{path.name}, {sample.sample_id}, session {number}"
        try:
            speeches = msgspec.convert(talk[f"session_{number}"], type=list[_Speech])
            date = talk[f"session_{number}_date_time"]
            start = datetime.strptime(date, "%I:%M %p on %d %B, %Y").replace(tzinfo=timezone.utc)
        except (KeyError, ValueError, TypeError) as error:
            raise InvalidInputError(f"{where} cannot be read: {_plain(error)}.") from None
        yield _turns(speeches, start, f"{sample.sample_id}-{number}")


def _turns(speeches: list[_Speech], start: datetime, session: str) -> list[Line]:
    """Pair what the user of a session says with the answers."""
    lines: list[Line] = []
    for speech in speeches:
        if speech.speaker == speeches[0].speaker:
            at = start + _PAUSE * len(lines)
            lines.append(
                Line(say=speech.words, at=at, speaker=speech.speaker, session=session, id=speech.dia_id)
            )
        else:
            reply = f"{lines[-1].reply}\n{speech.words}".strip()
            lines[-1] = msgspec.structs.replace(
                lines[-1], reply=reply, reply_id=lines[-1].reply_id or speech.dia_id
            )
    return lines


def _evidence(written: list[str]) -> Iterator[str]:
    """Yield the ids in LoCoMo's evidence lists, a few of which are several ids in one text."""
    for text in written:
        yield from (part for part in text.replace(";", " ").replace(",", " ").split() if ":" in part)


def _completed(line: Line, before: Line | None, where: str) -> Line:
    """Fill in what a line takes from the one before it, and check what its type cannot say."""
    moments = [line.at, *(m for fact in line.remember for m in (fact.valid_from, fact.valid_to))]
    if any(isinstance(moment, datetime) and moment.tzinfo is None for moment in moments):
        raise InvalidInputError(f"{where}: a time needs its zone, such as 2026-11-02T08:02:00+01:00.")
    if line.interrupted is not None and not line.reply.startswith(line.interrupted):
        raise InvalidInputError(f"{where}: `interrupted` must be the beginning of `reply`.")
    if any((call.result is None) == (call.error is None) for call in line.tools):
        raise InvalidInputError(f"{where}: each tool needs either `result` or `error`.")
    at: Moment = line.at
    if at == _NOT_SAID:
        if before is None:
            raise InvalidInputError(f"{where}: the first line needs `at`, the time when it was said.")
        at = before.local + _PAUSE
    session = line.session or (before.session if before else _FIRST_SESSION)
    return msgspec.structs.replace(line, at=at, session=session)


def _read(path: Path) -> bytes:
    """Read a file, or say why not in one sentence."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror or error}.") from None


def _plain(error: Exception) -> str:
    """Word a decoder's error as part of a sentence."""
    text = str(error).strip().rstrip(".")
    return f"{text} is missing" if isinstance(error, KeyError) else text.replace("`", "'")
