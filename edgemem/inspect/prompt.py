"""Inspecting: the next prompt of a session, part by part with its tokens, laid out by the hooks themselves.

Only hooks that put the prompt together are asked, and the turn never ends, so nothing is stored and nothing learnt. Whoever
looks asks as the speaker, without bounds, and once more as the operator: what is closed to the speaker is named with the
reason, and never quoted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.context.block.delta import VALUES, newest_values
from edgemem.context.block.head import head_of
from edgemem.context.block.render import IN_A_LINE_ABOVE, About, BlockLine
from edgemem.context.block.select import adds, least_scores, only_asks, worth_saying
from edgemem.context.budget import PARTS, Budget, divide
from edgemem.context.messages import split_turns
from edgemem.context.prompt.log import BlockSection, PromptLog
from edgemem.context.prompt.turn import PromptTurn
from edgemem.errors import ContextOverflowError, InvalidInputError, TemplateError
from edgemem.fence import BULLET, fence, is_alone, storable
from edgemem.hooks.compaction import ContextCompactionHook
from edgemem.hooks.conversation import Conversation, conversation_of
from edgemem.hooks.injection import MemoryInjectionHook
from edgemem.hooks.notes_injector import NotesInjectorHook
from edgemem.hooks.persist import PersistSessionHook
from edgemem.hooks.points import BEFORE_LLM, ON_RUN_START, Hook, TurnContext
from edgemem.hooks.prompt import LayoutHook, TokenBudgetHook
from edgemem.hooks.registry import HookRegistry
from edgemem.hooks.tool_output import ToolOutputTruncatorHook
from edgemem.hooks.turn_log import TimingHook, TurnLogHook
from edgemem.llama.template.chat_template import text_of
from edgemem.recall.search.search import RecallStats
from edgemem.records import Message, Recalled, Session
from edgemem.store.rights import readable

if TYPE_CHECKING:
    from edgemem.llama.protocols import Tokenizer
    from edgemem.store.journal import TurnJournal


Look = Callable[..., Sequence[Recalled]]
"""Finds for the utterance, with `speaker=…` as that person, else as the operator; nothing is held back for its score."""

ASKED = (
    LayoutHook,
    MemoryInjectionHook,
    NotesInjectorHook,
    ContextCompactionHook,
    TokenBudgetHook,
)
"""Hooks that lay out a prompt and write nothing."""

BESIDE = (PersistSessionHook, TurnLogHook, TimingHook, ToolOutputTruncatorHook)
"""Hooks that keep or watch a turn, and put nothing before the model."""

PLAN = ("instructions", "tools", "summary", "history", "memory", "notes", "utterance", "opening")
"""What a prompt is made of."""

NO_TOOLS = "The model's chat template prints no tools, so the model knows of none."

WHY = {
    "gone": "no longer true, and the prompt says it is",
    "changed": "changed since it was shown",
    "interrupted": "the reply before was cut off",
    "note": "the end of NOTES.md",
}
"""Why a line is there that recall did not find, by the first part of its id."""


class InspectedLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of the memory block, or what is remembered and did not become one."""

    id: str
    text: str
    """Empty where it is closed to the speaker."""
    tokens: int = 0
    """Of the line by itself; the block has its two tags beside."""
    score: float | None = None
    why: tuple[str, ...] = ()
    left_out: str = ""
    """Why it is not in the block; empty where it is."""


class PlanRow(msgspec.Struct, frozen=True):
    """One part of the window: what a prompt takes of it, and what of its share is free; all of both are the window."""

    part: str
    tokens: int
    free: int
    floor: int
    ceiling: int


class Inspection(msgspec.Struct, frozen=True):
    """The next prompt, and what it leaves for the answer."""

    parts: list[Part]
    lines: list[InspectedLine]
    """Of memory."""
    note_lines: list[InspectedLine]
    left_out: list[InspectedLine]
    """What the utterance finds and is not in the block, best first."""
    recall: RecallStats
    """How the block's recall went."""
    tokens: int
    """Of the whole prompt."""
    exact: bool
    """Whether tokens were counted by a model's tokenizer, or are estimates."""
    window_tokens: int
    """Of the model in use, or the profile's where that is smaller."""
    reply_tokens: int
    """Kept free for the answer at least."""
    division: list[PlanRow]
    """How the window is divided with this prompt in it."""
    block_limit: int | None
    """Of the block of memory; None: only its candidates are capped."""
    notes: list[str]
    """What else the person who looks should know."""
    messages: list[Message]
    """What the model would be handed."""

    @property
    def free_tokens(self) -> int:
        """Return the room for the answer."""
        return max(0, self.window_tokens - self.tokens)

    @property
    def over_tokens(self) -> int:
        """Return by how many tokens the prompt and the least answer are more than the window."""
        return max(0, self.tokens + self.reply_tokens - self.window_tokens)

    @property
    def over_advice(self) -> str:
        """Return what to do about that."""
        head = self.plan["instructions"] + self.plan["tools"]
        if self.plan["utterance"] >= head:
            return "say it shorter, or give the model a larger window."
        return "shorten the instructions, offer fewer tools, or give the model a larger window."

    @property
    def plan(self) -> dict[str, int]:
        """Return the tokens by kind of part, in the order in which the model reads them; `history` is all turns."""
        plan = dict.fromkeys(PLAN, 0)
        for part in self.parts:
            plan["history" if part.name == "turn" else part.name] += part.tokens
        return plan


def inspect_prompt(
    hooks: Sequence[Hook],
    utterance: str,
    *,
    speaker: str | None = None,
    instructions: str = "",
    tools: Sequence[dict[str, Any]] = (),
    look: Look = lambda **_: (),
    k: int = 5,
    recalled: Callable[[], RecallStats] = RecallStats,
) -> Inspection:
    """Return the prompt that the next turn of a session would hand to the model.

    Args:
        hooks: those of the session, made for this look with the chat model's tokenizer.
        speaker: who says it; None: an unknown voice.
        instructions: the loop's system message.
        tools: the schemas of the loop's tools; they stand in the prompt's head.
        look: finds what else is remembered, to tell why it is not in the prompt.
        k: items of each sight that the hooks' recall returns at most.
        recalled: returns how the newest recall went.
    """
    if not utterance.strip():
        raise InvalidInputError("Nothing was said: give the utterance that the prompt is for.")
    injection = next(hook for hook in hooks if isinstance(hook, MemoryInjectionHook))
    (budget,) = _budgets(hooks)
    registry = HookRegistry(hook for hook in hooks if isinstance(hook, ASKED))
    layout, payload = _laid_out(
        registry, hooks, utterance, speaker=speaker, instructions=instructions, tools=tools
    )
    stats = recalled()
    others = candidates(look, speaker=speaker)
    parts = _parts(payload, layout, budget.tokenizer)
    sections = layout.sections
    memory, noted = (sections[name].shown if name in sections else () for name in ("memory", "notes"))
    judge = Judge(injection, layout, memory, k=k)
    taken: dict[str, int] = {}
    for part in parts:
        share = part.name if part.name in PARTS else "history"
        taken[share] = taken.get(share, 0) + part.tokens
    alone = layout.running is not None and is_alone(layout.running.block)

    def size_of(line: str) -> int:
        return len(budget.tokenizer.encode(line.removeprefix(BULLET) if alone else f"{line}\n"))

    return Inspection(
        parts,
        [_line(item, injection.last, size_of) for item in memory],
        [_line(item, (), size_of) for item in noted],
        [_left_out(item, judge) for item in others if judge.matters(item)],
        stats,
        sum(part.tokens for part in parts),
        budget.tokenizer.exact,
        budget.window_tokens,
        budget.context.reply_tokens,
        _division(budget, taken),
        injection.block_tokens,
        [*_notes(hooks, registry, layout, stats), *_unprinted(parts)],
        payload["messages"],
    )


def _laid_out(
    registry: HookRegistry,
    hooks: Sequence[Hook],
    utterance: str,
    *,
    speaker: str | None,
    instructions: str,
    tools: Sequence[dict[str, Any]],
) -> tuple[PromptLog, dict[str, Any]]:
    """Have the hooks lay out a turn that never ends; return the layout, and what the model would be handed."""
    ctx = TurnContext(Session(), speaker=speaker)
    registry.fire(ON_RUN_START, ctx, {"task": utterance, "speaker": speaker})
    conversation = conversation_of(ctx)
    _resume(hooks, ctx, conversation)
    ctx.session.messages.append({"role": "user", "content": utterance})
    system = [{"role": "system", "content": instructions}] if instructions else []
    asked = {"messages": [*system, *ctx.session.messages], "hop": 0, "tools": list(tools)}
    fired = registry.fire(BEFORE_LLM, ctx, asked)
    if fired.is_end:
        raise InvalidInputError(f"The prompt cannot be laid out: {registry.failures()[0].message}.")
    return conversation.layout, fired.payload


def _parts(payload: Mapping[str, Any], layout: PromptLog, tokenizer: Tokenizer) -> list[Part]:
    """Return the parts of a prompt with their tokens, tools among them."""

    def size(messages: Sequence[Message], *, opening: bool = False, tools: Any = None) -> int:
        return tokenizer.render(
            messages, tools=tools, add_generation_prompt=opening, now=payload.get("now")
        ).n

    parts = parts_of(payload["messages"], layout, size)
    if payload["tools"]:
        # Templates put tools where they like; what the whole grows by is right for all of them.
        whole = size(payload["messages"], opening=True, tools=payload["tools"])
        named = "\n".join(tool["function"]["name"] for tool in payload["tools"])
        taken = Part("tools", whole - sum(part.tokens for part in parts), named)
        parts.insert(1 if parts[0].name == "instructions" else 0, taken)
    return parts


def _unprinted(parts: Iterable[Part]) -> Iterable[str]:
    if any(part.name == "tools" and part.tokens == 0 for part in parts):
        yield NO_TOOLS


def _too_small(budget: Budget) -> Iterable[str]:
    try:
        budget.check_head()
    except ContextOverflowError as error:
        yield str(error)


def _division(budget: Budget, taken: Mapping[str, int]) -> list[PlanRow]:
    """Return the plan with a prompt in it; where the prompt does not fit, nothing is free and the answer has what is left."""
    window, head = budget.window_tokens, (taken.get("instructions", 0), taken.get("tools", 0))
    bounds, held = budget.bounds(*head), budget.bounds(*head, taken)
    shares = {part: taken.get(part, 0) for part in PARTS} | {"answer": max(0, window - sum(taken.values()))}
    if sum(part.floor for part in held.values()) <= window:
        shares = divide(window, held).shares
    used = {**taken, "answer": shares["answer"]}
    return [
        PlanRow(part, used.get(part, 0), shares[part] - used.get(part, 0), *bounds[part]) for part in PARTS
    ]


def _resume(hooks: Iterable[Hook], ctx: TurnContext, conversation: Conversation) -> None:
    """Take the stored session up as PersistSessionHook does, without marking what a crash left open."""
    for hook in hooks:
        journal: TurnJournal | None = getattr(getattr(hook, "session_store", None), "journal", None)
        if not isinstance(hook, PersistSessionHook) or journal is None:
            continue
        epoch = journal.latest_epoch(hook.session_id)
        turns = journal.read_turns(hook.session_id, from_n=epoch.first_turn if epoch else 0)
        conversation.layout.resume(turns, epoch)
        ctx.session.messages.extend(conversation.layout.messages)


def _line(item: BlockLine, recalled: Sequence[Recalled], size_of: Callable[[str], int]) -> InspectedLine:
    tokens = size_of(item.line) if item.line else 0
    text = item.line or IN_A_LINE_ABOVE
    match = next(
        (candidate for candidate in recalled if f"{candidate.kind}:{candidate.id}" == item.item), None
    )
    if match is not None:
        return InspectedLine(item.id, text, tokens, match.score, match.why)
    return InspectedLine(item.id, text, tokens, why=(WHY.get(item.id.partition(":")[0], "told anyway"),))


def _left_out(item: Recalled, judge: Judge) -> InspectedLine:
    text = "" if judge.is_closed(item) else item.text
    return InspectedLine(f"{item.kind}:{item.id}", text, 0, item.score, item.why, judge.reason(item))


def _budgets(hooks: Iterable[Hook]) -> list[Budget]:
    planned = [hook.budget for hook in hooks if isinstance(hook, TokenBudgetHook)]
    return [budget for budget in planned if budget is not None]


def _notes(
    hooks: Iterable[Hook], registry: HookRegistry, layout: PromptLog, stats: RecallStats
) -> Iterable[str]:
    for failure in registry.failures():
        yield f"{failure.hook} failed, so its part is missing: {failure.message}"
    for budget in _budgets(hooks):
        yield from _too_small(budget)
    for hook in hooks:
        if BEFORE_LLM in hook.points and not isinstance(hook, (*ASKED, *BESIDE)):
            yield f"{getattr(hook, 'name', type(hook).__name__)} was not asked, because it may store something."
        note = getattr(hook, "note", "")
        if isinstance(hook, (TokenBudgetHook, NotesInjectorHook)) and note:
            yield note
    closed = sum(not turn.readable(layout.reader) for turn in layout.epoch_turns())
    if closed:
        turns = (
            "1 turn of this conversation is" if closed == 1 else f"{closed:,} turns of this conversation are"
        )
        yield f"{turns} closed to the speaker and left out."
    if stats.late:
        yield "Recall was cut off by its deadline ([recall] deadline_ms, query_embed_ms), so something may be missing."


class Part(msgspec.Struct, frozen=True, omit_defaults=True):
    """One part of a prompt; the tokens of all parts are those of the whole."""

    name: str
    """`instructions`, `tools`, `summary`, `turn`, `memory`, `notes`, `utterance`, or `opening`: what begins the answer."""
    tokens: int
    text: str = ""
    turn: int | None = None
    speaker: str | None = None
    block_tokens: int = 0
    """How many of an earlier turn's tokens are memory that was put before it."""


def parts_of(messages: Sequence[Message], layout: PromptLog, size: Callable[..., int]) -> list[Part]:
    """Cut a prompt into its parts; each takes what the whole grows by when it is added.

    `size` counts the tokens of messages, with `opening=True` those that begin the answer too.
    """
    head, turns = split_turns(messages)
    past, newest = turns[:-1], turns[-1]
    laid = [turn for turn in layout.epoch_turns() if turn.readable(layout.reader)]
    laid = laid[len(laid) - len(past) :] if 0 < len(past) <= len(laid) else []
    parts = []
    before = _head_size(head, turns[0], size)
    if head:
        parts.append(Part("instructions", before, "\n".join(text_of(message) for message in head)))
    summary = head_of(layout.epoch)
    so_far = list(head)
    for i, turn in enumerate(turns):
        after = size([*so_far, *turn])
        block_tokens = 0
        if summary and i == 0:
            bare = _without(turn, summary)
            summary_tokens = after - size([*so_far, *bare])
            if summary_tokens:
                parts.append(Part("summary", summary_tokens, summary))
                before += summary_tokens
        own = laid[i] if i < len(past) and laid else None
        block = (
            own.block
            if own is not None
            else layout.running.block
            if turn is newest and layout.running
            else ""
        )
        if block:
            block_tokens = after - size([*so_far, *_without(turn, block)])
        if turn is newest:
            parts += _block_parts(block, block_tokens, layout, so_far, turn, size)
            parts.append(Part("utterance", after - before - block_tokens, layout.utterance))
        else:
            parts.append(_turn_part(turn, own, after - before, block_tokens))
        so_far += turn
        before = after
    parts.append(Part("opening", size(messages, opening=True) - before))
    return parts


def _block_parts(
    block: str,
    tokens: int,
    layout: PromptLog,
    before: list[Message],
    turn: list[Message],
    size: Callable[..., int],
) -> list[Part]:
    """Tell memory and notes apart, which stand in one block."""
    notes = layout.sections.get("notes")
    if not block or notes is None:
        return [Part("memory", tokens, block)] if block else []
    others = [
        line for section in layout.sections.values() if section is not notes for line in _lines_of(section)
    ]
    bare = fence(others)
    noted = size([*before, *turn]) - size([*before, *_without(turn, block, bare)])
    parts = [Part("memory", tokens - noted, bare)] if bare else []
    return [*parts, Part("notes", noted, "\n".join(_lines_of(notes)))]


def _lines_of(section: BlockSection) -> list[str]:
    lines = [item.line for item in section.shown]
    return [section.header, *lines] if section.header and lines else lines


def _head_size(head: list[Message], first: list[Message], size: Callable[..., int]) -> int:
    """Return what the instructions take; templates that cannot render them alone tell by the difference."""
    if not head:
        return 0
    try:
        return size(head)
    except TemplateError:
        return size([*head, *first]) - size(first)


def _without(turn: Sequence[Message], lead: str, instead: str = "") -> list[Message]:
    """Return a turn without a text that memory put before its utterance, or with another one in its place."""
    out = []
    for message in turn:
        content = message.get("content")
        if message.get("role") == "user" and isinstance(content, str):
            out.append({**message, "content": content.replace(lead, instead, 1)})
        else:
            out.append(message)
    return out


def _turn_part(turn: Sequence[Message], laid: PromptTurn | None, tokens: int, block_tokens: int) -> Part:
    messages = laid.messages if laid is not None else turn
    text = " / ".join(filter(None, (text_of(message) for message in messages)))
    if laid is None:
        return Part("turn", tokens, text)
    speaker = laid.heard.speaker if laid.heard is not None else None
    return Part("turn", tokens, text, laid.n, speaker, block_tokens)


def candidates(look: Look, *, speaker: str | None) -> list[Recalled]:
    """Return what is found, whatever it scores, also what is closed to the speaker (None: an unknown voice); best first."""
    items: dict[str, Recalled] = {}
    # As the speaker first: what "my" means is part of a score.
    for item in (*look(speaker=speaker), *look()):
        items.setdefault(_name(item), item)
    return sorted(items.values(), key=lambda item: -item.score)


class Judge:
    """Tells why a candidate is no line of the block that a hook just made; its recall returned `k` items of each sight at most."""

    def __init__(
        self, injection: MemoryInjectionHook, layout: PromptLog, shown: Sequence[BlockLine], *, k: int
    ) -> None:
        self._injection = injection
        self._layout = layout
        self._shown = shown
        self._k = k
        recalled = injection.last
        self._recalled = {_name(item) for item in recalled}
        worth = worth_saying(recalled, injection.floors, utterance=layout.utterance)
        self._worth = {_name(item) for item in worth}
        self._considered = {_name(item) for item in injection.considered(worth)}
        self._least = least_scores(recalled, injection.floors)
        self._visible = layout.visible()

    def matters(self, item: Recalled) -> bool:
        """Tell whether it is worth a look: the block says it neither as it is nor as a change.

        What is closed to the speaker matters only where it would else be said.
        """
        about = _about(item)
        if any(
            line.item == _name(item) or (about is not None and line.about == about) for line in self._shown
        ):
            return False
        return self.is_near(item) or not self.is_closed(item)

    def is_closed(self, item: Recalled) -> bool:
        """Tell whether the speaker, or somebody who listens, may not know it."""
        return not readable(self._layout.reader, item.level, item.owner)

    def is_near(self, item: Recalled) -> bool:
        """Tell whether it scores enough to be said; what is closed to the speaker might be all that helps."""
        beside = (*self._injection.last, item)
        return item.score >= least_scores(beside, self._injection.floors).of(item)

    def reason(self, item: Recalled) -> str:
        """Return why it is left out, in a few words."""
        layout = self._layout
        if self.is_closed(item):
            if item.level == "private":
                return f"private to {item.owner}" if item.owner else "private"
            return "closed to a voice that is not recognised"
        standing = self._standing(item)
        if standing is not None:
            return f"before the model already, {self._where(standing)}"
        if item.session == layout.session and item.turn in layout.visible_turns():
            return f"before the model already: turn {item.turn} of this conversation"
        if only_asks(item):
            return "only asks something"
        if item.kind == "turn" and not adds(item.text, layout.utterance):
            return "says what has just been said"
        if not self.is_near(item):
            return self._too_little(item)
        if _name(item) not in self._recalled:
            return f"behind the best {self._k} ([recall] k)"
        if _name(item) not in self._worth:
            return "says what a line of the block says"
        if _name(item) not in self._considered:
            return "behind what is considered ([injection] max_chars)"
        return f"no room in {self._injection.block_tokens} tokens ([context] block_tokens)"

    def _too_little(self, item: Recalled) -> str:
        if item.safety:
            return f"under {self._least.of(item):.2f}, the least for what concerns safety"
        if math.isinf(self._least.best):
            return f"nothing reaches {self._injection.floors.any:.2f} ([injection] min_score)"
        share = self._least.share(item)
        return f"under {self._least.of(item):.2f}, {share:.0%} of the best one"

    def _standing(self, item: Recalled) -> str | None:
        """Return under which name it is before the model; a value that changed was told under another one."""
        name, about = _name(item), _about(item)
        if about is None or name in self._visible:
            return name if any(line.item == name for line in self._visible.values()) else None
        last = newest_values(self._visible).get(about)
        return last.id if last is not None and last.value == storable(item.value or "") else None

    def _where(self, name: str) -> str:
        """Return where in the prompt an item stands: in a turn, or else in what stands for the turns that have left."""
        for turn in self._layout.epoch_turns():
            if turn.readable(self._layout.reader) and any(item.item == name for item in turn.shown):
                return f"since turn {turn.n}"
        return "at the head of the prompt"


def _about(item: Recalled) -> About | None:
    return (item.kind, item.scope, storable(item.key or "")) if item.kind in VALUES else None


def _name(item: Recalled) -> str:
    return f"{item.kind}:{item.id}"
