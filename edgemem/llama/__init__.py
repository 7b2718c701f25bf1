"""Everything that touches llama.cpp. Names are loaded when first used, so that importing costs nothing."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgemem.llama.chat import LlamaChat as LlamaChat
    from edgemem.llama.embedder import LlamaEmbedder as LlamaEmbedder
    from edgemem.llama.protocols import ChatModel as ChatModel
    from edgemem.llama.protocols import Embedder as Embedder
    from edgemem.llama.protocols import Generation as Generation
    from edgemem.llama.protocols import Prompt as Prompt
    from edgemem.llama.protocols import Segment as Segment
    from edgemem.llama.protocols import Tokenizer as Tokenizer
    from edgemem.llama.server.chat import HttpLlama as HttpLlama
    from edgemem.llama.template.append_only import appends_only as appends_only
    from edgemem.llama.tokens.estimate import EstimateTokenizer as EstimateTokenizer
    from edgemem.llama.tokens.estimate import estimate_tokens as estimate_tokens
    from edgemem.llama.tokens.tokenizer import LlamaTokenizer as LlamaTokenizer

_HOMES = {
    "ChatModel": "protocols", "Embedder": "protocols", "EstimateTokenizer": "tokens.estimate",
    "Generation": "protocols", "HttpLlama": "server.chat", "LlamaChat": "chat", "LlamaEmbedder": "embedder",
    "LlamaTokenizer": "tokens.tokenizer", "Prompt": "protocols", "Segment": "protocols", "Tokenizer": "protocols",
    "estimate_tokens": "tokens.estimate", "appends_only": "template.append_only",
}  # fmt: skip

__all__ = sorted(_HOMES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"edgemem.llama.{_HOMES[name]}"), name)
