"""Rendering by increment: the template's own text where that only grows, and never a changed word where it does not."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgemem.errors import TemplateError
from edgemem.llama.template.append_only import Increments, scenes
from edgemem.llama.template.chat_template import CHATML, ChatTemplate
from edgemem.records import Message

NUMBER = re.compile(r"(?<=functions\.probe:)\d+")


@cache
def templates(folder: Path) -> dict[str, ChatTemplate]:
    """Return every shipped template."""
    return {file.stem: ChatTemplate(file.read_text(), bos="<s>") for file in sorted(folder.glob("*.jinja"))}


def test_the_same_as_the_template_where_it_only_appends(vocabularies: Path) -> None:
    """Step by step, a template that leaves history alone gives the very text that it gives at once."""
    compared = 0
    for name, template in templates(vocabularies / "templates").items():
        if template.append_only.rewrites:
            continue
        stepwise = Increments(template.render_fitted)
        for scene in scenes():
            for messages in scene.asked:
                fitted = template.limits.fit(messages)
                text = stepwise.text(fitted, scene.tools, True, None)
                own = template.render_fitted(fitted, scene.tools, True, None)
                # Kimi numbers calls: through the whole conversation by itself, within a turn here
                assert NUMBER.sub("", text) == NUMBER.sub("", own), name
                compared += 1
    assert compared > 500


def test_most_templates_are_kept_from_rewriting(vocabularies: Path) -> None:
    """Of all shipped templates one cannot be kept from rewriting."""
    append_only = {
        name: template.append_only for name, template in templates(vocabularies / "templates").items()
    }
    lost = [name for name, found in append_only.items() if found.rewrites and found.increments is None]
    assert lost == ["CohereForAI-c4ai-command-r-plus-tool_use"]
    assert sum(bool(found.rewrites) for found in append_only.values()) > 30


words = st.sampled_from(["cup", "<think>", "</think>", "table\n", " ", "[INST]", "q7w9x3v5t1k8", "好"])
said = st.lists(words, min_size=1, max_size=6).map(" ".join)


@pytest.mark.parametrize(
    "name", ["Qwen3.5-4B", "mistralai-Mistral-Nemo-Instruct-2407", "google-gemma-4-31B-it", "MiniMax-M2"]
)
def test_prompts_only_grow_whatever_is_said(vocabularies: Path, name: str) -> None:
    """Thinking, markers and markup in what is said change nothing of what was shown, or the step cannot be cut out."""
    template = templates(vocabularies / "templates")[name]
    increments = template.append_only.increments
    assert increments is not None

    @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.tuples(said, said), min_size=1, max_size=5))
    def check(turns: list[tuple[str, str]]) -> None:
        messages: list[Message] = []
        texts = []
        for question, answer in turns:
            messages.append({"role": "user", "content": question})
            try:
                texts.append(increments.text(template.limits.fit(messages), None, True, None))
            except TemplateError:
                assert any("q7w9x3v5t1k8" in one + other for one, other in turns)
                return
            messages.append({"role": "assistant", "content": answer})
        assert all(longer.startswith(shorter) for shorter, longer in pairwise(texts))

    check()


def test_a_step_is_rendered_once(vocabularies: Path) -> None:
    """A turn costs the template a few messages, however long the conversation is."""
    template = templates(vocabularies / "templates")["Qwen3.5-4B"]
    increments = template.append_only.increments
    assert increments is not None
    messages: list[Message] = []
    for n in range(100):
        messages += [{"role": "user", "content": f"q{n}"}, {"role": "assistant", "content": f"a{n}"}]
    messages.append({"role": "user", "content": "last"})
    handed: list[int] = []

    def counting(shown: Any, *rest: Any) -> str:
        handed.append(len(shown))
        return template.render_fitted(shown, *rest)

    increments = Increments(counting)
    increments.text(messages, None, True, None)
    handed.clear()
    messages += [{"role": "assistant", "content": "a"}, {"role": "user", "content": "more"}]
    increments.text(messages, None, True, None)
    assert sum(handed) < 15


def test_an_opened_thought_is_closed() -> None:
    """Where the prompt opens a thought and the reply lost its thinking, the thought is closed before the reply."""
    source = CHATML.replace("assistant\n' }}", "assistant\n<think>\n' }}")
    template = ChatTemplate(source)
    asked: list[Message] = [{"role": "user", "content": "a"}]
    assert template.append_only.increments is not None
    for reply, shown in {
        "yes": "<think>\n</think>\n\nyes<|im_end|>",
        "hm\n</think>\n\nyes": "<think>\nhm\n</think>\n\nyes<|im_end|>",
        "<think>\nhm\n</think>\n\nyes": "<think>\nhm\n</think>\n\nyes<|im_end|>",
    }.items():
        text = template.render([*asked, {"role": "assistant", "content": reply}, *asked])
        assert text.startswith(template.render(asked))
        assert shown in text
