"""`make recording`: plays the demo and draws some of its scenes, as a terminal shows them, into docs/demo.svg.

rich draws what was printed. Its own frame asks a web server for a font; this one takes the monospaced font of whoever looks.
"""

import os
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

SVG = Path(__file__).resolve().parent.parent / "docs" / "demo.svg"
SCENES = (
    "What have we got in the fridge?",
    "I've got the doctor tomorrow",
    "Where are the tickets?",
    "When does Jonas see his doctor?",
    "In short",
)
"""Words of the scenes that are drawn, in the order of the play."""
THEME = TerminalTheme(
    (24, 27, 33),
    (214, 218, 224),
    [(24, 27, 33), (232, 108, 117), (139, 196, 118), (229, 192, 123), (97, 175, 239), (211, 134, 234), (94, 199, 211), (214, 218, 224)],
)  # fmt: skip
CELL = 12.2
"""How wide rich draws a letter."""
FRAME = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="edgemem demo">
<style>
.{unique_id}-matrix {{ font: {char_height}px/{line_height}px monospace; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def scenes(printed: str) -> str:
    """Return the scenes of a play that are drawn, with what it prints of colours."""
    parts = re.split(r"\n\s*\n", printed.replace("\r\n", "\n").strip("\n"))
    plain = [Text.from_ansi(part).plain for part in parts]
    return "\n\n…\n\n".join(
        next(part for part, text in zip(parts, plain, strict=True) if words in text) for words in SCENES
    )


def draw(printed: str) -> str:
    """Return the drawing of what a terminal would show."""
    console = Console(record=True, width=80, file=StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text("$ make demo\n", style="bold"))
    console.print(Text.from_ansi(printed))
    drawing = console.export_svg(title="", theme=THEME, code_format=FRAME, unique_id="demo")
    return re.sub(
        r'x="([\d.]+)" (y="[\d.]+") textLength="([\d.]+)"([^>]*>)((?:&#160;)+)', _without_blanks, drawing
    )


def _without_blanks(text: re.Match[str]) -> str:
    """Return a text that begins where its first letter stands: not every viewer draws blanks before it."""
    width = len(text[5]) // len("&#160;") * CELL
    return f'x="{float(text[1]) + width:g}" {text[2]} textLength="{float(text[3]) - width:g}"{text[4]}'


if __name__ == "__main__":
    terminal = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": "80", "TERM": "xterm-256color"}
    command = [str(Path(sys.executable).with_name("edgemem")), "demo"]
    played = subprocess.run(command, env=terminal, capture_output=True, text=True, check=True)
    if " ms, late" in played.stdout:
        sys.exit("A recall was late, so nothing is drawn: record again when the machine is less busy.")
    SVG.write_text(draw(scenes(played.stdout)), encoding="utf-8")
