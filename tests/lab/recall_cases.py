"""Cases: conversations with questions and the messages that answer them, in one form wherever they come from.

LoCoMo's pictures are told by their caption (`blip_caption`), as in its own evaluation; of its sessions only the beginning
has a time, and messages follow half a minute apart. LongMemEval is read as its own retrieval reads it: only what the user
said is memory; records with the same haystack are one case. Its official scorer finds the right sessions by the word
`answer` in their ids, and asks each of their messages for `has_answer`.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec

from edgemem import records
from edgemem.errors import InvalidInputError
from edgemem.store.turns import commit_turn, read_turns
from lab.weeks import Talk, Weeks
from lab.weeks_world import FormSet, facts, forms_of, lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from edgemem.memory import Memory
    from edgemem.store.db.transaction import Transaction
    from lab.judge import SetClock
    from lab.weeks import Question, Turn, Weeks


ADVERSARIAL = "adversarial"
OFF_TOPIC = "off_topic"
ABSTENTION = "abstention"
LEFT_OUT = (ADVERSARIAL, OFF_TOPIC, ABSTENTION)  # questions that nothing answers
_CATEGORIES = {1: "multi_hop", 2: "temporal", 3: "open_domain", 4: "single_hop", 5: ADVERSARIAL}
_EVIDENCE = re.compile(r"D:?(\d+):(\d+)")
"""Two of the file's references stand in one text, one has a colon too many, one lost its numbers."""
_STEP_S = 30.0
_AFTER_S = 86400.0  # questions without a date are asked a day after all was said
Role = Literal["user", "assistant", "tool"]
Form = Literal["weeks", "locomo", "longmemeval"]


class Said(msgspec.Struct, frozen=True):
    id: str
    session: str
    at: float  # seconds since the epoch
    speaker: str | None  # None: the robot, one of its tools, or a user without a name
    text: str
    role: Role = "user"


class Asked(msgspec.Struct, frozen=True):
    id: str
    text: str
    asker: str | None  # who reads; None: the operator
    at: float
    category: str
    evidence: tuple[str, ...]  # the messages that answer it
    sessions: tuple[str, ...] = ()  # the sessions that do
    strict: bool = True
    """Whether a user's own words are among the evidence; LongMemEval skips other questions."""
    answer: str = ""
    """The shortest; of our own corpus as the evidence words it, and empty where that is a day or a speaker."""


class Case(msgspec.Struct, frozen=True):
    name: str
    said: tuple[Said, ...]
    asked: tuple[Asked, ...]
    facts: tuple[tuple[str, str, str], ...] = ()  # key, value and scope


def form_set(name: str) -> FormSet:
    for form in get_args(FormSet):
        if form == name:
            named: FormSet = form
            return named
    raise InvalidInputError(f"There are no forms {name!r}; say one of: {', '.join(get_args(FormSet))}.")


def weeks_case(weeks: Weeks, name: str = "weeks") -> Case:
    said = tuple(
        Said(turn.id, turn.session, turn.at, turn.speaker, turn.text, turn.role) for turn in weeks.turns
    )
    session_of = {one.id: one.session for one in said}
    asked = (
        Asked(one.id, one.text, one.asker, one.at, one.category, one.evidence, _sessions(one.evidence, session_of),
              answer=one.said)
        for one in weeks.questions
    )  # fmt: skip
    return Case(name, said, tuple(asked))


def read_cases(path: Path, *, captions: bool = True) -> tuple[Form, list[Case]]:
    """Return what a file of LoCoMo's (with captions or not) or LongMemEval's form holds, and which of the two it is."""
    try:
        records = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError) as error:
        raise InvalidInputError(f"{path} cannot be read as JSON ({error}); name another file.") from error
    if isinstance(records, list) and records and all(isinstance(record, dict) for record in records):
        try:
            if all("haystack_sessions" in record for record in records):
                return "longmemeval", list(longmemeval_cases(records))
            if all("conversation" in record for record in records):
                return "locomo", [locomo_case(record, captions=captions) for record in records]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidInputError(
                f"{path} is not as its form tells ({error!r}); name another file."
            ) from error
    raise InvalidInputError(f"{path} is neither LoCoMo's form nor LongMemEval's; name another file.")


def locomo_case(record: dict[str, Any], *, captions: bool = True) -> Case:
    """Return one conversation of LoCoMo; both speakers are people, and nobody is the robot."""
    talk = record["conversation"]
    said: list[Said] = []
    numbers = sorted(int(key[8:]) for key in talk if re.fullmatch(r"session_\d+", key))
    for number in numbers:
        begin = _locomo_time(talk[f"session_{number}_date_time"])
        for place, turn in enumerate(talk[f"session_{number}"]):
            text = turn["text"]
            if captions and turn.get("blip_caption"):
                text = f"{text} [shares {turn['blip_caption']}]"
            said.append(
                Said(turn["dia_id"], f"D{number}", begin + place * _STEP_S, turn["speaker"], text or "…")
            )
    session_of = {one.id: one.session for one in said}
    end = max(one.at for one in said) + _AFTER_S
    asked = []
    for number, question in enumerate(record["qa"], 1):
        found = _EVIDENCE.findall(" ".join(question.get("evidence") or ()))
        names = (f"D{int(session)}:{int(turn)}" for session, turn in found)
        evidence = tuple(dict.fromkeys(name for name in names if name in session_of))
        asked.append(
            Asked(
                f"{record['sample_id']} {number}",
                question["question"],
                None,
                end,
                _CATEGORIES.get(question["category"], str(question["category"])),
                evidence,
                _sessions(evidence, session_of),
                answer=str(question.get("answer", "")),
            )
        )
    return Case(record["sample_id"], tuple(said), tuple(asked))


def longmemeval_cases(records: Sequence[dict[str, Any]]) -> Iterator[Case]:
    """Yield a case for each haystack; sessions are named by their places, since ids tell which is right."""
    stacks: dict[bytes, list[dict[str, Any]]] = {}
    for record in records:
        stacks.setdefault(_haystack(record), []).append(record)
    for number, same in enumerate(stacks.values(), 1):
        yield Case(
            f"haystack {number}",
            tuple(_haystack_said(same[0])),
            tuple(_longmemeval_asked(one) for one in same),
        )


def _haystack(record: dict[str, Any]) -> bytes:
    """Return what tells haystacks apart, without what tells which session is right."""
    sessions = [[(said["role"], said["content"]) for said in one] for one in record["haystack_sessions"]]
    return msgspec.json.encode((record["haystack_dates"], sessions))


def _haystack_said(record: dict[str, Any]) -> Iterator[Said]:
    for place, (date, messages) in enumerate(
        zip(record["haystack_dates"], record["haystack_sessions"], strict=True)
    ):
        begin = _longmemeval_time(date)
        for turn, message in enumerate(messages):
            if message["role"] == "user" and message["content"].strip():
                at = begin + turn * _STEP_S
                yield Said(f"{place}:{turn}", str(place), at, None, message["content"])


def _longmemeval_asked(record: dict[str, Any]) -> Asked:
    right = set(record["answer_session_ids"])
    sessions, own, evidence = [], False, []
    for place, (name, messages) in enumerate(
        zip(record["haystack_session_ids"], record["haystack_sessions"], strict=True)
    ):
        if name not in right:
            continue
        sessions.append(str(place))
        for turn, message in enumerate(messages):
            if message.get("has_answer") and message["role"] == "user":
                own = True
                evidence.append(f"{place}:{turn}")
    abstains = record["question_id"].endswith("_abs")
    return Asked(
        record["question_id"],
        record["question"],
        None,
        _longmemeval_time(record["question_date"]),
        ABSTENTION if abstains else record["question_type"],
        tuple(evidence),
        tuple(sessions),
        strict=own,
        answer=str(record.get("answer", "")),
    )


def strict_sessions(asked: Asked) -> tuple[str, ...]:
    """Return the sessions in which a user's own words answer: LongMemEval's scorer knows no others."""
    return tuple(dict.fromkeys(name.partition(":")[0] for name in asked.evidence))


def _sessions(evidence: Sequence[str], session_of: dict[str, str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(session_of[name] for name in evidence))


def _locomo_time(text: str) -> float:
    return datetime.strptime(text, "%I:%M %p on %d %B, %Y").replace(tzinfo=timezone.utc).timestamp()


def _longmemeval_time(text: str) -> float:
    plain = re.sub(r"\s*\([^)]*\)", "", text)
    return datetime.strptime(plain, "%Y/%m/%d %H:%M").replace(tzinfo=timezone.utc).timestamp()


_TYPES = {
    "present": "single-session-user",
    "updated": "knowledge-update",
    "superseded": "knowledge-update",
    "when": "temporal-reasoning",
    "on_day": "temporal-reasoning",
    "who": "single-session-user",
    "off_topic": "single-session-user",
}


def longmemeval(weeks: Weeks) -> list[dict[str, Any]]:
    """Return the records; sessions without evidence are the same object in each."""
    sessions: dict[str, list[Turn]] = {}
    for turn in weeks.turns:
        if turn.role != "tool":
            sessions.setdefault(turn.session, []).append(turn)
    plain = {name: [_message(turn) for turn in turns] for name, turns in sessions.items()}
    dates = [_date(turns[0].at) for turns in sessions.values()]
    session_of = {turn.id: turn.session for turn in weeks.turns}
    speaker_of = {turn.id: turn.speaker for turn in weeks.turns}
    out: list[dict[str, Any]] = []
    for question in weeks.questions:
        evidence = set(question.evidence)
        # In the order of the sessions, as the haystack is.
        right = [name for name in sessions if name in {session_of[id_] for id_ in question.evidence}]
        by_robot = any(speaker_of[id_] is None for id_ in question.evidence)
        out.append(
            {
                "question_id": question.id if question.evidence else f"{question.id}_abs",
                "question_type": _type(question, by_robot=by_robot),
                "question": f"{question.asker}: {question.text}",
                "answer": question.answer or "Nobody has said so.",
                "question_date": _date(question.at),
                "haystack_session_ids": [_id(name, right) for name in sessions],
                "haystack_dates": dates,
                "haystack_sessions": [
                    [_message(turn) | {"has_answer": turn.id in evidence} for turn in turns] if name in right
                    else plain[name]
                    for name, turns in sessions.items()
                ],
                "answer_session_ids": [_id(name, right) for name in right],
            }
        )  # fmt: skip
    return out


def _type(question: Question, *, by_robot: bool) -> str:
    if by_robot and question.category == "present":
        return "single-session-assistant"
    return _TYPES[question.category]


def _id(session: str, right: list[str]) -> str:
    return f"answer_{session}" if session in right else session


def _message(turn: Turn) -> dict[str, Any]:
    said = f"{turn.speaker}: {turn.text}" if turn.speaker is not None else turn.text
    return {"role": turn.role, "content": said}


def _date(at: int) -> str:
    moment = datetime.fromtimestamp(at, timezone.utc)
    weekday = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[moment.weekday()]
    return f"{moment:%Y/%m/%d} ({weekday}) {moment:%H:%M}"


HALVES = ("seen", "unseen")
"""Of what is said in everyday life: rules were made by looking at the first half alone."""


def small_talk(seed: int, forms: FormSet) -> list[tuple[str, str]]:
    talk = Talk(forms_of(forms), facts(seed), seed)
    telling = {name for one in talk.tellings for name in one.ids}
    out = []
    for number, turn in enumerate(talk.turns):
        after = talk.turns[number + 1] if number + 1 < len(talk.turns) else None
        # An order to a tool, a request to look something up, a question that came too early.
        works = turn.id in talk.unanswered or (after is not None and after.role == "tool")
        if turn.role == "user" and turn.speaker is not None and turn.id not in telling and not works:
            out.append((turn.speaker, turn.text))
    return out


@lru_cache(maxsize=1)
def _everyday() -> dict[str, dict[str, str]]:
    return msgspec.toml.decode(
        Path(__file__).with_name("talk.toml").read_bytes(), type=dict[str, dict[str, str]]
    )


def phrases(need: str, half: str) -> list[str]:
    """Return what is said to assistants all day and needs a memory (`needed`) or not (`idle`), of one of `HALVES`."""
    return lines(_everyday()[need][half])


def joined(cases: Sequence[Case]) -> Case:
    """Return several conversations as one home, whose questions are asked when all is told."""
    end = max(one.at for case in cases for one in case.said) + _AFTER_S
    said, asked, replace = [], [], msgspec.structs.replace
    for case in cases:
        said += [replace(one, id=case.name + one.id, session=case.name + one.session) for one in case.said]
        names = ([case.name + name for name in one.evidence] for one in case.asked)
        asked += [
            replace(one, at=end, evidence=tuple(each)) for one, each in zip(case.asked, names, strict=True)
        ]
    return Case("together", tuple(said), tuple(asked))


def tell_case(memory: Memory, clock: SetClock, case: Case) -> None:
    """Store the facts of a case now, and what was said at its time, a session in a transaction."""
    for key, value, scope in case.facts:
        memory.store.add_fact(key, value, scope=scope)
    for name, said in sorted(_by_session(case.said).items(), key=lambda each: each[1][0].at):
        starts = [n for n, one in enumerate(said) if not n or one.role == "user"]

        def write(
            tx: Transaction, name: str = name, said: list[Said] = said, starts: list[int] = starts
        ) -> None:
            for n, (start, end) in enumerate(zip(starts, [*starts[1:], len(said)], strict=True)):
                one, clock.at = said[start], said[start].at
                messages = tuple(records.StoredMessage(each.role, each.text) for each in said[start:end])
                heard = records.Heard(speaker=one.speaker, event_time=one.at)
                commit_turn(tx, records.Turn(name, n, messages, owner=one.speaker, heard=heard))

        memory.diagnostics.database.write(write)


def ids(memory: Memory, said: Sequence[Said]) -> Iterator[tuple[str, str]]:
    """Yield the id that recall tells of each stored message, with its id in the case."""
    for name, messages in _by_session(said).items():
        turns = read_turns(memory.diagnostics.database, name)
        stored = [message for turn in turns for message in turn.messages]
        for message, one in zip(stored, messages, strict=True):
            yield str(message.id), one.id


def _by_session(said: Sequence[Said]) -> dict[str, list[Said]]:
    sessions: dict[str, list[Said]] = {}
    for one in said:
        sessions.setdefault(one.session, []).append(one)
    return sessions
