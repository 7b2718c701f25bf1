"""Dates that a template prints: frozen for an epoch, over midnight and a restart; a compaction brings the new one."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from conftest import HandClock

import edgemem
from edgemem.llama.template import DATELESS, ChatTemplate
from edgemem.loop import AgentLoop, Reply
from edgemem.memory import Memory

DAY = 86_400.0


class Listens:
    """Answers at once, and keeps what it was handed: the messages and the date."""

    def __init__(self) -> None:
        self.handed: list[tuple[list[Any], float | None]] = []

    def complete(
        self, messages: Any, *, tools: Any, stop: Any, on_text: Any, now: float | None = None
    ) -> Reply:
        """Answer."""
        self.handed.append((list(messages), now))
        return Reply(f"Answer {len(self.handed)}.")

    def cut(self, heard_text: str) -> None:
        """Nothing to forget."""


def prints_date(template: ChatTemplate) -> bool:
    """Tell whether a template prints what day it is."""
    asked = [{"role": "user", "content": "hi"}]
    return template.own(asked, now=DATELESS) != template.own(asked, now=DATELESS + 400 * DAY)


def test_a_date_is_frozen_for_the_epoch(tmp_path: Path, vocabularies: Path, hand: HandClock) -> None:
    """With every template that prints a date, nothing that was shown changes at midnight or after a restart."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "edgemem.toml").write_text(
        '[llama]\nembedder = ""\n[context]\nwindow_tokens = 1200\nreply_tokens = 128\nsummary_tokens = 60\n'
    )
    model = Listens()

    def talk(memory: Memory, *said: str) -> AgentLoop:
        loop = AgentLoop(model, hooks=memory.hooks(session_id="kitchen"), instructions="Be kind.")
        for text in said:
            loop.run(text)
        return loop

    with edgemem.open(home, clock=hand.clock, worker=False) as memory:
        loop = talk(memory, "First question.")
        hand.advance(DAY)
        loop.run("Second question, after midnight.")
    hand.advance(DAY)
    with edgemem.open(home, clock=hand.clock, worker=False) as memory:
        loop = talk(memory, "Third question, after a restart.")
        before = len(model.handed)
        assert {now for _, now in model.handed} == {model.handed[0][1]}
        while {now for _, now in model.handed} == {model.handed[0][1]}:
            assert len(model.handed) < 60, "no compaction came"
            loop.run("A long question. " * 12)
            memory.idle(5)
        compacted = len(model.handed) - 1
        hand.advance(DAY)
        loop.run("A question after the compaction.")
    assert model.handed[compacted][1] == model.handed[-1][1]

    dated = 0
    for file in sorted((vocabularies / "templates").glob("*.jinja")):
        template = ChatTemplate(file.read_text(), bos="<s>")
        if not prints_date(template):
            continue
        dated += 1
        for system in (True, False):  # some print it only where there are no other instructions
            shown = [
                ([m for m in said if system or m["role"] != "system"], now) for said, now in model.handed
            ]
            texts = [template.render(messages, now=now) for messages, now in shown]
            for epoch in (texts[:before], texts[compacted:]):
                assert all(longer.startswith(shorter) for shorter, longer in pairwise(epoch)), file.stem
        moved = template.render(shown[1][0], now=(shown[1][1] or 0.0) + DAY)
        assert not moved.startswith(texts[0]), f"{file.stem}: without freezing it would have changed"
    assert dated >= 7
