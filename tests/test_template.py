"""Chat templates: what they are given, what they refuse, and whether history stays as it was."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.errors import TemplateError
from edgemem.llama.template import CHATML, ChatTemplate, grows_by_appending, neutralise
from edgemem.llama.tokenizer import LlamaTokenizer

TOOL = {
    "type": "function",
    "function": {
        "name": "lamp",
        "description": "Switch.",
        "parameters": {
            "type": "object",
            "properties": {"room": {"type": "string", "description": "where"}},
            "required": ["room"],
        },
    },
}
SHOW = "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}"


def source(vocabularies: Path, name: str) -> str:
    """Return the text of a shipped template."""
    return (vocabularies / "templates" / f"{name}.jinja").read_text()


@pytest.fixture(scope="module")
def small(vocabularies: Path) -> Iterator[LlamaTokenizer]:
    """Return a small loaded vocabulary, whose model other tokenizers share."""
    with LlamaTokenizer(vocabularies / "ggml-vocab-llama-spm.gguf") as tokenizer:
        yield tokenizer


def growth(small: LlamaTokenizer, template: str) -> Any:
    """Ask how a template grows."""
    shared = type("Loaded", (), {"model": small.vocabulary._model})
    return grows_by_appending(LlamaTokenizer.of(shared, template=template))


def test_content_may_be_parts_or_none() -> None:
    """Of a content list the text parts are shown; None is empty."""
    parts = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "x"}}, "here"]
    messages = [{"role": "user", "content": parts}, {"role": "assistant", "content": None}, {"role": "user"}]
    assert ChatTemplate(SHOW).render(messages) == "[user:look\n\nhere][assistant:][user:]"


@pytest.mark.parametrize("arguments", ['{"room": "bath"}', {"room": "bath"}])
def test_arguments_may_be_text_or_an_object(vocabularies: Path, arguments: object) -> None:
    """Tool arguments are shown as JSON once, whether the loop keeps them as text or parsed."""
    call = {"id": "a1b2c3d4e", "type": "function", "function": {"name": "lamp", "arguments": arguments}}
    messages = [
        {"role": "user", "content": "light"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
    ]
    for name in ("Qwen-Qwen2.5-7B-Instruct", "deepseek-ai-DeepSeek-V3.1", "moonshotai-Kimi-K2"):
        text = ChatTemplate(source(vocabularies, name)).render(messages, tools=[TOOL])
        assert '{"room": "bath"}' in text


def test_broken_arguments_are_shown_as_written() -> None:
    """Arguments that are no JSON reach the template as the model wrote them."""
    template = ChatTemplate("{% for m in messages %}{{ m.tool_calls[0].function.arguments }}{% endfor %}")
    call = {"type": "function", "function": {"name": "lamp", "arguments": '{"room": '}}
    assert template.render([{"role": "assistant", "tool_calls": [call]}]) == '{"room": '


def test_template_without_a_system_role(vocabularies: Path) -> None:
    """Where a template knows no system role, the system message heads the first user message."""
    template = ChatTemplate(source(vocabularies, "google-gemma-2-2b-it"), bos="<bos>")
    text = template.render([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}])
    assert "<start_of_turn>user\nBe brief.\n\nHello<end_of_turn>" in text


def test_refusal_is_one_sentence(vocabularies: Path) -> None:
    """What a template refuses is said in its own words, as an error of ours."""
    template = ChatTemplate(source(vocabularies, "google-gemma-2-2b-it"))
    with pytest.raises(
        TemplateError, match=r"refuses these messages: Conversation roles must alternate.*\.$"
    ):
        template.render([{"role": "user", "content": "one"}, {"role": "user", "content": "two"}])


@pytest.mark.parametrize("broken", ["{% for %}", "{{ messages[0].content.nothing.at_all }}", "{{ 1 / 'x' }}"])
def test_broken_template(broken: str) -> None:
    """A template that cannot be read or fails is an error of ours."""
    with pytest.raises(TemplateError):
        ChatTemplate(broken).render([{"role": "user", "content": "hi"}])


@pytest.mark.parametrize(
    "attack", ["{{ ''.__class__.__mro__[1].__subclasses__() }}", "{{ messages.append(1) }}"]
)
def test_template_cannot_leave_its_sandbox(attack: str) -> None:
    """Templates come from strangers: Python's insides and the caller's list are out of reach."""
    messages = [{"role": "user", "content": "hi"}]
    with pytest.raises(TemplateError):
        ChatTemplate(attack).render(messages)
    assert len(messages) == 1


def test_messages_are_not_changed() -> None:
    """Rendering leaves the caller's messages as they are."""
    call = {"type": "function", "function": {"name": "lamp", "arguments": '{"room": "<s>"}'}}
    messages = [
        {"role": "assistant", "content": "<s>", "tool_calls": [call]},
        {"role": "user", "tool_calls": []},
    ]
    before = repr(messages)
    ChatTemplate(SHOW).render(messages, clean=lambda text: text.replace("<", "< "))
    assert repr(messages) == before


def test_date_is_frozen(vocabularies: Path) -> None:
    """A template that prints a date prints the given one, and always the same when none is given."""
    template = ChatTemplate(source(vocabularies, "meta-llama-Llama-3.2-3B-Instruct"))
    messages = [{"role": "user", "content": "hi"}]
    assert "Today Date: 01 Feb 2026" in template.render(messages, now=1_769_904_000.0)
    assert "Today Date: 01 Jan 2024" in template.render(messages)


def test_every_shipped_template_renders_or_says_why(vocabularies: Path) -> None:
    """None of the shipped templates raises anything but our own error, and nearly all render a conversation."""
    call = {"id": "a1b2c3d4e", "type": "function", "function": {"name": "lamp", "arguments": "{}"}}
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Light, please"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a1b2c3d4e", "name": "lamp", "content": "on"},
        {"role": "assistant", "content": "It is on."},
        {"role": "user", "content": "Thanks"},
    ]
    plain = [message for message in messages if message["role"] != "tool" and not message.get("tool_calls")]

    def complaint(template: ChatTemplate, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> str:
        try:
            text = template.render(messages, tools=tools)
        except TemplateError as error:
            return str(error)
        assert "Thanks" in text
        return ""

    files = sorted((vocabularies / "templates").glob("*.jinja"))
    templates = [ChatTemplate(file.read_text()) for file in files]
    failed = [complaint(template, plain, []) for template in templates]
    failed += [complaint(template, messages, [TOOL]) for template in templates]
    failed = [sentence for sentence in failed if sentence]
    assert len(files) >= 60
    assert len(failed) <= 9, failed


@pytest.mark.parametrize(
    "name",
    ["Qwen-Qwen2.5-7B-Instruct", "meta-llama-Llama-3.2-3B-Instruct", "microsoft-Phi-3.5-mini-instruct"],
)
def test_appending_templates(vocabularies: Path, small: LlamaTokenizer, name: str) -> None:
    """Templates that leave history alone are found to do so."""
    assert growth(small, source(vocabularies, name))
    assert growth(small, CHATML)


@pytest.mark.parametrize(
    ("name", "when"),
    [
        ("mistralai-Mistral-Nemo-Instruct-2407", "when"),
        ("deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "when"),
        ("LFM2.5-Instruct", "when a reply contains its thinking"),
        ("Apertus-8B-Instruct", "when a tool is called"),
    ],
)
def test_rewriting_templates(vocabularies: Path, small: LlamaTokenizer, name: str, when: str) -> None:
    """Templates that rewrite history are found, with the occasion on which they do."""
    found = growth(small, source(vocabularies, name))
    assert not found
    assert when in found.reason


@given(st.text(alphabet="<|im_end>ab \n", max_size=60))
def test_neutralised_text_holds_no_marker(text: str) -> None:
    """After neutralising no marker is left, other text is untouched, and doing it twice changes nothing."""
    markers = re.compile(r"<\|im_end\|>|<a>|\|><")
    clean = neutralise(text, markers)
    assert not markers.search(clean)
    assert clean.replace(" ", "") == text.replace(" ", "")
    assert neutralise(clean, markers) == clean
    assert clean == text or markers.search(text)
