"""The demo's stage: a player that also tells why each line was shown, and what the seed's way would have cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.context.block.render import IN_A_LINE_ABOVE
from edgemem.hooks.conversation import conversation_of
from edgemem.inspect.replay import PlayedTurn, Player
from edgemem.inspect.script import Line
from edgemem.llama.tokens.log import common_prefix

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.inspect.script import Line
    from edgemem.loop.loop import AgentLoop, LoopModel, TurnResult
    from edgemem.memory import Memory
    from edgemem.records import Message


class ShownLine(msgspec.Struct, frozen=True):
    """One line of the block, and the signals that found it."""

    text: str
    why: tuple[str, ...]


class Scene(msgspec.Struct, frozen=True):
    """One turn as the demo shows it."""

    played: PlayedTurn
    shown: tuple[ShownLine, ...]
    compacted: bool
    """Whether the prompt began anew with this turn."""
    seed_tokens: int
    """Tokens of all hops that would have been new with memory in the system message."""
    late: bool
    """Whether recall took longer than a robot waits for it."""

    @property
    def checks(self) -> int:
        """Return how many texts were looked for."""
        return len(self.played.line.must) + len(self.played.line.must_not)

    @property
    def failed(self) -> int:
        """Return how many of them were missing, or there against the script."""
        return len(self.played.missing) + len(self.played.leaked)

    def as_dict(self) -> dict[str, Any]:
        """Return the turn for JSON, without the prompts, which are long and mostly the same."""
        played, line = self.played, self.played.line
        return {
            "at": line.local.isoformat(),
            "session": line.session,
            "speaker": line.speaker,
            "say": line.say,
            "reply": played.result.reply,
            "shown": self.shown,
            "tools": played.result.tools,
            "tokens": played.tokens,
            "new_tokens": played.new_tokens,
            "memory_tokens": played.block_tokens,
            "compacted": self.compacted,
            "hooks_ms": played.result.hooks_ms,
            "commit_ms": played.result.commit_ms,
            "late": self.late,
            "checks": self.checks,
            "missing": played.missing,
            "leaked": played.leaked,
        }


class Stage(Player):
    """Plays lines and keeps, for the newest one, what the audience wants to know."""

    scene: Scene

    def __init__(
        self,
        memory: Memory,
        *,
        model: LoopModel | None,
        instructions: str,
        set_time: Callable[[float], None],
        deadline_ms: float,
    ) -> None:
        """Make the stage.

        Args:
            deadline_ms: how long a robot with this home waits for recall; here it is waited for longer.
        """
        super().__init__(memory, model=model, instructions=instructions, set_time=set_time)
        self._seed_ids: list[int] = []
        self._stands = ("", 0)
        self.deadline_ms = deadline_ms

    def _played(self, line: Line, loop: AgentLoop, result: TurnResult) -> PlayedTurn:
        played = super()._played(line, loop, result)
        turn = conversation_of(loop.ctx).layout.turns[-1]
        recalled = {f"{item.kind}:{item.id}": item for item in played.recalled}
        shown = []
        for item in turn.shown:
            why = recalled[item.item].why if item.item in recalled else ("changed",) if item.fact else ()
            shown.append(ShownLine(item.line.removeprefix("- ") or IN_A_LINE_ABOVE, why))
        compacted = self._stands[0] == line.session and played.epoch > self._stands[1]
        self._stands = (line.session, played.epoch)
        self.scene = Scene(
            played, tuple(shown), compacted, self._seed(result, played.block), self._late(played)
        )
        return played

    def _late(self, played: PlayedTurn) -> bool:
        recall = played.recall
        return recall is not None and (recall.late or recall.embed_ms + recall.search_ms > self.deadline_ms)

    def _seed(self, result: TurnResult, block: str) -> int:
        """Count what is new in each hop when memory is rendered into the system message, as the seed does."""
        schemas = [tool.schema() for tool in self._tools.values()]
        remembered = self.memory.store.render_for_prompt()
        new = 0
        for handed in result.handed:
            messages: list[Message] = [bare(message, block) for message in handed]
            messages[0] = {**messages[0], "content": f"{self.instructions}\n\n{remembered}"}
            ids = self.tokenizer.render(messages, tools=schemas).ids
            new += len(ids) - common_prefix(self._seed_ids, ids)
            self._seed_ids = ids
        return new


def bare(message: Message, block: str) -> Message:
    """Return a message without the block of its turn."""
    content = message.get("content")
    if block and isinstance(content, str) and content.startswith(block):
        return {**message, "content": content[len(block) :]}
    return message
