"""The chat model that a command is told of: what counts its tokens and how large its window is, its weights not loaded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgemem.errors import InvalidInputError

if TYPE_CHECKING:
    from edgemem.llama.protocols import Tokenizer
    from edgemem.memory import Memory

llm_option = click.option(
    "--llm",
    type=click.Path(path_type=Path),
    metavar="NAME|FILE",
    help="A chat model, by its name in `edgemem models list` or as a GGUF file; only its tokenizer is loaded.",
)
server_option = click.option(
    "--server",
    metavar="URL",
    help="The model of a llama-server in place of --llm, such as http://127.0.0.1:8080.",
)


def not_both(llm: Path | None, server: str | None) -> None:
    """Raise InvalidInputError where a command is told of two models."""
    if llm is not None and server is not None:
        raise InvalidInputError(
            "--llm loads a model here and --server asks one elsewhere; name one of them, not both."
        )


def file_at(llm: Path | None, home: Path) -> Path | None:
    """Return the file of the model that was named; one that is not there is told before a home is opened."""
    from edgemem.llama.models.catalog import file_of

    return None if llm is None else file_of(str(llm), home=home)


@contextmanager
def tokenizer_of(file: Path | None, server: str | None, memory: Memory) -> Iterator[Tokenizer | None]:
    """Yield what counts the tokens of the model that was named, and knows its window; None where none was.

    The window of a file is the one that it was trained for: no larger one is of use.
    """
    if server is not None:
        from edgemem.llama.server.chat import HttpLlama

        with HttpLlama(server, settings=memory.profile.chat) as model:
            yield model.tokenizer
    elif file is not None:
        from edgemem.llama.models.gguf import read_header
        from edgemem.llama.tokens.tokenizer import LlamaTokenizer

        with LlamaTokenizer(file) as tokenizer:
            tokenizer.n_ctx = read_header(file).number("context_length") or None
            yield tokenizer
    else:
        yield None
