"""Run parts of edgemem while an audit hook notes every use of the internet; print what it saw as JSON."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any

WATCHED = (
    *("socket.__new__", "socket.bind", "socket.connect", "socket.sendto", "socket.sendmsg"),
    *("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"),
)
seen: list[str] = []
reached: list[str] = []
"""The hosts that were connected to."""


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Note what goes to the internet; sockets of other families do not."""
    if event not in WATCHED:
        return
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
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    sys.addaudithook(watch)
    {"control": control, "memory": memory, "server": server}[sys.argv[1]](Path(sys.argv[2]))
    print(json.dumps([seen, reached]))  # noqa: T201 - its work
