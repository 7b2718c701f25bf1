"""Models that the operator brings: what they are, where they go, and that their names lead to them."""

import errno
import json
import os
import random
from pathlib import Path

import numpy as np
import pytest

from edgemem.errors import DiskFullError, InvalidInputError, ModelError
from edgemem.llama.embedder import LlamaEmbedder, open_embedder
from edgemem.llama.models import fetch as adding
from edgemem.llama.models.catalog import Pin, describe, pin_path, sha256_of, write_pin
from edgemem.llama.models.convert import convert_bert
from edgemem.llama.models.fetch import add_model
from lab.random_model import key
from support.cli import json_of, refused, run
from support.disks import no_file_larger_than
from support.models import WIDTH, write_llama_gguf, write_tiny_bert
from support.refusals import refusal


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, vocabularies: Path) -> dict[str, Path]:
    """Return a real embedder, a real chat model, and one without a template, all of random weights."""
    folder = tmp_path_factory.mktemp("brought")
    convert_bert(write_tiny_bert(folder / "source"), folder / "tiny.gguf", name="tiny")
    made = {"embedder": folder / "tiny.gguf"}
    for name, template in (("chat", "microsoft-Phi-3.5-mini-instruct"), ("base", None)):
        small = {"vocabulary": "phi-3", "template": template, "width": 32, "layers": 1}
        made[name] = write_llama_gguf(folder / f"{name}.gguf", vocabularies=vocabularies, **small)
    return made


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EDGEMEM_MODELS", str(tmp_path / "none"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "home"


@pytest.fixture
def folder(home: Path) -> Path:
    return home / "models"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_header_tells_what_a_model_is(files: dict[str, Path], minilm: Path) -> None:
    """Whether it embeds or chats, its context, its template and its memory."""
    told = {kind: describe(path) for kind, path in files.items()}
    assert {kind: each.kind for kind, each in told.items()} == {kind: kind for kind in files}
    assert (told["embedder"].dimensions, told["embedder"].pooling) == (WIDTH, "mean")
    assert (told["chat"].chat_template, told["base"].chat_template) == (True, False)
    assert (told["chat"].architecture, told["chat"].context) == ("llama", 4096)
    assert told["chat"].ram_mb > 120
    assert (describe(minilm).dimensions, describe(minilm).ram_mb) == (384, 85)


def test_what_neither_embeds_nor_chats_is_refused(tmp_path: Path, vocabularies: Path, home: Path) -> None:
    """No GGUF, half of one, a vocabulary alone, a folder, and nothing at all: one sentence each, and nothing is left."""
    (tmp_path / "page.gguf").write_text("<html>" * 100)
    whole = (vocabularies / "ggml-vocab-phi-3.gguf").read_bytes()
    (tmp_path / "half.gguf").write_bytes(whole[: len(whole) // 2])
    ranks = write_llama_gguf(
        tmp_path / "ranks.gguf", vocabularies=vocabularies, more=[key("llama.pooling_type", 4)]
    )
    for path, words in {
        tmp_path / "page.gguf": "not a GGUF",
        tmp_path / "half.gguf": "cut short",
        vocabularies / "ggml-vocab-phi-3.gguf": "no weights",
        ranks: "ranks texts",
        tmp_path: "no model file",
        tmp_path / "nothing.gguf": "no model file",
    }.items():
        assert words in refused(run("models", "add", path, "--home", home))
        assert names(home / "models") == []


def test_it_crosses_disks(files: dict[str, Path], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no link can be made the copy is compared with the original before it gets its name."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(adding.os, "link", refuse)
    heard: list[str] = []
    _, path, _ = add_model(files["embedder"], folder, progress=lambda stage, *_: heard.append(stage))
    assert not path.samefile(files["embedder"])
    assert path.read_bytes() == files["embedder"].read_bytes()
    assert list(dict.fromkeys(heard)) == ["checking", "copying"]
    with no_file_larger_than(5000), pytest.raises(DiskFullError, match="No half file was left"):
        add_model(files["chat"], folder)
    assert names(folder) == ["tiny.gguf", "tiny.gguf.pin"]


@pytest.mark.parametrize("name", ["../../x", "a/b", "", ".hidden", "-x", "x\0", "\udc80", "ü", "x" * 1000000])
def test_a_name_that_is_none_is_refused(files: dict[str, Path], folder: Path, name: str) -> None:
    """Nothing is written, there or elsewhere."""
    assert len(refusal(InvalidInputError, add_model, files["chat"], folder, name=name)) < 500
    assert not folder.exists()


def test_a_file_that_cannot_be_the_named_model_is_refused(
    files: dict[str, Path], minilm: Path, folder: Path, tmp_path: Path
) -> None:
    """Kind, dimensions and pooling must be the catalogue's, and the bytes where they are known."""
    for file, name, words in (
        (files["embedder"], "bge-small-en-v1.5", "384 dimensions and cls pooling"),
        (minilm, "bge-small-en-v1.5", "cls pooling"),
        (minilm, "phi-3.5-mini-instruct", "a chat model"),
        (files["base"], "phi-3.5-mini-instruct", "a chat model"),
        (files["chat"], "nomic-embed-text-v1.5", "an embedder"),
    ):
        refusal(ModelError, add_model, file, folder, match=words, name=name)
    other = tmp_path / "all-minilm-l6-v2-q8_0.gguf"
    data = minilm.read_bytes()
    other.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    refusal(ModelError, add_model, other, folder, match="same size, other bytes")
    assert names(folder) == []


def test_own_prefixes_are_kept_beside_the_model(files: dict[str, Path], folder: Path, home: Path) -> None:
    """They are applied whenever it is opened by its name; a chat model has none."""
    add_model(files["embedder"], folder, name="mine", query_prefix="robot ", text_prefix="kitchen ")
    bare = LlamaEmbedder(files["embedder"], n_ctx=32)
    with open_embedder("mine", home=home, n_ctx=32) as named, bare:
        assert np.array_equal(named.embed_texts(["hello"]), bare.embed_texts(["kitchen hello"]))
        asked = named.embed_query("hello")
        assert asked is not None
        assert np.array_equal(asked, bare.embed_query("robot hello"))
    refusal(InvalidInputError, add_model, files["chat"], folder, match="Prefixes", query_prefix="x")


def test_chat_takes_a_model_by_its_name(files: dict[str, Path], home: Path) -> None:
    """Of the catalogue, or added; what is not here is told with the command that brings it."""
    json_of("models", "add", files["chat"], "--as", "phi-3.5-mini-instruct", "--home", home)
    json_of("models", "add", files["chat"], "--as", "mine", "--home", home)
    for name in ("phi-3.5-mini-instruct", "mine"):
        said = run("chat", "--llm", name, "--max-tokens", 2, "--json", "--home", home, input="hello\n")
        assert said.exit_code == 0, said.output
        assert json.loads(said.stdout.splitlines()[-1])["said"] == "hello"
    known = "llama-3.2-1b-instruct"
    for name, words in (("nope", "models list"), (known, f"models get {known}")):
        assert words in refused(run("chat", "--llm", name, "--home", home, input="hello\n"))


def test_add_list_verify_and_remove_tell_the_same(files: dict[str, Path], home: Path) -> None:
    """As JSON and in words; a changed byte is found, and removing takes the pin along."""
    added = json_of("models", "add", files["embedder"], "--as", "mine", "--home", home)
    assert (added["kind"], added["state"]) == ("embedder", "verified")
    assert added["sha256"] == sha256_of(files["embedder"])
    listed = {each["name"]: each for each in json_of("models", "list", "--home", home)}
    assert listed["mine"] == {key: value for key, value in added.items() if key != "chat_template"}
    assert [each["name"] for each in json_of("models", "verify", "mine", "--home", home)] == ["mine"]
    path = Path(added["path"])
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    bad = run("models", "verify", "mine", "--home", home)
    assert bad.exit_code == 1
    assert bad.output.startswith("bad mine")
    assert json_of("models", "remove", "mine", "--home", home)["bytes"] == len(data)
    assert names(home / "models") == []
    assert "There is no model mine" in refused(run("models", "remove", "mine", "--home", home))


def test_a_model_without_a_pin_is_unverified_until_it_is_added(files: dict[str, Path], home: Path) -> None:
    """A file that was put there by hand is used, listed, and told about."""
    (home / "models").mkdir(parents=True)
    path = home / "models" / "mine.gguf"
    path.hardlink_to(files["chat"])
    listed = {each["name"]: each["state"] for each in json_of("models", "list", "--home", home)}
    assert listed["mine"] == "unverified"
    assert "edgemem models add" in run("models", "verify", "mine", "--home", home).output
    json_of("models", "add", path, "--home", home)
    assert json_of("models", "verify", "mine", "--home", home)[0]["ok"]


def test_removing_a_known_model_forgets_its_pin(files: dict[str, Path], home: Path, folder: Path) -> None:
    """Also where the file is gone already, and where a download has only begun."""
    _, path, _ = add_model(files["chat"], folder, name="qwen2.5-1.5b-instruct")
    path.with_name(f"{path.name}.part").write_bytes(b"GGUF")
    json_of("models", "remove", "qwen2.5-1.5b-instruct", "--home", home)
    assert names(folder) == []
    pinned = Path(os.environ["EDGEMEM_MODELS"]) / "bge-small-en-v1.5-q8_0.gguf"
    pinned.parent.mkdir()
    write_pin(pinned, Pin(sha256="0" * 64, bytes=1, origin="x"))
    json_of("models", "remove", "bge-small-en-v1.5", "--home", home)
    assert names(pinned.parent) == []


def test_a_damaged_pin_is_named(files: dict[str, Path], folder: Path, home: Path) -> None:
    """Whoever opens the model hears which file to delete; listing goes on."""
    _, path, _ = add_model(files["embedder"], folder, name="mine")
    pin_path(path).write_bytes(random.Random(0).randbytes(50))
    refusal(ModelError, open_embedder, "mine", match=r"mine\.gguf\.pin cannot be read", home=home)
    listed = {each["name"]: each["state"] for each in json_of("models", "list", "--home", home)}
    assert listed["mine"] == "damaged"


def test_adding_twice_changes_nothing_another_is_refused(files: dict[str, Path], folder: Path) -> None:
    """The name is taken until it is removed."""
    add_model(files["chat"], folder, name="mine")
    add_model(files["chat"], folder, name="mine")
    add_model(folder / "mine.gguf", folder)
    refusal(ModelError, add_model, files["base"], folder, match="edgemem models remove", name="mine")
    assert sha256_of(folder / "mine.gguf") == sha256_of(files["chat"])
