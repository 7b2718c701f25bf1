"""The layout: what the model sees only grows, and what was thrown away was never shown."""

from __future__ import annotations

from typing import Any

from edgemem.context.block.render import BlockLine
from edgemem.context.prompt.log import PromptLog
from edgemem.llama.template.chat_template import text_of
from edgemem.records import Epoch, Reader
from edgemem.store.messages import stored_message as stored

SYSTEM = {"role": "system", "content": "You are Pip."}
ALICE, BOB, STRANGER = Reader("alice"), Reader("bob"), Reader()


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def robot(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def turn(
    layout: PromptLog,
    said: list[dict[str, Any]],
    text: str,
    *,
    reader: Reader = ALICE,
    lines: tuple[BlockLine, ...] = (),
) -> list[Any]:
    """Run one turn and return what the model saw."""
    layout.begin(reader)
    said.append(user(text))
    layout.take([SYSTEM, *said])
    layout.put("memory", lines)
    view = layout.view()
    said.append(robot(f"re {text}"))
    layout.take([SYSTEM, *said])
    layout.commit()
    return view


def test_content_lists_get_their_block_as_a_part() -> None:
    """A message with an image keeps its parts behind the block, and its text is what is stored."""
    layout = PromptLog("kitchen")
    message = {
        "role": "user",
        "content": [{"type": "text", "text": "what is this?"}, {"type": "image_url", "image_url": "x"}],
    }
    layout.begin(ALICE)
    layout.take([message])
    layout.put("memory", (BlockLine("fact:1", "- a"),))
    content = layout.view()[0]["content"]
    assert content[0]["text"].startswith("<memory>a</memory>")
    assert content[1:] == message["content"]
    assert stored(message).content == "what is this?"
    assert stored(message).as_message() == message


def test_a_view_that_is_how_all_began_is_not_taken_for_what_was_said() -> None:
    """A stranger repeats the first words of the household: what follows them is not the stranger's, nor open to one."""
    layout, said = PromptLog(), []
    for reader, text, private in (
        (Reader("mara"), "Hello.", False),
        (Reader("mara"), "My diary is in the cellar.", True),
        (Reader(), "Hello.", False),
        (Reader(), "What do you know?", False),
    ):
        layout.begin(reader, level="private" if private else None)
        said.append({"role": "user", "content": text})
        layout.take(said)
        view = layout.view()
        said.append({"role": "assistant", "content": "Fine."})
        layout.take(said)
        layout.commit()
    assert [message["content"] for message in view] == ["Hello.", "Fine.", "What do you know?"]
    assert [(turn.level, len(turn.messages)) for turn in layout.turns] == [
        ("household", 2),
        ("private", 2),
        ("shared", 2),
        ("shared", 2),
    ]


def test_what_changes_while_a_turn_is_prepared_is_in_its_next_view() -> None:
    """A barge-in into the turn before, another epoch and another reader are seen at once, though the prompt was laid before."""
    layout, said = PromptLog("kitchen"), []
    for n in range(3):
        turn(layout, said, f"q{n}", lines=(BlockLine(f"fact:{n}", f"- line {n}"),))
    layout.begin(ALICE)
    layout.take([SYSTEM, *said, user("now")])
    before = layout.view()
    assert layout.view() == before
    assert [text_of(message) for message in before][-2:] == ["re q2", "now"]
    layout.hear(layout.turns[2], {1: "re"})
    assert [text_of(message) for message in layout.view()][-2:] == ["re", "now"]
    layout.hear(layout.turns[1], {1: "r"})
    assert [text_of(message) for message in layout.view()][-4] == "r"
    assert len(layout.visible()) == 3
    layout.switch(Epoch("kitchen", 2, "They asked."))
    view = [text_of(message) for message in layout.view()]
    assert len(view) == 4
    assert "They asked." in view[1]
    assert set(layout.visible()) == {"fact:2"}
    layout.begin(STRANGER)
    layout.take([SYSTEM, *said[:-1], robot("re"), user("now")])
    assert [text_of(message) for message in layout.view()][1:] == ["now"]
    assert not layout.visible()
