"""The weights of the tagger of talk (`edgemem/learn/tagger_<language>.npz.xz`), learnt on lines that five hands wrote for it.

`talk_train_<language>.tsv.xz` holds a line an utterance: writer, home, speaker, the line before, and the text with `{kind.role: words}`.
Each writer is left out once, to learn how sure the tagger must be of each kind. The classes of words are those of the file that lies there.
"""

from __future__ import annotations

import lzma
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np

from edgemem.bench.ground import say
from edgemem.learn.extraction import Kind, Statement, composed
from edgemem.learn.tagger import FIRST, OUTSIDE, Classes, Tagger, features_of, file_of, hashed, read_parts
from edgemem.recall.text.analyse import asks
from lab.talk import wilson

if TYPE_CHECKING:
    from collections.abc import Iterator

LINES = Path(__file__).with_name("talk_train_en.tsv.xz")
NOBODY = ("robot", "?")
"""Of whom nothing is learnt, whatever they say."""
KINDS: tuple[str, ...] = get_args(Kind)
SPARSE, SMALL, ROUNDS = 0.1, 0.3, 80
"""What the sizes of weights cost, and their squares, beside the loss of the likelihood; and rounds of L-BFGS."""
RARE = 1
"""A feature that is seen less often has no weight."""
PRECISION, LEAST_RIGHT, FEW, LEAST_SURE = 0.95, 0.92, 4, 0.9
"""Of what is learnt of a kind so many shall be right, at least these, of a writer whom the tagger has not read; as many as `FEW` are believed
to be as they shall, and nothing is learnt that is less sure."""
SPARED = 0.1  # weights of less are left out
_MARK = re.compile(r"\{(\w+)\.(\w+): ([^{}]*)\}")
_EXTRA, _SHARED = (
    3,
    0.6,
)  # words that a value may have beside those that are marked; or the share of its words that are


class Line(NamedTuple):
    """An utterance with its spans: kind, role, begin and end."""

    writer: str
    speaker: str
    before: str
    text: str
    spans: tuple[tuple[str, str, int, int], ...]


def read_lines(language: str) -> list[Line]:
    """Return the lines of a language."""
    content = lzma.decompress(LINES.with_name(f"talk_train_{language}.tsv.xz").read_bytes()).decode()
    return [_line(*row.split("\t")) for row in content.splitlines()]


def _line(writer: str, _home: str, speaker: str, before: str, marked: str) -> Line:
    text, spans, last = "", [], 0
    for mark in _MARK.finditer(marked):
        text += marked[last : mark.start()]
        spans.append((mark[1], mark[2], len(text), len(text) + len(mark[3])))
        text, last = text + mark[3], mark.end()
    return Line(writer, speaker, before, text + marked[last:], tuple(spans))


def unmarked(line: Line) -> Line:
    """Return a line as a recogniser writes it: in small letters, without punctuation."""
    text, places = "", []
    for n, letter in enumerate(line.text):
        places.append(len(text))
        within = 0 < n < len(line.text) - 1 and (line.text[n - 1] + line.text[n + 1]).isdigit()
        if letter.isalnum() or letter.isspace() or letter in "'’-" or (within and letter in ".:,"):
            text += letter.lower() if len(letter.lower()) == 1 else letter
    places.append(len(text))
    spans = tuple((kind, role, places[begin], places[end]) for kind, role, begin, end in line.spans)
    return line._replace(text=text, before=line.before.lower(), spans=spans)


def tags_of(line: Line, words: Sequence[Any]) -> list[str]:
    """Return the tag of each word."""
    tags = [OUTSIDE] * len(words)
    for kind, role, begin, end in line.spans:
        first = FIRST if role == "value" and kind.startswith("list") else ""
        for n, word in enumerate(words):
            if word.begin >= begin and word.end <= end:
                tags[n], first = f"{first}{kind}.{role}", ""
    return tags


class Example(NamedTuple):
    """A line as the fitter reads it."""

    writer: str
    features: list[list[str]]
    tags: list[str]


def examples_of(lines: Iterable[Line], classes: Classes) -> Iterator[Example]:
    """Yield each line as it is, and as a recogniser writes it."""
    for line in lines:
        for one in dict.fromkeys((line, unmarked(line))):
            words, features = features_of(one.text, one.before, classes)
            if words:
                names = [[str(hashed(name)) for name in dict.fromkeys(some)] for some in features]
                yield Example(line.writer, names, tags_of(one, words))


def fit(examples: Iterable[Example], classes: Classes, out: Path) -> None:
    """Learn from examples, and write the weights."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(verbose=False)
    for example in examples:
        trainer.append(example.features, example.tags)
    trainer.set_params({"c1": SPARSE, "c2": SMALL, "max_iterations": ROUNDS, "feature.minfreq": RARE})
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "crf")
        trainer.train(path)
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        _write(tagger, classes, out)
        tagger.close()


def _write(fitted: Any, classes: Classes, out: Path) -> None:
    tags, info = fitted.labels(), fitted.info()
    place = {tag: n for n, tag in enumerate(tags)}
    follows = np.zeros((len(tags), len(tags)))
    for (tag, other), weight in info.transitions.items():
        follows[place[tag], place[other]] = weight
    weights: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for (name, tag), weight in info.state_features.items():
        if abs(weight) >= SPARED:
            weights[int(name)].append((place[tag], weight))
    names = sorted(weights)
    cells = [cell for name in names for cell in sorted(weights[name])]
    scale = max(abs(weight) for _, weight in cells) / 127
    parts = {
        "word_gaps": _gaps(classes.words), "uses": classes.uses, "meanings": classes.meanings, "groups": classes.groups,
        "feature_gaps": _gaps(np.array(names, np.uint32)), "counts": np.array([len(weights[name]) for name in names], np.uint8),
        "labels": np.array([tag for tag, _ in cells], np.uint8), "scale": np.float32(scale),
        "weights": np.array([round(weight / scale) for _, weight in cells], np.int8), "next": follows.astype(np.float16),
        "tags": np.array(tags), "kinds": np.array(KINDS), "least": np.full(len(KINDS), 2.0, np.float32),
    }  # fmt: skip
    write_parts(out, parts)


def _gaps(numbers: Any) -> Any:
    """Return the bytes of how far each number is from the one before, the lowest ones first."""
    return np.diff(numbers, prepend=np.uint32(0)).astype("<u4").view(np.uint8).reshape(-1, 4).T


def write_parts(file: Path, parts: dict[str, Any]) -> None:
    """Write arrays as `tagger.read_parts` reads them."""
    content = BytesIO()
    np.savez(content, **parts)
    file.write_bytes(lzma.compress(content.getvalue(), preset=9 | lzma.PRESET_EXTREME))


class Guess(NamedTuple):
    """A statement that a tagger found in a line of a writer whom it has not read."""

    sure: float
    right: bool
    kind: str


def guesses(tagger: Tagger, lines: Iterable[Line]) -> Iterator[Guess]:
    """Yield what a tagger finds in lines, however sure it is."""
    for line in lines:
        marked = [(kind, line.text[b:e]) for kind, role, b, e in line.spans if role in ("value", "time")]
        for one in composed(line.text, tagger.spans(line.text, line.before)):
            if asks(line.text) and not one.kind.startswith("list"):
                continue
            yield Guess(one.sure, any(_is_right(one, kind, value) for kind, value in marked), one.kind)


def _is_right(one: Statement, kind: str, value: str) -> bool:
    told, meant = ({*re.findall(r"\w+", text.lower())} for text in (one.value, value))
    near = len(told - meant) <= _EXTRA or len(told & meant) >= _SHARED * len(told)
    changes = ("place", "code", "appointment", "recurring")  # a correction is one of these
    same = (
        one.kind == kind
        or (one.kind == "correction" and kind in changes)
        or (kind == "correction" and one.kind in changes)
    )
    return same and bool(told & meant) and near


def least_sure(found: Sequence[Guess]) -> float:
    """Return how sure a tagger must be for so many to be right, where a few say little; above 1: it never is."""
    best, right = 2.0, 0
    for n, guess in enumerate(sorted(found, reverse=True), 1):
        right += guess.right
        if (right + PRECISION * FEW) / (n + FEW) >= LEAST_RIGHT and guess.sure >= LEAST_SURE:
            best = guess.sure
    return best


def run(*, language: str = "en", left_out: bool = True, out: Path | None = None) -> dict[str, Any]:
    """Fit the tagger of talk.

    Args:
        language: whose lines are read.
        left_out: leave each writer out once, and learn from that how sure it must be; if not, that stays.
        out: the file; None: the one that edgemem reads.
    """
    old = Tagger(file_of(language))
    out = out or file_of(language)
    lines = [line for line in read_lines(language) if line.speaker not in NOBODY]
    examples = [*examples_of(lines, old.classes)]
    fit(examples, old.classes, out)
    _set_least(out, old.least)
    found, theirs = dict[str, list[Guess]](), dict[str, list[Line]]()
    for writer in sorted({line.writer for line in lines}) if left_out else ():
        say(f"without {writer} …")
        theirs[writer] = [line for line in lines if line.writer == writer]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "tagger.npz"
            fit([one for one in examples if one.writer != writer], old.classes, file)
            found[writer] = [*guesses(Tagger(file), theirs[writer])]
    all_found = [one for some in found.values() for one in some]
    least = old.least
    if left_out:
        least = {kind: least_sure([one for one in all_found if one.kind == kind]) for kind in KINDS}
        _set_least(out, least)
    return {
        "lines": len(lines), "least": least, "kinds": _shares(all_found, lines, least),
        "writers": {writer: _shares(some, theirs[writer], least) for writer, some in found.items()}, "bytes": out.stat().st_size,
    }  # fmt: skip


def _set_least(file: Path, least: dict[str, float]) -> None:
    parts = read_parts(file)
    write_parts(file, {**parts, "least": np.array([least.get(kind, 2.0) for kind in KINDS], np.float32)})


def _shares(found: Sequence[Guess], lines: Sequence[Line], least: dict[str, float]) -> dict[str, str]:
    """Return precision and recall of each kind, and of all."""
    values = Counter(kind for line in lines for kind, role, _, _ in line.spans if role == "value")
    values += Counter(
        kind
        for line in lines
        for kind, role, _, _ in line.spans
        if role == "time" and kind in ("appointment", "recurring", "correction")
    )
    sure = [one for one in found if one.sure >= least[one.kind]]
    told = {}
    for kind in (*KINDS, "all"):
        some = [one.right for one in sure if kind in (one.kind, "all")]
        n = sum(values.values()) if kind == "all" else values[kind]
        told[kind] = (
            f"precision {sum(some)} of {len(some)} (low {wilson(sum(some), len(some))[0]:.2f}), recall {sum(some) / max(1, n):.2f} of {n}"
        )
    return told
