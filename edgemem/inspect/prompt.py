"""Inspecting: the next prompt of a session, part by part with its tokens, made by the hooks themselves.

Only hooks that put the prompt together are asked, and the turn never ends, so nothing is stored or learnt. Recall is asked as
the speaker, without bounds, and as the operator: items closed to the speaker are named with the reason, never quoted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.context.block.delta import VALUES, head_of
from edgemem.context.block.render import IN_A_LINE_ABOVE
from edgemem.context.block.select import Uttered, adds_information, is_question, least_score, select_items
from edgemem.context.messages import split_turns
from edgemem.context.prompt import PromptLog
from edgemem.errors import InvalidInputError, TemplateError
from edgemem.fence import BULLET, fence, is_alone, storable
from edgemem.hooks.builtin import Door, door_of
from edgemem.recall.search.search import RecallStats
from edgemem.recall.text.analyse import analyse
from edgemem.records import BlockLine, Message, Recalled, Session, Subject, text_of
from edgemem.session.memory_block import MemoryBlock
from edgemem.session.points import BEFORE_LLM, Hook, HookRegistry, TurnContext, hook_name, traits_of
from edgemem.session.steps import Parts, Steps
from edgemem.session.turn import Agent, OpenTurn
from edgemem.store.rights import readable
from edgemem.store.sessions import SQLiteSessionStore

if TYPE_CHECKING:
    from edgemem.llama.protocols import Tokenizer
    from edgemem.memory import Memory
    from edgemem.session.tools import Tool

CANDIDATES = 30

PLAN = ("instructions", "tools", "summary", "history", "memory", "notes", "utterance", "opening")

NO_TOOLS = "The model's chat template prints no tools, so the model knows of none."

WHY = {
    "gone": "no longer true, and the prompt says it is", "changed": "changed since it was shown",
    "interrupted": "the reply before was cut off", "note": "the end of NOTES.md",
    "procedure": "a procedure that fits what is asked", "MEMORY.md": "the beginning of the bank's MEMORY.md",
}  # fmt: skip
"""Why a line is there without recall, by the first part of its id."""


class InspectedLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of the memory block, or a remembered item that did not become one."""

    id: str
    text: str
    """Empty where it is closed to the speaker."""
    tokens: int = 0
    """Of the line by itself; the block has its two tags beside."""
    score: float | None = None
    """How likely it helps."""
    least: float | None = None
    """How likely it must be, at least, to be in the block."""
    why: tuple[str, ...] = ()
    left_out: str = ""
    """Why it is not in the block; empty where it is."""


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


class Inspection(msgspec.Struct, frozen=True):
    """The next prompt, and what it leaves for the answer."""

    parts: list[Part]
    lines: list[InspectedLine]
    note_lines: list[InspectedLine]
    left_out: list[InspectedLine]
    """Items that the utterance finds and that are not in the block, best first."""
    recall: RecallStats
    tokens: int
    exact: bool
    """Whether tokens were counted by a model's tokenizer, or are estimates."""
    window_tokens: int
    """Of the model in use, or the profile's where that is smaller."""
    reply_tokens: int
    block_limit: int | None
    """Of the block of memory; None: only its candidates are capped."""
    notes: list[str]
    messages: list[Message]

    @property
    def free_tokens(self) -> int:
        """Return the room for the answer."""
        return max(0, self.window_tokens - self.tokens)

    @property
    def over_tokens(self) -> int:
        """Return by how many tokens the prompt and the least answer exceed the window."""
        return max(0, self.tokens + self.reply_tokens - self.window_tokens)

    @property
    def over_advice(self) -> str:
        """Return what to do about `over_tokens`."""
        head = self.plan["instructions"] + self.plan["tools"]
        if self.plan["utterance"] >= head:
            return "say it shorter, or give the model a larger window."
        return "shorten the instructions, offer fewer tools, or give the model a larger window."

    @property
    def plan(self) -> dict[str, int]:
        """Return the tokens by kind of part, as the model reads them; `history` is all turns."""
        plan = dict.fromkeys(PLAN, 0)
        for part in self.parts:
            plan["history" if part.name == "turn" else part.name] += part.tokens
        return plan


def inspect_prompt(
    memory: Memory,
    utterance: str,
    *,
    session: str,
    speaker: str | None = None,
    tokenizer: Tokenizer | None = None,
    instructions: str = "",
    tools: Sequence[Tool] = (),
) -> Inspection:
    """Return the prompt that the next turn of a session would hand to the model; `speaker` None is an unknown voice."""
    if not utterance.strip():
        raise InvalidInputError("Nothing was said: give the utterance that the prompt is for.")
    # Brings the model and the index into memory, so that recall's figures are those of a running robot.
    memory.recall("Is anybody there?", k=1)
    hooks = memory.hooks(session_id=session, speaker=speaker, tokenizer=tokenizer)
    door, registry = door_of(hooks), HookRegistry()
    kept = door.parts
    injection, window = kept.memory, kept.budget
    if injection is None or window is None or window.budget is None:
        raise InvalidInputError("The hooks of this memory put no prompt together.")
    budget = window.budget
    parts_asked = Parts(
        head=kept.head,
        memory=injection,
        notes=kept.notes,
        proposals=kept.proposals,
        compaction=kept.compaction,
        budget=window,
    )
    system: list[Message] = [{"role": "system", "content": instructions}] if instructions else []
    ctx = TurnContext(Session(), speaker=speaker)
    agent = Agent(Steps(parts_asked, registry), ctx, system, {}, [tool.schema() for tool in tools])
    turn = _begun(door, utterance, speaker, agent)
    payload: dict[str, Any] = {"messages": turn.messages, "tools": turn.tools, "now": turn.now}
    prompt_log = door.log.prompt_log
    stats = memory.diagnostics.search.last
    # As the speaker first: the meaning of "my" is part of a score. Then as the operator, with closed items.
    others: dict[str, Recalled] = {}
    for reader in (speaker, msgspec.UNSET):
        for item in memory.recall(utterance, speaker=reader, k=CANDIDATES, asked=False):
            others.setdefault(item.name, item)

    def size(messages: Sequence[Message], *, opening: bool = False, tools: Any = None) -> int:
        return budget.tokenizer.render(
            messages, tools=tools, add_generation_prompt=opening, now=payload.get("now")
        ).n

    parts = list(_parts(payload["messages"], prompt_log, size))
    if payload["tools"]:
        # Templates put tools anywhere; the growth of the whole is right for all.
        whole = size(payload["messages"], opening=True, tools=payload["tools"])
        names = "\n".join(tool["function"]["name"] for tool in payload["tools"])
        place = 1 if parts[0].name == "instructions" else 0
        parts.insert(place, Part("tools", whole - sum(part.tokens for part in parts), names))
    block, noted = (
        prompt_log.sections[name].shown if name in prompt_log.sections else () for name in ("memory", "notes")
    )
    alone = prompt_log.running is not None and is_alone(prompt_log.running.block)

    def least(item: Recalled) -> float:
        return least_score(item, injection.floor, prompt_log.answer)

    def reasons(item: Recalled) -> tuple[str, ...]:
        found = memory.why(item.thought_id, reader=prompt_log.reader)
        contested = found.contested if found is not None else ()
        return *item.why, *(f"contested by {other.essence}" for other in contested)

    scores = {item.name: (item.score, least(item), reasons(item)) for item in injection.last}

    def line(item: BlockLine) -> InspectedLine:
        text = item.line.removeprefix(BULLET) if alone else f"{item.line}\n"
        tokens = len(budget.tokenizer.encode(text)) if item.line else 0
        anyway = WHY.get(item.id.partition(":")[0], "told anyway")
        score_and_why = scores.get(item.item, (None, None, (anyway,)))
        return InspectedLine(item.id, item.line or IN_A_LINE_ABOVE, tokens, *score_and_why)

    judge = Judge(injection, prompt_log, block, k=2 * memory.profile.recall.k)
    return Inspection(
        parts,
        [line(item) for item in block],
        [line(item) for item in noted],
        [
            InspectedLine(name, text, 0, item.score, least(item), item.why, judge.reason(item))
            for name, item in sorted(others.items(), key=lambda other: -other[1].score)
            if (text := judge.text(item)) is not None
        ],
        stats,
        sum(part.tokens for part in parts),
        budget.tokenizer.exact,
        budget.window_tokens,
        budget.context.reply_tokens,
        injection.block_tokens,
        list(_notes(hooks, kept, registry, prompt_log, stats, parts)),
        payload["messages"],
    )


def _begun(door: Door, utterance: str, speaker: str | None, agent: Agent) -> OpenTurn:
    """Return a turn that never ends, in the stored session."""
    log, store = door.log, door.parts.session.store
    log.is_resumed = True
    if isinstance(store, SQLiteSessionStore):
        # Turns that a crash left open are not marked.
        journal, session = store.journal, door.parts.session.session_id
        epoch = journal.latest_epoch(session)
        log.prompt_log.resume(journal.read_turns(session, from_n=epoch.first_turn if epoch else 0), epoch)
        agent.ctx.session.messages.extend(log.prompt_log.messages)
    turn = OpenTurn(agent, log)
    turn.begin(utterance, {"task": utterance, "speaker": speaker}, is_reader_given=True)
    return turn


def _notes(
    hooks: Iterable[Hook],
    kept: Parts,
    registry: HookRegistry,
    prompt_log: PromptLog,
    stats: RecallStats,
    parts: Iterable[Part],
) -> Iterator[str]:
    for failure in registry.failures():
        yield f"{failure.hook} failed, so its part is missing: {failure.message}"
    if kept.budget is not None and kept.budget.budget is not None:
        yield from filter(None, [kept.budget.budget.head_fault()])
    for hook in hooks:
        if BEFORE_LLM in hook.points and not traits_of(hook).is_builtin:
            yield f"{hook_name(hook)} was not asked, because it may store something."
    for part in (kept.budget, kept.notes):
        if part is not None and part.note:
            yield part.note
    closed = len(prompt_log.epoch_turns()) - len(prompt_log.committed().turns)
    if closed:
        turns = (
            "1 turn of this conversation is" if closed == 1 else f"{closed:,} turns of this conversation are"
        )
        yield f"{turns} closed to the speaker and left out."
    if stats.late:
        yield "Recall was cut off by its deadline ([recall] deadline_ms, query_embed_ms), so something may be missing."
    if any(part.name == "tools" and part.tokens == 0 for part in parts):
        yield NO_TOOLS


def _parts(messages: Sequence[Message], prompt_log: PromptLog, size: Callable[..., int]) -> Iterator[Part]:
    """Cut a prompt into its parts, each with what it adds to the whole; `opening=True` counts what begins the answer too."""
    head, turns = split_turns(messages)
    past, newest = turns[:-1], turns[-1]
    shown_turns = prompt_log.committed().turns
    shown_turns = shown_turns[len(shown_turns) - len(past) :] if 0 < len(past) <= len(shown_turns) else []
    before = 0
    if head:
        try:
            before = size(head)
        except TemplateError:  # templates that cannot render them alone tell by the difference
            before = size([*head, *turns[0]]) - size(turns[0])
        yield Part("instructions", before, "\n".join(map(text_of, head)))
    summary = head_of(prompt_log.epoch)
    so_far = list(head)

    def grown(turn: list[Message], lead: str, instead: str = "") -> int:
        return size([*so_far, *turn]) - size([*so_far, *_without(turn, lead, instead)]) if lead else 0

    for i, turn in enumerate(turns):
        after = size([*so_far, *turn])
        if i == 0 and (tokens := grown(turn, summary)):
            yield Part("summary", tokens, summary)
            before += tokens
        if turn is newest:
            block = prompt_log.running.block if prompt_log.running else ""
            tokens = grown(turn, block)
            notes = prompt_log.sections.get("notes")
            if block and notes is not None:  # memory and notes stand in one block
                others = (part.lines for part in prompt_log.sections.values() if part is not notes)
                bare = fence([line for lines in others for line in lines])
                noted = grown(turn, block, bare)
                if bare:
                    yield Part("memory", tokens - noted, bare)
                yield Part("notes", noted, "\n".join(notes.lines))
            elif block:
                yield Part("memory", tokens, block)
            yield Part("utterance", after - before - tokens, prompt_log.utterance)
        else:
            own = shown_turns[i] if shown_turns else None
            text = " / ".join(filter(None, map(text_of, turn if own is None else own.messages)))
            part = Part("turn", after - before, text)
            if own is not None:
                who = own.heard.speaker if own.heard is not None else None
                part = Part("turn", after - before, text, own.n, who, grown(turn, own.block))
            yield part
        so_far += turn
        before = after
    yield Part("opening", size(messages, opening=True) - before)


def _without(turn: Sequence[Message], lead: str, instead: str) -> list[Message]:
    """Return a turn with `instead` in place of `lead`, which memory put before its utterance."""
    return [
        {**message, "content": content.replace(lead, instead, 1)}
        if message.get("role") == "user" and isinstance(content := message.get("content"), str)
        else message
        for message in turn
    ]


class Judge:
    """Tells why a candidate is no line of the block just made, whose recall returned `k` items of each sight at most."""

    def __init__(
        self, injection: MemoryBlock, prompt_log: PromptLog, shown: Sequence[BlockLine], *, k: int
    ) -> None:
        self._injection = injection
        self._prompt_log = prompt_log
        self._shown = {line.item for line in shown}.union(filter(None, (line.subject for line in shown)))
        self._k = k
        recalled = injection.last
        utterance = analyse(prompt_log.utterance)
        self._utterance = Uttered.split(utterance)
        worth = select_items(recalled, injection.floor, utterance=utterance, answer=prompt_log.answer)
        self._recalled, self._worth, self._considered = (
            {item.name for item in items} for items in (recalled, worth, injection.considered(worth))
        )

    def text(self, item: Recalled) -> str | None:
        """Return what may be told of a candidate, quoting none that is closed; None: not worth a look, or in the block."""
        if not self._shown.isdisjoint((item.name, _about(item))):
            return None
        if not self._is_closed(item):
            return item.text
        return "" if self._is_near(item) else None

    def _is_closed(self, item: Recalled) -> bool:
        return not readable(self._prompt_log.reader, item.level, item.owner)

    def _is_near(self, item: Recalled) -> bool:
        return item.score >= least_score(item, self._injection.floor, self._prompt_log.answer)

    def reason(self, item: Recalled) -> str:
        """Return why it is left out, in a few words."""
        prompt_log, name = self._prompt_log, item.name
        if self._is_closed(item):
            if item.level == "private":
                return f"private to {item.owner}" if item.owner else "private"
            return "closed to a voice that is not recognised"
        if (standing := self._standing(item)) is not None:
            turns = prompt_log.committed().turns
            since = next(
                (turn.n for turn in turns if any(line.item == standing for line in turn.shown)), None
            )
            where = "at the head of the prompt" if since is None else f"since turn {since}"
            return f"before the model already, {where}"
        if item.session == prompt_log.session and item.turn in prompt_log.committed().numbers:
            return f"before the model already: turn {item.turn} of this conversation"
        if is_question(item):
            return "only asks something"
        if item.kind == "turn" and not adds_information(item.text, self._utterance):
            return "says what has just been said"
        if not self._is_near(item):
            return "not likely enough to help ([injection] useless_per_useful)"
        if name not in self._recalled:
            return f"behind the best {self._k} ([recall] k)"
        if name not in self._worth:
            return "says what a line of the block says"
        if name not in self._considered:
            return "behind what is considered ([injection] max_chars)"
        return f"no room in {self._injection.block_tokens} tokens ([context] block_tokens)"

    def _standing(self, item: Recalled) -> str | None:
        """Return the name under which it is before the model; a changed value was told under another one."""
        name, about, visible = item.name, _about(item), self._prompt_log.committed().visible
        if about is None or name in visible:
            return name if any(line.item == name for line in visible.values()) else None
        last = visible.newest.get(about)
        return last.id if last is not None and last.value == storable(item.value or "") else None


def _about(item: Recalled) -> Subject | None:
    return (item.kind, item.scope, storable(item.key or "")) if item.kind in VALUES else None
