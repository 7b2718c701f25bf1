"""How the demo looks: a play in 80 columns, with what memory whispers to the robot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem.cli.printing import console, count, plain, print_hanging

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from edgemem.cli.stage import Scene
    from edgemem.hooks.points import ToolCallResult
    from edgemem.memory import Memory
    from edgemem.records import Fact
    from edgemem.script import Line

COLOURS = {"Mara": "bold magenta", "Jonas": "bold blue"}
STRANGER = "a voice"
NAME = 7
"""Columns for who speaks."""
STRONGEST = 2
"""Of the signals that found a line, this many are told; JSON has all."""
BADLY = 0.5


class Show:
    """Prints scenes as they are played."""

    def __init__(self, robot: str) -> None:
        self._robot = robot
        self._console = console()
        self._started = False

    def opening(self, memory: Memory, window: int, turns: int) -> None:
        """Say what is about to be seen, and with which means."""
        self._say(
            f"{self._robot} is a robot on a kitchen wall. Mara and Jonas live here. {count(turns, 'turn')} on three days, "
            "offline. Under each utterance stands what memory puts before the model, and why."
        )
        exact = (
            "counted exactly"
            if memory.tokenizer.exact
            else "estimated: no vocabulary was found, `make` fetches one"
        )
        self._say(f"Tokens are {exact}; the window holds {window:,}.", style="dim")
        if memory.embedder is None:
            self._say(
                "No embedder: memory finds words, not meaning. `edgemem models get` brings one.",
                style="yellow",
            )

    def day(self, line: Line, work: dict[str, int]) -> None:
        """Draw the line between two days, with what idle time had to do after the last turn."""
        if self._started:
            done = ", ".join(f"{what} {n:,}" for what, n in work.items() if n)
            self._say(
                f"\nThe kitchen is quiet. Idle time: {done or 'nothing left to do'}.", style="dim italic"
            )
        self._started = True
        self._console.print()
        self._console.rule(
            f"{line.local:%A}, {line.local.day} {line.local:%B %Y}", align="left", style="bold"
        )

    def turn(self, scene: Scene, window: int) -> None:
        """Print one turn."""
        played, line = scene.played, scene.played.line
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
        figures = (
            f"{played.tokens:,}/{window:,} tokens · {played.new_tokens:,} new{memory} · "
            f"{played.result.hooks_ms:.0f} + {played.result.commit_ms:.0f} ms{checks}"
        )
        self._row("", "", figures, dim=True)
        for text in played.missing:
            self._row("", "FAILED", f"this was not before the model: {text}", style="bold red")
        for text in played.leaked:
            self._row("", "FAILED", f"this was before the model, and must not be: {text}", style="bold red")

    def _tool(self, tool: ToolCallResult) -> None:
        """Print what a tool did; what it keeps is told apart from what it does."""
        if tool.name == "remember_fact":
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

    def facts(self, title: str, facts: Sequence[Fact]) -> None:
        """Print facts, and who may hear them."""
        from rich.table import Table
        from rich.text import Text

        self._console.print()
        self._console.rule(title, align="left", style="bold")
        whose = {"shared": "anyone", "household": "the household", "private": ""}
        table = Table.grid(padding=(0, 2, 0, 0))
        for column in ("fact", "value", "whose"):
            table.add_column(
                column, overflow="fold", ratio=1 if column == "value" else None, no_wrap=column != "value"
            )
        for fact in sorted(facts, key=lambda fact: fact.key):
            for_whom = whose[fact.level] or f"{fact.owner} alone"
            table.add_row(
                plain(fact.key), Text(plain(fact.value)), Text(f"for {plain(for_whom)}", style="dim italic")
            )
        self._console.print(table)

    def closing(self, report: dict[str, Any], home: Path | None) -> None:
        """Print the figures, and what to try next."""
        self._console.print()
        self._console.rule("In short", align="left", style="bold")
        passed, checks = report["checks_passed"], report["checks"]
        seed, ours = report["tokens_memory_in_system_message"], report["tokens_evaluated"]
        self._figure(
            "turns",
            f"{report['turns']} on {count(report['days'], 'day')}, {count(report['compactions'], 'compaction')}",
        )
        if report["scripted"]:
            style = "bold green" if passed == checks else "bold red"
            self._figure(
                "checks",
                f"{passed} of {checks} texts were before the model, or kept from it, as they must be",
                style,
            )
        else:
            self._figure(
                "checks",
                f"{passed} of {checks}; they are written for the script's replies, so this is no verdict",
            )
        self._figure("tokens", f"{ours:,} evaluated, {report['tokens_memory']:,} of them memory")
        self._figure(
            "", f"{seed:,} ({seed / max(1, ours):.1f} times as many) with memory in the system message"
        )
        self._figure(
            "time", f"{report['hooks_ms_median']:.1f} ms before the model is called (median of all turns)"
        )
        self._figure("disk", f"{report['bytes_of_truth'] / 1e3:,.0f} kB hold all of it")
        self._console.print()
        if home is None:
            self._say("Keep the memory and look into it:")
            self._command("edgemem demo --home /tmp/pip")
            home_text = "/tmp/pip"  # noqa: S108 - an example to type
        else:
            self._say("Look into it:")
            home_text = str(home)
        self._command(f'edgemem recall "what can the guest not eat" --home {home_text}')
        self._command(f"edgemem facts oyelaran.allergy --home {home_text}")
        self._command(f'sqlite3 "file:{home_text}/db/memory.db?mode=ro" "select * from conversation"')  # noqa: S608

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

    def _figure(self, name: str, text: str, style: str = "bold") -> None:
        self._row("", name, text, style=style)

    def _say(self, text: str, style: str = "") -> None:
        self._console.print(text, style=style or None)

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
