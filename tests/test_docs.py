"""The documentation cannot rot: its blocks run and print what is shown, links lead somewhere, commands are listed, tests say what they test."""

import ast
import os
import re
import runpy
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import click
import msgspec
import pytest
from click.testing import CliRunner
from conftest import Demo

import edgemem
from edgemem.cli import main
from edgemem.clock import Clock
from edgemem.config import load_profile
from edgemem.hooks import POINTS
from edgemem.llama.embedder import LlamaEmbedder
from edgemem.recall.search import search
from support.homes import time_zone
from support.models import write_llama_gguf
from support.servers import RunningServer

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md")))
}
TEXT = "\n".join(PAGES.values())
ANYWHERE = "http://127.0.0.1:8080"  # the llama-server of the pages


class Block(NamedTuple):
    page: str
    kind: str
    code: str
    shown: str


def blocks(page: str, text: str) -> list[Block]:
    """Return every block of a page: a bare one right behind a block of Python is what that prints."""
    read: list[Block] = []
    end = 0
    for match in re.finditer(r"^```([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        kind, code = match[1], match[2]
        if not kind and read and read[-1].kind == "python" and not text[end : match.start()].strip():
            read[-1] = read[-1]._replace(shown=code)
        else:
            read.append(Block(page, kind or ("shell" if code.startswith("$ ") else "files"), code, ""))
        end = match.end()
    return read


BLOCKS = [block for page, text in PAGES.items() for block in blocks(page, text)]


def of_kind(kind: str) -> list[Block]:
    return [block for block in BLOCKS if block.kind == kind]


def compare(shown: str, printed: str) -> None:
    """Fail unless this was printed.

    `…` on a line of its own stands for any lines, and elsewhere for any text; `≈` before a number for one that moves with
    the machine: with a decimal point by .05, without one as it likes.
    """
    pattern, moving = "", list[float]()
    for line in shown.rstrip("\n").splitlines():
        if line == "…":
            pattern += r"(?:.*\n)*?"
            continue
        for part in re.split(r"( *≈[\d,.]*\d)", line):
            if "≈" not in part:
                pattern += re.escape(part).replace("…", ".*")
            elif "." in part:
                moving.append(float(part.strip(" ≈")))
                pattern += r" *(\d*\.\d+)"
            else:
                pattern += r" *[\d,]+"
        pattern += r" *\n"
    found = re.fullmatch(pattern, printed.rstrip("\n") + "\n")
    assert found is not None, f"shown:\n{shown}\nprinted:\n{printed}"
    assert [float(number) for number in found.groups()] == pytest.approx(moving, abs=0.05)


@pytest.fixture(scope="module", autouse=True)
def utc() -> Iterator[None]:
    """Have local time be UTC, in which the pages show it."""
    with time_zone("UTC"):
        yield


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no recall be late, however slow the machine is."""
    embed = LlamaEmbedder.embed_query
    monkeypatch.setattr(LlamaEmbedder, "embed_query", lambda self, text, **_: embed(self, text))
    monkeypatch.setattr(search, "monotonic", lambda: 0.0)


def test_the_recording_shows_what_the_demo_prints(demo: Demo) -> None:
    """docs/demo.svg holds scenes of this very play but for milliseconds, is small, and asks nobody for a font."""
    drawn = (ROOT / "docs" / "demo.svg").read_text(encoding="utf-8")
    assert len(drawn) < 60_000
    asked = re.findall(r"(?:https?:|url\((?!#)|@import|@font-face|<image|<script)[^\s\"]*", drawn)
    assert asked == ["http://www.w3.org/2000/svg"]
    script = runpy.run_path(str(ROOT / ".ci" / "recording.py"))
    texts = [one.text or "" for one in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]
    shown, printed = (
        re.sub(r"\d+\+\d+ms|\d+ms|\d+kB", "", "".join(text.split()))
        for text in ("".join(texts), "$ make demo" + script["scenes"](demo.printed))
    )
    assert shown == printed, "make recording"


@pytest.mark.usefixtures("patience", "minilm")
@pytest.mark.parametrize("block", of_kind("python"), ids=lambda block: block.page)
def test_code_of_the_pages_prints_what_is_shown(
    block: Block,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    chat_model: Callable[[str], Path],
    llama_server: Path,
) -> None:
    """Each Python block runs by itself in an empty home; a model of random weights stands in for the one that it names."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("EDGEMEM_MODELS", str(ROOT / "models"))
    monkeypatch.chdir(tmp_path)
    code = block.code
    named = re.search(r'Llama\("(.*\.gguf)"', code)
    if named or ANYWHERE in code:
        file = tmp_path / (named[1] if named else "model.gguf")
        file.hardlink_to(chat_model("qwen2"))
    if ANYWHERE in code:
        with RunningServer(llama_server, file, tmp_path / "log", n_ctx=4096) as server:
            exec(compile(code.replace(ANYWHERE, server.url), block.page, "exec"), {"__name__": "__main__"})
    else:
        exec(compile(code, block.page, "exec"), {"__name__": "__main__"})
    if block.shown:
        compare(block.shown, capsys.readouterr().out)
    written = (tmp_path / name for name in (".edgemem/kitchen/db/memory.db", "kitchen.json", "agent.db"))
    assert any(file.is_file() for file in written)


@pytest.mark.usefixtures("patience", "minilm")
@pytest.mark.parametrize(
    "block", of_kind("shell"), ids=lambda block: f"{block.page} {block.code[2:40].splitlines()[0]}"
)
def test_commands_of_the_pages_print_what_is_shown(
    block: Block, demo: Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vocabularies: Path
) -> None:
    """Each command works in the home of the demo, at the time at which that ended."""
    with edgemem.open(demo.home, worker=False) as memory:
        end = memory.diagnostics.database.last_tick() / 1e6
    monkeypatch.setattr(Clock, "now", lambda _: end)
    monkeypatch.setenv("EDGEMEM_HOME", str(demo.home))
    monkeypatch.setenv("EDGEMEM_MODELS", str(ROOT / "models"))
    for command, shown in re.findall(r"^\$ ([^\n]*)\n((?:(?!\$ ).*\n)*)", block.code, re.MULTILINE):
        arguments = shlex.split(command, comments=True)
        if arguments == ["make", "demo"]:
            printed = demo.printed
        elif arguments[0] == "edgemem":
            if "chat" in arguments:
                model = write_llama_gguf(tmp_path / "model.gguf", vocabularies=vocabularies, width=32)
                arguments[arguments.index("--llm") + 1] = str(model)
                arguments += ["--home", str(tmp_path / "home"), "--max-tokens", "2"]
            ran = CliRunner().invoke(main, arguments[1:], input="The code is 4711.\n/quit\n")
            assert ran.exit_code == 0, ran.output
            printed = ran.output
        else:
            # `make test-boards` puts an older library before the system's, which the system's programs cannot use.
            own = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
            how = {"cwd": demo.home, "env": own, "capture_output": True, "text": True, "check": True}
            done = subprocess.run(arguments, **how)
            printed = done.stdout
        if shown:
            compare(shown, printed)


def test_settings_of_the_pages_are_settings(tmp_path: Path) -> None:
    """Each block of TOML is a profile."""
    for block in of_kind("toml"):
        (tmp_path / "edgemem.toml").write_text(block.code, encoding="utf-8")
        load_profile(tmp_path / "edgemem.toml")


def test_the_pages_name_what_lies_in_a_home(demo: Demo) -> None:
    """Nothing stands in a home that was used, and in its `db`, that is not in the list."""
    (block,) = of_kind("files")
    lines = [re.split(r"  +", line.strip()) for line in block.code.splitlines()[1:]]
    named = [name for line in lines for name in line if name == line[0] or re.fullmatch(r"\w+/|db/\S+", name)]
    home = demo.home
    there = [path for path in (*home.iterdir(), *(home / "db").iterdir()) if path.name != "db"]
    assert [path.name for path in there if not any(path.match(name.rstrip("/")) for name in named)] == []


@pytest.mark.parametrize(
    "line", sorted({" ".join(line.split()) for line in re.findall(r"`edgemem\s([a-z][^`|]*)`", TEXT)})
)
def test_commands_in_the_text_of_the_pages_are_there(line: str) -> None:
    """Each `edgemem …` within a sentence is a command, with options that it has."""
    words = line.split()
    command: click.Command = main
    while isinstance(command, click.Group):
        step = command.get_command(click.Context(command), words[0]) if words else None
        if step is None and words and words[0].startswith("-"):
            step = command.get_command(click.Context(command), "list")
            words.insert(0, "list")
        if step is None:
            break
        command = step
        words.pop(0)
    assert command is not main
    known = {"--help", *(option for parameter in command.params for option in parameter.opts)}
    assert {word for word in words if word.startswith("--")} <= known


def test_targets_of_the_pages_are_there() -> None:
    """Each `make …` of a page is a target of the Makefile."""
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    text = re.sub(r"^```.*?^```$", "", TEXT, flags=re.MULTILINE | re.DOTALL)
    code = [*text.split("`")[1::2], *(block.code for block in of_kind("shell"))]
    assert set(re.findall(r"\bmake ([a-z][\w-]*)", "\n".join(code))) <= targets


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    """Each link within the tree names a file that is there, and a heading of it; each path of the code is there, too."""
    for target, heading in re.findall(r"\]\((?!\w+:)([^)#]*)(?:#([^)]*))?\)", PAGES[page]):
        file = (ROOT / page).parent / target if target else ROOT / page
        assert file.exists(), target
        headings = re.findall(r"^#+ (.*)", file.read_text(encoding="utf-8"), re.MULTILINE) if heading else []
        plain = [re.sub(r"[^\w -]", "", name).lower().replace(" ", "-") for name in headings]
        assert not heading or heading in plain
    for path in re.findall(r"`((?:edgemem|tests|configs|docs|\.ci)/[\w./-]+)`", PAGES[page]):
        assert (ROOT / path).exists(), path


def test_the_door_is_small() -> None:
    """The README stays a door; what is longer goes to a page of its own, and each page is reached from it."""
    door = PAGES["README.md"]
    assert len(door.splitlines()) <= 160
    assert len(door.encode()) <= 9_000
    assert [page for page in PAGES if page != "README.md" and f"]({page})" not in door] == []


def test_drawings_of_the_architecture_hold() -> None:
    """The floors are those that `make lint` holds, and a turn goes through the points that there are."""
    floors, turn = (block for block in of_kind("text") if block.page == "docs/architecture.md")
    project = msgspec.toml.decode((ROOT / "pyproject.toml").read_bytes())
    contracts = project["tool"]["importlinter"]["contracts"]
    layers = next(layers for row in contracts if (layers := row.get("layers")))
    drawn = [line.split("  ")[0].split() for line in floors.code.splitlines()]
    assert drawn == [layer.replace("edgemem.", "").replace(":", " ").split() for layer in layers]
    assert set(re.findall(r"\b(?:on|before|after)_\w+", turn.code)) == POINTS


def test_the_reference_is_what_the_code_says() -> None:
    """The pages of the profile and of the command line are those that `make reference` writes."""
    script = runpy.run_path(str(ROOT / ".ci" / "reference.py"))
    for path, text in script["pages"]().items():
        assert path.read_text(encoding="utf-8") == text, "make reference"


def test_each_hook_is_in_the_reference() -> None:
    """The table of built-in hooks has all that edgemem exports."""
    listed = re.findall(r"^\| `(\w+Hook)\(.*?\)` \|", PAGES["docs/hooks.md"], re.MULTILINE)
    assert sorted(listed) == sorted(name for name in edgemem.__all__ if name.endswith("Hook"))


def test_every_test_says_what_it_tests() -> None:
    """Each test function has a docstring that states the behaviour."""
    silent = [
        f"{path.name}:{node.lineno} {node.name}"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and not ast.get_docstring(node)
    ]
    assert silent == []


def test_no_test_touches_a_private_attribute() -> None:
    """Tests go through public doors: an attribute with a leading underscore is read and set by its own class alone."""
    of_tuples = {"_asdict", "_fields", "_make", "_replace"}
    touched = [
        f"{path.name}:{node.lineno} {node.attr}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and re.match(r"_[^_]", node.attr)
        and node.attr not in of_tuples
        and not (isinstance(node.value, ast.Name) and node.value.id in {"self", "cls", "os"})
        and "lab" not in path.parts
    ]
    assert touched == []


def test_no_path_of_one_machine_is_in_the_tree() -> None:
    """Nothing that is committed names a folder of the machine that it was written on."""
    pattern = re.compile(r"(?<![\w.])/(?:root|home/\w+|work)/")
    found = []
    for path in ROOT.rglob("*"):
        if path.suffix not in {".py", ".md", ".toml", ".jsonl", ".txt"} or any(
            part.startswith(".") and part != ".ci" for part in path.parts[len(ROOT.parts) :]
        ):
            continue
        if path != Path(__file__) and pattern.search(path.read_text(encoding="utf-8", errors="replace")):
            found.append(str(path.relative_to(ROOT)))
    assert found == []


def test_each_question_of_the_architecture_names_a_few_files() -> None:
    """Each of ten questions is answered by one file, and at most four others are read with it; all of them are there."""
    asked = PAGES["docs/architecture.md"].partition("## Ten people's questions")[2]
    rows = [line.split("|")[2:4] for line in asked.splitlines() if line.endswith("|")][2:]
    assert len(rows) == 10
    for file, others in rows:
        assert len(re.findall("`(.*?)`", file)) == 1
        files = re.findall("`(.*?)`", file + others)
        assert len(files) <= 5
        assert [name for name in files if not (ROOT / name).is_file()] == []
