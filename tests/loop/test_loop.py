"""The reference loop: what it offers its model, who speaks, and what of a reply is speech, a thought or a call."""

import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_cpp import Llama

from edgemem.llama.chat import LlamaChat
from edgemem.llama.replies import THOUGHTS, Call, read_reply
from edgemem.llama.template.chat_template import CHATML
from edgemem.loop.loop import NO_ANSWER, AgentLoop
from edgemem.loop.replies import ChatReplies, Voice, typed
from edgemem.memory import Memory
from edgemem.records import Reply, ToolCall
from edgemem.session.tools import Tool
from support.models import Forced, Model, write_llama_gguf


class Toolbox(Model):
    """A model that keeps the tools that it was offered."""

    def __init__(self, *answers: Reply) -> None:
        super().__init__(*answers)
        self.offered: list[Any] = []

    def complete(self, messages: Any, *, tools: Any = (), **rest: Any) -> Reply:
        self.offered.append(list(tools))
        return super().complete(messages, **rest)


TIMER = Tool("timer", "Set a timer.", {"type": "object", "properties": {}}, lambda minutes: f"{minutes} min")
CALL = Reply("", (ToolCall("timer", {"minutes": 6}),))


def test_the_tools_stand_unchanged_in_every_hop() -> None:
    """The head of the prompt is the same at each hop, also at the last one."""
    model = Toolbox(CALL, CALL, CALL)
    loop = AgentLoop(model, tools=[TIMER])
    assert loop.run("go").reply == NO_ANSWER
    assert model.offered == [[TIMER.schema()]] * 3


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("speaker", [0, 1])
def test_a_speaker_may_be_a_number(memory: Memory, speaker: int) -> None:
    """Recognisers that only tell voices apart number them; what a number says is its own, and a reply comes."""
    model = Model(Reply("", (ToolCall("remember_fact", {"key": "tea", "value": "green", "scope": "me"}),)))
    loop = AgentLoop(model, hooks=memory.hooks(session_id="s"), tools=memory.tools(), speaker="alice")
    assert loop.run("remember green tea for me", speaker=speaker).reply == "ok"  # type: ignore[arg-type]
    assert loop.run("hello", speaker=speaker, audience=(speaker,)).reply == "ok"  # type: ignore[arg-type,arg-type]
    assert loop.hooks.failures() == []
    assert memory.store.get_fact("tea", scope=f"user:{speaker}") == "green"


def parse(text: str, names: frozenset[str] = frozenset()) -> tuple[str, tuple[Call, ...]]:
    meaning = read_reply(text, names)
    return meaning.text, meaning.calls


def spoken(pieces: Iterable[str], names: frozenset[str] = frozenset()) -> list[str]:
    voice = Voice(names)
    return [*map(voice.feed, pieces), voice.end()]


BARE = '{"name": "timer", "parameters": {"minutes": 6}}'


def test_a_reply_that_is_nothing_but_a_call_is_read_and_not_spoken() -> None:
    """Llama 3 writes no tags; an offered tool that a whole reply names is called."""
    names = frozenset({"timer"})
    for text in (BARE, f"\n {BARE} \n"):
        assert parse(text, names) == ("", (Call("timer", {"minutes": 6}),))
        assert "".join(spoken(list(text), names)) == ""


def test_braces_that_call_nothing_are_speech() -> None:
    """A tool that nobody offered, half an object, or text behind it: all of it is said."""
    for text in (BARE, BARE[:-3], f"{BARE} Done.", "{no json}", " {}"):
        for names in (frozenset({"oven"}), frozenset[str]()):
            assert parse(text, names) == (text, ())
            assert "".join(spoken(list(text), names)) == text


@pytest.mark.parametrize("opens", THOUGHTS)
def test_a_thought_is_not_spoken(opens: str) -> None:
    """Nothing of a thought is said, everything behind it is, however the stream is cut; and it is no speech to keep."""
    text = f"{opens}\nShe must not learn of it. <b>\n{THOUGHTS[opens]}\n\nNothing is planned."
    for size in (1, 2, 3, 7, 1000):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        assert "".join(spoken(pieces)) == "Nothing is planned."
    assert parse(text) == ("Nothing is planned.", ())


def test_speech_begins_while_the_reply_is_made() -> None:
    """A voice does not wait for the end: only what may be the beginning of a marker is held back."""
    voice = Voice(frozenset({"timer"}))
    said = [
        voice.feed(piece) for piece in ("<think>", "hm", "</thi", "nk>", "\n\nFirst", " we < bake", "<", "3")
    ]
    assert said == ["", "", "", "", "First", " we < bake", "", "<3"]


pieces = st.sampled_from([
    " ", "\n", "<think>", "</think>", "hm", "<", "First.", "[THINK]", "[/THINK]", "{", "<tool_call>", "</tool_call>",
])  # fmt: skip


@given(st.lists(pieces, max_size=12), st.lists(st.integers(1, 6), max_size=40))
def test_voice_and_history_agree(parts: list[str], sizes: list[int]) -> None:
    """Of a reply without calls, history holds what was spoken, and however the stream is cut, that is the same."""
    text = "".join(parts)
    cut, at = [], 0
    for size in sizes:
        cut.append(text[at : at + size])
        at += size
    cut.append(text[at:])
    said = "".join(spoken(cut))
    assert said == "".join(spoken([text]))
    if "<tool_call>" not in text:
        assert said.strip() == parse(text)[0].strip()


def test_arguments_are_what_the_schema_says() -> None:
    """Of arguments that came as text, numbers, lists and switches become such; words stay, and so does what is neither."""
    kinds = {"minutes": "integer", "on": "boolean", "rooms": "array", "code": "string", "odd": "number"}
    properties = {name: {"type": kind} for name, kind in kinds.items()}
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"properties": properties}}}]
    given_text = {"minutes": "6", "on": "true", "rooms": '["a"]', "code": "007", "odd": "x", "more": "1"}
    assert typed(given_text, "f", tools) == {
        "minutes": 6, "on": True, "rooms": ["a"], "code": "007", "odd": "x", "more": "1",
    }  # fmt: skip
    assert typed({"a": "1"}, "unknown", tools) == {"a": "1"}


def test_a_malformed_call_is_speech() -> None:
    """What cannot be read as a call is not lost."""
    text = "<tool_call>{broken</tool_call> and <tool_call>never closed"
    assert parse(text) == (text, ())


def test_a_thought_that_never_ends() -> None:
    """A reply that ended within its thought says nothing."""
    for text in ("<think>\nShe must not", "[THINK]hm", "<think>a</think><think>b", "<think>a <tool_call>{}"):
        assert "".join(spoken(list(text))).strip() == ""
        assert parse(text) == ("", ())


OPENING = CHATML.replace("assistant\n' }}", "assistant\n<think>\n' }}")
"""A template that opens a thought before each reply."""

PROMPTS = {
    "qwen3": "Qwen-Qwen3-0.6B", "opening": OPENING, "smollm": "HuggingFaceTB-SmolLM3-3B",
    "ministral": "mistralai-Ministral-3-14B-Reasoning-2512",
}  # fmt: skip
MARKS = {"ministral": ("[THINK]", "[/THINK]")}

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def model(chat_model: Callable[[str], Path]) -> Iterator[Any]:
    """Return a real model of random weights, without a conversation."""
    model = Llama(str(chat_model("qwen2")), n_ctx=4096, n_threads=1, n_threads_batch=1, verbose=False)
    yield model
    model.close()


def weather(city: str) -> dict[str, Any]:
    return {"temp": 21, "city": city}


CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = Tool("weather", "Tells the weather.", CITY, weather)


@contextmanager
def talking(
    model: Any, memory: Memory, vocabularies: Path, template: str, **options: Any
) -> Iterator[tuple[AgentLoop, Forced]]:
    """Open a loop whose model says what a test wants."""
    source = template if "{" in template else (vocabularies / "templates" / f"{template}.jinja").read_text()
    model.reset()
    generate = model.generate
    try:
        with LlamaChat.wrap(model, template=source) as chat:
            forced = Forced(chat)
            hooks = memory.hooks(session_id="s", speaker="alice", model=chat)
            yield AgentLoop(ChatReplies(chat), hooks=hooks, speaker="alice", **options), forced
    finally:
        model.generate = generate


@pytest.mark.parametrize("name", PROMPTS)
def test_thoughts_are_not_said_nor_kept(model: Any, memory: Memory, vocabularies: Path, name: str) -> None:
    """What the robot thought is not spoken, not history, not stored and not recalled; what it said is all of that."""
    opens, closes = MARKS.get(name, ("<think>", "</think>"))
    said: list[str] = []
    with talking(model, memory, vocabularies, PROMPTS[name]) as (loop, forced):
        opened = forced_opening(loop)
        forced.queue = [f"{'' if opened else opens}\nThe Lisbon surprise.\n{closes}\n\nNothing is planned."]
        result = loop.run("What is planned?", on_text=said.append)
        assert "".join(said) == result.reply == "Nothing is planned."
        assert loop.session.messages[-1] == {"role": "assistant", "content": "Nothing is planned."}
        forced.queue = [f"{'' if opened else opens}\nhm\n{closes}\n\nAll right."]
        loop.run("Thanks.")
        assert forced.common[1] == forced.held[1], "nothing that was generated is read again"
    assert not any("Lisbon" in found.text for found in memory.recall("Lisbon", speaker="alice"))
    stored = memory.sessions.journal.read_turns("s")[0].messages[-1]
    assert (stored.content, stored.tokens) == ("Nothing is planned.", ())


def forced_opening(loop: AgentLoop) -> str:
    """Return the marker with which the loop's prompts open a thought."""
    from edgemem.llama.replies import opened_thought

    prompt = loop.model.tokenizer.render([{"role": "user", "content": "hi"}])  # type: ignore[attr-defined]
    return opened_thought(prompt.text)


@pytest.mark.parametrize(
    ("name", "told"), [("qwen3", {"heard_text": "First we bake"}), ("opening", {"heard_ms": 1000})]
)
def test_a_barge_in_behind_a_thought(
    model: Any, memory: Memory, vocabularies: Path, name: str, told: dict[str, Any]
) -> None:
    """What was heard is found behind the thought, and the cache ends there."""
    with talking(model, memory, vocabularies, PROMPTS[name]) as (loop, forced):
        opens = "" if forced_opening(loop) else "<think>"
        forced.queue = [f"{opens}\nFirst we hm\n</think>\n\nFirst we bake the cake."]
        loop.run("What now?")
        loop.interrupt(**told)
        assert loop.session.messages[-1]["content"] == "First we bake"
        forced.queue = ["Stopped."]
        loop.run("Stop.")
        unheard = len(forced.vocabulary.tokenize(" the cake.", special=False))
        assert forced.held[1] - forced.common[1] == unheard


@pytest.mark.parametrize("name", ["qwen3", "opening"])
def test_a_barge_in_within_a_thought(model: Any, memory: Memory, vocabularies: Path, name: str) -> None:
    """A thought that was cut off has said nothing, and nothing of it stays in the prompt."""
    with talking(model, memory, vocabularies, PROMPTS[name]) as (loop, forced):
        opens = "" if forced_opening(loop) else "<think>"
        forced.queue = [f"{opens}\nThe Lisbon surprise must not be told.\n</think>\n\nNothing."]
        seen = 0

        def stop() -> bool:
            nonlocal seen
            seen += 1
            return seen > 6

        result = loop.run("What is planned?", stop=stop)
        assert (result.reply, result.interrupted) == ("", True)
        forced.queue = ["Yes?"]
        loop.run("Hello?")
        assert "Lisbon" not in model.detokenize(forced.ids[1]).decode()
        assert loop.session.messages[1]["content"] == ""


CALLS = msgspec.toml.decode((Path(__file__).parents[1] / "data" / "calls.toml").read_bytes())["templates"]


@pytest.mark.parametrize("template", CALLS)
def test_a_call_is_not_read_again(model: Any, memory: Memory, vocabularies: Path, template: str) -> None:
    """However a call was spelled, each prompt begins with all that the cache holds, and the call is never spoken."""
    said: list[str] = []
    with talking(model, memory, vocabularies, template, tools=[WEATHER]) as (loop, forced):
        closes = "</think>\n\n" if forced_opening(loop) else ""
        for n, call in enumerate(CALLS[template] * (1 + (len(CALLS[template]) == 1))):
            forced.queue = [call, f"{closes}It is 21."]
            result = loop.run(f"And the weather of day {n}?", on_text=said.append)
            assert [tool.name for tool in result.tools] == ["weather"]
            assert result.reply == "It is 21."
        assert forced.common == forced.held
        assert {text.strip() for text in "".join(said).replace("Sure!", "").split("It is 21.")} == {""}


def test_markers_that_are_control_tokens(tmp_path: Path, memory: Memory, vocabularies: Path) -> None:
    """llama.cpp prints no control token; a thought between two of them is found, and nothing is read again."""
    file = write_llama_gguf(tmp_path / "ministral.gguf", vocabularies=vocabularies, layers=1, width=16)
    raw = file.read_bytes()
    # Three control tokens get other names, together as long as before.
    names = {
        b"<|im_start|>": b"[THINK]",
        b"<|im_end|>": b"[/THINK]",
        b"<|endoftext|>": b"<|endoftext|>_______",
    }
    for old, new in names.items():
        entry = struct.pack("<Q", len(old)) + old
        assert raw.count(entry) == 1
        raw = raw.replace(entry, struct.pack("<Q", len(new)) + new)
    file.write_bytes(raw)
    model = Llama(str(file), n_ctx=2048, n_batch=512, n_threads=1, n_threads_batch=1, verbose=False)
    said: list[str] = []
    with talking(model, memory, vocabularies, PROMPTS["ministral"]) as (loop, forced):
        assert len(forced.vocabulary.tokenize("[THINK]", special=True)) == 1
        for n in range(2):
            forced.queue = ["[THINK]The Lisbon surprise.[/THINK]Nothing."]
            assert loop.run(f"What is planned on day {n}?", on_text=said.append).reply == "Nothing."
        assert forced.common == forced.held
        assert "".join(said) == "Nothing." * 2
    model.close()


def test_a_barge_in_at_half_a_marker(model: Any, memory: Memory, vocabularies: Path) -> None:
    """What was held back when the robot was cut off was not said, so the cache ends before it, and no earlier."""
    with talking(model, memory, vocabularies, "Qwen-Qwen2.5-7B-Instruct") as (loop, forced):
        forced.queue = ["It is hot [TOOL and more"]
        log = loop.model.chat.log  # type: ignore[attr-defined]
        result = loop.run(
            "How is it?", stop=lambda: bool(forced.ids) and len(log.ids) > len(forced.ids[0]) + 3
        )
        assert result.reply == "It is hot "
        assert len(log.ids) == len(forced.ids[0]) + 3
        loop.run("Go on.")
        assert forced.common == forced.held
