"""Everything that touches llama.cpp. Names are loaded when first used, so that importing costs nothing."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from edgemem.llama.chat import LlamaChat as LlamaChat
    from edgemem.llama.counting import estimate_tokens as estimate_tokens
    from edgemem.llama.embedder import LlamaEmbedder as LlamaEmbedder
    from edgemem.llama.estimate import EstimateTokenizer as EstimateTokenizer
    from edgemem.llama.growth import grows_by_appending as grows_by_appending
    from edgemem.llama.http import HttpLlama as HttpLlama
    from edgemem.llama.prompt import Prompt as Prompt
    from edgemem.llama.prompt import Segment as Segment
    from edgemem.llama.protocols import ChatModel as ChatModel
    from edgemem.llama.protocols import Embedder as Embedder
    from edgemem.llama.protocols import Generation as Generation
    from edgemem.llama.protocols import Reranker as Reranker
    from edgemem.llama.protocols import Tokenizer as Tokenizer
    from edgemem.llama.reranker import LlamaReranker as LlamaReranker
    from edgemem.llama.tokenizer import LlamaTokenizer as LlamaTokenizer

_HOMES = {
    "ChatModel": "protocols",
    "Embedder": "protocols",
    "EstimateTokenizer": "estimate",
    "Generation": "protocols",
    "HttpLlama": "http",
    "LlamaChat": "chat",
    "LlamaEmbedder": "embedder",
    "LlamaReranker": "reranker",
    "LlamaTokenizer": "tokenizer",
    "Prompt": "prompt",
    "Reranker": "protocols",
    "Segment": "prompt",
    "Tokenizer": "protocols",
    "estimate_tokens": "counting",
    "grows_by_appending": "growth",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"edgemem.llama.{_HOMES[name]}"), name)
