"""Servers of tests: a web server that can serve badly, a real llama-server, and a watch over every use of the internet.

Run as a program it does a part of edgemem under that watch, and prints what was seen as JSON: servers.py control|memory|server FOLDER.
"""

import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from typing_extensions import Self

IDENTITY = Path(__file__).parents[1] / "data" / "identity.pem"
"""The key and the certificate of 127.0.0.1, signed by nobody else; no secret."""
WATCHED = (
    *("socket.__new__", "socket.bind", "socket.connect", "socket.sendto", "socket.sendmsg"),
    *("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"),
)
seen: list[str] = []
reached: list[str] = []  # the hosts that were connected to


class Served:
    """What the server has, how it behaves, and what it was asked."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.etag = '"first"'
        self.status = 200  # another status is all that it answers
        self.location = ""  # where it sends everybody, if anywhere
        self.cuts: list[int] = []  # bytes of each of the next answers after which it hangs up
        self.then: dict[str, object] = {}  # attributes that change behind the first answer
        self.more = 0  # bytes by which its Content-Length lies
        self.ranges = True  # whether it can begin in the middle
        self.if_range = True  # whether it looks at If-Range; one that does not goes on with a newer file
        self.shift = 0  # bytes by which it begins elsewhere than it was asked
        self.says_length = True
        self.silent = threading.Event()  # cleared, it waits before it answers
        self.silent.set()
        self.asked: list[str] = []  # the Range header of every request, or nothing
        self.sent = 0  # bytes of content in all
        self.url = ""


@contextmanager
def serving(content: bytes, *, identity: Path | None = None) -> Iterator[Served]:
    """Serve on a port of this machine until the block ends; with an identity, over https."""
    served = Served(content)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            """Print nothing."""

        def do_GET(self) -> None:
            served.asked.append(self.headers.get("Range", ""))
            served.silent.wait(5)
            if served.location:
                self.send_response(302)
                self.send_header("Location", served.location)
                self.end_headers()
                return
            if served.status != 200:
                self.send_error(served.status)
                return
            begin, content = self._begin(), served.content
            if begin is not None and begin >= len(content):
                self.send_error(416)
                return
            self.send_response(200 if begin is None else 206)
            body = content[(begin or 0) :]
            if begin is not None:
                at = begin + served.shift
                self.send_header("Content-Range", f"bytes {at}-{len(content) - 1}/{len(content)}")
            if served.says_length:
                self.send_header("Content-Length", str(len(body) + served.more))
            if served.etag:
                self.send_header("ETag", served.etag)
            self.end_headers()
            body = body[: served.cuts.pop(0)] if served.cuts else body
            self.wfile.write(body)
            served.sent += len(body)
            vars(served).update(served.then)

        def _begin(self) -> int | None:
            asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
            newer = served.if_range and self.headers.get("If-Range", served.etag) != served.etag
            return int(asked[1]) if asked and served.ranges and not newer else None

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """Be hung up on without a word."""

    with Server(("127.0.0.1", 0), Handler) as server:
        scheme = "http"
        if identity is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(identity)
            # the handshake waits until a thread reads: a client that hangs up must not end the accepting one
            server.socket = context.wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
            scheme = "https"
        served.url = f"{scheme}://127.0.0.1:{server.server_port}/models/tiny.gguf"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield served
        finally:
            served.silent.set()
            server.shutdown()
            thread.join()


class RunningServer:
    """One llama-server process on the loopback; killed when the block ends."""

    def __init__(
        self,
        program: Path,
        model: Path,
        folder: Path,
        *,
        slots: int = 1,
        n_ctx: int = 2048,
        port: int | None = None,
        options: tuple[str, ...] = (),
    ) -> None:
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / f"server-{self.port}.log"
        folder.mkdir(parents=True, exist_ok=True)
        command = [
            str(program), "--model", str(model), "--host", "127.0.0.1", "--port", str(self.port),
            "--parallel", str(slots), "--ctx-size", str(n_ctx * slots), "--batch-size", "256", "--ubatch-size", "256",
            "--threads", "1", "--threads-http", "4", "--cache-ram", "0", "--no-warmup", "--no-ui", "--offline",
            "--slots", *options,
        ]  # fmt: skip
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def __enter__(self) -> Self:
        try:
            self.wait()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def wait(self) -> None:
        """Return once the model is loaded."""
        for _ in range(1200):
            if self.process.poll() is not None:
                raise AssertionError(f"llama-server ended: {self.log.read_text(errors='replace')[-2000:]}")
            try:
                if self.get("/health").get("status") == "ok":
                    return
            except OSError:
                pass
            time.sleep(0.025)
        raise AssertionError("llama-server did not start within 30 s")

    def listens(self) -> bool:
        """Tell whether the port can be connected to, loaded or not."""
        time.sleep(0.005)
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def get(self, path: str) -> Any:
        """Ask the server something, beside whoever else asks it."""
        live = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            live.request("GET", path)
            return json.loads(live.getresponse().read())
        finally:
            live.close()

    def releases(self) -> list[int]:
        """Return, for each request that has ended, how many tokens its slot then held; from the log: asking wakes it."""
        return [int(n) for n in re.findall(r"stop processing: n_tokens = (\d+)", self.log.read_text())]

    def release_after(self, known: int) -> int:
        """Wait until more than `known` requests have ended; return how many tokens the next one left."""
        for _ in range(1200):
            releases = self.releases()
            if len(releases) > known:
                return releases[known]
            time.sleep(0.025)
        raise AssertionError("the server goes on with a request that nobody waits for")

    def pause(self) -> None:
        """Let the process stand still: connections stay open, nothing answers."""
        self.process.send_signal(signal.SIGSTOP)
        # A thread of a busy machine's server may still answer before all of them have stopped.
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def free_port() -> int:
    """Return a port of the loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def built_server(cache: Path) -> Path | None:
    """Return the llama-server that the environment names, or the one that the set-up built."""
    given = os.environ.get("EDGEMEM_LLAMA_SERVER")
    if given:
        return Path(given) if Path(given).is_file() else None
    found = sorted(cache.glob("server-*/llama-server"), key=lambda path: path.stat().st_mtime)
    return found[-1] if found else None


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Note what goes to the internet; sockets of other families do not."""
    if event not in WATCHED:
        return
    if event == "socket.getaddrinfo" and re.fullmatch(r"[\d.]+|[\da-f:]*:[\da-f:]*", str(arguments[0])):
        return  # an address in numbers is asked of nobody
    family = arguments[1] if event == "socket.__new__" else getattr(arguments[0], "family", socket.AF_INET)
    if family in (socket.AF_INET, socket.AF_INET6):
        seen.append(event)
        if event == "socket.connect":
            reached.append(str(arguments[1][0]))


def control(_folder: Path) -> None:
    """Use the network of this machine, in every way that is watched."""
    with socket.socket() as server, socket.socket() as client:
        server.bind(("127.0.0.1", 0))
        server.listen()
        client.connect(server.getsockname())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagram:
        datagram.sendto(b"x", ("127.0.0.1", 9))
    socket.getaddrinfo("localhost", 80)
    here, there = socket.socketpair()  # another family: not counted
    here.close()
    there.close()


def memory(folder: Path) -> None:
    """Do what a robot does in a day."""
    from click.testing import CliRunner

    import edgemem
    from edgemem.cli import main
    from edgemem.loop.loop import AgentLoop
    from edgemem.records import Reply

    class Model:
        def complete(self, messages: Any, **_: Any) -> Reply:
            return Reply("Fine.")

        def cut(self, heard_text: str) -> None:
            pass

    home = folder / "home"
    with edgemem.open(home) as opened:
        assert opened.diagnostics.embedder is not None
        opened.store.add_fact("allergy", "hazelnuts", scope="user:ann")
        opened.notes.append("The spare key hangs left.")
        loop = AgentLoop(Model(), hooks=opened.hooks(session_id="talk", speaker="ann"), speaker="ann")
        for n in range(10):
            loop.run(f"my locker has the number {n}")
        assert not loop.hooks.failures()
        assert opened.idle(60)
        (found, *_) = opened.recall("what must ann not eat?", k=3)
        assert "meaning" in found.why
        list(opened.export())
    for command in (["check", "--home", str(home)], ["demo", "--home", str(folder / "demo"), "--json"]):
        result = CliRunner().invoke(main, command)
        assert result.stdout, result.output


def server(folder: Path) -> None:
    """Talk to the model server that a file names, then try one elsewhere."""
    from edgemem.errors import ConfigError
    from edgemem.llama.server.chat import HttpLlama

    with HttpLlama((folder / "url").read_text()) as model:
        assert list(model.stream([{"role": "user", "content": "hello"}], max_tokens=3))
    for elsewhere in ("http://10.1.2.3:8080", "http://robot.example"):
        try:
            HttpLlama(elsewhere)
        except ConfigError:
            continue
        raise AssertionError(elsewhere)


if __name__ == "__main__":
    sys.addaudithook(watch)
    {"control": control, "memory": memory, "server": server}[sys.argv[1]](Path(sys.argv[2]))
    print(json.dumps([seen, reached]))  # noqa: T201 - its work
