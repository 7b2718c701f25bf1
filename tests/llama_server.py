"""Starts a real llama-server, the one that the set-up built from the same sources as the tests' llama.cpp."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self


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
        """Return, for each request that has ended, how many tokens its slot then held; from the server's log.

        Asking `/slots` instead would wake the server up, which then overlooks for a while that its client went away.
        """
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
        """Let the process run again."""
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End the process at once."""
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
