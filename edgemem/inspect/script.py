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
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.errors import InvalidInputError
from edgemem.records import Heard

if TYPE_CHECKING:
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

    @property
    def local(self) -> datetime:
        """Return when the line was said, in the time zone that the script gives."""
        return self.at if isinstance(self.at, datetime) else datetime.fromtimestamp(self.at, tz=timezone.utc)

    @property
    def time(self) -> float:
        """Return when the line was said, in seconds since the epoch."""
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
    return str(error).strip().rstrip(".").replace("`", "'")
