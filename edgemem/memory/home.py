"""The home: a directory that belongs to its owner alone, and the profile that stands in it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from edgemem.config import Profile, load_profile, profile_named
from edgemem.errors import InvalidInputError, ReadOnlyError
from edgemem.fence import clean
from edgemem.memory.truth import had_truth

PROFILE_FILE = "edgemem.toml"

_READY = frozenset({PROFILE_FILE, "NOTES.md", "db", "models", "hooks", "bank", "backups", "lost+found"})
"""What may stand in a directory that is going to be a home: what an operator puts there before the first start."""
_NAME_CHARS = 60


def is_home(home: Path) -> bool:
    """Tell whether a directory is a home, or was made ready to be one."""
    return had_truth(home) or any((home / name).exists() for name in (PROFILE_FILE, "NOTES.md"))


def meant_instead(home: Path) -> str:
    """Return what to do where a directory is no home: it may hold the one that was meant."""
    inner = next((folder for folder in sorted(home.iterdir()) if folder.is_dir() and is_home(folder)), None)
    if inner is None:
        return "name a memory's home, or a new directory, with --home"
    return f"there is one at {clean(str(inner), max_chars=4096)}: name it with --home, or in EDGEMEM_HOME"


def checked_home(home: Path) -> Path:
    """Return a home that may be opened or made; a file, and a directory of something else, are left alone.

    A home is closed to others and gets folders of its own: nothing to do to somebody's working directory.
    """
    if home.exists() and not home.is_dir():
        raise InvalidInputError(
            f"{home} is a file; a memory's home is a directory. Name another with --home."
        )
    if home.is_dir() and not is_home(home):
        foreign = sorted(entry.name for entry in home.iterdir() if entry.name not in _READY)
        if any(not name.startswith(".") for name in foreign):
            name = clean(foreign[-1], max_chars=_NAME_CHARS)
            raise InvalidInputError(f"{home} holds other things, such as {name}; {meant_instead(home)}.")
    return home


def make_home(home: Path) -> Path:
    """Make a home and its folders, closed to others, and return it.

    Raises:
        InvalidInputError: it is a file, or a directory that holds other things.
        ReadOnlyError: it cannot be made.
    """
    # What others may use already is not closed to them: the root of a disk, say, with nothing on it but lost+found.
    ours = not checked_home(home).exists() or had_truth(home) or not any(home.iterdir())
    known = had_truth(home)
    for folder in (home, home / "db", home / "models", home / "bank", home / "backups"):
        _make_folder(folder, home, known=known)
    mode = home.stat().st_mode
    # Where somebody else owns the folder, or the disk is read-only, it keeps its rights.
    with suppress(OSError):
        if ours and mode & 0o077:
            home.chmod(mode & 0o700)
    return home


def _make_folder(folder: Path, home: Path, *, known: bool) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError as error:
        if folder.name != "backups":  # nothing is read from there, and `check` tells of it
            raise InvalidInputError(
                f"{error.filename} stands where a folder of the home must be; move it away."
            ) from error
    except OSError as error:
        if not known:  # what is there can be read all the same
            raise ReadOnlyError(
                f"{home} cannot be made ({error.strerror}); mount it read-write or name another home."
            ) from error


def profile_file(home: Path, given: Profile | str | Path | None) -> Path | None:
    """Return the file that `profile_of` reads or would read; None where the profile is no file of the operator's."""
    if given is None:
        return home / PROFILE_FILE
    shipped = isinstance(given, str) and "/" not in given and not given.endswith(".toml")
    return None if shipped or isinstance(given, Profile) else Path(given).expanduser().absolute()


def profile_of(home: Path, given: Profile | str | Path | None) -> Profile:
    """Return the profile that was given: itself, by name, or by file; else the home's own, else the defaults."""
    if isinstance(given, Profile):
        return given
    file = profile_file(home, given)
    if file is None:
        return profile_named(str(given))
    # A link to a profile that is not mounted must not silently mean the defaults.
    return load_profile(file) if given is not None or file.exists() or file.is_symlink() else Profile()
