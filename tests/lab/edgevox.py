"""The tokens of prompts of `edgemem bench prefill` with the memory of the real EdgeVox: its agent with its hooks, without, and ours."""

from __future__ import annotations

import importlib
import json
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

from edgemem.bench.ground import real_embedder, real_tokenizer, report, say, scratch
from edgemem.bench.prefill import FACTS, OURS, TOOLS, CountingModel, Read, evening, play
from edgemem.errors import InvalidInputError
from edgemem.inspect.replay import INSTRUCTIONS, ScriptedModel, cache_folder
from edgemem.session.tools import never

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from edgemem.bench.corpus import Known
    from edgemem.inspect.replay import Line
    from edgemem.llama.protocols import Tokenizer
    from edgemem.records import Message
    from edgemem.session.tools import Tool

EDGEVOX = "edgevox"
BARE = "edgevox_without_memory"


def run(*, turns: int = 40, edgevox: Path | None = None, home: Path | None = None) -> dict[str, Any]:
    """Hear the same evenings with the agent of EdgeVox, with its memory and without, and with our loop."""
    if edgevox is not None and not (edgevox / "edgevox").is_dir():
        raise InvalidInputError(f"There is no EdgeVox in {edgevox}; leave out --edgevox after `make server`.")
    package = edgevox or edgevox_path()
    if package is None:
        raise InvalidInputError(
            "EdgeVox is not here; `make server` installs it, or name its folder with --edgevox."
        )
    real_embedder()
    with (
        scratch(home) as folder,
        closing(real_tokenizer()) as tokenizer,
        closing(EdgevoxAgent(package, tokenizer, TOOLS, folder, FACTS)) as agent,
    ):
        others = {EDGEVOX: agent, BARE: EdgevoxAgent(package, tokenizer, TOOLS)}
        say(f"{turns} turns of evenings …")
        costs = play(folder / "evening", FACTS, evening(turns), TOOLS, others=others)
    read = {name: sum(turn.read[name] for turn in costs) for name in (EDGEVOX, BARE, OURS)}
    figures = {"turns": turns, "read": read, "times_without_memory": round(read[EDGEVOX] / read[BARE], 4)}
    return report("edgevox", figures, {})


def edgevox_path() -> Path | None:
    """Return the folder of the EdgeVox that `make server` keeps in the cache."""
    paths = cache_folder().glob("edgevox-*/edgevox")
    return max((path.parent for path in paths), key=lambda path: path.stat().st_mtime, default=None)


class EdgevoxAgent:
    """The agent of the real EdgeVox, whose model says what the script says.

    Args:
        folder: where its store and its notes are made, with the defaults of its three memory hooks; None: no memory.
    """

    _language = "en"  # EdgeVox reads it from its model

    def __init__(
        self,
        package: Path,
        tokenizer: Tokenizer,
        tools: Sequence[Tool],
        folder: Path | None = None,
        facts: Sequence[Known] = (),
    ) -> None:
        if str(package) not in sys.path:
            sys.path.append(str(package))
        agents, builtin, memory, llm_tools = (
            importlib.import_module(f"edgevox.{name}")
            for name in ("agents", "agents.hooks_builtin", "agents.memory", "llm.tools")
        )
        self._script = ScriptedModel()
        self._model = CountingModel(self._script, tokenizer)
        self._results: dict[str, Any] = {}
        self._store = self._notes = None
        hooks = []
        if folder is not None:
            self._store = memory.SQLiteMemoryStore(folder / "edgevox.db")
            self._notes = memory.NotesFile(folder / "edgevox-notes.md")
            hooks = [
                builtin.MemoryInjectionHook(self._store),
                builtin.NotesInjectorHook(self._notes),
                builtin.EpisodeLoggerHook(self._store),
            ]
        self.keep(facts, ())
        own = [
            llm_tools.Tool(tool.name, tool.description, tool.parameters, self._answer(tool.name))
            for tool in tools
        ]
        self._agent = agents.LLMAgent("Pip", "a robot", INSTRUCTIONS, tools=own, llm=self, hooks=hooks)
        self._ctx = agents.AgentContext()

    def keep(self, facts: Sequence[Known], notes: Sequence[str]) -> None:
        if self._store is None or self._notes is None:
            return
        for fact in facts:
            self._store.add_fact(fact.key, fact.value)
        for note in notes:
            self._notes.append(note)

    def play(self, line: Line) -> list[Read]:
        """Play a line, and return what was read for it, call by call."""
        self._script.expect(line)
        self._results = {call.name: call.result for call in line.tools}
        self._agent.run(line.say, self._ctx)
        return self._model.pop_reads()

    def complete(
        self, messages: list[Message], *, tools: list[dict[str, Any]] | None = None, **_: Any
    ) -> dict[str, Any]:
        """Read a prompt and answer as llama-cpp-python does; EdgeVox calls this."""
        reply = self._model.complete(messages, tools=tools or [], stop=never, on_text=lambda _: None)
        calls = [
            {"id": f"call_{n}", "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}
            for n, call in enumerate(reply.tool_calls)
        ]
        message = {"role": "assistant", "content": reply.content, "tool_calls": calls}
        return {"choices": [{"message": message}]}

    def close(self) -> None:
        if self._store is not None:
            self._store.close()

    def _answer(self, name: str) -> Callable[..., Any]:
        return lambda **_: self._results[name]
