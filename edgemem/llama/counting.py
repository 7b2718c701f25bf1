"""Counting with whatever a loop has for a model: what counts in it is found in one place, and used by all budgets."""

from __future__ import annotations

import logging
import weakref
from typing import TYPE_CHECKING, Any, cast

from edgemem.errors import InvalidInputError, TemplateError
from edgemem.llama.estimate import EstimateTokenizer

if TYPE_CHECKING:
    from collections.abc import Iterable, MutableMapping

    from edgemem.llama.protocols import Tokenizer
    from edgemem.records import Message

_log = logging.getLogger(__name__)
_found: MutableMapping[Any, Tokenizer] = (
    weakref.WeakKeyDictionary()
)  # loading a vocabulary takes a second on a board


def tokenizer_of(llm: Any) -> Tokenizer:
    """Return what counts tokens as `llm` does, or an estimate where nothing in it counts.

    Args:
        llm: a tokenizer; a model that has one; a `llama_cpp.Llama`, whose vocabulary and chat template (ChatML where it
            has none) count; or an object with `count_tokens(text)`, as EdgeVox's, where the template's markers are
            estimated.
    """
    # A Llama has a method of that name, which is none.
    for one in (llm, getattr(llm, "tokenizer", None)):
        if all(callable(getattr(one, name, None)) for name in ("encode", "count", "render")):
            return cast("Tokenizer", one)
    counts, loaded = callable(getattr(llm, "count_tokens", None)), _is_loaded(llm)
    if not (counts or loaded):
        return EstimateTokenizer()
    try:
        known = _found.get(llm)
        # Not the model itself: it would then never be freed.
        held = weakref.proxy(llm)
    except TypeError:  # it cannot be hashed, or not be referred to weakly
        return _made(llm, llm, counts=counts)
    if known is None:
        known = _found[llm] = _made(llm, held, counts=counts)
    return known


def estimate_tokens(messages: Iterable[Message], llm: Any = None) -> int:
    """Count the tokens of messages, tool calls and the template's markers included.

    Args:
        messages: chat messages.
        llm: what `tokenizer_of` knows: exact with a tokenizer or a loaded model, and with `count_tokens(text)` but for
            the template's markers. Without it, an estimate.
    """
    if isinstance(messages, (str, dict)):
        raise InvalidInputError(f"estimate_tokens takes a list of messages; write [{messages!r:.80}].")
    listed = list(messages)
    for message in listed:
        if not isinstance(message, dict):
            raise InvalidInputError(
                f"A message must be a dict, such as {{'role': 'user', 'content': '…'}}; got {message!r:.80}."
            )
    tokenizer = tokenizer_of(llm)
    try:
        return tokenizer.count(listed, add_generation_prompt=False)
    except TemplateError as error:
        # Templates refuse parts of a conversation, such as two user messages in a row; a count is wanted all the same.
        _log.debug("counted without the chat template: %s", error)
        return EstimateTokenizer(lambda text: len(tokenizer.encode(text))).count(
            listed, add_generation_prompt=False
        )


def _made(llm: Any, held: Any, *, counts: bool) -> Tokenizer:
    """Return a tokenizer for a model that is none itself.

    Args:
        held: the model as the tokenizer may hold it.
        counts: whether it has `count_tokens`; otherwise it is a Llama.
    """
    if counts:
        return EstimateTokenizer(lambda text: int(held.count_tokens(text)))
    from edgemem.llama.template import CHATML
    from edgemem.llama.tokenizer import LlamaTokenizer

    own = (getattr(llm, "metadata", None) or {}).get("tokenizer.chat_template")
    return LlamaTokenizer.of(held, template=None if own else CHATML)


def _is_loaded(llm: Any) -> bool:
    """Tell whether this is a Llama, and was not closed: its vocabulary is gone then."""
    return callable(getattr(llm, "tokenize", None)) and bool(_model(llm))


def _model(llm: Any) -> Any:
    try:
        return llm.model
    except AttributeError:
        return None
