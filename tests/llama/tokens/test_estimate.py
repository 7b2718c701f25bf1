"""The estimate stays within its bound, and whatever a loop has for a model counts."""

import gc
import weakref
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from edgemem.context.compaction.compactor import Compactor
from edgemem.errors import InvalidInputError
from edgemem.hooks import ContextCompactionHook, HookRegistry, TokenBudgetHook, TurnContext
from edgemem.llama.backend import llama
from edgemem.llama.template.chat_template import CHATML
from edgemem.llama.tokens.estimate import EstimateTokenizer, estimate_tokens, tokenizer_of
from edgemem.llama.tokens.tokenizer import LlamaTokenizer
from edgemem.records import Session
from support.data import LATIN, OTHERS
from support.models import write_llama_gguf
from support.refusals import refusal

TALK = [
    {"role": "system", "content": "You help in the kitchen."},
    *({"role": ("user", "assistant")[n % 2], "content": f"Xqzkv {n} of wrmbl. " * 20} for n in range(41)),
]


@pytest.fixture(scope="module")
def tokenizers(vocabularies: Path) -> Iterator[list[LlamaTokenizer]]:
    with ExitStack() as stack:
        files = (vocabularies / f"ggml-vocab-{name}.gguf" for name in ("qwen2", "llama-bpe", "gemma-4"))
        yield [stack.enter_context(LlamaTokenizer(file, template=CHATML)) for file in files]


def counts(texts: list[str], tokenizers: list[LlamaTokenizer]) -> tuple[int, list[int]]:
    estimated = sum(len(EstimateTokenizer().encode(text)) for text in texts)
    return estimated, sorted(sum(len(t.encode(text)) for text in texts) for t in tokenizers)


@pytest.mark.parametrize("language", LATIN)
def test_latin_scripts_are_within_15_percent(language: str, tokenizers: list[LlamaTokenizer]) -> None:
    """Prose in Latin letters is counted as the one in the middle of three vocabularies counts it."""
    estimated, (_, median, _) = counts(LATIN[language], tokenizers)
    assert 0.85 <= estimated / median <= 1.15


@pytest.mark.parametrize("script", OTHERS)
def test_scripts_and_code_are_never_counted_too_low(script: str, tokenizers: list[LlamaTokenizer]) -> None:
    """The estimate says 100 to 145 % of what the dearest of the three takes."""
    estimated, (_, _, dearest) = counts(OTHERS[script], tokenizers)
    assert 1.0 <= estimated / dearest <= 1.45


def test_estimate_tokens_of_the_seed(tokenizers: list[LlamaTokenizer]) -> None:
    """`estimate_tokens` takes any iterable, and a tokenizer, a chat model or a `count_tokens` object as its llm."""
    messages = [
        {"role": "user", "content": "hello there"},
        {"role": "assistant", "content": [{"text": "hi"}]},
    ]
    exact = tokenizers[0].count(messages, add_generation_prompt=False)

    class Chat:
        tokenizer = tokenizers[0]

    class SeedModel:
        def count_tokens(self, text: str) -> int:
            return 100 * len(text.split())

    assert estimate_tokens(iter(messages), tokenizers[0]) == exact
    assert estimate_tokens(messages, Chat()) == exact
    assert 300 < estimate_tokens(messages, SeedModel()) < 330
    assert 0 < estimate_tokens(messages) < 30
    assert estimate_tokens([]) == 0


class Letters:
    """A model of the seed's kind, to which each letter is a token."""

    def count_tokens(self, text: str) -> int:
        return len(text)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory, vocabularies: Path) -> Path:
    return write_llama_gguf(tmp_path_factory.mktemp("models") / "chat.gguf", vocabularies=vocabularies)


@pytest.fixture
def model(file: Path) -> Iterator[Any]:
    opened = llama().Llama(str(file), n_ctx=256, n_threads=1, verbose=False)
    yield opened
    opened.close()


def _sent(hook: Any, llm: Any) -> list[dict[str, Any]]:
    registry = HookRegistry([hook])
    ctx = TurnContext(Session([*TALK]), llm=llm)
    registry.fire("on_run_start", ctx, {"task": TALK[-1]["content"]})
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


def test_megabytes_are_estimated_by_samples() -> None:
    """What is said of a text that fits no window is no less than of all of it."""
    whole = 300_000 * len(EstimateTokenizer().encode("é " * 1000)) / 1000
    assert whole * 0.99 <= len(EstimateTokenizer().encode("é " * 300_000)) <= whole * 1.05


def test_messages_that_a_template_refuses_are_counted(tmp_path: Path, vocabularies: Path) -> None:
    """A part of a conversation has a size too."""
    path = write_llama_gguf(
        tmp_path / "strict.gguf", vocabularies=vocabularies, template="{{ raise_exception('no') }}"
    )
    with LlamaTokenizer(path) as strict:
        assert estimate_tokens(TALK, strict) > sum(len(strict.encode(m["content"])) for m in TALK)


@pytest.mark.parametrize("wrong", ["hello", {"role": "user", "content": "hi"}, [None], ["hi"]])
def test_what_is_no_message_is_refused(wrong: Any) -> None:
    """One sentence says what is wanted."""
    refusal(InvalidInputError, estimate_tokens, wrong, match="message")
