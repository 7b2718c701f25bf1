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
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from edgemem.bench.machine import Looked, look_at_heat, look_at_machine
from edgemem.bench.report import calibration_ms, median, percentile, report, say, timed_ms
from edgemem.bench.turn import ask
from edgemem.errors import InvalidInputError
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
STARTED = ("import_ms", "open_ms", "opened_mb", "asked_mb")


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
