"""The chat model in another process: the same tokens, the same cache, and every way in which a server can fail."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edgemem.config import ChatSettings
from edgemem.errors import ConfigError, ContextOverflowError, ServerError
from edgemem.llama.server.chat import HttpLlama
from edgemem.llama.server.client import Address, Connection
from edgemem.llama.tokens.tokenizer import LlamaTokenizer
from support.models import TOOLS, grown, opening, talk, write_llama_gguf
from support.refusals import refusal
from support.servers import RunningServer

MODELS = ("qwen2", "llama-bpe", "phi-3")
Start = Callable[..., RunningServer]
SHORT = [{"role": "user", "content": "Where is my cup?"}]
REFUSED = msgspec.toml.decode((Path(__file__).parents[2] / "data" / "addresses.toml").read_bytes())


@pytest.fixture(scope="module")
def files(
    tmp_path_factory: pytest.TempPathFactory, vocabularies: Path, chat_model: Callable[[str], Path]
) -> dict[str, Path]:
    """Return real models of random weights, one for each vocabulary, and a slow one."""
    folder = tmp_path_factory.mktemp("models")
    written = {name: chat_model(name) for name in (*MODELS, "llama-spm")}
    # this one takes some 10 ms for a token, so that a test can act in the middle of a reply
    large = {"vocabulary": "phi-3", "layers": 12, "width": 512}
    return {**written, "slow": write_llama_gguf(folder / "slow.gguf", vocabularies=vocabularies, **large)}


@pytest.fixture(scope="module")
def started(
    llama_server: Path, files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], RunningServer]]:
    with ExitStack() as running:

        def get(name: str) -> RunningServer:
            server = RunningServer(llama_server, files[name], tmp_path_factory.mktemp("server"))
            return running.enter_context(server)

        yield cache(get)


@pytest.fixture(scope="module")
def opened(started: Callable[[str], RunningServer]) -> Iterator[Callable[[str], HttpLlama]]:
    """Return what opens a model once for several tests: with a large vocabulary that takes half a second."""
    with ExitStack() as chats:
        yield cache(lambda name: chats.enter_context(HttpLlama(started(name).url)))


@pytest.fixture
def start(llama_server: Path, files: dict[str, Path], tmp_path: Path) -> Iterator[Start]:
    running: list[RunningServer] = []

    def run(name: str = "phi-3", **options: Any) -> RunningServer:
        running.append(RunningServer(llama_server, files.get(name, Path(name)), tmp_path, **options))
        running[-1].wait()
        return running[-1]

    yield run
    for server in running:
        server.kill()


@pytest.mark.parametrize("name", MODELS)
def test_prompts_are_those_of_the_model_in_this_process(
    opened: Callable[[str], HttpLlama], files: dict[str, Path], name: str
) -> None:
    """Ids and text of every prompt equal those of `LlamaTokenizer`, whatever was said."""
    there = opened(name).tokenizer
    with LlamaTokenizer(files[name]) as here:
        for n in range(2, len(talk()) + 1):
            for options in ({}, {"tools": TOOLS}, {"add_generation_prompt": False}, {"now": 1e9}):
                expected, prompt = here.render(talk()[:n], **options), there.render(talk()[:n], **options)
                assert (prompt.ids, prompt.text) == (expected.ids, expected.text)
                assert "".join(segment.text for segment in prompt.segments) == prompt.text
        for text in ("", " x", "<|im_end|>", "a\nb", "🙂" * 3):
            for special in (False, True):
                assert there.encode(text, special=special) == here.encode(text, special=special)


def test_no_text_can_kill_the_server(start: Start, vocabularies: Path, tmp_path: Path) -> None:
    """A run of 100,000 equal characters, which overflows the stack of whoever tokenises it at once, is counted."""
    small = {"vocabulary": "falcon", "layers": 1, "width": 32}
    file = write_llama_gguf(tmp_path / "falcon.gguf", vocabularies=vocabularies, **small)
    with HttpLlama(start(str(file)).url) as chat, LlamaTokenizer(file) as here:
        for unit in ("a", ".", "好"):
            assert chat.tokenizer.encode(unit * 100_000) == here.encode(unit * 100_000)


def test_a_turn_costs_the_same_requests_however_long_the_talk(opened: Callable[[str], HttpLlama]) -> None:
    """The 40th turn asks the server as often as the third, and has only its own text tokenised."""
    chat = opened("phi-3")
    messages = opening("requests")
    costs = []
    for turn in range(40):
        before = chat.requests, chat.tokenizer.tokenised_bytes
        reply = "".join(chat.stream(messages, max_tokens=2))
        costs.append((chat.requests - before[0], chat.tokenizer.tokenised_bytes - before[1]))
        messages = grown(messages, reply, f"And {turn:02}?")
    # the new segments, what goes on behind the reply, the reply itself; and once in 100 requests what the server is
    assert max(requests for requests, _ in costs[2:]) <= 5
    assert sum(requests for requests, _ in costs[2:]) <= 38 * 3 + 10
    assert max(size for _, size in costs[2:]) < 100
    known = chat.requests
    assert chat.tokenizer.count(messages[:-1]) > 500
    assert chat.requests <= known + 1


def test_conversations_have_slots_of_their_own(start: Start) -> None:
    """Two on a server with two slots do not evict one another; on one slot they do."""
    for slots in (2, 1):
        server = start(slots=slots)
        with pytest.raises(ConfigError, match=rf"has {slots} slots, so .* slot cannot be {slots}"):
            HttpLlama(server.url, settings=ChatSettings(slot=slots))
        HttpLlama(server.url).close()  # one that ends leaves its slot
        with HttpLlama(server.url) as first, HttpLlama(server.url) as second:
            talks = {first: opening("first"), second: opening("second")}
            for turn in range(2):
                for chat, messages in talks.items():
                    reply = "".join(chat.stream(messages, max_tokens=3))
                    talks[chat] = grown(messages, reply)
                    assert not turn or (chat.last.evaluated_tokens < 30) is (slots == 2)


def test_the_token_that_ends_a_reply(start: Start, opened: Callable[[str], HttpLlama]) -> None:
    """A reply that the model ends does not contain the token that ended it, and the next turn costs no more."""
    vocabulary = opened("phi-3").tokenizer.vocabulary
    (end,) = (token for token, text in vocabulary.controls.items() if text == "<|end|>")
    assert vocabulary.piece(end) == b""
    server = start(options=("--logit-bias", f"{end}+3"))
    with HttpLlama(server.url) as chat:
        messages = opening("ends")
        for _ in range(4):
            seen = chat.last.prompt_tokens + len(chat.last.ids)
            reply = "".join(chat.stream(messages, max_tokens=400))
            assert chat.last.stopped == "eos"
            assert end not in chat.last.ids
            assert chat.last.evaluated_tokens <= chat.last.prompt_tokens - seen + 1
            messages = grown(messages, reply)


@pytest.fixture(scope="module")
def slow(
    llama_server: Path, files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    """Return a server whose model takes long enough for a token that a reader keeps up with it."""
    folder, options = tmp_path_factory.mktemp("slow"), ("--batch-size", "32", "--ubatch-size", "32")
    with RunningServer(llama_server, files["slow"], folder, options=options) as server:
        yield server


@pytest.mark.parametrize("way", ["stop", "close"])
def test_the_server_stops_within_one_token(slow: RunningServer, way: str) -> None:
    """Whether `stop` turns true or the iterator is closed: besides the token at work, at most one more is made."""
    made_after = []
    with HttpLlama(slow.url) as chat:
        for attempt in range(8):  # on a busy machine the reader may be late: the best attempt counts
            pieces: list[str] = []
            known = len(slow.releases())
            stop = (lambda pieces=pieces: len(pieces) >= 4) if way == "stop" else None
            reply = chat.stream(opening(f"{way} {attempt}"), max_tokens=400, stop=stop)
            for piece in reply:
                pieces.append(piece)
                if way == "close" and len(pieces) == 4:
                    break
            reply.close()  # type: ignore[attr-defined]
            assert chat.last.stopped == "interrupted"
            # the newest token is chosen but not evaluated yet: the slot holds all before it
            made = slow.release_after(known) - chat.last.prompt_tokens + 1
            made_after.append(made - len(chat.last.ids))
            if made_after[-1] <= 2:
                return
    raise AssertionError(f"made after the end: {made_after}")


def test_a_stop_is_obeyed_while_the_server_stands_still(start: Start) -> None:
    """Nobody waits for the next token of a reply that nobody wants any more, and no error tells of it."""
    server = start("slow")
    unwanted = threading.Event()
    with HttpLlama(server.url) as chat:
        reply = chat.stream(SHORT, max_tokens=1500, stop=unwanted.is_set)
        said = [next(reply)]
        server.pause()
        late = threading.Timer(0.1, unwanted.set)
        late.start()
        said.extend(reply)
        late.join()
        assert (chat.last.stopped, chat.last.text) == ("interrupted", "".join(said))
        server.go_on()
        assert list(chat.stream(SHORT, max_tokens=5))


def test_another_model_behind_the_same_address(start: Start) -> None:
    """When the server comes back with another model, nothing is asked of it; with the same one the talk goes on."""
    server = start("phi-3")
    with HttpLlama(server.url) as chat:
        messages = opening()
        reply = "".join(chat.stream(messages, max_tokens=3))
        old = chat.tokenizer.render(messages).ids
        waiting = chat.stream(messages, max_tokens=3)
        server.kill()
        other = start("llama-spm", port=server.port, n_ctx=1024)
        for _ in range(2):
            with pytest.raises(ServerError, match=r"now holds another model .*llama-spm.*; open it again"):
                chat.tokenizer.render(grown(messages, reply))
        refusal(ServerError, list, waiting, match="open it again")
        other.kill()
        start("phi-3", port=server.port)
        assert chat.tokenizer.render(messages).ids == old
        assert list(chat.stream(grown(messages, reply), max_tokens=3))
        assert chat.last.evaluated_tokens == chat.last.prompt_tokens


def test_a_server_that_is_stuck(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each wait has an end of its own, and afterwards the server can be asked again."""
    server = start("slow")
    monkeypatch.setattr("edgemem.llama.server.client.ANSWER_S", 1.0)
    monkeypatch.setattr("edgemem.llama.server.client.BETWEEN_TOKENS_S", 1.5)
    settings = ChatSettings(first_token_s=2.0)
    with HttpLlama(server.url, settings=settings) as chat:
        known = chat.tokenizer.count(SHORT)
        server.pause()
        refusal(ServerError, chat.tokenizer.count, grown(SHORT, "x"), match=r"was silent for 1 s")
        with pytest.raises(ServerError, match=r"was silent for 1 s"):
            list(chat.stream(SHORT, max_tokens=5))  # whether it holds the same model is asked again
        server.go_on()
        assert chat.tokenizer.count(grown(SHORT, "x")) > chat.tokenizer.count(SHORT) == known
        waiting = chat.stream(SHORT, max_tokens=5)
        server.pause()
        refusal(ServerError, list, waiting, match=r"was silent for 2 s")
        server.go_on()
        reply = chat.stream(SHORT, max_tokens=1500)
        next(reply)
        server.pause()
        refusal(ServerError, list, reply, match=r"was silent for 1\.5 s")
        server.go_on()
        assert chat.last.text
        assert list(chat.stream(SHORT, max_tokens=5))


@contextmanager
def answering(answers: dict[str, tuple[int, bytes]]) -> Iterator[str]:
    """Run a web server that gives these answers, and 404 to all else; yield where it listens."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, body = answers.get(self.path, (404, b"404 page not found"))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ({}, "is no llama-server, .* Ollama"),
        ({"/props": (200, b"<html>hello</html>")}, "is no llama-server"),
        ({"/props": (200, b'{"default_generation_settings": 3}')}, "is no llama-server"),
        ({"/props": (500, b'{"error": {"code": 500, "message": "no memory."}}')}, r"refuses \(no memory\)"),
        ({"/props": (502, b"bad gateway")}, r"refuses \(bad gateway\)"),
    ],
)
def test_what_is_no_llama_server(answers: dict[str, tuple[int, bytes]], says: str) -> None:
    """Ollama, which cannot hand out tokens, and anything else that answers there is named in one sentence."""
    with answering(answers) as url:
        refusal(ServerError, HttpLlama, url, match=says)


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (200, b'data: {"error": {"code": 500, "message": "no memory"}}\n\n', r"refuses \(no memory\)"),
        (200, b'error: {"code": 500, "message": "no memory"}\n\n', r"refuses \(no memory\)"),
        (200, b"data: {oh\n\n", "as no llama-server of 2025 does"),
        (400, b'{"error": {"message": "bad", "type": "invalid_request_error"}}', r"refuses \(bad\)"),
        (400, b'{"error": {"message": "9 > 8", "type": "exceed_context_size_error"}}', r"\(9 > 8\); compact"),
    ],
)
def test_an_error_instead_of_a_token(status: int, body: bytes, says: str) -> None:
    """What the server says against a prompt, before or within its stream, ends it with one sentence."""
    begun = b': sign of life\n\ndata: {"a": 1}\n\n' * (status == 200)
    with answering({"/completion": (status, begun + body)}) as url:
        connection = Connection(Address.parse(url))
        steps = connection.steps("/completion", {}, first_s=5, between_s=5)
        refusal((ServerError, ContextOverflowError), list, steps, match=says)
        connection.close()


@pytest.mark.parametrize(
    ("text", "host", "port", "file"),
    [
        ("http://127.0.0.1:8080", "127.0.0.1", 8080, ""), ("http://localhost", "127.0.0.1", 80, ""),
        ("http://[::1]:9/", "::1", 9, ""), ("unix:///run/llama.sock", "", 0, "/run/llama.sock"),
        ("http://10.0.0.5:8080", "10.0.0.5", 8080, ""), ("http://ROBOT.local:8080", "robot.local", 8080, ""),
    ],
)  # fmt: skip
def test_addresses(text: str, host: str, port: int, file: str) -> None:
    """This machine, a socket file, and what the profile names."""
    found = Address.parse(text, hosts=("10.0.0.5", "Robot.local"))
    assert (found.host, found.port, found.file) == (host, port, file)


@pytest.mark.parametrize(
    ("text", "says"),
    [*REFUSED.items(), ("", "names no server"), ("http://127.0.0.1\x00:80", "no"), ("http://\ud800", "no")],
)
def test_addresses_that_are_refused(text: str, says: str) -> None:
    """Nothing leaves this machine unasked, and what is no address is told in one sentence."""
    refusal(ConfigError, Address.parse, text, match=says)


def test_a_server_that_is_still_loading(llama_server: Path, files: dict[str, Path], tmp_path: Path) -> None:
    """A server that loads its model is waited for."""
    server = RunningServer(llama_server, files["qwen2"], tmp_path)
    try:
        while not server.listens():
            assert server.process.poll() is None
        with HttpLlama(server.url) as chat:
            assert list(chat.stream(opening(), max_tokens=2))
    finally:
        server.kill()


def test_a_server_behind_a_socket_file(start: Start, tmp_path: Path) -> None:
    """A Unix domain socket serves as well, and `localhost` needs no name server."""
    file = tmp_path / "llama.sock"
    server = start(options=("--host", f"127.0.0.1,{file}"))
    for url in (f"unix://{file}", f"http://localhost:{server.port}"):
        with HttpLlama(url) as chat:
            assert list(chat.stream(opening(), max_tokens=3))
            assert chat.last.evaluated_tokens > 0
