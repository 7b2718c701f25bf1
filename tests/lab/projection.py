"""The projection of an embedder's token vectors to few dimensions: learnt, so that what answers comes near each token of a question.

It begins as the principal components of tokens. Each step then takes a home, and puts what answers its questions above all else that
was said there, by the mean of each token's nearest (O. Khattab and M. Zaharia, "ColBERT", 2020), and all that was said below a
threshold where nothing answers; the sizes of steps are those of D. Kingma and J. Ba ("Adam", 2015). A model's file names it (`general.name`); recall reads texts a second time where its embedder has a projection.
"""

from __future__ import annotations

import base64
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

from edgemem.bench.ground import EMBEDDER, report, say
from edgemem.errors import ModelError
from edgemem.llama import embedder as embedders
from edgemem.llama.backend import Interrupt
from edgemem.llama.embedder import Encoder, Projection, shipped_projections
from edgemem.llama.header import read_header
from edgemem.llama.models.catalog import find_entry, path_of
from lab import judge_homes
from lab.judged import homes, open_real

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.llama.protocols import Embedder

    Numbers = NDArray[np.float32]

DIMENSIONS = 64
_CONTEXT = 256
_LARGEST = 127
_ROUNDS, _RATE, _HEAT = 10, 0.001, 0.05
"""How often each home is taken, the first step's size, which falls to nothing, and what a cosine is divided by."""
_MOMENTS = (0.9, 0.999)
_NEAR, _NEAR_STEP = 0.6, 0.01
"""The threshold at first, and the size of its first step."""
_SMALL = 1e-6
_LEFT_OUT = ("follow", "safety")  # what takes its subject from before, and what a rule of its own shows


class Spoken(NamedTuple):
    """A home: what was told, and each question with the places of what answers it, if anything does, and of other versions of that."""

    name: str
    told: list[str]
    asked: list[tuple[str, list[int], list[int]]]


class Home(NamedTuple):
    """The unit vectors of a home's tokens, and where each text's begin; what answers and what is left aside, by question and text."""

    told: Numbers
    told_from: NDArray[np.intp]
    asked: Numbers
    asked_from: NDArray[np.intp]
    right: NDArray[np.bool_]
    aside: NDArray[np.bool_]


def run(*, model: str = EMBEDDER, dimensions: int = DIMENSIONS, write: bool = False) -> dict[str, Any]:
    """Learn the projection of an embedder's tokens from what people say and ask in homes, and print what it finds in homes left out.

    Args:
        model: by its name or file; of its languages all homes are read.
        dimensions: of a token; each takes two bits in the index.
        write: put it into `edgemem/llama/projections.toml`, in place of an older one.
    """
    name, known = _read(model)
    figures: dict[str, Any] = {"model": name, "homes": len(known)}
    halves = [list(known.values())[half::2] for half in (0, 1)]
    for label, rounds in (("principal components", 0), ("learnt", _ROUNDS)):
        found: list[list[bool]] = []
        for half, others in zip(halves, halves[::-1], strict=True):
            found += _found(half, *learnt(others, dimensions, rounds))
        figures[label] = {
            "left out, first": round(sum(places[0] for places in found) / len(found), 3),
            "left out, among 5": round(sum(map(any, found)) / len(found), 3),
        }
    if write:
        made = _made(*learnt(list(known.values()), dimensions, _ROUNDS))
        file = Path(embedders.__file__).with_name(embedders.PROJECTION_FILE)
        file.write_text(_toml({**shipped_projections(), name: made}), "utf-8")
    return report("projection", figures, {})


@contextmanager
def strangers(model: str) -> Iterator[Callable[[str], Embedder]]:
    """Open an embedder twice, and yield which of both to take for a home: its projection was learnt without that home.

    What weighs its tokens would else trust them too much.
    """
    name, known = _read(model)
    names = list(known)
    with ExitStack() as stack:
        opened = []
        for half in (0, 1):
            others = [known[other] for other in names[1 - half :: 2]]
            made = _made(*learnt(others, DIMENSIONS, _ROUNDS))
            with patch.object(embedders, "shipped_projections", lambda made=made: {name: made}):
                opened.append(open_real(model))
            stack.callback(opened[-1].close)
        yield lambda home: opened[names.index(home) % 2 if home in names else 0]


def _read(model: str) -> tuple[str, dict[str, Home]]:
    """Return the model's name in its file, and the tokens of all homes of its languages."""
    import numpy as np

    path, entry = path_of(model), find_entry(model)
    header, interrupt = read_header(path), Interrupt()
    name = str(header.metadata.get("general.name", ""))
    if not name:
        raise ModelError(f"{path} does not name its model, and recall could not find its projection")
    width = header.number("embedding_length")
    bare = Projection(np.zeros(width, np.float16).tobytes(), np.eye(width, dtype=np.int8).tobytes())
    encoder = Encoder(path, header, bare, n_ctx=_CONTEXT, threads=1, interrupt=interrupt)
    query, text = (entry.query_prefix, entry.text_prefix) if entry else ("", "")

    def tokens(said: str) -> Numbers:
        encoding = encoder.encode(said)
        if encoding is None or encoding.tokens is None:
            raise ModelError(f"{path} gives no vectors of tokens")
        return _unit(encoding.tokens.astype(np.float32))[0]

    try:
        known = {}
        for home in spoken(entry.languages if entry else header.languages):
            say(f"{home.name} …")
            told = [tokens(text + each) for each in home.told]
            asked = [(tokens(query + each), right, aside) for each, right, aside in home.asked]
            known[home.name] = _home(told, [one for one in asked if len(one[0])])
    finally:
        encoder.close()
    return name, known


def spoken(languages: Sequence[str]) -> Iterator[Spoken]:
    """Yield our own homes, and those of the judge that learn, in some languages; none: in all."""
    for name, own in homes().items():
        told = {key: text for key, _, _, text in own.told}
        told |= {key: text for pair in own.replaced for key, text in ((pair.old, pair.old_text), (pair.new, pair.new_text))}  # fmt: skip
        places = {key: place for place, key in enumerate(told)}
        asked: list[tuple[str, list[int], list[int]]] = [
            (one.text, [places[key] for key in one.evidence.split() if key in places], [])
            for one in own.answerable
        ]
        asked += [(pair.question, [places[pair.new]], [places[pair.old]]) for pair in own.replaced]
        asked = [one for one in asked if one[1]] + [(text, [], []) for _, text in own.unanswerable]
        if not languages or name.partition("_")[0] in languages:
            yield Spoken(name, list(told.values()), asked)
    for path in judge_homes.paths("train"):
        home = judge_homes.read(path)
        places = {each.id: place for place, each in enumerate(home.told)}
        asked = [
            (
                one.text,
                [places[key] for key in one.evidence],
                [place for place, each in enumerate(home.told) if judge_homes.is_outdated(one, each.text)],
            )
            for one in home.asked
            if one.row not in _LEFT_OUT and (one.evidence or one.row == "none")
        ]
        if asked and (not languages or home.language in languages):
            yield Spoken(path.stem.removeprefix("train_"), [each.text for each in home.told], asked)


def _home(told: Sequence[Numbers], asked: Sequence[tuple[Numbers, list[int], list[int]]]) -> Home:
    """Return the vectors in rows; a text without a token has the zero vector."""
    import numpy as np

    texts = [each if len(each) else np.zeros((1, asked[0][0].shape[1]), np.float32) for each in told]
    right = np.zeros((len(asked), len(told)), bool)
    aside = np.zeros_like(right)
    for row, (_, answers, others) in enumerate(asked):
        right[row, answers], aside[row, others] = True, True
    questions = [each for each, *_ in asked]
    return Home(
        np.concatenate(texts), _starts(texts), np.concatenate(questions), _starts(questions), right, aside & ~right
    )  # fmt: skip


def _starts(rows: Sequence[Numbers]) -> NDArray[np.intp]:
    import numpy as np

    return np.cumsum([0, *map(len, rows[:-1])])


def _unit(rows: NDArray[Any]) -> tuple[Numbers, Numbers]:
    """Return the unit vectors, and the lengths in a column."""
    import numpy as np

    lengths: Numbers = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), _SMALL).astype(np.float32)
    return rows.astype(np.float32) / lengths, lengths


def learnt(known: Sequence[Home], dimensions: int, rounds: int) -> tuple[Numbers, Numbers]:
    """Return the centre of the homes' tokens, and the matrix that projects them from there."""
    import numpy as np

    tokens = np.concatenate([rows for home in known for rows in (home.told, home.asked)])
    centre = tokens.mean(axis=0)
    matrix = np.linalg.eigh(np.cov(tokens.T))[1][:, ::-1][:, :dimensions].astype(np.float32)
    mean, square, near = np.zeros_like(matrix), np.zeros_like(matrix), _NEAR
    dice, step = np.random.default_rng(0), 0
    for turn in range(rounds):
        for place in dice.permutation(len(known)):
            slope, less = _slopes(known[place], centre, matrix, near)
            step, near = step + 1, near - _NEAR_STEP * (1 - turn / rounds) * float(np.sign(less))
            mean += (1 - _MOMENTS[0]) * (slope - mean)
            square += (1 - _MOMENTS[1]) * (slope**2 - square)
            way = mean / (1 - _MOMENTS[0] ** step)
            way /= np.sqrt(square / (1 - _MOMENTS[1] ** step)) + 1e-8
            matrix = matrix - np.float32(_RATE * (1 - turn / rounds)) * way
    return centre, matrix


def _slopes(home: Home, centre: Numbers, matrix: Numbers, near: float) -> tuple[Numbers, float]:
    """Return the slopes of a home's mean loss, by the matrix and the threshold: by how much, in nats, what is right falls short of all."""
    import numpy as np

    told, told_length = _unit((home.told - centre) @ matrix)
    asked, asked_length = _unit((home.asked - centre) @ matrix)
    cosines = asked @ told.T
    nearest = np.maximum.reduceat(cosines, home.told_from, axis=1)
    counts = np.diff([*home.asked_from, len(asked)])
    scores = np.add.reduceat(nearest, home.asked_from, axis=0) / counts[:, None]
    scores = np.column_stack([np.where(home.aside, -np.inf, scores), np.full(len(counts), near)]) / _HEAT
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    right = shares * np.column_stack([home.right, ~home.right.any(axis=1)])
    of_scores = (shares - right / (right.sum(axis=1, keepdims=True) + _SMALL)) / (_HEAT * len(counts))
    of_scores, of_near = of_scores[:, :-1], float(of_scores[:, -1].sum())
    of_nearest = np.repeat(of_scores / counts[:, None], counts, axis=0)
    text = np.repeat(np.arange(len(home.told_from)), np.diff([*home.told_from, len(told)]))
    of_cosines = ((cosines == nearest[:, text]) * of_nearest[:, text]).astype(np.float32)
    slope = np.zeros_like(matrix)
    for rows, unit, length, of_unit in (
        (home.asked, asked, asked_length, of_cosines @ told),
        (home.told, told, told_length, of_cosines.T @ asked),
    ):
        across = of_unit - unit * (of_unit * unit).sum(axis=1, keepdims=True)
        slope += (rows - centre).T @ (across / length)
    return slope, of_near


def _found(known: Sequence[Home], centre: Numbers, matrix: Numbers) -> list[list[bool]]:
    """Return for each question which of the best five texts answer it."""
    import numpy as np

    found = []
    for home in known:
        told, asked = (_unit((rows - centre) @ matrix)[0] for rows in (home.told, home.asked))
        nearest = np.maximum.reduceat(asked @ told.T, home.told_from, axis=1)
        counts = np.diff([*home.asked_from, len(asked)])
        scores = np.add.reduceat(nearest, home.asked_from, axis=0) / counts[:, None]
        best = np.argsort(-np.where(home.aside, -np.inf, scores), axis=1, kind="stable")[:, :5]
        found += np.take_along_axis(home.right, best, axis=1)[home.right.any(axis=1)].tolist()
    return found


def _made(centre: Numbers, matrix: Numbers) -> Projection:
    import numpy as np

    whole = np.rint(matrix * (_LARGEST / np.abs(matrix).max())).astype(np.int8)
    return Projection(centre.astype(np.float16).tobytes(), whole.tobytes())


def _toml(projections: dict[str, Projection]) -> str:
    lines = ["# Learnt by `make lab ARGS=projection`: see `Projection` in embedder.py."]
    for name, made in projections.items():
        lines += ["", f'["{name}"]']
        lines += [
            f'{field} = "{base64.b64encode(value).decode()}"'
            for field, value in (("centre", made.centre), ("matrix", made.matrix))
        ]
    return "\n".join(lines) + "\n"
