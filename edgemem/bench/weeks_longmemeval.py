"""The weeks in LongMemEval's form: one record for each question, with every session as its haystack.

The official scorer finds the right sessions by the word `answer` in their ids, and asks each of their messages for
`has_answer`. It knows two roles: what tools said is left out, and who spoke stands before the words.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgemem.bench.weeks import Question, Turn, Weeks

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
    """Return a moment as LongMemEval spells it: 2023/05/30 (Tue) 23:40."""
    moment = datetime.fromtimestamp(at, timezone.utc)
    weekday = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[moment.weekday()]
    return f"{moment:%Y/%m/%d} ({weekday}) {moment:%H:%M}"
