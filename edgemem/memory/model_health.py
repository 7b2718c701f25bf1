"""The health of chat models: what those in use cost and hold, which window counts, and who writes the summaries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.context.compaction.model import ModelSummarizer, SummaryCounts, memory_of
from edgemem.errors import ClosedError, ContextOverflowError, ServerError, TemplateError
from edgemem.hooks.prompt import WINDOW
from edgemem.llama.server.chat import HttpSide, find_no_slot
from edgemem.llama.state import headers_in
from edgemem.llama.template.append_only import grows_by_appending
from edgemem.records import Check
from edgemem.store.epochs import count_reasons

if TYPE_CHECKING:
    from edgemem.context.budget import Budget
    from edgemem.llama.protocols import Tokenizer
    from edgemem.memory.opened import OpenHome
    from edgemem.records import Message


def ok(name: str, detail: str) -> Check:
    """Return a row of `check` that says all is well."""
    return Check(name, "ok", detail)


def warn(name: str, detail: str, advice: str) -> Check:
    """Return a row of `check` that warns, and says what to do; the robot goes on."""
    return Check(name, "warn", detail, advice)


def check_tokenizer(memory: OpenHome) -> Check:
    """Tell what the chat templates in use cost: that of the memory's own tokenizer, and those of the models of its sessions."""
    own = [memory.tokenizer] if memory.tokenizer.exact else []
    using = [budget.tokenizer for budget in memory.diagnostics.budgets() if budget.tokenizer.exact]
    costs = dict(filter(None, map(_growth, [*own, *using])))
    if not costs:
        return ok(
            "tokenizer",
            "none of its own: counts are exact where a chat model lends its tokenizer, and estimates elsewhere",
        )
    detail = "; ".join(costs)
    if any(costs.values()):
        advice = "Replies are right, only later; pass another chat template if that is too slow."
        return warn("tokenizer", detail, advice)
    return ok("tokenizer", detail)


def _growth(tokenizer: Tokenizer) -> tuple[str, bool] | None:
    """Return what a chat template costs, and whether it costs anything; None where its model was closed meanwhile."""
    try:
        tokenizer.count([{"role": "user", "content": "Hello."}])
        growth = grows_by_appending(tokenizer)
    except TemplateError as error:
        return str(error), True
    except ClosedError:
        return None
    except ServerError as error:
        return f"exact; its chat template could not be looked at: {str(error).rstrip('.')}", False
    if not growth:
        return f"{growth.reason}: what changes is read again each turn", True
    if growth.reason:
        return f"exact; {growth.reason}, and is kept from it", False
    return f"exact; the chat template only appends{_in_one_piece(tokenizer)}", False


def _in_one_piece(tokenizer: Tokenizer) -> str:
    """Tell what it costs where a vocabulary has no marker of the template, so that a prompt cannot be cut into turns."""
    asked: list[Message] = [{"role": role, "content": "Hello."} for role in ("user", "assistant", "user")]
    if len(tokenizer.render(asked).segments) > 2:  # a token that begins every text, and the text
        return ""
    return (
        ", but the vocabulary has none of its markers: each prompt is tokenised whole, and where history was changed, all"
        " behind the first reply is read again"
    )


def check_window(memory: OpenHome) -> Check:
    """Tell which window counts, and whether instructions, tools and a turn fit it."""
    context = memory.profile.context
    overflows = [failure for failure in memory.failures.read() if failure.hook == WINDOW]
    if overflows:
        often = "" if overflows[0].count == 1 else f", at least {overflows[0].count} times"
        advice = (
            "Give the hooks the model (`hooks(model=…)`), or name its window under [context] window_tokens; then delete "
            f"{memory.failures.path}."
        )
        return warn("window", f"a prompt did not fit{often}: {overflows[0].message}", advice)
    known = {budget.window_tokens: budget for budget in memory.diagnostics.budgets()}
    too_small = next(filter(None, map(_too_small, known.values())), "")
    if too_small:
        advice = "Until then every part of a prompt has less than its least."
        return Check("window", "fail", too_small, advice)
    window = min(known, default=context.window_tokens)
    if window < context.window_tokens:
        return warn(
            "window",
            f"the model's has {window:,} tokens and the profile says {context.window_tokens:,}: the model's counts",
            f"Set window_tokens = {window} under [context], or open the model with a larger n_ctx (its server: -c).",
        )
    models = [budget.model_window for budget in known.values() if budget.model_window]
    whose = f"; the model's has {max(models):,}" if models else ""
    return ok("window", f"{window:,} tokens, as the profile says{whose}")


def _too_small(budget: Budget) -> str:
    """Return why instructions, tools and a turn do not fit a window, or nothing if they do."""
    try:
        budget.check_head()
    except ContextOverflowError as error:
        return str(error)
    return ""


def check_state(memory: OpenHome) -> Check:
    """Tell what is kept of chat models, so that a restart need not evaluate it again."""
    name, here = "kept state", memory.diagnostics.kept_states()
    for kept in here:
        if kept.off:
            return warn(name, f"nothing is kept: {kept.off}", "A restart evaluates the whole prompt.")
    if memory.profile.chat.keep_state == "off":
        return ok(name, "switched off ([chat] keep_state)")
    what = {"prefix": "instructions and tools", "whole": "the whole conversation"}
    states = [
        f"{what[header.kind]} of {header.name}: {len(header.ids):,} tokens, {path.stat().st_size / 1e6:.1f} MB,"
        f" {age_of((memory.database.now() - header.at) / 3600)} old"
        for path, header in headers_in(memory.home / "db")
    ]
    faults = [
        f"a kept state was not used: {kept.fault}" if kept.ignored else kept.fault
        for kept in here
        if kept.fault
    ]
    if faults:
        advice = "The prompt is evaluated anew; the state is kept again by itself."
        return warn(name, "; ".join([*faults, *states]), advice)
    return ok(name, "; ".join(states) or "none yet; a chat model in this process writes it after a turn")


def check_compaction(memory: OpenHome) -> Check:
    """Tell how summaries are made, what that costs, and why the model's were not used."""
    settings = memory.profile.compaction
    writer, slotless = _writer(memory)
    counts = SummaryCounts.of(count_reasons(memory.database))
    detail = "; ".join(filter(None, (writer, counts.as_text(), _read_ahead(memory, counts))))
    faults = [prefix.off for prefix in memory.diagnostics.prefixes() if prefix.off]
    if faults:
        advice = "The first turn of a new epoch reads its whole prompt, as without [compaction] warm."
        return warn("compaction", f"{detail}; nothing is read ahead: {faults[0]}", advice)
    if slotless:
        return warn("compaction", detail, 'Or set summarizer = "extractive" under [compaction].')
    if settings.summarizer == "model" and counts.poor:
        advice = 'Take a larger chat model, or set summarizer = "extractive" under [compaction], which costs nothing.'
        return warn("compaction", detail, advice)
    return ok("compaction", detail)


def _writer(memory: OpenHome) -> tuple[str, str]:
    """Return how summaries are made, and why the chat model does not write them although the profile says so."""
    settings, chat = memory.profile.compaction, memory.profile.chat
    extractive, why = "summaries are made of sentences that were said", ""
    if settings.summarizer == "extractive":
        return extractive, ""
    remote = bool(chat.server)
    used = memory.diagnostics.summarizers()
    if used:  # what the sessions of this process really have
        writers = [summarizer.model for summarizer in used if isinstance(summarizer, ModelSummarizer)]
        remote = any(isinstance(model, HttpSide) for model in writers)
        if not writers:
            why = (chat.server and find_no_slot(chat)) or (
                "no session has a chat model that could write them; give the hooks one (`hooks(model=…)`), in this process"
                " or with a second slot of its server (-np 2)"
            )
    elif remote:
        why = find_no_slot(chat)
    if why:
        return f"{extractive}: {why}", why
    here = f"in a second context of {settings.summary_ctx:,} tokens ({memory_of(settings.summary_ctx)}, while it writes)"
    return f"the chat model writes summaries {'in another slot of its server' if remote else here}", ""


def _read_ahead(memory: OpenHome, counts: SummaryCounts) -> str:
    """Tell what reading new prompts in idle time comes to, where it is switched on."""
    if not memory.profile.compaction.warm:
        return ""
    epochs = counts.model + counts.extractive
    tokens = memory.profile.context.window_tokens * 3 // 4
    before = f", before {counts.ahead} of {epochs} epochs" if epochs else ""
    return f"a model in this process reads a new epoch's prompt in idle time ({memory_of(tokens)}, while it reads){before}"


def age_of(hours: float) -> str:
    """Return an age in words."""
    if hours >= 48:
        return f"{hours / 24:.0f} days"
    return f"{hours:.0f} hours" if hours >= 2 else "under two hours"
