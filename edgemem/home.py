"""The home: a directory that belongs to its owner alone, and the profile that stands in it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from edgemem.config import Profile, load_profile, profile_named
from edgemem.errors import InvalidInputError, ReadOnlyError

PROFILE_FILE = "edgemem.toml"


def make_home(home: Path) -> Path:
    """Make a home and its folders, closed to others, and return it."""
    if home.exists() and not home.is_dir():
        raise InvalidInputError(f"{home} is a file; a memory's home is a directory.")
    try:
        for folder in (home, home / "db", home / "models", home / "bank", home / "backups"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError as error:
        raise InvalidInputError(
            f"{error.filename} stands where a folder of the home must be; move it away."
        ) from error
    except OSError as error:
        raise ReadOnlyError(
            f"{home} cannot be made ({error.strerror}); mount it read-write or name another home."
        ) from error
    mode = home.stat().st_mode
    with suppress(
        OSError
    ):  # where somebody else owns the folder, or the disk is read-only, it keeps its rights
        if mode & 0o077:
            home.chmod(mode & 0o700)
    return home


def profile_file(home: Path, given: Profile | str | Path | None) -> Path | None:
    """Return the file that `profile_of` reads or would read; None where the profile is no file of the operator's."""
    if isinstance(given, Profile):
        return None
    if isinstance(given, str) and "/" not in given and not given.endswith(".toml"):
        return None
    return home / PROFILE_FILE if given is None else Path(given).expanduser().absolute()


def profile_of(home: Path, given: Profile | str | Path | None) -> Profile:
    """Return the profile that was given: itself, by name, or by file; else the home's own, else the defaults."""
    if isinstance(given, Profile):
        return given
    if isinstance(given, str) and "/" not in given and not given.endswith(".toml"):
        return profile_named(given)
    if given is not None:
        return load_profile(Path(given).expanduser())
    own = home / PROFILE_FILE
    # A link to a profile that is not mounted must not silently mean the defaults.
    return load_profile(own) if own.exists() or own.is_symlink() else Profile()
