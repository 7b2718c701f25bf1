"""A family's week, and an evening in a small window: what stands before the model at each turn of a stream.

The homes of `judge.py` are asked when all is told; here telling, asking and small talk are mixed, and the conversation itself holds
some answers. Lines of memory are kept for people to label: which of them were worth their tokens.
"""

from __future__ import annotations

import json
import tempfile
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import edgemem
from edgemem.bench.ground import real_tokenizer, report, tool
from edgemem.config import ContextSettings, Profile
from edgemem.loop.loop import AgentLoop
from lab.judge import Model, SetClock, lines_of, local_time, stands, tell
from lab.judge_homes import Home, paths, read_session

if TYPE_CHECKING:
    from edgemem.memory import Memory
    from lab.judge_homes import Session, Turn

_IDLE_S = 60.0
_WINDOW = 2048
_INSTRUCTIONS = "You are the voice of a robot at home. Answer in one or two short sentences."


def run(*, kind: str = "week", lines: Path | None = None) -> dict[str, Any]:
    """Play sessions through the hooks of a memory: what a turn needs, and what memory put before the model.

    `judge/week_en.json` holds of each turn and line whether two people, who had built none of it, found it worth its tokens. A line
    that has no label counts as useless.

    Args:
        kind: `week` or `window`; the window has 2,048 tokens, tools and notes.
        lines: keep what memory put before each turn in this file, to be labelled.
    """
    needed, shown, tokens = [], [], 0
    labels: dict[str, list[int]] = {}
    counter = real_tokenizer()
    for path in paths(kind):
        session, judged = read_session(path), path.with_suffix(".json")
        labels |= json.loads(judged.read_text()) if judged.exists() else {}
        for n, (turn, block, before) in enumerate(_played(session, small=kind == "window")):
            if turn.answer:
                needed.append(any(stands(part, before) for part in turn.answer))
            tokens += len(counter.encode(block)) if block.strip() else 0
            shown += [{"turn": f"{path.stem}/{n}", "speaker": turn.speaker, "text": turn.text, "line": line} for line in lines_of(block)]  # fmt: skip
    if lines is not None:
        lines.write_text(json.dumps(shown, ensure_ascii=False, indent=1))
    figures: dict[str, Any] = {"needed": len(needed), "before_the_model": sum(needed), "lines": len(shown), "tokens": tokens}  # fmt: skip
    if labels:
        seen = [labels.get(f"{each['turn']}|{each['line']}") for each in shown]
        useful = [sum(values) for values in zip(*filter(None, seen), strict=True)]
        figures |= {
            "useful": useful,
            "of_all": [round(n / len(seen), 3) for n in useful],
            "unlabelled": seen.count(None),
        }
    return report("judge_sessions", figures, {})


def _played(session: Session, *, small: bool) -> list[tuple[Turn, str, list[str]]]:
    """Return each turn with its block, and all lines of its prompt."""
    clock, out = SetClock(), []
    home = Home(session.language, session.people, session.zone, session.turn[0].at, session.told, ())
    tokenizer = real_tokenizer()
    profile = Profile(context=ContextSettings(window_tokens=_WINDOW)) if small else Profile()
    with local_time(session.zone), tempfile.TemporaryDirectory() as folder:
        where = Path(folder) / "home"
        where.mkdir()
        if session.notes:
            (where / "NOTES.md").write_text("".join(f"- {note}\n" for note in session.notes))
        clock.at = home.time((session.told or session.turn)[0].at) - 60
        with edgemem.open(where, profile=profile, tokenizer=tokenizer, clock=clock, worker=False) as memory:
            for day, told in groupby(session.told, key=lambda each: each.at[:10]):
                tell(memory, clock, home, day, list(told))
                memory.idle(_IDLE_S)
            for day, turns in groupby(session.turn, key=lambda each: "" if small else each.at[:10]):
                out += _day(memory, clock, home, list(turns), day, session.tools)
    return out


def _day(
    memory: Memory, clock: SetClock, home: Home, turns: list[Turn], day: str, tools: dict[str, str]
) -> list[tuple[Turn, str, list[str]]]:
    model, out = Model(), []
    loop = AgentLoop(
        model,
        hooks=memory.hooks(session_id=f"turns {day}"),
        instructions=_INSTRUCTIONS,
        tools=[tool(name, text, "what") for name, text in tools.items()],
    )
    for turn in turns:
        clock.at = home.time(turn.at)
        model.reply = turn.reply or model.reply
        loop.run(turn.text, speaker=turn.speaker or None, audience=list(turn.audience))
        prompt = [str(message.get("content") or "") for message in model.messages]
        block = prompt[-1].replace(turn.text, "", 1)
        said = [line for content in [*prompt[:-1], block] for line in content.splitlines()]
        out.append((turn, block, said))
        if turn.fact is not None:
            scope = f"user:{turn.fact.scope}" if turn.fact.scope in home.people else turn.fact.scope
            memory.store.add_fact(turn.fact.key, turn.fact.value, scope=scope or "household")
        memory.idle(_IDLE_S)
    return out
