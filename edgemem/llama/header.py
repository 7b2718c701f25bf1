"""The header of a GGUF file, read by ggml's own reader: llama.cpp's library comes with it, and loads in milliseconds."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from edgemem.errors import ModelError
from edgemem.llama.backend import forget_complaints, ggml, last_complaint

Scalar = str | int | float | bool
_SCALARS: dict[int, Any] = {
    0: ctypes.c_uint8, 1: ctypes.c_int8, 2: ctypes.c_uint16, 3: ctypes.c_int16, 4: ctypes.c_uint32, 5: ctypes.c_int32,
    6: ctypes.c_float, 7: ctypes.c_bool, 10: ctypes.c_uint64, 11: ctypes.c_int64, 12: ctypes.c_double,
}  # fmt: skip
_STRING, _ARRAY = 8, 9
_GGUF, _NUMBER = ctypes.c_void_p, ctypes.c_int64
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "gguf_free": (None,), "gguf_get_n_kv": (_NUMBER,), "gguf_get_key": (ctypes.c_char_p, _NUMBER),
    "gguf_get_kv_type": (ctypes.c_int, _NUMBER), "gguf_get_val_str": (ctypes.c_char_p, _NUMBER),
    "gguf_get_val_data": (ctypes.c_void_p, _NUMBER), "gguf_get_arr_type": (ctypes.c_int, _NUMBER),
    "gguf_get_arr_n": (ctypes.c_size_t, _NUMBER), "gguf_get_arr_str": (ctypes.c_char_p, _NUMBER, ctypes.c_size_t),
    "gguf_get_n_tensors": (_NUMBER,), "gguf_get_tensor_offset": (ctypes.c_size_t, _NUMBER),
    "gguf_get_tensor_size": (ctypes.c_size_t, _NUMBER), "gguf_get_data_offset": (ctypes.c_size_t,),
}  # fmt: skip
_MOST_LANGUAGES = 300  # there are 183 codes of two letters
_MIB = 1 << 20
_SAMPLES, _SAMPLE = 256, 4096


class Header(msgspec.Struct, frozen=True):
    """The values that stand before the weights of a GGUF file."""

    architecture: str
    tensors: int
    metadata: dict[str, Scalar]
    size: int
    languages: tuple[str, ...] = ()
    """Languages of its training, in two letters, if it tells them."""
    words: int = 0
    """Tokens of its vocabulary."""

    def number(self, key: str, default: int = 0) -> int:
        """Return an integer of the architecture's own section, such as `context_length`."""
        value = self.metadata.get(f"{self.architecture}.{key}", default)
        return int(value) if isinstance(value, (int, float)) else default


def read_header(path: Path) -> Header:
    """Read and check the header; raise ModelError for a file that llama.cpp could not load."""
    try:
        if not path.is_file():
            raise ModelError(f"There is no model file {path}; fetch it with: edgemem models get")
        with path.open("rb") as file:
            magic, size = file.read(4), path.stat().st_size
    except OSError as error:
        raise ModelError(f"The model {path} cannot be read ({error.strerror}); mend its rights") from error
    if magic != b"GGUF" or size < 24:
        raise ModelError(f"{path} is not a GGUF file; name a model in GGUF format")
    api = _reader()
    forget_complaints()
    gguf = api.gguf_init_from_file(os.fsencode(path), _Options(True, None))
    try:
        if not gguf or (needed := _bytes_needed(api, gguf)) > size:
            reason = last_complaint() or f"it has {size:,} bytes and needs {needed:,}"
            raise ModelError(
                f"The model file {path} is cut short or damaged ({reason}); delete it and fetch it again"
            )
        return _read(api, gguf, size)
    finally:
        if gguf:
            api.gguf_free(gguf)


def sampled(path: Path) -> hashlib._Hash:
    """Hash the first and last MiB of a model's file and up to 256 pieces of 4 KiB between; all takes a Pi half a minute."""
    size, digest = path.stat().st_size, hashlib.sha256()
    with path.open("rb") as file:
        digest.update(file.read(_MIB))
        for at in range(_MIB, size - _MIB, max(_MIB, size // _SAMPLES)):
            file.seek(at)
            digest.update(file.read(_SAMPLE))
        file.seek(max(0, size - _MIB))
        digest.update(file.read(_MIB))
    return digest


class _Options(ctypes.Structure):
    """ggml's `gguf_init_params`: no weights are read, and no tensors made."""

    _fields_ = (("no_alloc", ctypes.c_bool), ("ctx", ctypes.c_void_p))


@functools.cache
def _reader() -> SimpleNamespace:
    library = ggml()
    functions = {name: library[name] for name in ("gguf_init_from_file", *_FUNCTIONS)}
    for name, (result, *arguments) in _FUNCTIONS.items():
        functions[name].restype, functions[name].argtypes = result, (_GGUF, *arguments)
    start = functions["gguf_init_from_file"]
    start.restype, start.argtypes = _GGUF, (ctypes.c_char_p, _Options)
    return SimpleNamespace(**functions)


def _bytes_needed(api: Any, gguf: int) -> int:
    last = api.gguf_get_n_tensors(gguf) - 1
    if last < 0:
        return 0
    end = api.gguf_get_tensor_offset(gguf, last) + api.gguf_get_tensor_size(gguf, last)
    return int(api.gguf_get_data_offset(gguf) + end)


def _read(api: Any, gguf: int, size: int) -> Header:
    metadata: dict[str, Scalar] = {}
    languages: tuple[str, ...] = ()
    words = 0
    for n in range(api.gguf_get_n_kv(gguf)):
        key, kind = _text(api.gguf_get_key(gguf, n)), api.gguf_get_kv_type(gguf, n)
        if kind == _ARRAY:
            words = int(api.gguf_get_arr_n(gguf, n)) if key == "tokenizer.ggml.tokens" else words
            if key == "general.languages" and api.gguf_get_arr_type(gguf, n) == _STRING:
                count = min(int(api.gguf_get_arr_n(gguf, n)), _MOST_LANGUAGES)
                languages = tuple(_text(api.gguf_get_arr_str(gguf, n, i)) for i in range(count))
        elif kind == _STRING:
            metadata[key] = _text(api.gguf_get_val_str(gguf, n))
        else:
            metadata[key] = _SCALARS[kind].from_address(api.gguf_get_val_data(gguf, n)).value
    tensors = int(api.gguf_get_n_tensors(gguf))
    architecture = str(metadata.get("general.architecture", ""))
    return Header(architecture, tensors, metadata, size, languages, words)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
