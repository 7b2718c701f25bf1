"""The profile: every bound and budget of the system, read from TOML into frozen Structs.

`configs/default.toml` holds every key with its default; a home's `edgemem.toml` needs only the keys that differ.
A misspelt key, a wrong type or an impossible value is refused with one sentence that names the key.
"""

from __future__ import annotations

import difflib
import math
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import msgspec

from edgemem.errors import ConfigError
from edgemem.records import Level

_MOST = 2**31 - 1  # what every database and every C library can count to
Count = Annotated[int, msgspec.Meta(ge=1, le=_MOST)]
CountOrZero = Annotated[int, msgspec.Meta(ge=0, le=_MOST)]
Amount = Annotated[float, msgspec.Meta(gt=0)]
AmountOrZero = Annotated[float, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One table of a profile."""


class MemorySettings(_Section, frozen=True):
    """`[memory]`: what holds for all that is remembered."""

    default_level: Level = "household"
    """Who may read what is said aloud, unless it says otherwise: a family's robot, closed to strangers."""


class StoreSettings(_Section, frozen=True):
    """`[store]`: the truth on disk."""

    busy_timeout_s: Amount = 5.0
    """Seconds to wait for another process that writes; longer than any commit on an SD card."""
    commit_wait_s: AmountOrZero = 0.25
    """Seconds that the end of a turn waits for its commit; a slower disk finishes while speech plays."""
    max_episodes: Count = 500
    """Episodes kept, as in the EdgeVox memory module; older ones are erased."""
    wal_limit_mb: Amount = 16.0
    """Megabytes of log after which it is moved into the database; small enough to be copied in idle time."""


class NotesSettings(_Section, frozen=True):
    """`[notes]`: NOTES.md."""

    max_chars: CountOrZero = 65536
    """Characters that the file may hold, as in the EdgeVox memory module; 0: no bound."""
    low_water_chars: Count = 49152
    """Characters kept when the bound is reached; the gap lets many notes be appended before the next rewrite."""
    inject_chars: CountOrZero = 600
    """Characters of the file's end shown to the model: about 150 tokens, once an epoch."""

    def __post_init__(self) -> None:
        """Check what one field alone cannot tell."""
        if self.max_chars and self.low_water_chars >= self.max_chars:
            raise ValueError("`low_water_chars` must be below `max_chars`")


class RecallSettings(_Section, frozen=True):
    """`[recall]`: finding."""

    deadline_ms: Amount = 150.0
    """Milliseconds for one recall; past them it answers with what it has, and a pause stays unnoticed."""
    query_embed_ms: Amount = 80.0
    """Milliseconds of them for embedding the query; past them words alone find."""
    k: Count = 5
    """Items that one recall returns: what fits a block of 80 tokens."""
    candidates: Count = 64
    """Items that each signal hands over to the fusion; more cost time and seldom change the first five."""
    words_weight: AmountOrZero = 0.6
    """Weight of full text in the fusion."""
    meaning_weight: AmountOrZero = 0.4
    """Weight of the embedding in the fusion."""
    neighbour_weight: Share = 0.3
    """Part of a turn's score that the turns beside it get: an answer often stands after its question."""


class ContextSettings(_Section, frozen=True):
    """`[context]`: what the model sees."""

    window_tokens: Count = 4096
    """Tokens of the chat model's context window; what small boards can hold."""
    reply_tokens: Count = 256
    """Tokens of the window kept free for the reply: a spoken answer of a minute and a half."""
    block_tokens: CountOrZero = 80
    """Tokens of memory put before one utterance; on a small board each costs 10 to 90 ms of silence."""
    high_water: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.92
    """Part of the room for the prompt at which older turns are compacted; two or three turns still fit then."""
    low_water: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.5
    """Part of the room that a compaction leaves filled, so that the next one is far away."""
    summary_tokens: Count = 300
    """Tokens of the summary that stands for compacted turns."""
    keep_last_turns: Count = 4
    """Turns that a compaction never touches: what `it` and `there` refer to."""

    def __post_init__(self) -> None:
        """Check what one field alone cannot tell."""
        if self.low_water >= self.high_water:
            raise ValueError("`low_water` must be below `high_water`")
        if self.reply_tokens + self.block_tokens + self.summary_tokens >= self.window_tokens:
            raise ValueError(
                "`reply_tokens`, `block_tokens` and `summary_tokens` together must be below `window_tokens`"
            )


class InjectionSettings(_Section, frozen=True):
    """`[injection]`: which memory is put before an utterance."""

    header: str = ""
    """A line that opens the block; each of its tokens is paid for in every turn that injects."""
    max_facts: CountOrZero = 20
    """Facts that are considered, as in the EdgeVox memory module."""
    max_episodes: CountOrZero = 5
    """Episodes that are considered, as in the EdgeVox memory module."""
    max_chars: CountOrZero = 1200
    """Characters that are considered before tokens are counted."""
    min_score: Share = 0.18
    """Score below which no fact, preference or note is injected: a wrong memory is worse than none."""
    min_asked_score: Share = 0.09
    """The same for the best fact when somebody asks: a question in other words than the fact scores low."""
    min_episode_score: Share = 0.3
    """The same for what tools did."""
    min_turn_score: Share = 0.4
    """The same for what was said: long, and seldom the answer by itself."""


class LlamaSettings(_Section, frozen=True):
    """`[llama]`: models on llama.cpp."""

    embedder: str = "all-minilm-l6-v2"
    """The model that embeds, by its name in the catalogue or a GGUF file; empty: recall by words only."""
    embed_threads: Count = 1
    """Threads for embedding; more make the slowest case explode beside speech recognition."""
    embed_context: Annotated[int, msgspec.Meta(ge=32)] = 256
    """Tokens of one text that are embedded; a turn is shorter, and memory grows with it."""
    chat_threads: CountOrZero = 0
    """Threads of the chat model; 0: as many as llama.cpp finds good."""


class IdleSettings(_Section, frozen=True):
    """`[idle]`: upkeep while nobody speaks."""

    settle_s: AmountOrZero = 0.5
    """Seconds of quiet before upkeep begins; people pause within a sentence."""
    index_rows: Count = 60
    """Rows that are indexed together, about twenty turns: each commit of the index writes many pages, and fewer rows are
    searched directly."""
    index_wait_s: AmountOrZero = 600.0
    """Seconds after which rows are indexed even if they are fewer, so that their meaning is found as well."""
    batch: Count = 200
    """Records that one step indexes; fewer at a time write more bytes."""
    embed_batch: Count = 16
    """Records that one step embeds; a query aborts it, so this only bounds what is done again."""


class Profile(_Section, frozen=True):
    """All settings; one attribute for each table of the file."""

    memory: MemorySettings = MemorySettings()
    store: StoreSettings = StoreSettings()
    notes: NotesSettings = NotesSettings()
    recall: RecallSettings = RecallSettings()
    context: ContextSettings = ContextSettings()
    injection: InjectionSettings = InjectionSettings()
    llama: LlamaSettings = LlamaSettings()
    idle: IdleSettings = IdleSettings()


def load_profile(path: Path | str | None) -> Profile:
    """Return the profile in a TOML file; the defaults where it says nothing, or where there is no path.

    Raises:
        ConfigError: the file cannot be read, or a key or value in it is not one.
    """
    if path is None:
        return Profile()
    file = Path(path).expanduser()
    try:
        read = msgspec.toml.decode(file.read_bytes())
    except OSError as error:
        raise ConfigError(f"{file} cannot be read ({error.strerror}); name a profile that exists.") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is not TOML: {error}. Mend the file.") from error
    _check_names(file, read)
    try:
        return msgspec.convert(read, Profile)
    except msgspec.ValidationError as error:
        raise ConfigError(_told(file, str(error), read)) from error


def profile_named(name: str) -> Profile:
    """Return a profile that comes with edgemem, such as `pi5`.

    Raises:
        ConfigError: there is none of that name.
    """
    names = profile_names()
    if name not in names:
        raise ConfigError(f"There is no profile {name!r}; {_nearest(name, names)}.")
    return load_profile(_folder() / f"{name}.toml")


def profile_names() -> list[str]:
    """Return the names of the profiles that come with edgemem."""
    return sorted(path.stem for path in _folder().glob("*.toml"))


def _folder() -> Path:
    """Return where profiles lie: beside the package in a checkout, inside of it when installed from a wheel."""
    package = Path(__file__).parent
    wheel = package / "_configs"
    return wheel if wheel.is_dir() else package.parent / "configs"


def _check_names(file: Path, read: dict[str, Any]) -> None:
    sections = {field.name: field.type for field in msgspec.structs.fields(Profile)}
    for section, values in read.items():
        if section not in sections:
            raise ConfigError(f"{file}: there is no section [{section}]; {_nearest(section, sections)}.")
        if not isinstance(values, dict):
            raise ConfigError(f"{file}: [{section}] must be a section with keys of its own.")
        keys = [field.name for field in msgspec.structs.fields(sections[section])]
        for key, value in values.items():
            if key not in keys:
                raise ConfigError(f"{file}: there is no key {section}.{key}; {_nearest(key, keys)}.")
            if isinstance(value, float) and not math.isfinite(value):
                raise ConfigError(f"{file}: {section}.{key} must be a number that ends, not {value}.")


def _nearest(name: str, valid: Any) -> str:
    found = difflib.get_close_matches(name, list(valid), n=1, cutoff=0.5)
    return f"perhaps {found[0]} was meant" if found else f"use one of {', '.join(sorted(valid))}"


def _told(file: Path, message: str, read: dict[str, Any]) -> str:
    """Turn `Expected …, got … - at `$.section.key`` into a sentence."""
    what, _, place = message.partition(" - at ")
    where = place.strip("`").removeprefix("$.")
    section, _, key = where.partition(".")
    if not key:
        return f"{file}: [{section}]: {what}."
    value = cast("dict[str, Any]", read[section])[key]
    expected = what.removeprefix("Expected ").partition(", got")[0].replace("`", "")
    kind, _, bound = expected.partition(" ")
    expected = " ".join((_KINDS.get(kind, kind), bound)).strip()
    if what.startswith("Invalid enum"):
        expected = f"one of {', '.join(get_args(Level))}"
    return f"{file}: {where} must be {expected}, not {value!r}."


_KINDS = {"int": "a whole number", "float": "a number", "str": "text"}
