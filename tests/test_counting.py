"""Tests of counting: whatever a loop has for a model, every budget counts with it."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any

import pytest
from ggufs import write_llama_gguf

from edgemem.context.compaction.compactor import Compactor
from edgemem.errors import InvalidInputError
from edgemem.hooks import ContextCompactionHook, HookRegistry, TokenBudgetHook, TurnContext
from edgemem.llama.backend import llama
from edgemem.llama.counting import estimate_tokens, tokenizer_of
from edgemem.llama.estimate import EstimateTokenizer
from edgemem.llama.tokenizer import LlamaTokenizer
from edgemem.records import Session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TALK = [
    {"role": "system", "content": "You help in the kitchen."},
    *(
        {"role": "user" if n % 2 == 0 else "assistant", "content": f"Xqzkv {n} of wrmbl. " * 20}
        for n in range(41)
    ),
]


class Letters:
    """A model of the seed's kind, to which each letter is a token."""

    def count_tokens(self, text: str) -> int:
        """Count."""
        return len(text)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory, vocabularies: Path) -> Path:
    """Return a model with the vocabulary of Qwen 2 and a chat template."""
    return write_llama_gguf(tmp_path_factory.mktemp("models") / "chat.gguf", vocabularies=vocabularies)


@pytest.fixture
def model(file: Path) -> Iterator[Any]:
    """Return it as llama_cpp gives it to those who use it by itself."""
    opened = llama().Llama(str(file), n_ctx=256, n_threads=1, verbose=False)
    yield opened
    opened.close()


def _sent(hook: Any, llm: Any) -> list[dict[str, Any]]:
    registry = HookRegistry([hook])
    ctx = TurnContext(Session([*TALK]), llm=llm)
    registry.fire("on_run_start", ctx, {"task": "hi"})
    fired = registry.fire("before_llm", ctx, {"messages": ctx.session.messages, "hop": 0, "tools": []})
    assert registry.failures() == []
    sent: list[dict[str, Any]] = fired.payload["messages"]
    return sent


def test_a_llama_counts_exactly_through_its_own_template(model: Any, file: Path) -> None:
    """A bare `llama_cpp.Llama` gives what its vocabulary and template make of the messages."""
    with LlamaTokenizer(file) as exact:
        assert estimate_tokens(TALK, model) == exact.count(TALK, add_generation_prompt=False)
        assert estimate_tokens(TALK, model) != estimate_tokens(TALK)
        assert tokenizer_of(model).exact
        assert tokenizer_of(model) is tokenizer_of(model)


def test_a_llama_without_a_template_counts_as_chatml(tmp_path: Path, vocabularies: Path) -> None:
    """A model that was not made to chat counts all the same."""
    path = write_llama_gguf(tmp_path / "plain.gguf", vocabularies=vocabularies, template=None)
    opened = llama().Llama(str(path), n_ctx=256, n_threads=1, verbose=False)
    try:
        found = tokenizer_of(opened)
        assert found.count(TALK) == len(
            opened.tokenize(found.render(TALK).text.encode(), add_bos=False, special=True)
        )
    finally:
        opened.close()


def test_messages_that_a_template_refuses_are_counted(tmp_path: Path, vocabularies: Path) -> None:
    """A part of a conversation has a size too."""
    path = write_llama_gguf(
        tmp_path / "strict.gguf", vocabularies=vocabularies, template="{{ raise_exception('no') }}"
    )
    with LlamaTokenizer(path) as strict:
        assert estimate_tokens(TALK, strict) > sum(len(strict.encode(m["content"])) for m in TALK)


def test_a_closed_llama_is_an_estimate_and_no_crash(file: Path) -> None:
    """A model that is gone takes its vocabulary with it; it is neither read nor kept."""
    opened = llama().Llama(str(file), n_ctx=256, n_threads=1, verbose=False)
    assert estimate_tokens(TALK, opened) != estimate_tokens(TALK)
    opened.close()
    assert estimate_tokens(TALK, opened) == estimate_tokens(TALK)
    gone = weakref.ref(opened)
    del opened
    gc.collect()
    assert gone() is None


def test_budgets_count_with_count_tokens() -> None:
    """What the context's model counts as too much does not go to it, though an estimate would let it pass."""
    assert estimate_tokens(TALK) < 9000 < estimate_tokens(TALK, Letters())
    for hook in (TokenBudgetHook(9000), ContextCompactionHook(Compactor(9000))):
        assert _sent(hook, None) == TALK
        assert estimate_tokens(_sent(hook, Letters()), Letters()) <= 9000


def test_budgets_count_with_a_llama(model: Any) -> None:
    """The seed's wiring hands hooks a bare Llama; its budget is kept."""
    sent = _sent(TokenBudgetHook(500), model)
    assert len(sent) < len(TALK)
    assert 0 < tokenizer_of(model).count(sent) <= 500
    assert len(_sent(ContextCompactionHook(Compactor(500)), model)) < len(TALK)


def test_a_number_in_a_content_list_counts_as_its_text() -> None:
    """Content parts of no known kind are what they say."""
    odd = [{"role": "user", "content": [None, 12, {"type": "text", "text": "eggs"}, "milk"]}]
    assert estimate_tokens(odd) == estimate_tokens([{"role": "user", "content": "12\neggs\nmilk"}])


@pytest.mark.parametrize("wrong", ["hello", {"role": "user", "content": "hi"}, [None], ["hi"]])
def test_what_is_no_message_is_refused(wrong: Any) -> None:
    """One sentence says what is wanted."""
    with pytest.raises(InvalidInputError, match="message"):
        estimate_tokens(wrong)


def test_megabytes_are_estimated_by_samples() -> None:
    """A text that fits no window costs no seconds; what is said of it is no less than of all of it."""
    seen: list[int] = []

    class Watched(EstimateTokenizer):
        def _estimated(self, text: str) -> list[int]:
            seen.append(len(text))
            return super()._estimated(text)

    long = "é " * 300_000
    estimated = len(Watched().encode(long))
    assert sum(seen) < 200_000
    whole = 300_000 * len(EstimateTokenizer().encode("é " * 1000)) / 1000
    assert whole * 0.99 <= estimated <= whole * 1.05
