"""How the demo looks: a play in 80 columns, with what memory whispers to the robot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgemem.cli.printing import console, count, plain, print_hanging
from edgemem.records import REMEMBER_FACT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from edgemem.cli.stage import Scene
    from edgemem.hooks.points import ToolCallResult
    from edgemem.inspect.script import Line
    from edgemem.memory import Memory
    from edgemem.records import Fact

COLOURS = {"Mara": "bold magenta", "Jonas": "bold blue"}
STRANGER = "a voice"
NAME = 7
"""Columns for who speaks."""
STRONGEST = 2
"""Of the signals that found a line, this many are told; JSON has all."""
BADLY = 0.5


class Show:
    """Prints scenes as they are played."""

    def __init__(self, robot: str, home: Path | None = None) -> None:
        """Make the show.

        Args:
            robot: its name.
            home: where the memory stays, if it does.
        """
        self._robot = robot
        self._home = home
        self._console = console()
        self._memory: Memory | None = None
        self._lenient = False
        self._window = 0
        self._day: date | None = None

    def opening(self, memory: Memory, turns: int, *, scripted: bool) -> None:
        """Say what is about to be seen, and with which means."""
        written = f"What {self._robot} replies and keeps comes from a script; what memory does is real."
        answers = f"A model replies. What {self._robot} must keep comes from a script, whatever it says."
        self._say(written if scripted else answers)
        self._memory, self._window = memory, memory.profile.context.window_tokens
        self._say(
            f"{self._robot} is a robot on a kitchen wall. Mara and Jonas live here. {count(turns, 'turn')} on three "
            "days, offline. Under each utterance stands what memory puts before the model, and why."
        )
        exact = (
            "counted exactly"
            if memory.tokenizer.exact
            else "estimated: no vocabulary was found; --llm names the model whose tokenizer counts"
        )
        self._say(f"Tokens are {exact}; the window holds {self._window:,}.", style="dim")
        # What must be found is written for the script's replies, and for recall by words and meaning.
        self._lenient = memory.embedder is None or not scripted
        if memory.embedder is None:
            self._say(
                "No embedder: words are found, meaning is not. `edgemem models get` brings one.",
                style="yellow",
            )

    def _begin_day(self, line: Line) -> None:
        """Draw the line between two days, with what idle time has done meanwhile."""
        if self._day is not None and self._memory is not None:
            means = "words and meaning" if self._memory.embedder is not None else "words"
            rest = sum(self._memory.pending().values())
            done = (
                f"all that was said is indexed by {means}"
                if not rest
                else f"{count(rest, 'record')} wait for the index"
            )
            self._console.print()
            self._say(f"The kitchen is quiet. In idle time {done}.", style="dim italic")
        self._day = line.local.date()
        self._rule(f"{line.local:%A}, {line.local.day} {line.local:%B %Y}")

    def turn(self, scene: Scene) -> None:
        """Print one turn."""
        played, line = scene.played, scene.played.line
        if line.local.date() != self._day:
            self._begin_day(line)
        who = line.speaker or STRANGER
        self._console.print()
        self._row(
            f"{line.local:%H:%M}", who, line.say, style=COLOURS.get(who, "bold yellow"), note=_heard(line)
        )
        if scene.compacted:
            self._row(
                "",
                "memory",
                "older turns are a summary now: the window was filling up",
                style="yellow",
                dim=True,
            )
        for item in scene.shown:
            why = f"({', '.join(item.why[:STRONGEST])})" if item.why else ""
            self._row("", "memory", item.text, style="cyan", note=why, dim=True)
        for tool in played.result.tools:
            self._tool(tool)
        reply, unheard = played.result.reply, ""
        if line.interrupted is not None and reply.startswith(line.interrupted):
            reply, unheard = line.interrupted, reply[len(line.interrupted) :]
        self._row(
            "",
            self._robot,
            reply,
            style="bold green",
            note=f"[cut off; nobody heard:{unheard}]" if unheard else "",
        )
        memory = f" ({played.block_tokens} memory)" if played.block_tokens else ""
        checks = f" · {scene.checks - scene.failed}/{scene.checks} ok" if scene.checks else ""
        late = ", late" if scene.late else ""
        figures = (
            f"{played.tokens:,}/{self._window:,} tokens · {played.new_tokens:,} new{memory} · "
            f"{played.result.hooks_ms:.0f} + {played.result.commit_ms:.0f} ms{late}{checks}"
        )
        self._row("", "", figures, dim=True)
        for text in played.missing:
            if self._lenient or scene.late:
                self._row("", "missed", f"this was not before the model: {text}", style="yellow", dim=True)
            else:
                self._row("", "FAILED", f"this was not before the model: {text}", style="bold red")
        for text in played.leaked:
            self._row("", "FAILED", f"this was before the model, and must not be: {text}", style="bold red")

    def _tool(self, tool: ToolCallResult) -> None:
        """Print what a tool did; what it keeps is told apart from what it does."""
        if tool.name == REMEMBER_FACT:
            key, value = tool.arguments.get("key"), tool.arguments.get("value")
            self._row(
                "",
                "keeps",
                f"{key}: {value}" if value is not None else f"{key} is over",
                style="cyan",
                dim=True,
            )
        elif tool.error is not None:
            self._row(
                "",
                "tool",
                f"{tool.name} failed: {tool.error.removeprefix('ToolFailedError: ')}",
                style="red",
                dim=True,
            )
        else:
            self._row("", "tool", f"{tool.name}: {tool.result}", style="cyan", dim=True)

    def closing(self, report: dict[str, Any]) -> None:
        """Print what is held to be true, the figures, and what to try next."""
        self._facts(f"What {self._robot} holds to be true now", report["facts"])
        self._facts(f"What {self._robot} believed on the first night", report["facts_believed_on_day_one"])
        self._figures(report["summary"])
        self._console.print()
        home = self._home or Path("/tmp/pip")  # noqa: S108 - an example to type
        self._say("Look into it:" if self._home else "Keep the memory, and look into it:")
        if self._home is None:
            self._command(f"edgemem demo --home {home}")
        self._command(f'edgemem recall "where are the tickets" --home {home}')
        self._command(f'edgemem recall "where are the tickets" --speaker Jonas --home {home}')
        self._command(f"edgemem facts oyelaran.allergy --home {home}")
        self._command(f'sqlite3 "file:{home}/db/memory.db?mode=ro" "select * from conversation"')  # noqa: S608

    def _facts(self, title: str, facts: Sequence[Fact]) -> None:
        """Print facts, and who may hear them."""
        from rich.text import Text

        self._rule(title)
        width = max((len(plain(fact.key)) for fact in facts), default=0)
        for fact in sorted(facts, key=lambda fact: fact.key):
            whose = {"shared": "anyone", "household": "the household"}.get(fact.level, f"{fact.owner} alone")
            value = Text(plain(fact.value)).append(f" (for {plain(whose)})", style="dim italic")
            print_hanging(self._console, Text(f"{plain(fact.key):<{width}}  "), value)

    def _figures(self, report: dict[str, Any]) -> None:
        """Print the figures of the whole run."""
        self._rule("In short")
        passed, checks = report["checks_passed"], report["checks"]
        seed, ours = report["tokens_memory_in_system_message"], report["tokens_evaluated"]
        late = report["late"]
        slow = (
            f"; {count(late, 'recall')} took longer than the {report['deadline_ms']:g} ms that a robot waits"
        )
        figures = {
            "turns": f"{report['turns']} on {count(report['days'], 'day')}, {count(report['compactions'], 'compaction')}",
            "checks": f"{passed} of {checks} texts were before the model, or kept from it, as they must be",
            "tokens": f"{ours:,} evaluated, {report['tokens_memory']:,} of them memory; with memory in the system "
            f"message, rendered as it stands, it would have been {seed:,}, {seed / max(1, ours):.1f} times as many",
            "time": f"{report['hooks_ms_median']:.0f} ms until the model is called (median){slow if late else ''}",
            "disk": f"{report['bytes_of_truth'] / 1e3:,.0f} kB hold all of it",
        }
        if not report["scripted"]:
            figures["checks"] += "; they are written for the script's replies, so this is no verdict"
        elif not report["embedder"] and passed < checks:
            figures["checks"] += "; the others need the embedder, which finds what is said in other words"
        elif report["ok"] and passed < checks:
            figures["checks"] += "; the others came late"
        for name, text in figures.items():
            style = ("bold green" if report["ok"] else "bold red") if name == "checks" else "bold"
            self._row("", name, text, style=style)
        for text in report["failures"]:
            self._row("", "FAILED", text, style="bold red")

    def _row(
        self, at: str, who: str, text: str, *, style: str = "", note: str = "", dim: bool = False
    ) -> None:
        """Print a time, a name, and a text that wraps under itself."""
        from rich.text import Text

        body = Text(plain(text), style="dim" if dim else "")
        if note:
            body.append(f" {plain(note)}", style="dim italic")
        lead = Text.assemble((f"{at:<6}", "dim"), (f"{plain(who):<{NAME}} ", style))
        print_hanging(self._console, lead, body)

    def _rule(self, title: str) -> None:
        self._console.print()
        self._console.rule(title, align="left", style="bold")

    def _say(self, text: str, style: str = "") -> None:
        from rich.text import Text

        print_hanging(self._console, Text(), Text(text, style=style))

    def _command(self, text: str) -> None:
        self._console.print(f"  {text}", style="bold", soft_wrap=True)


def _heard(line: Line) -> str:
    """Return what is worth knowing about how an utterance was heard."""
    notes = []
    if line.private:
        notes.append("in confidence")
    if line.present:
        notes.append(f"{' and '.join(line.present)} listening")
    if line.heard.asr_confidence is not None and line.heard.asr_confidence < BADLY:
        notes.append(f"heard badly, {line.heard.asr_confidence:.0%} sure")
    if line.speaker is None:
        notes.append("voice not recognised")
    return f"[{', '.join(notes)}]" if notes else ""
