"""The bench of answers: what counts as right, and that asking leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from ggufs import write_llama_gguf

import edgemem
from edgemem.errors import InvalidInputError, ModelError
from edgemem.llama.chat import LlamaChat
from lab.answers import Listener, is_right, run


@pytest.mark.parametrize(
    ("reply", "answer", "right"),
    [
        ("The code is 4711.", "4711", True),
        ("The code is four seven one one", "4711", True),
        ("The code is 4712.", "4711", False),
        ("It's behind the boilers, next to the broom!", "next to the broom behind the boiler", True),
        ("It is behind something.", "next to the broom behind the boiler", False),
        ("", "blue", False),
        ("blue", "dark blue paint", False),
        ("blue paint", "dark blue paint", True),
    ],
)
def test_a_reply_is_right_if_it_holds_most_of_the_answer(reply: str, answer: str, right: bool) -> None:
    """In whatever form and order its words stand."""
    assert is_right(reply, answer) == right


def test_a_listener_answers_and_forgets(tmp_path: Path, vocabularies: Path) -> None:
    """Each question finds the same memory: neither it nor the reply is kept."""
    model = write_llama_gguf(tmp_path / "m.gguf", vocabularies=vocabularies)
    with (
        LlamaChat(model, n_ctx=1024, threads=1) as chat,
        edgemem.open(tmp_path / "home", tokenizer=chat.tokenizer, worker=False) as memory,
    ):
        robot = Listener(chat, memory.hooks(session_id="bench"))
        first = robot.reply("Where is the ladder?", "Ben")
        assert robot.reply("Where is the ladder?", "Ben") == first
        assert memory.database.query("select count(*) from messages")[0][0] == 0
        assert memory.recall("Where is the ladder?") == []


def test_what_is_missing_or_senseless_is_said() -> None:
    """Before anything is embedded."""
    with pytest.raises(ModelError, match="edgemem models get no-such-model"):
        run(llm="no-such-model")
    with pytest.raises(InvalidInputError, match="--questions"):
        run(llm="no-such-model", questions=0)
