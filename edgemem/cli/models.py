"""`edgemem models`: fetch, add, list, verify and remove models; and the chat model that a command is given."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgemem.cli.options import Guided, did_you_mean, home_and_json, model_names
from edgemem.cli.printing import answer, console, plain, print_entries, print_json
from edgemem.errors import InvalidInputError, ModelError
from edgemem.llama.models import catalog

if TYPE_CHECKING:
    from edgemem.llama.protocols import Tokenizer
    from edgemem.memory import Memory

llm_option = click.option(
    "--llm",
    type=click.Path(path_type=Path),
    metavar="NAME|FILE",
    help="A chat model, by its name in `edgemem models list` or as a GGUF file.",
)
server_option = click.option(
    "--server", metavar="URL", help="A llama-server in place of --llm, such as http://127.0.0.1:8080."
)


@click.group(cls=Guided, bare="list")
def models() -> None:
    """List models (`models`), fetch, add, verify and remove them.

    They are looked for in $EDGEMEM_MODELS, in `models/` of a memory's home and of a checkout, and in
    ~/.local/share/edgemem/models.
    """


@models.command("list", short_help="List the models of the catalogue, and your own.")
@home_and_json
def list_(home: Path, as_json: bool) -> None:
    """List the models of the catalogue and those that were added, and where they lie.

    Here, verified is what has the size of the file whose checksum is known; `models verify` reads every byte.
    """
    from edgemem.llama.models.fetch import describe_model

    rows = [
        describe_model(entry.name, catalog.find_model(entry.name, home=home))
        for entry in catalog.load_catalogue()
    ]
    rows += [describe_model(name, path) for name, path in catalog.added_models(home).items()]

    def cells(row: dict[str, Any]) -> tuple[str, ...]:
        size, ram = f"{row['bytes'] / 1e6:,.0f}", f"{row['ram_mb'] or 0:,}"
        return row["name"], row["kind"], size, ram, row["licence"], row["state"]

    columns = ("model", "kind", "MB", "RAM MB", "licence", "state")
    print_entries(rows, as_json, columns, cells, noun="models")
    if as_json:
        return
    for row in rows:
        if row["path"]:
            click.echo(f"{row['name']}: {plain(row['path'])}")
    on = console()
    on.print("What is missing comes with: edgemem models get NAME, or add FILE")
    if any(row["state"] == "missing" and not row["sha256"] for row in rows):
        on.print("Nobody could check most of them: the first file that comes is pinned by its checksum.")


@models.command(short_help="Fetch a model, check it and put it where it is found.")
@click.argument("name", default=catalog.DEFAULT_EMBEDDER, shell_complete=model_names)
@click.option("--quiet", is_flag=True, help="Say nothing if it is there already.")
@home_and_json
def get(name: str, quiet: bool, home: Path, as_json: bool) -> None:
    """Fetch a model, by default the embedder all-minilm-l6-v2, check it and put it where it is found.

    Where nobody could check the file yet, the first one that comes is pinned: its checksum is kept beside it, and holds
    from then on.
    """
    from edgemem.llama.models.fetch import describe_model, fetch_model, is_right

    entry = catalog.entry_of(name)
    path, fetched = catalog.find_model(entry.name, home=home), False
    if path is None or not is_right(entry, path):
        with _progress(entry.name) as tell:
            path, fetched = fetch_model(entry, catalog.folder_to_write(), progress=tell), True
    if as_json or fetched or not quiet:
        state = "is ready" if fetched else "is there and right"
        row = {**describe_model(entry.name, path), "fetched": fetched}
        answer(as_json, row, f"{entry.name} {state}: {plain(str(path))}")


@models.command(short_help="Make a GGUF of your own one of this home's models.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--as", "name", help="How it is called; by default like the file.")
@click.option("--query-prefix", default="", help="What an embedder wants before a question.")
@click.option("--text-prefix", default="", help="What an embedder wants before stored text.")
@home_and_json
def add(file: Path, name: str | None, query_prefix: str, text_prefix: str, home: Path, as_json: bool) -> None:
    """Make a GGUF of your own one of this home's models, and say what it is.

    `edgemem chat --llm NAME` and `embedder = "NAME"` in the profile then find it. It is linked where
    the disk can, else copied, and its checksum is kept. With --as and a name of the catalogue it is that model, with its prefixes.

    \b
    edgemem models add ~/Downloads/some-model-Q4_K_M.gguf --as cook
    edgemem models add my-embedder.gguf --query-prefix "query: " --text-prefix "passage: "
    """  # noqa: D301 - click reads the backspace as: do not wrap
    from edgemem.llama.models.fetch import add_model, describe_model
    from edgemem.memory.home import make_home

    folder = make_home(home) / "models"
    with _progress(plain(file.name)) as tell:
        name, path, description = add_model(
            file, folder, name=name, query_prefix=query_prefix, text_prefix=text_prefix, progress=tell
        )
    row = describe_model(name, path, description)
    if as_json:
        print_json({**row, "chat_template": description.chat_template})
        return
    click.echo(f"{name} is ready: {plain(str(path))}")
    about = f"{row['kind']} ({row['architecture']}), {row['bytes'] / 1e6:,.0f} MB, context {row['context']:,}"
    if description.kind == "embedder":
        about += f", {row['dimensions']} dimensions, {row['pooling']} pooling"
    click.echo(f"{about}, about {row['ram_mb']:,} MB of RAM; sha256 {row['sha256']}")
    use = {
        "embedder": f'embedder = "{name}" under [llama] of the profile',
        "chat": f"edgemem chat --llm {name}",
        "base": "nothing here: it has no chat template, so it completes text and cannot be talked to",
    }
    click.echo(f"Use: {use[description.kind]}")


@models.command(short_help="Compare model files with their checksums, byte for byte.")
@click.argument("name", required=False, shell_complete=model_names)
@home_and_json
def verify(name: str | None, home: Path, as_json: bool) -> None:
    """Compare model files with their checksums, byte for byte; without a name, all that are here."""
    from edgemem.llama.models.fetch import verify_model

    own = catalog.added_models(home)
    if name is None:
        here = [entry.name for entry in catalog.load_catalogue() if catalog.find_model(entry.name, home=home)]
        rows = [verify_model(model, home) for model in (*here, *own)]
    else:
        if name not in own:
            catalog.entry_of(name)
        rows = [verify_model(name, home)]
    if as_json:
        print_json(rows)
    elif not rows:
        click.echo("No model is on this machine; type: edgemem models get")
    else:
        for row in rows:
            mark = click.style("ok ", fg="green") if row["ok"] else click.style("bad", fg="red")
            click.echo(f"{mark} {row['name']}: {plain(row['detail'] or row['path'])}")
    if not all(row["ok"] for row in rows):
        sys.exit(1)


@models.command(short_help="Remove a model's file, its pin, and what a download began.")
@click.argument("name", shell_complete=model_names)
@home_and_json
def remove(name: str, home: Path, as_json: bool) -> None:
    """Remove a model's file, its pin, and what a download began."""
    from edgemem.llama.models.fetch import remove_model

    entry, path = catalog.find_entry(name), catalog.added_models(home).get(name)
    if entry is not None:
        # without a file there may still be a pin, or a part
        path = catalog.find_model(name, home=home) or catalog.folder_to_write() / entry.file
    if path is None:
        known = [*(listed.name for listed in catalog.load_catalogue()), *catalog.added_models(home)]
        raise ModelError(
            f"There is no model {plain(name)[:100]}; `edgemem models` lists what there is.{did_you_mean(name, known)}"
        )
    freed = path.stat().st_size if path.exists() else 0
    removed = remove_model(path)
    gone = f"{name} is removed ({freed / 1e6:,.0f} MB): {plain(str(path))}"
    sentence = gone if removed else f"There is nothing of {name} on this machine."
    answer(as_json, {"name": name, "path": str(path), "bytes": freed}, sentence)


@contextmanager
def _progress(name: str) -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar on stderr for each stage; off a terminal, one line for each."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    shown = console(stderr=True)
    bars: dict[str, Any] = {}
    progress = Progress(
        TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), console=shown
    )

    def tell(stage: str, done: int, of: int) -> None:
        if not bars:
            progress.start()
        if stage not in bars:
            bars[stage] = progress.add_task(f"{stage} {name}", total=of)
        progress.update(bars[stage], completed=done, total=of)

    try:
        yield tell
    finally:
        if bars:
            progress.stop()  # off a terminal, even one that shows nothing ends with an empty line


def not_both(llm: Path | None, server: str | None) -> None:
    """Raise InvalidInputError where a command is given two models."""
    if llm is not None and server is not None:
        raise InvalidInputError(
            "--llm loads a model here and --server asks one elsewhere; name one of them, not both."
        )


def file_at(llm: Path | None, home: Path) -> Path | None:
    """Return the file of the model that was named; one that is not there is told before a home is opened."""
    return None if llm is None else catalog.file_of(str(llm), home=home)


@contextmanager
def tokenizer_of(file: Path | None, server: str | None, memory: Memory) -> Iterator[Tokenizer | None]:
    """Yield the tokenizer of the named model, if any; a file's window is the one that it was trained for."""
    if server is not None:
        from edgemem.llama.server.chat import HttpLlama

        with HttpLlama(server, settings=memory.profile.chat) as model:
            yield model.tokenizer
    elif file is not None:
        from edgemem.llama.header import read_header
        from edgemem.llama.tokens.tokenizer import LlamaTokenizer

        with LlamaTokenizer(file) as tokenizer:
            tokenizer.n_ctx = read_header(file).number("context_length") or None
            yield tokenizer
    else:
        yield None
