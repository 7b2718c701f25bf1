"""The state of a model's one sequence: its ids, the settings that it depends on, and copying it out and in."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgemem.llama.backend import llama
from edgemem.llama.header import sampled

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

_SEQUENCE = 0  # llama-cpp-python evaluates everything in this one
_ASIDE = 1
_SETTINGS = (
    *("type_k", "type_v", "flash_attn_type", "offload_kqv", "swa_full", "kv_unified", "n_seq_max"),
    *("rope_scaling_type", "rope_freq_base", "rope_freq_scale"),
    *("yarn_ext_factor", "yarn_attn_factor", "yarn_beta_fast", "yarn_beta_slow", "yarn_orig_ctx"),
)
"""Settings of a context that its state depends on."""


def why_unfit(llm: Any) -> str:
    """Return why the state of this model's sequence cannot be kept; empty if it can."""
    api = llama()
    if api.llama_model_is_recurrent(llm.model) or api.llama_model_is_hybrid(llm.model):
        return "this model's memory is recurrent and cannot be taken back to where the instructions end"
    if api.llama_model_n_swa(llm.model) > 0:
        # llama.cpp leaves out what the window has passed: a cut further back would be answered wrongly, in silence
        return "this model attends to a sliding window, and llama.cpp saves no more of it than the window"
    return ""


def stamp_of(llm: Any) -> dict[str, str]:
    """Return everything that a state depends on: the model, llama.cpp, and how its context was made."""
    api = llama()
    context, model, path = llm.context_params, llm.model_params, Path(llm.model_path)
    return {
        "llama-cpp-python": str(api.__version__),
        "system": api.llama_print_system_info().decode("utf-8", "replace"),
        "model": f"{path.stat().st_size}:{sampled(path).hexdigest()}",
        "lora": f"{llm.lora_path or ''} {llm.lora_scale if llm.lora_path else ''}".strip(),
        "n_gpu_layers": str(model.n_gpu_layers),
        "n_ctx": str(context.n_ctx),
        # Older llama.cpp has fewer of them.
        **{name: str(getattr(context, name)) for name in _SETTINGS if hasattr(context, name)},
    }


def held_by(llm: Any) -> list[int]:
    """Return the ids that the sequence holds, in order."""
    ids: list[int] = llm.input_ids[: llm.n_tokens].tolist()
    return ids


def size_of(llm: Any, tokens: int) -> int:
    """Return about how many bytes the state of the first `tokens` takes."""
    whole = int(llama().llama_state_seq_get_size(llm.ctx, _SEQUENCE))
    held = int(llm.n_tokens)
    return whole * tokens // max(1, held)


def copy_out(llm: Any, tokens: int) -> NDArray[np.uint8] | None:
    """Return the state of the first `tokens` of the sequence, which goes on as it was; None if llama.cpp fails.

    llama.cpp saves whole sequences only. So the rest belongs to a second sequence while the first is copied; in a cache
    of one stream, as that of a `Llama` is, this only changes whose the cells are.
    """
    api = llama()
    memory = api.llama_get_memory(llm.ctx)
    api.llama_memory_seq_cp(memory, _SEQUENCE, _ASIDE, -1, -1)
    try:
        cut = api.llama_memory_seq_rm(memory, _SEQUENCE, tokens, -1)
        return copy_of(llm.ctx) if cut else None
    finally:
        api.llama_memory_seq_cp(memory, _ASIDE, _SEQUENCE, -1, -1)
        api.llama_memory_seq_rm(memory, _ASIDE, -1, -1)


def put_in(llm: Any, ids: Sequence[int], data: NDArray[np.uint8]) -> bool:
    """Let the sequence hold `ids`, whose state is `data`, and nothing else; return whether llama.cpp took it.

    If not, it is empty.
    """
    if not set_state(llm.ctx, len(ids), data):
        llm.reset()
        return False
    llm.input_ids[: len(ids)] = ids
    llm.n_tokens = len(ids)
    llm._requires_eval = True  # as Llama.load_state does: there are no logits yet
    return True


def set_state(context: Any, tokens: int, data: NDArray[np.uint8]) -> bool:
    """Let a context's sequence hold so many tokens, whose state this is; if llama.cpp does not take it, it is empty."""
    api = llama()
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

    api = llama()
    size = int(api.llama_state_seq_get_size(context, _SEQUENCE))
    data = np.empty(size, np.uint8)
    return data if api.llama_state_seq_get_data(context, _pointer(data), size, _SEQUENCE) == size else None


def _pointer(data: NDArray[np.uint8]) -> Any:
    return data.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
