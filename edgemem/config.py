"""The profile: every bound and budget of a robot, read from TOML into frozen Structs; its faults; the settings that hold now.

Here too is how any file is read that others may have put where it lies: regular ones alone, and bounded.

`configs/default.toml` holds every key with its default; a home's `edgemem.toml` needs only the keys that differ.
A misspelt key, a wrong type or an impossible value is refused with one sentence that names the key.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Collection
from datetime import tzinfo
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, cast, get_args

import msgspec

from edgemem.errors import ConfigError
from edgemem.scopes import Level, name_key

_MOST = 2**31 - 1  # what every database and every C library can count to
Count = Annotated[int, msgspec.Meta(ge=1, le=_MOST)]
CountOrZero = Annotated[int, msgspec.Meta(ge=0, le=_MOST)]
Amount = Annotated[float, msgspec.Meta(gt=0, le=_MOST)]
AmountOrZero = Annotated[float, msgspec.Meta(ge=0, le=_MOST)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]

LEAST_HISTORY_TOKENS = 64
"""What a window must have for the conversation: one sentence, and the answer to the one before it."""

LEAST_TURN_TOKENS = 16  # what two messages of a word or two take, with the markers of their template

MOST_NAMES = 64
"""Of speakers, and of names for one of them, and of letters in one: a family, not a telephone book."""

MOST_BYTES = 1 << 20
"""Of a file that people write by hand, such as a profile or a hook."""

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_KINDS = {"int": "a whole number", "float": "a number", "str": "text", "array": "a list"}


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One table of a profile."""


class MemorySettings(_Section, frozen=True):
    """`[memory]`: what holds for all that is remembered."""

    default_level: Level = "household"
    """Who may read an utterance, unless its turn says otherwise: a family's robot, closed to strangers."""
    doubtful_below: Share = 0.5
    """Confidence of the speech recogniser below which a fact replaces none that was heard well, until heard again, and what was said
    comes last among what is recalled."""


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


class RetentionSettings(_Section, frozen=True):
    """`[retention]`: what goes by itself while nobody speaks, at first nothing; `edgemem gc` shows it."""

    expired: bool = False
    """Whether what has expired goes: stored thoughts into the archive, all else for good. `edgemem gc --yes` does it in any case."""
    collect_days: AmountOrZero = 0.0
    """Days after which an archived thought is erased; 0: never."""
    max_days: AmountOrZero = 0.0
    """Days for which all else is kept: turns, episodes, summaries, doubts, preferences and facts that nothing touched since;
    0: for ever. What is pinned or P1 stays."""
    max_mb: AmountOrZero = 0.0
    """Megabytes of the database above which the oldest of it goes, until a tenth is free again: what was said and done first,
    facts last, nothing of the last day; 0: no bound."""


class PrivacySettings(_Section, frozen=True):
    """`[privacy]`: what the robot knows and does not say."""

    never_aloud: tuple[str, ...] = ()
    """Keys of facts that no prompt and no memory tool tells: `["gate.code", "*.pin"]`; `*` is any text, and `Gate code` the same key."""


class NotesSettings(_Section, frozen=True):
    """`[notes]`: NOTES.md."""

    inject_chars: CountOrZero = 600
    """Characters of the file's end shown to the model: about 150 tokens, once an epoch."""
    level: Literal["shared", "household"] = "household"
    """Who may read it: "household" (recognised speakers), since people write down what guests need not know, or "shared" (anyone)."""


BankLimit = Literal[
    "max_file_size_bytes", "max_total_size_bytes", "max_entries", "max_depth", "retention_days", "auto_load_max_lines"
]  # fmt: skip


class BankSettings(_Section, frozen=True):
    """`[bank]`: files that a model keeps, each person's own, the household's and anyone's."""

    backend: Literal["off", "files", "database"] = "off"
    """Where they are: in the home's `bank/`, to read and edit ("files", and "off", where no model is offered them), or in the
    database, with its backups. Else `memory.tools()` has five tools for them, and MEMORY.md is shown once an epoch."""
    limits: dict[BankLimit, CountOrZero] = {}
    """Other bounds of each bank than 102,400 bytes a file, 1,048,576 in all, 200 files, 2 names in a path, files kept for
    ever (`retention_days` after their last change) and 200 lines of MEMORY.md shown: `{ max_entries = 500 }`."""


class TimeSettings(_Section, frozen=True):
    """`[time]`: the days of the household."""

    zone: str = ""
    """Where the household lives, by its IANA name such as "Europe/Berlin": its days begin at midnight there; empty: where the
    machine is. Days in what is stored already are read again at the next start."""
    line: bool = True
    """Whether a line before the utterance says what day and time it is: once an epoch, on another day, and after an hour's
    pause; none while the clock cannot be trusted. `false` where your instructions or tools say it."""

    def __post_init__(self) -> None:
        self.tzinfo()

    def tzinfo(self) -> tzinfo | None:
        """Return the zone; None: this machine's."""
        if not self.zone:
            return None
        from zoneinfo import ZoneInfo

        try:
            return ZoneInfo(self.zone)
        except (KeyError, ValueError, OSError) as error:
            raise ValueError(
                f"there is no time zone {self.zone!r}; write one such as Europe/Berlin, or leave it empty for the machine's"
            ) from error


class RecallSettings(_Section, frozen=True):
    """`[recall]`: finding."""

    deadline_ms: Amount = 150.0
    """Milliseconds for one recall; past them it answers with what it has, and a pause stays unnoticed."""
    query_embed_ms: Amount = 80.0
    """Milliseconds of them for embedding the query; past them words alone find."""
    k: Count = 5
    """Items that one recall returns: what fits a block of 80 tokens."""
    candidates: Count = 64
    """Items that words hand over to be scored, and meaning half as many; more cost time and seldom change the first five."""
    safety_keys: tuple[str, ...] = ()
    """Further words of facts that concern somebody's safety, beside "allergy", "medication" and the like (`edgemem/languages`):
    `["magnets"]`."""
    ahead_share: Share = 0.5
    """Part of one core that recall may take while somebody still speaks, where the loop tells what it hears; 0: it begins
    when they have ended."""


class ContextSettings(_Section, frozen=True):
    """`[context]`: what the model sees."""

    window_tokens: Count = 4096
    """Tokens of the chat model's context window; what small boards can hold."""
    reply_tokens: Count = 256
    """Tokens of the window kept free for the reply: a spoken answer of a minute and a half."""
    block_tokens: CountOrZero = 80
    """Tokens of memory put before one utterance; on a small board each costs 10 to 90 ms of silence."""
    notes_tokens: CountOrZero = 200
    """Tokens of the end of NOTES.md, once an epoch: what `inject_chars` lets through, in scripts of few letters a token too."""
    summary_tokens: Count = 300
    """Tokens that replace compacted turns: the summary, and up to half of it values that memory told in them."""
    keep_last_turns: Count = 4
    """Turns that a compaction never touches: what `it` and `there` refer to."""
    speech_chars_s: Amount = 15.0
    """Characters that the robot speaks in a second, where it is cut off and the voice tells only for how long it spoke:
    150 words of 6 characters a minute, as English is read aloud. An estimate; measure your voice."""

    def __post_init__(self) -> None:
        if self.reply_tokens + self.block_tokens + self.summary_tokens >= self.window_tokens:
            raise ValueError(
                "`reply_tokens`, `block_tokens` and `summary_tokens` together must be below `window_tokens`"
            )
        if self.reply_tokens + LEAST_HISTORY_TOKENS > self.window_tokens:
            raise ValueError(
                f"`reply_tokens` is {self.reply_tokens:,}, and {LEAST_HISTORY_TOKENS} more for what is said are above the "
                f"{self.window_tokens:,} of `window_tokens`"
            )
        held = (self.window_tokens - self.reply_tokens) // LEAST_TURN_TOKENS
        if self.keep_last_turns > max(1, held):
            raise ValueError(
                f"`keep_last_turns` is {self.keep_last_turns:,}, but what `window_tokens` leaves beside `reply_tokens` holds "
                f"{max(1, held):,} turns at most"
            )


class CompactionSettings(_Section, frozen=True):
    """`[compaction]`: how the summary of compacted turns is made; holds for sessions that begin after a change."""

    summarizer: Literal["extractive", "model"] = "extractive"
    """Sentences that were said ("extractive"), or written by the chat model in idle time ("model"), which takes minutes
    on a small board and is checked; what fails the checks is replaced by sentences that were said."""
    summary_ctx: Annotated[int, msgspec.Meta(ge=512, le=_MOST)] = 1024
    """Tokens of the second context that the model writes in, beside the conversation's; held only while it writes. 1,024
    take 12 MB with Qwen2.5 0.5B, 117 with Llama 3.2 3B, 403 with Phi-3.5 mini, and some 20 for the computation."""


class InjectionSettings(_Section, frozen=True):
    """`[injection]`: which memory is put before an utterance."""

    max_chars: CountOrZero = 1200
    """Characters that are considered before tokens are counted."""
    useless_per_useful: AmountOrZero = 2.0
    """Useless lines that are worth one that helps, at most: a line is put before an utterance where it helps with a
    likelihood of at least 1 / (1 + this). A useless line costs attention and silence, a missing one the answer."""

    @property
    def floor(self) -> float:
        """Return how likely a line must be to help."""
        return 1 / (1 + self.useless_per_useful)


class LlamaSettings(_Section, frozen=True):
    """`[llama]`: models on llama.cpp."""

    embedder: str = "all-minilm-l6-v2"
    """The model that embeds, by its name in the catalogue or a GGUF file: "multilingual-e5-small" where people speak another
    language than English; empty: recall by words only."""
    embed_threads: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1
    """Threads for embedding; more make the slowest case explode beside speech recognition."""
    embed_context: Annotated[int, msgspec.Meta(ge=32)] = 256
    """Tokens of one text that are embedded; a turn is shorter, and memory grows with it."""
    chat_threads: Annotated[int, msgspec.Meta(ge=0, le=256)] = 0
    """Threads of the model that `edgemem chat` loads; 0: as many as llama.cpp finds good."""
    chat_gpu_layers: Annotated[int, msgspec.Meta(ge=-1, le=1024)] = 0
    """Its layers that are put on a GPU, where llama.cpp was built with one; -1: all."""


class ChatSettings(_Section, frozen=True):
    """`[chat]`: the chat model, in this process or in a llama-server."""

    keep_state: Literal["off", "prefix", "whole"] = "prefix"
    """What a model in this process has evaluated and need not evaluate again after a restart. `prefix`: instructions and
    tools, the same for everybody. `whole`: the conversation too, a second copy of all messages, closed to nobody who
    can read the file; so nobody has it without asking for it."""
    keep_state_mb: Amount = 128.0
    """Megabytes that it may take: 1,500 tokens of a 1.5 B model are 43, of Llama-3.2-3B 172, which needs more."""
    server: str = ""
    """Where a llama-server listens, such as http://127.0.0.1:8080 or unix:///run/llama.sock; empty: the model is loaded here."""
    server_hosts: tuple[str, ...] = ()
    """Hosts beside this machine that `server` may name; all messages leave the robot for them."""
    slot: Annotated[int, msgspec.Meta(ge=-1)] = -1
    """The server's slot for the conversation, from 0; -1: one that no other in this process has."""
    summary_slot: Annotated[int, msgspec.Meta(ge=-1)] = -1
    """The server's slot for summaries, where the model writes them; -1: one that no conversation in this process has, or
    none where `slot` is named, since other processes then have slots too."""
    load_s: AmountOrZero = 60.0
    """Seconds to wait while it loads its model, at the robot's start; a large one from an SD card takes that long."""
    first_token_s: Amount = 600.0
    """Seconds of silence allowed before a reply; a Pi takes 370 to read a whole window after a restart."""


class IdleSettings(_Section, frozen=True):
    """`[idle]`: upkeep while nobody speaks."""

    settle_s: AmountOrZero = 0.5
    """Seconds of quiet before upkeep begins, also once a memory was opened; people pause within a sentence."""
    index_rows: Count = 120
    """Rows that are indexed together, about 25 turns with a tool call each: each commit of the index writes many pages,
    and fewer rows are searched directly."""
    batch: Count = 200
    """Records that one step indexes; fewer at a time write more bytes."""


LearnerName = Literal["chains", "regularities", "routines", "statements"]


class LearnSettings(_Section, frozen=True):
    """`[learn]`: what idle time makes of what was said and done."""

    learners: tuple[LearnerName, ...] = ("chains", "routines", "regularities", "statements")
    """Which of them learn: where a thing has been, and how ("chains"), what is said at the same time of day ("routines"), what an
    agent's episodes have in common ("regularities"), and what extractors of your own find in talk ("statements"). `[]`: none; what was
    learnt stays."""


class BackupSettings(_Section, frozen=True):
    """`[backup]`: whole copies of the truth in the home's `backups/`, made while nobody speaks."""

    every_h: AmountOrZero = 24.0
    """Hours between two, if anything changed; an SD card is written once a day for it. 0: none are made."""
    keep: Count = 3
    """How many stay: damage is often noticed days later."""
    max_mb: Amount = 256.0
    """Megabytes that they may take together; years of talk, and little of the smallest card."""


class LogSettings(_Section, frozen=True):
    """`[log]`: the lines for Python's logging."""

    turn: bool = True
    """One line of figures a turn on the logger `edgemem.turn`, without a word of any message; costs microseconds."""


class HookSettings(_Section, frozen=True):
    """`[hooks]`: what the operator adds."""

    files: tuple[str, ...] = ()
    """Files with a hook of your own, by path or by name in the home's `hooks/`; no other file is run."""
    tool_output_chars: CountOrZero = 4000
    """Characters of a tool's result that the model is shown, and is told how many it is not; 0: all of them. On a
    small board this many take the model a minute to read."""

    def __post_init__(self) -> None:
        if 0 < self.tool_output_chars < 200:
            raise ValueError("`tool_output_chars` must be 0 or at least 200")


class ToolSettings(_Section, frozen=True):
    """`[tools]`: memory as tools of the model."""

    max_chars: Count = 500
    """Characters of the longest value that a model may store, and of a line that it is told: a few sentences."""
    write_wait_s: AmountOrZero = 0.5
    """Seconds until a call that stores or erases answers that the disk is busy: more is heard as a pause."""


class Profile(_Section, frozen=True):
    """All settings; one attribute for each table of the file."""

    memory: MemorySettings = MemorySettings()
    store: StoreSettings = StoreSettings()
    retention: RetentionSettings = RetentionSettings()
    privacy: PrivacySettings = PrivacySettings()
    time: TimeSettings = TimeSettings()
    notes: NotesSettings = NotesSettings()
    bank: BankSettings = BankSettings()
    recall: RecallSettings = RecallSettings()
    context: ContextSettings = ContextSettings()
    compaction: CompactionSettings = CompactionSettings()
    injection: InjectionSettings = InjectionSettings()
    llama: LlamaSettings = LlamaSettings()
    chat: ChatSettings = ChatSettings()
    idle: IdleSettings = IdleSettings()
    learn: LearnSettings = LearnSettings()
    backup: BackupSettings = BackupSettings()
    log: LogSettings = LogSettings()
    hooks: HookSettings = HookSettings()
    tools: ToolSettings = ToolSettings()
    speakers: dict[str, tuple[str, ...]] = {}
    """The household: each speaker as the voice recognition names them, and what else they are called. What was heard under such
    another name is given to them, once."""

    def called(self) -> dict[str, str]:
        """Return who is meant by each name of the household's people; a name that two bear means the first."""
        called: dict[str, str] = {}
        for speaker, others in self.speakers.items():
            for name in (speaker, *others):
                called.setdefault(name, speaker)
        return called

    def others(self, person: str) -> tuple[str, ...]:
        """Return what else a person is called."""
        key = name_key(person)
        return next((names for name, names in self.speakers.items() if name_key(name) == key), ())

    def names(self) -> tuple[str, ...]:
        """Return every name of the household's people, such as a speech recogniser should expect."""
        return tuple(self.called())


class Settings:
    """Holds the profile in force: keep the holder, and read `settings.now.context.block_tokens` where the number is used.

    A memory exchanges `now` in idle time or when a turn begins, never within a turn of that session; a turn of another session
    that overlaps it goes on with the new profile.
    """

    def __init__(self, profile: Profile | None = None) -> None:
        self.now = profile or Profile()
        self.next: Profile | None = None
        """The profile that was read since, and holds from the next `renew` on."""

    def renew(self) -> bool:
        """Have the profile hold that was read since; tell whether there was one."""
        profile, self.next = self.next, None
        self.now = profile or self.now
        return profile is not None


# Read before threads are: while one reads a class's fields, msgspec 0.22 ends the process of another that needs them.
msgspec.json.Decoder(Profile)


def open_file(path: str | Path, *, links: bool = True, folder: int | None = None) -> BinaryIO:
    """Open a regular file to be read; raise OSError for all else at once: a pipe is not waited for, a device not touched.

    `links`: follow one at the end of the path. `folder`: the descriptor of the folder in which a relative path begins.
    """
    # Looked at first, because opening a device may already do something.
    if stat.S_ISREG(os.stat(path, dir_fd=folder, follow_symlinks=links).st_mode):
        file = os.open(path, _READ if links else _READ | os.O_NOFOLLOW, dir_fd=folder)
        if stat.S_ISREG(os.fstat(file).st_mode):
            return os.fdopen(file, "rb")
        os.close(file)
    raise OSError(errno.ELOOP, "no regular file", str(path))


def read_file(
    path: Path, *, most: int = MOST_BYTES, newest: bool = False, links: bool = True, home: Path | None = None
) -> bytes:
    """Read a regular file; raise OSError where there is none, or it has more than `most` bytes (`newest`: read the last ones).

    With `home`, for what says how edgemem acts or what its model reads, raise ConfigError where others than us, root and that
    folder's owner may have written the file, or put it there.
    """
    with open_file(path, links=links) as file:
        status = os.fstat(file.fileno())
        if home is not None:
            _check_writers(path, status, home)
        if status.st_size > most:
            if not newest:
                raise OSError(errno.EFBIG, f"more than {most:,} bytes", str(path))
            file.seek(-most, os.SEEK_END)
        return file.read(most)


def _check_writers(path: Path, status: os.stat_result, home: Path) -> None:
    ours = {0, os.geteuid(), home.stat().st_uid}
    for place in (path, *path.parents):
        its = status if place == path else place.stat()
        # Who can only make a link must not have a file of others read.
        if is_strange_link(place) or its.st_uid not in ours:
            raise ConfigError(f"{place} is not read: its owner is somebody else. Look, then chown it.")
        # In a folder with the sticky bit, others cannot move our files.
        if its.st_mode & stat.S_IWOTH and not (stat.S_ISDIR(its.st_mode) and its.st_mode & stat.S_ISVTX):
            raise ConfigError(f"{place} is not read: others may write it. Look, then: chmod o-w {place}")
        if place == home:
            break


def is_strange_link(path: Path) -> bool:
    """Tell whether a link stands at the end of a path, whose owner is neither we nor root nor the folder's: it is not followed."""
    try:
        link, folder = path.lstat(), path.parent.stat()
    except OSError:
        return False
    return stat.S_ISLNK(link.st_mode) and link.st_uid not in {0, os.geteuid(), folder.st_uid}


def load_profile(path: Path | str | None) -> Profile:
    """Return the profile in a TOML file, or the defaults; raise ConfigError if it cannot be read or has a wrong key or value."""
    if path is None:
        return Profile()
    file = Path(path).expanduser()
    read = _read(file)
    _check_speakers(file, read.get("speakers"))
    try:
        return msgspec.convert(read, Profile)
    except msgspec.ValidationError as error:
        raise ConfigError(as_sentence(file, str(error), read)) from error


def _read(file: Path) -> dict[str, Any]:
    try:
        read: dict[str, Any] = msgspec.toml.decode(read_file(file, home=file.parent))
    except OSError as error:
        raise ConfigError(f"{file} cannot be read ({error.strerror}); name a profile that exists.") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is not TOML: {error}. Mend the file.") from error
    return read


def profile_named(name: str) -> Profile:
    """Return a profile that comes with edgemem, such as `pi5`; raise ConfigError if there is none of that name."""
    names = profile_names()
    if name not in names:
        raise ConfigError(f"There is no profile {name!r}; {nearest(name, names)}.")
    return load_profile(_folder() / f"{name}.toml")


def profile_names() -> list[str]:
    """Return the names of the profiles that come with edgemem."""
    return sorted(path.stem for path in _folder().glob("*.toml"))


def _folder() -> Path:
    """Return where profiles lie: beside the package in a checkout, inside of it when installed from a wheel."""
    package = Path(__file__).parent
    wheel = package / "_configs"
    return wheel if wheel.is_dir() else package.parent / "configs"


def _check_speakers(file: Path, speakers: Any) -> None:
    keys: dict[str, str] = {}
    for speaker, called in speakers.items() if isinstance(speakers, dict) else ():
        if (same := keys.setdefault(name_key(speaker), speaker)) != speaker:
            raise ConfigError(
                f"{file}: speakers.{same} and speakers.{speaker} are one name; give one of the two another."
            )
        if not isinstance(called, list) or not all(isinstance(name, str) for name in called):
            raise ConfigError(
                f'{file}: speakers.{speaker} must be a list of names, such as ["Alice", "Mum"], not {called!r}.'
            )
        if any(
            not name.strip() or len(name) > MOST_NAMES or not name.isprintable()
            for name in (speaker, *called)
        ):
            raise ConfigError(
                f"{file}: every name of speakers.{speaker} must be 1 to {MOST_NAMES} letters on one line."
            )
        if max(len(speakers), len(called)) > MOST_NAMES:
            raise ConfigError(f"{file}: [speakers] may hold {MOST_NAMES} people of {MOST_NAMES} names.")


def nearest(name: str, valid: Collection[str]) -> str:
    """Tell which valid name was probably meant, or all there are."""
    import difflib

    matches = difflib.get_close_matches(name, valid, n=1, cutoff=0.5)
    return f"perhaps {matches[0]} was meant" if matches else f"use one of {', '.join(sorted(valid))}"


def as_sentence(file: Path, message: str, read: dict[str, Any]) -> str:
    """Turn `Expected …, got … - at `$.section.key`` into a sentence."""
    what, _, place = message.partition(" - at ")
    where = place.strip("`").removeprefix("$.")
    section, _, key = where.partition(".")
    if unknown := re.fullmatch("Object contains unknown field `(.*)`", what):
        # Not `msgspec.structs.fields`, which reads the types of them all: 7 ms.
        sections = msgspec.structs.asdict(Profile())
        keys = {name: part.__struct_fields__ for name, part in sections.items() if name != "speakers"}
        name = unknown[1]
        owner = next((owner for owner, known in keys.items() if name in known), None)
        if where:
            hint = nearest(name, keys[where]) if owner is None else f"it belongs into [{owner}]"
            return f"{file}: there is no key {where}.{name}; {hint}."
        hint = nearest(name, sections) if owner is None else f"{name} is a key of [{owner}]"
        return f"{file}: there is no section [{name}]; {hint}."
    if not key:
        is_section = isinstance(read.get(section), dict)
        return f"{file}: [{section}]" + (
            f": {what}." if is_section else " must be a section with keys of its own."
        )
    if key.endswith("]"):  # a part of a list
        return f"{file}: {where.partition('[')[0]} must be a list of {_KINDS['str']}s."
    value = cast("dict[str, Any]", read[section])[key]
    expected = what.removeprefix("Expected ").partition(", got")[0].replace("`", "")
    kind, _, bound = expected.partition(" ")
    expected = " ".join((_KINDS.get(kind, kind), bound)).strip()
    if what.startswith("Invalid enum"):
        expected = f"one of {', '.join(get_args(Level))}"
    return f"{file}: {where} must be {expected}, not {value!r}."
