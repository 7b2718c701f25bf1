"""Shared parts of the benchmarks: a report with its bars, a scratch home, real models, and a robot that plays a script."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import msgspec

import edgemem
from edgemem.bench.corpus import SPEAKER, sentences
from edgemem.clock import Clock
from edgemem.config import Profile
from edgemem.errors import EdgememError, InvalidInputError, ModelError
from edgemem.inspect.replay import INSTRUCTIONS, ScriptedModel, find_tokenizer
from edgemem.llama.embedder import MOST_TOKENS
from edgemem.llama.models.catalog import find_model
from edgemem.llama.protocols import Embedder, Encoding
from edgemem.loop.loop import AgentLoop, TurnResult
from edgemem.preload import np
from edgemem.records import Heard, StoredMessage, Turn
from edgemem.session.points import Hook, HookRegistry
from edgemem.session.tools import Tool
from edgemem.store.facts import assert_fact
from edgemem.store.turns import commit_turn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.bench.corpus import Known
    from edgemem.inspect.replay import Line, ScriptedCall
    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Transaction

EMBEDDER = "all-minilm-l6-v2"

_START = 1_790_000_000.0
_TURNS_A_SESSION = 200
_TOKEN_NUMBERS = 64
_LOOPS = 200_000


class Bar(msgspec.Struct, frozen=True):
    """A figure and its limit."""

    figure: float
    bar: float
    ok: bool


def at_most(figure: float, bar: float) -> Bar:
    """Hold a figure against an upper limit."""
    return Bar(round(figure, 4), bar, figure <= bar)


def at_least(figure: float, bar: float) -> Bar:
    """Hold a figure against a lower limit."""
    return Bar(round(figure, 4), bar, figure >= bar)


def report(name: str, figures: Mapping[str, Any], bars: Mapping[str, Bar]) -> dict[str, Any]:
    """Return the output of a benchmark."""
    return {
        "bench": name,
        "ok": all(bar.ok for bar in bars.values()),
        "bars": {what: msgspec.structs.asdict(bar) for what, bar in bars.items()},
        **figures,
        "machine": {
            "processor": platform.machine(), "cores": os.cpu_count() or 1, "python": platform.python_version(),
            "load": round(os.getloadavg()[0], 1), "calibration_ms": round(calibration_ms(), 2),
        },
    }  # fmt: skip


def calibration_ms() -> float:
    """Time a fixed loop of plain Python, in ms, by which absolute figures of two machines compare."""
    return statistics.median(timed_ms(_loop) for _ in range(9))


def _loop() -> None:
    total = 0
    for i in range(_LOOPS):
        total += i & 7


def timed_ms(work: Callable[[], Any]) -> float:
    """Return how long one call takes, in ms."""
    started = perf_counter()
    work()
    return (perf_counter() - started) * 1e3


def median(values: Iterable[float]) -> float:
    """Return the median, rounded to readable digits."""
    return round(statistics.median(values), 4)


def percentile(values: Iterable[float], share: float) -> float:
    """Return the value below which `share` (0 to 1) of the values lie."""
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))], 4)


def say(text: str) -> None:
    """Tell somebody who watches what takes so long."""
    if sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)


@contextmanager
def scratch(home: Path | None) -> Iterator[Path]:
    """Lend an empty folder, in `home` or among the temporary files, and remove it at the end."""
    if home is not None:
        home.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="edgemem-bench-", dir=home))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def mount_of(folder: Path) -> tuple[str, str]:
    """Return the kind of the folder's file system, and the device or folder that it lies on."""
    device = folder.stat().st_dev
    name = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text(errors="replace").splitlines():
        fields = line.split()
        if fields[2] == name:
            kind, source = fields[fields.index("-") + 1 :][:2]
            return kind, source
    raise LookupError(f"no mount has the device {name}")


def refuse_tmpfs(folder: Path) -> None:
    """Raise where no disk is written, so that counted bytes would flatter."""
    with suppress(LookupError):
        kind, _ = mount_of(folder)
        if kind in ("tmpfs", "ramfs"):
            raise InvalidInputError(f"{folder} is in memory ({kind}); name a folder on a disk with --home.")


def bytes_written() -> int:
    """Return the bytes that this process has had written to disks, all caches emptied."""
    os.sync()
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError as error:
        reason = f"This kernel does not count written bytes ({error.strerror})"
        raise InvalidInputError(f"{reason}; run on Linux with task accounting.") from error
    return next(int(line.split()[1]) for line in lines if line.startswith("write_bytes"))


def in_process(
    program: str, *arguments: object, timeout_s: float, advice: str, **environment: str
) -> dict[str, Any]:
    """Run a program in a fresh process of this Python, and return the figures that it prints as JSON."""
    path = os.pathsep.join(
        filter(None, (str(Path(edgemem.__file__).parent.parent), os.environ.get("PYTHONPATH")))
    )
    command = [sys.executable, "-c", program, *map(str, arguments)]
    env = {**os.environ, **environment, "PYTHONPATH": path}
    try:
        done = subprocess.run(  # noqa: S603 - a program of ours
            command, capture_output=True, text=True, timeout=timeout_s, env=env, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise EdgememError(f"A measured process took more than {timeout_s:.0f} s; {advice}.") from error
    if done.returncode:
        raise EdgememError(f"A measured process failed: {done.stderr.strip()[-300:]}")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def ticking() -> Clock:
    """Return a clock that goes on by half a minute at each reading: every run sees the same times."""
    seconds = _START

    def wall() -> float:
        nonlocal seconds
        seconds += 30.0
        return seconds

    return Clock(wall=wall, monotonic=lambda: seconds - _START)


def quiet() -> Profile:
    """Return the default profile without an embedder."""
    profile = Profile()
    return msgspec.structs.replace(profile, llama=msgspec.structs.replace(profile.llama, embedder=""))


def real_tokenizer() -> Any:
    """Return a real vocabulary with its chat template; estimates would measure nothing."""
    tokenizer = find_tokenizer()
    if tokenizer is None:
        raise ModelError("There is no vocabulary to count with; run `make`, which keeps one in a cache.")
    return tokenizer


def real_embedder() -> Path:
    """Return the file of the default embedder."""
    path = find_model(EMBEDDER)
    if path is None:
        raise ModelError(f"The embedder is missing; type: edgemem models get {EMBEDDER}")
    return path


def _noise(text: str) -> NDArray[np.int8]:
    words = min(len(text.split()), MOST_TOKENS)
    return np.random.default_rng(words).integers(-127, 128, (words, _TOKEN_NUMBERS), np.int8)


class NearlyReal(Embedder):
    """Vectors in no time, for figures of time and memory: real ones of 300 sentences, each text one of them with noise."""

    def __init__(self) -> None:
        from edgemem.llama.embedder import LlamaEmbedder

        real = LlamaEmbedder(real_embedder())
        try:
            self.fingerprint = real.fingerprint
            self._bases: NDArray[np.float32] = real.embed_texts(sentences(300, seed=5))
        finally:
            real.close()
        self.dimensions = int(self._bases.shape[1])
        self._noise = 0.6 / self.dimensions**0.5
        self.query_ms = 0.0
        """Milliseconds spent on queries, which are no cost of the memory's."""

    def embed_query(self, text: str, *, timeout_s: float | None = None) -> NDArray[np.float32]:
        """Return a unit vector, the same for the same text."""
        started = perf_counter()
        try:
            return self._embed(text)
        finally:
            self.query_ms += (perf_counter() - started) * 1e3

    def _embed(self, text: str) -> NDArray[np.float32]:
        number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
        noise = np.random.default_rng(number).standard_normal(self.dimensions, dtype=np.float32)
        vector = self._bases[number % len(self._bases)] + self._noise * noise
        unit: NDArray[np.float32] = (vector / np.linalg.norm(vector)).astype(np.float32)
        return unit

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row for each text."""
        return np.stack([self._embed(text) for text in texts])

    def encode_query(self, text: str, *, timeout_s: float | None = None) -> Encoding:
        """Return also a row of noise for each word, as the real one has one."""
        return Encoding(self.embed_query(text), _noise(text))

    def encode_texts(self, texts: Sequence[str], stop: Callable[[], bool] | None = None) -> list[Encoding]:
        """Return them for each text."""
        rows = self.embed_texts(texts) if stop is None else self.embed_until(texts, stop)
        return [Encoding(row, _noise(text)) for text, row in zip(texts, rows, strict=False)]

    def close(self) -> None:
        """Do nothing: the real model is closed already."""


def store_facts(database: Database, facts: Sequence[Known]) -> None:
    """Store facts, in one transaction."""
    database.write(
        lambda tx: [assert_fact(tx, fact.key, fact.value, scope=fact.scope, source="said") for fact in facts]
    )


def store_turns(database: Database, turns: int) -> None:
    """Store turns of two messages, in sessions of two hundred, in one transaction."""
    texts = iter(sentences(2 * turns))

    def write(tx: Transaction) -> None:
        for i in range(turns):
            messages = StoredMessage("user", next(texts)), StoredMessage("assistant", next(texts))
            session, number = divmod(i, _TURNS_A_SESSION)
            commit_turn(
                tx, Turn(f"day {session}", number, messages, owner=SPEAKER, heard=Heard(speaker=SPEAKER))
            )

    database.write(write)


class Robot:
    """The reference loop with a model that says what the script says."""

    def __init__(self, hooks: Iterable[Hook] | HookRegistry = (), *, tools: Iterable[Tool] = ()) -> None:
        self._model = ScriptedModel()
        self.loop = AgentLoop(
            self._model,
            hooks=hooks,
            instructions=INSTRUCTIONS,
            tools=[msgspec.structs.replace(tool, run=self._result) for tool in tools],
            speaker=SPEAKER,
        )
        self.schemas = [tool.schema() for tool in self.loop.tools.values()]
        self._calls: list[ScriptedCall] = []

    def turn(self, line: Line) -> TurnResult:
        """Play one line."""
        self._model.expect(line)
        self._calls = list(line.tools)
        return self.loop.run(line.say, speaker=line.speaker)

    def check(self) -> None:
        """Raise if a hook failed: a turn without memory would look cheap."""
        for failure in self.loop.hooks.failures():
            raise InvalidInputError(f"{failure.hook} failed at {failure.point}: {failure.message}")

    def _result(self, **_: Any) -> Any:
        return self._calls.pop(0).result


def tool(name: str, description: str, *arguments: str) -> Tool:
    """Return a tool whose arguments are texts; the script has its results."""
    parameters = {"type": "object", "properties": {argument: {"type": "string"} for argument in arguments}}
    return Tool(name, description, parameters, lambda: None)


KEEP_PLAN = tool("keep_plan", "Write down a plan for somebody.", "text", "who")
