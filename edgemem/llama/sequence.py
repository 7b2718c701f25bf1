"""The state of a context's one sequence: what it depends on, copied out of llama.cpp, and put back."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgemem.llama import backend
from edgemem.llama.models.gguf import sampled

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

_SEQUENCE = 0  # llama-cpp-python evaluates everything in this one
_ASIDE = 1

_ALIKE = (
    *("type_k", "type_v", "flash_attn_type", "offload_kqv", "swa_full", "kv_unified", "n_seq_max"),
    *("rope_scaling_type", "rope_freq_base", "rope_freq_scale"),
    *("yarn_ext_factor", "yarn_attn_factor", "yarn_beta_fast", "yarn_beta_slow", "yarn_orig_ctx"),
)
"""Settings that two contexts share where one can take the other's state."""


def why_unfit(llama: Any) -> str:
    """Return why the state of this model's sequence cannot be kept; empty if it can."""
    api = backend.llama()
    if api.llama_model_is_recurrent(llama.model) or api.llama_model_is_hybrid(llama.model):
        return "this model's memory is recurrent and cannot be taken back to where the instructions end"
    if api.llama_model_n_swa(llama.model) > 0:
        # llama.cpp leaves out what the window has passed: a cut further back would be answered wrongly, in silence
        return "this model attends to a sliding window, and llama.cpp saves no more of it than the window"
    return ""


def stamp_of(llama: Any) -> dict[str, str]:
    """Return everything that a state depends on: the model, llama.cpp, and how its context was made."""
    api = backend.llama()
    context, model, path = llama.context_params, llama.model_params, Path(llama.model_path)
    return {
        "llama-cpp-python": str(api.__version__),
        "system": api.llama_print_system_info().decode("utf-8", "replace"),
        "model": f"{path.stat().st_size}:{sampled(path).hexdigest()}",
        "lora": f"{llama.lora_path or ''} {llama.lora_scale if llama.lora_path else ''}".strip(),
        "n_gpu_layers": str(model.n_gpu_layers),
        "n_ctx": str(context.n_ctx),
        **{name: str(value) for name, value in _shared_settings(llama)},
    }


def _shared_settings(llama: Any) -> list[tuple[str, Any]]:
    context = llama.context_params
    # Older llama.cpp has fewer of them.
    return [(name, getattr(context, name)) for name in _ALIKE if hasattr(context, name)]


def make_alike(options: Any, llama: Any) -> None:
    """Set the parameters of a new context so that this model's own can take its state."""
    for name, value in _shared_settings(llama):
        setattr(options, name, value)


def held_by(llama: Any) -> list[int]:
    """Return the ids that the sequence holds, in order."""
    ids: list[int] = llama.input_ids[: llama.n_tokens].tolist()
    return ids


def size_of(llama: Any, tokens: int) -> int:
    """Return about how many bytes the state of the first `tokens` takes."""
    whole = int(backend.llama().llama_state_seq_get_size(llama.ctx, _SEQUENCE))
    held = int(llama.n_tokens)
    return whole * tokens // max(1, held)


def copy_out(llama: Any, tokens: int) -> NDArray[np.uint8] | None:
    """Return the state of the first `tokens` of the sequence, which goes on as it was; None if llama.cpp fails.

    llama.cpp saves whole sequences only. So the rest belongs to a second sequence while the first is copied; in a cache
    of one stream, as that of a `Llama` is, this only changes whose the cells are.
    """
    api = backend.llama()
    memory = api.llama_get_memory(llama.ctx)
    api.llama_memory_seq_cp(memory, _SEQUENCE, _ASIDE, -1, -1)
    try:
        cut = api.llama_memory_seq_rm(memory, _SEQUENCE, tokens, -1)
        return copy_of(llama.ctx) if cut else None
    finally:
        api.llama_memory_seq_cp(memory, _ASIDE, _SEQUENCE, -1, -1)
        api.llama_memory_seq_rm(memory, _ASIDE, -1, -1)


def put_in(llama: Any, ids: Sequence[int], data: NDArray[np.uint8]) -> bool:
    """Let the sequence hold `ids`, whose state is `data`, and nothing else; return whether llama.cpp took it.

    If not, it is empty.
    """
    if not set_state(llama.ctx, len(ids), data):
        llama.reset()
        return False
    llama.input_ids[: len(ids)] = ids
    llama.n_tokens = len(ids)
    llama._requires_eval = True  # as Llama.load_state does: there are no logits yet
    return True


def set_state(context: Any, tokens: int, data: NDArray[np.uint8]) -> bool:
    """Let a context's sequence hold so many tokens, whose state this is; if llama.cpp does not take it, it is empty."""
    api = backend.llama()
    memory = api.llama_get_memory(context)
    taken = bool(
        api.llama_state_seq_set_data(context, _pointer(data), data.size, _SEQUENCE) == data.size
        and api.llama_memory_seq_pos_min(memory, _SEQUENCE) == 0
        and api.llama_memory_seq_pos_max(memory, _SEQUENCE) == tokens - 1
    )
    if not taken:
        api.llama_memory_seq_rm(memory, _SEQUENCE, -1, -1)
    return taken


def copy_of(context: Any) -> NDArray[np.uint8] | None:
    """Return the whole state of a context's sequence; None if llama.cpp fails."""
    import numpy as np

    api = backend.llama()
    size = int(api.llama_state_seq_get_size(context, _SEQUENCE))
    data = np.empty(size, np.uint8)
    return data if api.llama_state_seq_get_data(context, _pointer(data), size, _SEQUENCE) == size else None


def _pointer(data: NDArray[np.uint8]) -> Any:
    return data.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
