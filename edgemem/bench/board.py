"""A board in one JSON, to be compared with another board's: its parts, and the speed of the parts of a turn on it.

`format` is 1; fields of a format are never renamed. An unreadable value is null, with the reason in `missing` under its dotted
name. `board` describes the machine, `heat` its temperature `before` and `after`. In `figures`: `calibration_ms`, a loop of plain
Python; `embed_ms`, a question (`short`) and 256 tokens (`long`), on one thread and on every core; `fsync_ms`, 4 KiB appended;
`commit_ms`, one row with synchronous=full; `with_1000` and `with_10000`, with so many records: `fill_s`, `recall_ms` without the
embedding (`late`: answers at the deadline), `turn_ms` of all hooks (`before_the_model`: what a person waits for); `start_…`, a
fresh process on that memory: `import_ms`, `open_ms`, proportional memory when open and when asked; `prefill_tokens_s`.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import edgemem
from edgemem.bench import ground
from edgemem.bench.corpus import SPEAKER, household_facts, sentences
from edgemem.bench.footprint import measured
from edgemem.bench.turn import ask, figures_of
from edgemem.errors import EdgememError
from edgemem.llama.models.catalog import file_of
from edgemem.memory.home import PROFILE_FILE
from edgemem.records import Episode
from edgemem.store.db.connection import SQLITE_VERSION, vec0_version
from edgemem.store.episodes import append_episode
from edgemem.store.kinds import open_truth

if TYPE_CHECKING:
    from edgemem.memory import Memory

FORMAT = 1
IDLE_S = 3600.0
LONG_TOKENS = 256
PROMPT_TOKENS = 480
TIMES, QUICK_TIMES = 50, 15
SIZES = (1000, 10_000)
STARTS = 3
STARTED = ("import_ms", "open_ms", "opened_mb", "asked_mb")
_CPU = Path("/sys/devices/system/cpu")
_THROTTLED = (
    # A Raspberry Pi's bits since its start: under-voltage, capped, throttled.
    Path("/sys/devices/platform/soc/soc:firmware/get_throttled"),
    # How often an x86 processor was too hot.
    _CPU / "cpu0/thermal_throttle/core_throttle_count",
)


class Board:
    """Values by dotted name; an unreadable one is None, with its reason in `missing`."""

    def __init__(self) -> None:
        self.values: dict[str, dict[str, Any]] = {}
        self.missing: dict[str, str] = {}

    def look(self, name: str, how: Callable[[], Any]) -> Any:
        """Take a value, or the reason why there is none."""
        try:
            value = how()
        except OSError as error:
            return self.lack(name, f"{error.filename or name}: {error.strerror or error}")
        except (ValueError, LookupError, ImportError, EdgememError) as error:
            return self.lack(name, str(error) or type(error).__name__)
        self._put(name, value)
        return value

    def lack(self, name: str, reason: str) -> None:
        """Note that there is no such value here."""
        self._put(name, None)
        self.missing[name] = " ".join(reason.split())

    def _put(self, name: str, value: Any) -> None:
        part, _, key = name.rpartition(".")
        self.values.setdefault(part, {})[key] = value


def run(*, quick: bool = False, llm: str | None = None, home: Path | None = None) -> dict[str, Any]:
    """Measure this board in about a minute; `make lab ARGS=boards` compares two.

    `quick` leaves out the 10,000 records; `llm`, by name or as a file, has its prefill measured; `home` is on the measured disk.
    """
    times = QUICK_TIMES if quick else TIMES
    board = Board()
    look = board.look
    with ground.scratch(home) as folder:
        for name, how in _machine(folder).items():
            look(f"board.{name}", how)
        look_at_heat(board, "before")
        look("figures.calibration_ms", lambda: round(ground.calibration_ms(), 2))
        ground.say("the disk …")
        look("figures.fsync_ms", partial(_fsync, folder, times))
        look("figures.commit_ms", partial(_commits, folder, times))
        ground.say("the embedder …")
        look("figures.embed_ms", partial(_embed, times))
        embedder = look("board.embedder", ground.NearlyReal)
        tokenizer = look("board.tokenizer", ground.real_tokenizer)
        board.values["board"] |= {
            "embedder": embedder and ground.EMBEDDER,
            "tokenizer": tokenizer and "qwen2",
        }
        for size in SIZES[: 1 if quick else None]:
            ground.say(f"a memory of {size:,} records …")
            place = folder / str(size)
            look(f"figures.with_{size}", partial(_sized, place, size, times, embedder, tokenizer))
            look(f"figures.start_{size}", partial(_start, place, embedder))
        if tokenizer is not None:
            tokenizer.close()
        if quick:
            for part in ("with", "start"):
                board.lack(f"figures.{part}_{SIZES[-1]}", "left out by --quick")
        if llm is None:
            board.lack("figures.prefill_tokens_s", "no chat model was named with --llm")
        else:
            ground.say("the chat model …")
            look("figures.prefill_tokens_s", partial(_prefill, llm, 2 if quick else 5))
        look_at_heat(board, "after")
    values = board.values
    parts = {
        "format": FORMAT,
        "board": values["board"],
        "heat": {when: values[f"heat.{when}"] for when in ("before", "after")},
        "figures": values["figures"],
        "missing": board.missing,
    }
    return ground.report("board", parts, {})


def _fsync(folder: Path, times: int) -> dict[str, float]:
    block = os.urandom(4096)
    with (folder / "synced").open("ab", buffering=0) as file:

        def sync() -> None:
            file.write(block)
            os.fsync(file.fileno())

        return _spread([ground.timed_ms(sync) for _ in range(times)])


def _commits(folder: Path, times: int) -> dict[str, float]:
    with open_truth(folder / "commits.db") as db:
        payload = {"name": "set_light", "args": {"room": "hall"}, "result": "on", "error": None}
        episode = Episode("tool_call", payload, "ok", level="shared")

        def commit() -> None:
            db.write(lambda tx: append_episode(tx, episode, keep=0))

        commit()  # the first one also extends the log
        return _spread([ground.timed_ms(commit) for _ in range(times)])


def _embed(times: int) -> dict[str, Any]:
    from edgemem.llama.embedder import LlamaEmbedder

    figures: dict[str, Any] = {}
    short = [fact.question for fact in household_facts(times)]
    # A sentence is some 12 tokens; the embedder cuts off the rest.
    long = [" ".join(sentences(LONG_TOKENS // 6, seed=n)) for n in range(1 + times // 5)]
    for name, threads in (("1_thread", 1), ("every_core", os.cpu_count() or 1)):
        with LlamaEmbedder(ground.real_embedder(), n_ctx=LONG_TOKENS, threads=threads) as embedder:
            embedder.embed_query("Is somebody there?")  # loads the model
            figures[f"short_{name}"] = ground.median(
                ground.timed_ms(partial(embedder.embed_query, text)) for text in short
            )
            figures[f"long_{name}"] = ground.median(
                ground.timed_ms(partial(embedder.embed_texts, [text])) for text in long
            )
    return figures


def _sized(
    home: Path, size: int, times: int, embedder: ground.NearlyReal | None, tokenizer: Any
) -> dict[str, Any]:
    stored = household_facts(size // 2)
    with edgemem.open(
        home,
        profile=None if embedder else ground.quiet(),
        embedder=embedder,
        tokenizer=tokenizer,
        worker=False,
    ) as memory:

        def fill() -> None:
            ground.store_facts(memory.diagnostics.database, stored)
            ground.store_turns(memory.diagnostics.database, size // 4)
            memory.idle(IDLE_S)

        fill_s = ground.timed_ms(fill) / 1e3
        questions = [fact.question for fact in stored[:: max(1, size // 2 // times)][:times]]
        recall_ms = _recalled(memory, embedder, questions)
        asked = figures_of(ask(memory, embedder, stored, times))
    return {
        "fill_s": round(fill_s, 2),
        "recall_ms": recall_ms,
        "turn_ms": {
            "median": asked["hooks_ms"],
            "p95": asked["hooks_p95_ms"],
            "before_the_model": asked["before_the_model_ms"],
        },
    }


def _recalled(memory: Memory, embedder: ground.NearlyReal | None, questions: list[str]) -> dict[str, Any]:
    taken, late = [], 0
    for question in questions:
        before = embedder.query_ms if embedder else 0.0
        ms = ground.timed_ms(partial(memory.recall, question, speaker=SPEAKER))
        taken.append(ms - ((embedder.query_ms if embedder else 0.0) - before))
        late += memory.diagnostics.search.last.late
    return {**_spread(taken), "late": late}


def _start(home: Path, embedder: ground.NearlyReal | None) -> dict[str, float]:
    if embedder is None:
        (home / PROFILE_FILE).write_text('[llama]\nembedder = ""\n')
    # The first one compiles.
    started = [measured(home, household_facts(1)[0].question) for _ in range(1 + STARTS)][1:]
    return {name: ground.median(start[name] for start in started) for name in STARTED}


def _prefill(llm: str, times: int) -> dict[str, Any]:
    from edgemem.llama.chat import LlamaChat

    rates = []
    with LlamaChat(file_of(llm), n_ctx=1024) as chat:
        for n in range(times + 1):
            prompt, rest = "", iter(sentences(PROMPT_TOKENS, seed=n))
            while chat.tokenizer.count([{"role": "user", "content": prompt}]) < PROMPT_TOKENS:
                prompt = f"{prompt} {next(rest)}".strip()
            asked = [{"role": "user", "content": prompt}]
            ms = ground.timed_ms(lambda asked=asked: list(chat.stream(asked, max_tokens=1)))  # type: ignore[misc]
            rates.append(chat.last.evaluated_tokens / ms * 1e3)
    # The first one also brings the weights into memory.
    return {
        "median": ground.median(rates[1:]),
        "prompt_tokens": chat.last.prompt_tokens,
        "model": Path(llm).name,
    }


def _spread(values: list[float]) -> dict[str, float]:
    return {"median": ground.median(values), "p95": ground.percentile(values, 0.95)}


def _machine(folder: Path) -> dict[str, Callable[[], Any]]:
    from edgemem.llama import backend

    return {
        "model": _model,
        "cpu": _cpu,
        "cores": os.cpu_count,
        "max_mhz": lambda: int(_text(_CPU / "cpu0/cpufreq/cpuinfo_max_freq")) / 1e3,
        "governor": lambda: _text(_CPU / "cpu0/cpufreq/scaling_governor"),
        "ram_mb": lambda: round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e6),
        "page_bytes": lambda: os.sysconf("SC_PAGE_SIZE"),
        "kernel": lambda: f"{platform.system()} {platform.release()} {platform.machine()}",
        "system": lambda: platform.freedesktop_os_release()["PRETTY_NAME"],
        "file_system": lambda: ground.mount_of(folder)[0],
        "disk": lambda: ground.mount_of(folder)[1],
        "disk_rotates": lambda: _rotates(folder),
        "python": platform.python_version,
        "sqlite": lambda: SQLITE_VERSION,
        "sqlite_vec": _sqlite_vec,
        "llama_cpp_python": lambda: str(backend.llama().__version__),
        "llama_cpp_features": lambda: " ".join(
            backend.llama().llama_print_system_info().decode("utf-8", "replace").split()
        ).strip(" |"),
    }


def look_at_heat(board: Board, when: str) -> None:
    """Look at what may slow the board down now."""
    board.look(f"heat.{when}.temperature_c", _temperature)
    board.look(f"heat.{when}.throttled", _throttled)
    board.look(f"heat.{when}.mhz", lambda: int(_text(_CPU / "cpu0/cpufreq/scaling_cur_freq")) / 1e3)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace").strip(" \n\0")


def _model() -> str:
    board = Path("/proc/device-tree/model")
    return _text(board if board.exists() else Path("/sys/class/dmi/id/product_name"))


def _cpu() -> str:
    lines = _text(Path("/proc/cpuinfo")).splitlines()
    fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if "model name" in fields:
        return fields["model name"]
    return f"implementer {fields['CPU implementer']}, part {fields['CPU part']}"


def _temperature() -> float:
    """Return the hottest zone's temperature, in degrees Celsius."""
    zones = sorted(Path("/sys/class/thermal").glob("thermal_zone*/temp"))
    if not zones:
        raise LookupError("the kernel shows no thermal zone")
    return max(int(_text(zone)) for zone in zones) / 1e3


def _throttled() -> str:
    for path in _THROTTLED:
        if path.exists():
            return _text(path)
    raise LookupError("the kernel does not tell")


def _rotates(folder: Path) -> bool:
    device = folder.stat().st_dev
    disk = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve(strict=True)
    # A partition's queue is that of its disk.
    queue = next(path for path in (disk / "queue", disk.parent / "queue") if path.is_dir())
    return _text(queue / "rotational") == "1"


def _sqlite_vec() -> str:
    version = vec0_version()
    if version is None:
        raise LookupError("this Python's SQLite cannot load it")
    return version
