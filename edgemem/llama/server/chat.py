"""A chat model in another process, a llama-server: the same promises, kept across a socket."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from edgemem.config import ChatSettings
from edgemem.errors import ConfigError, ServerError
from edgemem.llama.backend import watching
from edgemem.llama.context import ChatContext, Reply, SinglePrompts, TokenLog
from edgemem.llama.replies import MARKS, opened_thought
from edgemem.llama.server.client import SLOTS, LlamaServer, Step
from edgemem.llama.tokens.tokenizer import LlamaTokenizer
from edgemem.llama.tokens.vocabulary import BPE, Special, Vocabulary, is_markup, short_runs

if TYPE_CHECKING:
    from edgemem.llama.context import Stop
    from edgemem.llama.protocols import Generation, Prompt

_LIKE_LLAMA_CHAT = {"top_k": 40, "top_p": 0.95, "min_p": 0.05}  # whatever the server was started with
_BETWEEN = -1  # between texts of one request: no token, and handed back as it is
_PIECES = 1 << 15  # ids whose bytes are asked for at a time: about a megabyte of JSON
_PROBE = "The robot's 12 cups,\n\tthe cat … Straße über 好的，七分钟 кошка 🙂!?"


class _Piece(msgspec.Struct):
    id: int
    piece: str | list[int]


class ServerVocabulary(Vocabulary):
    """The vocabulary of a model in another process; it learns every token's bytes when made, some megabytes of JSON."""

    is_remote = True

    def __init__(self, server: LlamaServer) -> None:
        self._server = server
        holds = server.holds
        self.bos_text, self.eos_text, self.template = holds.bos, holds.eos, holds.template
        self._is_bpe = holds.figures[0] == BPE
        (bare,), (begun,) = self._ask(["a"]), self._ask(["a"], add_special=True)
        self.begins = begun[:1] if begun[1 : 1 + len(bare)] == bare else ()
        state = hashlib.sha256(repr((bare, begun, self._ask([_PROBE]))).encode())
        markup: list[Special] = []
        for token, piece in self._pieces(holds.n_vocab):
            state.update(piece + b"\0")
            special = Special(token, piece.decode(errors="replace"), control=True, lstrip=False)
            if is_markup(special):
                markup.append(special)
        self.digest = state.hexdigest()[:16]
        controls = self._controls(markup)
        self.controls = {special.id: special.text for special in controls}
        """Tokens that steer the model and are never printed."""
        super().__init__(controls)

    def tokenize_all(self, texts: Sequence[str], *, special: bool) -> list[tuple[int, ...]]:
        """Tokenise with one request for all texts, without a beginning-of-sequence token."""
        return self._ask(texts, special=special)

    def piece(self, token: int) -> bytes:
        """Return the bytes of a token."""
        if token in self.controls:
            return self.mark(token).encode()
        ((_, piece),) = self._pieces_of([token])
        return piece

    def mark(self, token: int) -> str:
        """Return the spelling of a control token that marks a thought or a call; empty for any other."""
        text = self.controls.get(token, "")
        return text if text in MARKS else ""

    def _controls(self, markup: Sequence[Special]) -> tuple[Special, ...]:
        """Return those that are tokens only where special tokens are parsed; words such as `<tool_call>` always are."""
        texts = [special.text for special in markup]
        parsed, plain = self._ask(texts), self._ask(texts, special=False)
        return tuple(
            special
            for special, ids, plain_ids in zip(markup, parsed, plain, strict=True)
            if ids == (special.id,) and special.id not in plain_ids
        )

    def _pieces(self, size: int) -> Iterator[tuple[int, bytes]]:
        for begin in range(0, size, _PIECES):
            yield from self._pieces_of(range(begin, min(begin + _PIECES, size)))

    def _pieces_of(self, ids: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        answer = self._server.ask("/tokenize", {"content": list(ids), "with_pieces": True})
        for piece in msgspec.convert(answer["tokens"], list[_Piece]):
            yield piece.id, piece.piece.encode() if isinstance(piece.piece, str) else bytes(piece.piece)

    def _ask(
        self, texts: Sequence[str], *, special: bool = True, add_special: bool = False
    ) -> list[tuple[int, ...]]:
        if not texts:
            return []
        content: list[str | int] = []
        for text in texts:
            clean = text.encode("utf-8", "replace").decode()  # a lone surrogate becomes a question mark
            # the overlong runs that would kill this process would kill the server
            content += [_BETWEEN, *(short_runs(clean) if self._is_bpe else [clean])]
        asked = {"content": content[1:], "parse_special": special, "add_special": add_special}
        rows: list[list[int]] = [[]]
        tokens = self._server.ask("/tokenize", asked)["tokens"]
        self._server.check()  # or these are ids of another model
        for token in msgspec.convert(tokens, list[int]):
            if token == _BETWEEN:
                rows.append([])
            else:
                rows[-1].append(token)
        if len(rows) != len(texts):
            raise ServerError(
                "The server tokenises one text at a time, so it is from before 2025; start a new one"
            )
        return [tuple(ids) for ids in rows]


class ServerReply(Reply):
    """Takes steps as they come and writes their tokens into the log.

    The server sends whole characters and tells the last of the tokens that share one, so the text's own tokens are kept then: mostly
    the same, and else read anew with the next prompt.
    """

    def __init__(self, log: TokenLog, vocabulary: ServerVocabulary, *, opened: str = "") -> None:
        super().__init__(log, opened=opened)
        self._vocabulary = vocabulary
        self._made = 0
        # the newest token, if it printed nothing: it may end the reply, and is then no part of it
        self._silent: int | None = None

    def add_step(self, step: Step) -> str:
        """Take a step and return its speech."""
        silent, self._silent = self._silent, None
        if silent is not None and step.stop_type != "eos":
            self.keep(silent, b"")
        if step.stop:
            self.stopped = "length" if step.stop_type == "limit" else "eos"
            return ""
        if not step.tokens:
            return ""  # a sign of life
        kept_back, self._made = step.tokens_predicted - self._made - 1, step.tokens_predicted
        token = step.tokens[-1]
        content = step.content or self._vocabulary.mark(token)
        if not content:
            self._silent = token
            return ""
        ids: tuple[int, ...] = (token,)
        if kept_back or "\ufffd" in content:
            ids = self._vocabulary.continue_text(content)
        for number in ids:
            self.keep(number, content.encode() if len(ids) == 1 else self._vocabulary.piece(number))
        return self.show(content)


def why_no_slot(settings: ChatSettings, slots: int) -> str:
    """Return why none of a server's slots may be used beside the conversations; empty if one may."""
    if slots < 2:
        return "the server has one slot, the conversation's; start it with -np 2"
    if settings.summary_slot >= slots:
        return f"the server has {slots} slots, and [chat] summary_slot is {settings.summary_slot}; they count from 0"
    if settings.slot >= 0 and settings.summary_slot < 0:
        return "[chat] slot is named, so others may use the rest of the server; name summary_slot too"
    if settings.slot == settings.summary_slot >= 0:
        return "[chat] slot and summary_slot are the same"
    return ""


def find_no_slot(settings: ChatSettings) -> str:
    """Ask the profile's server, and return why it has no slot beside the conversations; empty if it has."""
    try:
        server = LlamaServer(settings.server, msgspec.structs.replace(settings, load_s=0.0))
    except (ServerError, ConfigError) as error:
        return str(error)
    try:
        return why_no_slot(settings, server.holds.slots)
    finally:
        server.close()


def _steps(
    server: LlamaServer, ids: list[int], budget: int, slot: int, stop: Stop, **sampling: Any
) -> Generator[Step]:
    fixed = {"repeat_penalty": 1.0, "id_slot": slot, "cache_prompt": True}
    steps = server.steps({"prompt": ids, "n_predict": budget, **sampling, **fixed})
    try:
        if stop is not None and stop():
            return
        with watching(stop, server.talking.cut):
            for step in steps:
                yield step
                if step.stop or (stop is not None and stop()):
                    return
    finally:
        steps.close()


class HttpSide(SinglePrompts):
    """A second slot of a conversation's server, over connections of its own, so that the conversation keeps its prefix."""

    larger = "the slot {}; raise [compaction] summary_ctx, or start the server with a larger window (-c)"

    def __init__(self, server: LlamaServer, tokenizer: LlamaTokenizer, *, n_ctx: int = 1024) -> None:
        self._server = LlamaServer(server.address.text, server.settings)
        super().__init__(tokenizer, self._server.talking.cut, self._server.talking.mend)
        self.n_ctx = min(n_ctx, self._server.holds.n_ctx)

    def _generate(self, prompt: Prompt, budget: int, stop: Stop) -> Generation:
        vocabulary = cast("ServerVocabulary", self.tokenizer.vocabulary)
        log = TokenLog(vocabulary.continue_text)
        reply = ServerReply(log, vocabulary, opened=opened_thought(prompt.text))
        evaluated = 0
        for step in _steps(self._server, log.set_prompt(prompt), budget, self._slot(), stop, temperature=0.0):
            evaluated = evaluated or step.timings.prompt_n
            reply.add_step(step)
        reply.text = reply.text.strip()
        return reply.generation(prompt.n, evaluated)

    def _free(self) -> None:
        self._server.close()

    def _slot(self) -> int:
        """Return the slot named for this, or else one that no conversation in this process has now."""
        self._server.check()
        place, slots = self._server.address.place, self._server.holds.slots
        slot = SLOTS.spare(place, slots=slots, preferred=self._server.settings.summary_slot)
        if slot is None:
            raise ServerError(
                f"The server at {self._server.address.text} has no slot without a conversation among its {slots}; start"
                f" it with -np {slots + 1}"
            )
        return slot


class HttpLlama(ChatContext):
    """One conversation with the model of a llama-server, in a slot of its own.

    Prompts are as exact as with `LlamaChat` and handed over as ids; the server's timings tell what it evaluated. A barge-in
    closes the connection: the server notices at the next token, or within a second while it evaluates a prompt.

    Conversations of one process take different slots while the server has some: start it with `-np` and their number, because one
    that finds the number itself empties resting slots. In a shared slot each change evaluates the prompt again from where the two
    differ. `server` is `http://127.0.0.1:8080` or `unix:///run/llama.sock`, other hosts only from `[chat]` of the profile.
    """

    larger = "start the server with a larger window (-c)"

    def __init__(
        self, server: str, *, settings: ChatSettings | None = None, template: str | None = None
    ) -> None:
        self._settings = settings or ChatSettings()
        self._server = LlamaServer(server, self._settings)
        try:
            vocabulary = ServerVocabulary(self._server)
            self.tokenizer = LlamaTokenizer(vocabulary, template=template)
            _ = self.tokenizer.template  # tell a fault of it now, not in the first turn
            slots, named = self._server.holds.slots, self._settings.slot
            if named >= slots:
                raise ConfigError(
                    f"The server at {server} has {slots} slots, so [chat] slot cannot be {named}; they count from 0"
                )
        except BaseException:
            self._server.close()
            raise
        self.n_ctx = self.tokenizer.n_ctx = self._server.holds.n_ctx
        super().__init__(self._server.talking.cut, self._server.talking.mend)
        self._slot = SLOTS.reserve(self._server.address.place, slots=slots, preferred=named)

    @property
    def requests(self) -> int:
        """The number of requests that this conversation has sent."""
        return self._server.asked

    def side_chat(self, *, n_ctx: int = 1024, threads: int = 1) -> HttpSide | None:
        """Return what answers single prompts in another slot, if there is one; closed with this model, `threads` ignored."""
        self._check_open()
        if why_no_slot(self._settings, self._server.holds.slots):
            return None
        side = HttpSide(self._server, self.tokenizer, n_ctx=n_ctx)
        self.before_close(side.close)
        return side

    def _generate(
        self, ids: list[int], budget: int, stop: Stop, temperature: float, seed: int, opened: str
    ) -> Generator[str]:
        """Yield the reply to a prompt; where the server fails, `last` holds what came.

        The server does not wait for a slow reader: what it made ahead and nobody reads is no part of the reply.
        """
        evaluated = 0
        reply = ServerReply(self.log, cast("ServerVocabulary", self.tokenizer.vocabulary), opened=opened)
        sampling = {"temperature": temperature, "seed": seed & 0xFFFFFFFF, **_LIKE_LLAMA_CHAT}
        steps = _steps(self._server, ids, budget, self._slot, stop, **sampling)
        try:
            for step in steps:
                evaluated = evaluated or step.timings.prompt_n
                text = reply.add_step(step)
                if text:
                    yield text
                if self._closing:
                    break
        finally:
            steps.close()
            self.last = reply.generation(len(ids), evaluated)

    def _check_model(self) -> None:
        self._server.talking.touch()
        self._server.check()

    def _free(self) -> None:
        self._server.close()
        SLOTS.free(self._server.address.place, self._slot)
