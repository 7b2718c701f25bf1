"""A board in one JSON, to be compared with another board's: what it is, and how fast the parts of a turn are on it.

`format` is 1; fields of a format are never renamed. What cannot be read is null, with the reason in `missing` under
its dotted name. `board` tells what the machine is, `heat` how hot it was `before` and `after`. In `figures`:

- `calibration_ms`: a fixed loop of plain Python, the only figure that has nothing to do with edgemem;
- `embed_ms`: a question (`short`) and a text of 256 tokens (`long`), on one thread (the default) and on every core;
- `fsync_ms`: 4 KiB appended and synced; `commit_ms`: one row in a transaction with synchronous=full; each with a `p95`;
- `with_1000`, `with_10000`: with so many records, half facts, half messages: `fill_s`, to store and index them;
  `recall_ms`, the embedding of the question left out (`late`: how many of the answers hit the deadline); `turn_ms`, all
  hooks of a turn with a tool call (`before_the_model` is what a person waits for);
- `start_1000`, `start_10000`: a fresh process on that memory: `import_ms`, `open_ms`, and its proportional resident
  memory when it is open (`opened_mb`) and when it has been asked, with the embedder (`asked_mb`);
- `prefill_tokens_s`: prompt tokens a second of the chat model given.
"""

from __future__ import annotations

import json
import os
import platform
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

import edgemem
from edgemem.bench.corpus import SPEAKER, Known, known, sentences
from edgemem.bench.footprint import measured
from edgemem.bench.ground import (
    EMBEDDER,
    NearlyReal,
    quiet,
    real_embedder,
    real_tokenizer,
    scratch,
    store_facts,
    store_turns,
)
from edgemem.bench.report import calibration_ms, median, percentile, report, say, timed_ms
from edgemem.bench.turn import ask
from edgemem.errors import EdgememError, InvalidInputError
from edgemem.llama.models.catalog import file_of
from edgemem.memory.home import PROFILE_FILE
from edgemem.store.db.database import Database
from edgemem.store.episodes import append_episode

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.memory import Memory

FORMAT = 1
IDLE_S = 3600.0
LONG_TOKENS = 256
PROMPT_TOKENS = 480
TIMES, QUICK_TIMES = 50, 15
SIZES = (1000, 10_000)
STARTS = 3
_CPU = Path("/sys/devices/system/cpu")
_THROTTLED = (
    # A Raspberry Pi's bits since it was started: under-voltage, capped, throttled.
    Path("/sys/devices/platform/soc/soc:firmware/get_throttled"),
    # How often an x86 processor was too hot.
    _CPU / "cpu0/thermal_throttle/core_throttle_count",
)
STARTED = ("import_ms", "open_ms", "opened_mb", "asked_mb")


class Looked(msgspec.Struct):
    """Values by name; what could not be had is None there, and has its reason in `missing`."""

    values: dict[str, Any] = {}
    missing: dict[str, str] = {}

    def look(self, name: str, how: Callable[[], Any]) -> Any:
        """Take a value, or the reason why there is none."""
        try:
            self.values[name] = how()
        except OSError as error:
            self.lack(name, f"{error.filename or name}: {error.strerror or error}")
        except (ValueError, LookupError, ImportError, EdgememError) as error:
            self.lack(name, str(error) or type(error).__name__)
        return self.values[name]

    def lack(self, name: str, reason: str) -> None:
        """Note that there is no such value here."""
        self.values[name] = None
        self.missing[name] = " ".join(reason.split())


def run(
    *,
    quick: bool = False,
    llm: str | None = None,
    compare: tuple[Path, Path] | None = None,
    home: Path | None = None,
) -> dict[str, Any]:
    """Measure this board in about a minute, or compare two that were measured.

    Args:
        quick: fewer times, and without the 10,000 records.
        llm: a chat model, by name or as a file, whose prefill is measured as well.
        compare: two files that `edgemem bench board --json` wrote; nothing is measured then.
        home: where scratch files go, and so the disk that is measured; default: the temporary files.
    """
    if compare is not None:
        return _compared(*compare)
    times = QUICK_TIMES if quick else TIMES
    figures = Looked()
    with scratch(home) as folder:
        board, before = look_at_machine(folder), look_at_heat()
        figures.values["calibration_ms"] = round(calibration_ms(), 2)
        say("the disk …")
        figures.look("fsync_ms", partial(_fsync, folder, times))
        figures.look("commit_ms", partial(_commits, folder, times, board))
        say("the embedder …")
        figures.look("embed_ms", partial(_embed, times))
        embedder = _named(board, "embedder", EMBEDDER, NearlyReal)
        tokenizer = _named(board, "tokenizer", "qwen2", real_tokenizer)
        for size in SIZES[: 1 if quick else None]:
            say(f"a memory of {size:,} records …")
            place = folder / str(size)
            figures.look(f"with_{size}", partial(_sized, place, size, times, embedder, tokenizer))
            figures.look(f"start_{size}", partial(_start, place, embedder))
        if tokenizer is not None:
            tokenizer.close()
        if quick:
            for part in ("with", "start"):
                figures.lack(f"{part}_{SIZES[-1]}", "left out by --quick")
        if llm is None:
            figures.lack("prefill_tokens_s", "no chat model was named with --llm")
        else:
            say("the chat model …")
            figures.look("prefill_tokens_s", partial(_prefill, llm, 2 if quick else 5))
        after = look_at_heat()
    named = {"board": board, "figures": figures, "heat.before": before, "heat.after": after}
    missing = {f"{part}.{name}": why for part, seen in named.items() for name, why in seen.missing.items()}
    parts = {
        "format": FORMAT,
        "board": board.values,
        "heat": {"before": before.values, "after": after.values},
        "figures": figures.values,
        "missing": missing,
    }
    return report("board", parts, {})


def _named(board: Looked, part: str, name: str, how: Callable[[], Any]) -> Any:
    """Return something that is measured with, and note its name, or why it is not here."""
    thing = board.look(part, how)
    if thing is not None:
        board.values[part] = name
    return thing


# The parts


def _fsync(folder: Path, times: int) -> dict[str, float]:
    block = os.urandom(4096)
    with (folder / "synced").open("ab", buffering=0) as file:

        def sync() -> None:
            file.write(block)
            os.fsync(file.fileno())

        return _spread([timed_ms(sync) for _ in range(times)])


def _commits(folder: Path, times: int, board: Looked) -> dict[str, float]:
    with Database(folder / "commits.db", load_vec=True) as db:
        board.values["sqlite"] = str(db.query("select sqlite_version()")[0][0])
        board.values["sqlite_vec"] = db.vec_version
        if db.vec_version is None:
            board.missing["sqlite_vec"] = "this Python's SQLite cannot load it"
        payload = {"name": "set_light", "args": {"room": "hall"}, "result": "on", "error": None}

        def commit() -> None:
            db.write(lambda tx: append_episode(tx, "tool_call", payload, "ok", keep=0))

        commit()  # the first one also extends the log
        return _spread([timed_ms(commit) for _ in range(times)])


def _embed(times: int) -> dict[str, Any]:
    from edgemem.llama.embedder import LlamaEmbedder

    figures: dict[str, Any] = {}
    questions = [fact.question for fact in known(times)]
    # A sentence is some 12 tokens; what is over is cut off by the embedder.
    long = [" ".join(sentences(LONG_TOKENS // 6, seed=n)) for n in range(1 + times // 5)]
    cores = os.cpu_count() or 1
    for name, threads in (("1_thread", 1), ("every_core", cores)):
        embedder = LlamaEmbedder(real_embedder(), n_ctx=LONG_TOKENS, threads=threads)
        try:
            embedder.embed_query("Is somebody there?")  # loads the model
            figures[f"short_{name}"] = median(
                timed_ms(partial(embedder.embed_query, text)) for text in questions
            )
            figures[f"long_{name}"] = median(timed_ms(partial(embedder.embed_texts, [text])) for text in long)
        finally:
            embedder.close()
    return figures


def _sized(home: Path, size: int, times: int, embedder: NearlyReal | None, tokenizer: Any) -> dict[str, Any]:
    """Measure a memory of so many records; without an embedder, one that finds by words."""
    stored = known(size // 2)
    with edgemem.open(
        home, profile=None if embedder else quiet(), embedder=embedder, tokenizer=tokenizer, worker=False
    ) as memory:
        fill_s = timed_ms(partial(_fill, memory, stored, size)) / 1e3
        recall_ms = _recalled(memory, embedder, stored, times)
        asked = ask(memory, embedder, stored, times).figures()
    return {
        "fill_s": round(fill_s, 2),
        "recall_ms": recall_ms,
        "turn_ms": {
            "median": asked["hooks_ms"],
            "p95": asked["hooks_p95_ms"],
            "before_the_model": asked["before_the_model_ms"],
        },
    }


def _start(home: Path, embedder: NearlyReal | None) -> dict[str, float]:
    """Start processes on a memory that was measured."""
    if embedder is None:
        (home / PROFILE_FILE).write_text('[llama]\nembedder = ""\n')
    # The first one compiles.
    started = [measured(home, known(1)[0].question) for _ in range(1 + STARTS)][1:]
    return {name: median(start[name] for start in started) for name in STARTED}


def _fill(memory: Memory, facts: list[Known], size: int) -> None:
    store_facts(memory, facts)
    store_turns(memory, size // 4)
    memory.idle(IDLE_S)


def _recalled(memory: Memory, embedder: NearlyReal | None, facts: list[Known], times: int) -> dict[str, Any]:
    taken, late = [], 0
    for fact in facts[:: max(1, len(facts) // times)][:times]:
        before = embedder.query_ms if embedder else 0.0
        ms = timed_ms(partial(memory.recall, fact.question, speaker=SPEAKER))
        taken.append(ms - ((embedder.query_ms if embedder else 0.0) - before))
        late += memory.last_recall().late
    return {**_spread(taken), "late": late}


def _prefill(llm: str, times: int) -> dict[str, Any]:
    """Let a chat model read prompts of which it has seen nothing but the instructions."""
    from edgemem.llama.chat import LlamaChat

    rates = []
    with LlamaChat(file_of(llm), n_ctx=1024) as chat:
        count = chat.tokenizer.count
        for n in range(times + 1):
            prompt = ""
            for sentence in sentences(PROMPT_TOKENS, seed=n):
                if count([{"role": "user", "content": prompt}]) >= PROMPT_TOKENS:
                    break
                prompt += f" {sentence}"
            asked = [{"role": "user", "content": prompt.strip()}]
            ms = timed_ms(lambda asked=asked: list(chat.stream(asked, max_tokens=1)))  # type: ignore[misc]
            rates.append(chat.last.evaluated_tokens / ms * 1e3)
    # The first one also brings the weights into memory.
    return {"median": median(rates[1:]), "prompt_tokens": chat.last.prompt_tokens, "model": Path(llm).name}


def _spread(values: list[float]) -> dict[str, float]:
    return {"median": median(values), "p95": percentile(values, 0.95)}


# The machine: read from the kernel where it tells, and a reason where it does not


def look_at_machine(folder: Path) -> Looked:
    """Look at the board, its processor, its memory, the disk of a folder, and what Python, SQLite and llama.cpp are."""
    seen = Looked()
    look = seen.look
    look("model", _model)
    look("cpu", _cpu)
    look("cores", os.cpu_count)
    look("max_mhz", lambda: int(_text(_CPU / "cpu0/cpufreq/cpuinfo_max_freq")) / 1e3)
    look("governor", lambda: _text(_CPU / "cpu0/cpufreq/scaling_governor"))
    look("ram_mb", lambda: round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e6))
    look("page_bytes", lambda: os.sysconf("SC_PAGE_SIZE"))
    look("kernel", lambda: f"{platform.system()} {platform.release()} {platform.machine()}")
    look("system", lambda: platform.freedesktop_os_release()["PRETTY_NAME"])
    look("file_system", lambda: _mount(folder)[0])
    look("disk", lambda: _mount(folder)[1])
    look("disk_rotates", lambda: _rotates(folder))
    look("python", platform.python_version)
    look("llama_cpp_python", _llama_version)
    look("llama_cpp_features", _llama_features)
    return seen


def look_at_heat() -> Looked:
    """Look at what may slow the board down just now."""
    seen = Looked()
    seen.look("temperature_c", _temperature)
    seen.look("throttled", _throttled)
    seen.look("mhz", lambda: int(_text(_CPU / "cpu0/cpufreq/scaling_cur_freq")) / 1e3)
    return seen


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace").strip(" \n\0")


def _model() -> str:
    """Return the name of the board, or of the PC."""
    board = Path("/proc/device-tree/model")
    return _text(board if board.exists() else Path("/sys/class/dmi/id/product_name"))


def _cpu() -> str:
    """Return the processor's name; ARM kernels give numbers only."""
    lines = _text(Path("/proc/cpuinfo")).splitlines()
    fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if "model name" in fields:
        return fields["model name"]
    return f"implementer {fields['CPU implementer']}, part {fields['CPU part']}"


def _temperature() -> float:
    """Return the hottest zone, in degrees Celsius."""
    zones = sorted(Path("/sys/class/thermal").glob("thermal_zone*/temp"))
    if not zones:
        raise LookupError("the kernel shows no thermal zone")
    return max(int(_text(zone)) for zone in zones) / 1e3


def _throttled() -> str:
    for path in _THROTTLED:
        if path.exists():
            return _text(path)
    raise LookupError("the kernel does not tell")


def _mount(folder: Path) -> tuple[str, str]:
    """Return the kind of the folder's file system, and what it lies on."""
    device = folder.stat().st_dev
    name = f"{os.major(device)}:{os.minor(device)}"
    for line in _text(Path("/proc/self/mountinfo")).splitlines():
        fields = line.split()
        if fields[2] == name:
            kind, source = fields[fields.index("-") + 1 :][:2]
            return kind, source
    raise LookupError(f"no mount has the device {name}")


def _rotates(folder: Path) -> bool:
    device = folder.stat().st_dev
    disk = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve(strict=True)
    # A partition's queue is that of the disk that it is part of.
    queue = next(path for path in (disk / "queue", disk.parent / "queue") if path.is_dir())
    return _text(queue / "rotational") == "1"


def _llama_version() -> str:
    from edgemem.llama import backend

    return str(backend.llama().__version__)


def _llama_features() -> str:
    """Return which instructions llama.cpp was built for and found."""
    from edgemem.llama import backend

    features: bytes = backend.llama().llama_print_system_info()
    return re.sub(r"\s+", " ", features.decode("utf-8", "replace")).strip(" |")


# Comparing


def _compared(first: Path, second: Path) -> dict[str, Any]:
    boards = [_read(path) for path in (first, second)]
    names = [first.stem, second.stem] if first.stem != second.stem else [str(first), str(second)]
    flat = [
        dict(_leaves({part: board.get(part) for part in ("board", "heat", "figures")})) for board in boards
    ]
    sides = {}
    for name in dict.fromkeys((*flat[0], *flat[1])):
        left, right = (values.get(name) for values in flat)
        sides[name.partition(".")[2]] = {names[0]: left, names[1]: right, "ratio": _ratio(left, right)}
    return {"bench": "board", "format": FORMAT, "compared": [str(first), str(second)], "side_by_side": sides}


def _read(path: Path) -> dict[str, Any]:
    try:
        board = json.loads(path.expanduser().read_bytes())
    except OSError as error:
        raise InvalidInputError(
            f"{path} cannot be read ({error.strerror}); name what `edgemem bench board --json` wrote."
        ) from error
    except ValueError as error:
        raise InvalidInputError(
            f"{path} is not JSON; name what `edgemem bench board --json` wrote."
        ) from error
    if not isinstance(board, dict) or board.get("bench") != "board":
        raise InvalidInputError(f"{path} is no board; name what `edgemem bench board --json` wrote.")
    if board.get("format") != FORMAT:
        raise InvalidInputError(
            f"{path} has format {board.get('format')!r} and this edgemem reads {FORMAT}; measure that board again."
        )
    return board


def _leaves(value: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    leaves: list[tuple[str, Any]] = []
    for name, inner in value.items():
        leaves += (
            _leaves(inner, f"{prefix}{name}.") if isinstance(inner, dict) else [(f"{prefix}{name}", inner)]
        )
    return leaves


def _ratio(left: Any, right: Any) -> float | None:
    """Return how many times the first the second is; None where one is no number."""
    numbers = all(isinstance(side, (int, float)) and not isinstance(side, bool) for side in (left, right))
    return round(right / left, 3) if numbers and left else None
