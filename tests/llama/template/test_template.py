"""Chat templates: what they are given, what they are kept from, and the dates that they print."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from conftest import HandClock
from hypothesis import given
from hypothesis import strategies as st

from edgemem.errors import TemplateError
from edgemem.llama.template.chat_template import DATELESS, ChatTemplate, neutralise
from edgemem.llama.tokens.tokenizer import LlamaTokenizer
from edgemem.loop.loop import AgentLoop
from edgemem.memory import Memory
from edgemem.records import Reply
from support.homes import opened, warning_of
from support.models import TOOLS, Unforgetting
from support.refusals import refusal

SHOW = "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}"
ODD = msgspec.toml.decode((Path(__file__).parents[2] / "data" / "templates.toml").read_bytes())
DAY = 86_400.0
BROKEN = {**ODD["broken"], "too deep to compile": "{{ " + "(" * 2000 + "1" + ")" * 2000 + " }}"}


def source(vocabularies: Path, name: str) -> str:
    return (vocabularies / "templates" / f"{name}.jinja").read_text()


@pytest.fixture(scope="module")
def small(vocabularies: Path) -> Iterator[LlamaTokenizer]:
    """Return a small loaded vocabulary, whose model other tokenizers share."""
    with LlamaTokenizer(vocabularies / "ggml-vocab-llama-spm.gguf") as tokenizer:
        yield tokenizer


def test_content_may_be_parts_or_none() -> None:
    """Of a content list the text parts are shown, and a word for what cannot be; None is empty."""
    parts = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "x"}}, "here"]
    messages = [{"role": "user", "content": parts}, {"role": "assistant", "content": None}, {"role": "user"}]
    assert ChatTemplate(SHOW).render(messages) == "[user:look\n[image]\nhere][assistant:][user:]"


@pytest.mark.parametrize("arguments", ['{"room": "bath"}', {"room": "bath"}])
def test_arguments_may_be_text_or_an_object(vocabularies: Path, arguments: object) -> None:
    """Tool arguments are shown as JSON once, whether the loop keeps them as text or parsed."""
    call = {"id": "a1b2c3d4e", "type": "function", "function": {"name": "lamp", "arguments": arguments}}
    messages = [{"role": "user", "content": "light"}, {"role": "assistant", "tool_calls": [call]}]
    for name in ("Qwen-Qwen2.5-7B-Instruct", "deepseek-ai-DeepSeek-V3.1", "moonshotai-Kimi-K2"):
        text = ChatTemplate(source(vocabularies, name)).render(messages, tools=TOOLS)
        assert '{"room": "bath"}' in text


def test_refusal_is_one_sentence() -> None:
    """What a template refuses is said in its own words, in one line, as an error of ours."""
    template = ChatTemplate("{{ raise_exception('No cups\nhere, please.') }}")
    with pytest.raises(TemplateError, match=r"refuses these messages: No cups here, please\.$"):
        template.render([{"role": "user", "content": "one"}])


@pytest.mark.parametrize("silent", ODD["silent"])
def test_template_that_prints_no_user(silent: str) -> None:
    """A template that keeps from the model what people say is refused when it is first asked, in one sentence."""
    template = ChatTemplate(ODD["silent"][silent])
    for _ in range(2):
        with pytest.raises(TemplateError, match=r"does not print what the user says.*pass another template$"):
            template.render([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hi"}])


@pytest.mark.parametrize(
    "attack",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ 'x'['replace']('x', 'y') }}",
        "{{ messages[0].update(a=1) }}",
    ],
)
def test_template_cannot_leave_its_sandbox(attack: str) -> None:
    """Templates come from strangers: Python's insides, padding without end and the caller's messages are out of reach."""
    refusal(TemplateError, ChatTemplate(attack).render, [{"role": "user", "content": "hi"}])


def test_a_template_changes_copies_only() -> None:
    """Lists that it appends to are its own."""
    messages, tools = [{"role": "user", "content": "hi"}], [{"function": {"required": ["a"]}}]
    source = "{% set _ = messages.append(1) %}{% set _ = tools[0].function.required.append('b') %}" + SHOW
    template = ChatTemplate(source.replace("in messages", "in messages[:1]"))
    assert template.render(messages, tools=tools) == "[user:hi]"
    assert (messages, tools) == ([{"role": "user", "content": "hi"}], [{"function": {"required": ["a"]}}])


@pytest.mark.parametrize("endless", ODD["endless"])
def test_an_endless_template_hangs_no_opening(tmp_path: Path, small: LlamaTokenizer, endless: str) -> None:
    """`open`, and `check`, which tells of it, take no longer than one rendering within its bounds."""
    tokenizer = LlamaTokenizer(small.vocabulary, template=ODD["endless"][endless])
    with opened(tmp_path / "home", tokenizer=tokenizer) as memory:
        assert "was stopped" in warning_of(memory, "tokenizer")


@pytest.mark.parametrize(
    ("name", "state", "said"),
    [
        ("Qwen-Qwen2.5-7B-Instruct", "ok", "only appends"),
        ("mistralai-Mistral-Nemo-Instruct-2407", "ok", "when the conversation grows, and is kept from it"),
        ("CohereForAI-c4ai-command-r-plus-tool_use", "warn", "is read again each turn"),
        ("openai-gpt-oss-120b", "warn", "is read again each turn"),
    ],
)
def test_check_says_what_a_template_costs(
    tmp_path: Path, vocabularies: Path, small: LlamaTokenizer, name: str, state: str, said: str
) -> None:
    """`edgemem check` tells whether history is rewritten, and whether that is read again."""
    tokenizer = LlamaTokenizer.wrap(small.vocabulary, template=source(vocabularies, name))
    with opened(tmp_path / "home", tokenizer=tokenizer) as memory:
        found = next(check for check in memory.check() if check.name == "tokenizer")
    assert found.state == state
    assert re.search(said, found.detail), found.detail


class Listens(Unforgetting):
    """Answers at once, and keeps what it was handed: the messages and the date."""

    def __init__(self) -> None:
        self.handed: list[tuple[list[Any], float | None]] = []

    def complete(self, messages: Any, *, now: float | None = None, **_: Any) -> Reply:
        self.handed.append((list(messages), now))
        return Reply(f"Answer {len(self.handed)}.")


def prints_date(template: ChatTemplate) -> bool:
    asked = [{"role": "user", "content": "hi"}]
    return template.render(asked, now=DATELESS) != template.render(asked, now=DATELESS + 400 * DAY)


def test_a_date_is_frozen_for_the_epoch(tmp_path: Path, vocabularies: Path, hand: HandClock) -> None:
    """With every template that prints a date, nothing that was shown changes at midnight or after a restart."""
    window = "[context]\nwindow_tokens = 1200\nreply_tokens = 128\nsummary_tokens = 60\n"
    model = Listens()

    def talk(memory: Memory, *said: str) -> AgentLoop:
        loop = AgentLoop(model, hooks=memory.hooks(session_id="kitchen"), instructions="Be kind.")
        for text in said:
            loop.run(text)
        return loop

    with opened(tmp_path / "home", window, clock=hand.clock) as memory:
        loop = talk(memory, "First question.")
        hand.advance(DAY)
        loop.run("Second question, after midnight.")
    hand.advance(DAY)
    with opened(tmp_path / "home", window, clock=hand.clock) as memory:
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
            plain = [[m for m in said if system or m["role"] != "system"] for said, _ in model.handed]
            shown = list(zip(plain, [now for _, now in model.handed], strict=True))
            texts = [template.render(messages, now=now) for messages, now in shown]
            for epoch in (texts[:before], texts[compacted:]):
                assert all(longer.startswith(shorter) for shorter, longer in pairwise(epoch)), file.stem
        moved = template.render(shown[1][0], now=(shown[1][1] or 0.0) + DAY)
        assert not moved.startswith(texts[0]), f"{file.stem}: without freezing it would have changed"
    assert dated >= 7


@pytest.mark.parametrize("broken", BROKEN)
def test_broken_template(broken: str) -> None:
    """A template that cannot be read or fails is an error of ours, in one line."""
    hi = [{"role": "user", "content": "hi"}]
    refusal(TemplateError, lambda: ChatTemplate(BROKEN[broken]).render(hi))


@given(st.text(alphabet="<|im_end>ab \n", max_size=60))
def test_neutralised_text_holds_no_marker(text: str) -> None:
    """After neutralising no marker is left, other text is untouched, and doing it twice changes nothing."""
    markers = re.compile(r"<\|im_end\|>|<a>|\|><")
    clean = neutralise(text, markers)
    assert not markers.search(clean)
    assert clean.replace(" ", "") == text.replace(" ", "")
    assert neutralise(clean, markers) == clean
    assert clean == text or markers.search(text)
