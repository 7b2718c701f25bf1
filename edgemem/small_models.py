"""The small models of a home: the embedder, which finds by meaning, and the reranker, which reads what was found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from edgemem.errors import InvalidInputError, ModelError
from edgemem.llama.models.catalog import find_model
from edgemem.llama.protocols import Embedder, Reranker

if TYPE_CHECKING:
    from edgemem.config import Profile


class SmallModels:
    """The two models that memory itself computes with; one that is damaged does not keep the robot from talking."""

    def __init__(
        self,
        home: Path,
        profile: Profile,
        *,
        embedder: Embedder | None = None,
        reranker: Reranker | None = None,
    ) -> None:
        """Take the caller's, or else open what the profile names and is on this machine."""
        for given, kind in ((embedder, Embedder), (reranker, Reranker)):
            if given is not None and not isinstance(given, kind):
                name = kind.__name__
                raise InvalidInputError(
                    f"{type(given).__name__} is no {name.lower()}; derive it from edgemem.llama.{name}"
                )
        self._home = home
        self.embedder_fault = ""
        self.reranker_fault = ""
        self.embedder = embedder if embedder is not None else self.open_embedder(profile)
        self.reranker = reranker if reranker is not None else self._open_reranker(profile)

    def open_embedder(self, profile: Profile) -> Embedder | None:
        """Open the model that a profile names; None if it is not there, or damaged, which `embedder_fault` tells then."""
        settings = profile.llama
        if not settings.embedder or find_model(settings.embedder, home=self._home) is None:
            return None
        from edgemem.llama.embedder import open_embedder

        try:
            return open_embedder(
                settings.embedder,
                home=self._home,
                n_ctx=settings.embed_context,
                threads=settings.embed_threads,
            )
        except ModelError as error:
            self.embedder_fault = str(error)
            return None

    def adopt(self, embedder: Embedder) -> None:
        """Go on with an embedder that came while the memory was open."""
        self.embedder, self.embedder_fault = embedder, ""

    def warm(self) -> None:
        """Begin to load both, and return at once."""
        for model in (self.embedder, self.reranker):
            if model is not None:
                model.warm()

    def give_way(self) -> None:
        """Stop what is embedded in idle time, in the middle of a text."""
        if self.embedder is not None:
            self.embedder.give_way()

    def close(self) -> None:
        """Free both."""
        for model in (self.embedder, self.reranker):
            if model is not None:
                model.close()

    def _open_reranker(self, profile: Profile) -> Reranker | None:
        name, settings = profile.recall.rerank, profile.llama
        if not name:
            return None
        from edgemem.llama.reranker import open_reranker

        try:
            return open_reranker(
                name, home=self._home, n_ctx=settings.embed_context, threads=settings.embed_threads
            )
        except ModelError as error:
            self.reranker_fault = str(error)
            return None
