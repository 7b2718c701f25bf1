"""The tokenizer of a model in another process: exact ids, asking its server only for text that is new."""

from __future__ import annotations

import logging
import re
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from edgemem.errors import TemplateError
from edgemem.llama.http_vocabulary import HttpVocabulary
from edgemem.llama.prompt import Prompt, Segment
from edgemem.llama.template import ChatTemplate, neutralise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.llama.http_server import Holding, LlamaServer
    from edgemem.records import Message

_log = logging.getLogger(__name__)
_BYTES_PER_ID = 36  # a Python integer and its place in a tuple


class _Known:
    """What is known of the model that the server holds: all of it goes when another one comes."""

    def __init__(self, server: LlamaServer, template: str | None) -> None:
        self.holds = server.holds
        self.vocabulary = HttpVocabulary(server)
        self.source = template or self.holds.template
        if not self.source:
            raise TemplateError(
                "The server's model carries no chat template; take one that was made to chat, or pass template="
            )
        self.template = ChatTemplate(self.source, bos=self.holds.bos, eos=self.holds.eos)
        controls = self.vocabulary.controls.values()
        self.markers = re.compile("|".join(map(re.escape, controls))) if controls else None
        self.segments: OrderedDict[tuple[str, bool], Segment] = OrderedDict()
        self.weight = 0


class HttpTokenizer:
    """Counts exactly what the server's model will be shown; safe from several threads.

    The template is the server's own, rendered here, so that a turn costs one request for all of its new segments and
    none for those before it. Text in user, assistant and tool messages cannot become a control token, as with
    `LlamaTokenizer`.
    """

    exact = True

    def __init__(
        self, server: LlamaServer, *, template: str | None = None, cache_bytes: int = 4 << 20
    ) -> None:
        self._server = server
        self._given_template = template
        self._cache_bytes = cache_bytes
        self._lock = threading.RLock()
        self._known = _Known(server, template)
        self.tokenised_bytes = 0

    @property
    def n_ctx(self) -> int:
        """Return the window of a slot of the server in tokens, as it was when the server was looked at last."""
        return self._server.holds.n_ctx

    @property
    def vocabulary(self) -> HttpVocabulary:
        """Return the vocabulary of the model that the server holds now."""
        return self._current().vocabulary

    @property
    def template(self) -> ChatTemplate:
        """Return the chat template: the one given, or the server's."""
        return self._current().template

    @property
    def fingerprint(self) -> str:
        """Return a string that changes whenever the same messages would get other tokens."""
        import hashlib

        known = self._current()
        return f"{known.vocabulary.digest}-{hashlib.sha256(known.source.encode()).hexdigest()[:8]}"

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """Tokenise bare text, without a beginning-of-sequence token; `special` parses special tokens."""
        with self._lock:
            (segment,) = self._segments([text], special=special)
            return list(segment.ids)

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        now: float | None = None,
    ) -> Prompt:
        """Render messages; the ids equal those of the whole text tokenised at once.

        `now` is what a template that prints a date sees, in seconds since the epoch, UTC.
        """
        with self._lock:
            known = self._current()
            text = known.template.render(
                messages,
                tools=tools,
                add_generation_prompt=add_generation_prompt,
                now=now,
                clean=self._neutral,
            )
            segments = self._segments(known.vocabulary.cut(text), special=True)
            if self._current() is not known:  # the server was exchanged meanwhile
                return self.render(
                    messages, tools=tools, add_generation_prompt=add_generation_prompt, now=now
                )
            if known.vocabulary.bos and not text.startswith(known.holds.bos):
                segments.insert(0, Segment("", known.vocabulary.bos))
            return Prompt(text, tuple(segments))

    def count(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        now: float | None = None,
    ) -> int:
        """Count the tokens of the rendered messages."""
        return self.render(messages, tools=tools, add_generation_prompt=add_generation_prompt, now=now).n

    def _current(self) -> _Known:
        """Return what is known, learnt anew if the server holds another model."""
        with self._lock:
            holds: Holding = self._server.refresh()
            if holds != self._known.holds:
                _log.warning(
                    "the server at %s now holds %s instead of %s; what was known of its tokens is dropped",
                    self._server.address.text,
                    holds.model,
                    self._known.holds.model,
                )
                self._known = _Known(self._server, self._given_template)
            return self._known

    def _neutral(self, text: str) -> str:
        markers = self._known.markers
        return neutralise(text, markers) if markers is not None else text

    def _segments(self, texts: Sequence[str], *, special: bool) -> list[Segment]:
        known = self._current()
        kept, new = known.segments, []
        found: dict[str, Segment] = {}
        for text in dict.fromkeys(texts):
            segment = kept.get((text, special))
            if segment is None:
                new.append(text)
            else:
                kept.move_to_end((text, special))
                found[text] = segment
        for text, ids in zip(new, known.vocabulary.tokenize(new, special=special), strict=True):
            segment = found[text] = kept[text, special] = Segment(text, ids)
            known.weight += _weight(segment)
            self.tokenised_bytes += len(text.encode("utf-8", "replace"))
        while known.weight > self._cache_bytes and kept:
            known.weight -= _weight(kept.popitem(last=False)[1])
        return [found[text] for text in texts]


def _weight(segment: Segment) -> int:
    return 4 * len(segment.text) + _BYTES_PER_ID * len(segment.ids)
