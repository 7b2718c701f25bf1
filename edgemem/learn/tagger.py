"""The tagger: marks the words of an utterance by which a fact is stated, with what they are and how sure that is.

A linear-chain conditional random field over words, their neighbours and classes of words of like meaning, fitted by `make lab ARGS=fit_talk` on
lines that were written for it. The weights of a language lie in `tagger_<language>.npz.xz`, and are read with its first utterance.
"""

from __future__ import annotations

import lzma
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Scores = npt.NDArray[np.float32]

OUTSIDE = "O"
"""The tag of a word that is in no span; others are `kind.role`, and begin with `FIRST` where spans of one tag may follow each other."""
FIRST = "B-"
LANGUAGES = ("en", "de")
"""Those that it knows."""
_WORD = re.compile(r"[^\W_]+|'[^\W_]+")
_SIGNS, _NEAR, _WIDE = ',.;:?!-–"(', 6, 6  # of punctuation; words on each side; number of buckets of length
_ASKED = 3  # words of the line before


_LIKELY = 0.4  # the chance of words that tell what something else is about


class Word(NamedTuple):
    """A word of a text: its place, in small letters, and the sign before it."""

    begin: int
    end: int
    text: str
    sign: str


class Span(NamedTuple):
    """Words that state something."""

    kind: str
    role: str
    begin: int
    end: int
    sure: float


class Classes(NamedTuple):
    """Words of like meaning or use, by their hashes in sorted order; a word that is missing is of class 0."""

    words: npt.NDArray[np.uint32]
    uses: npt.NDArray[np.uint16]
    """Brown clusters; the lower bits are the higher branches."""
    meanings: npt.NDArray[np.uint16]
    groups: npt.NDArray[np.uint16]
    """The group of each meaning."""

    def look_up(self, words: Sequence[str]) -> list[tuple[int, int, int]]:
        """Return use, meaning and group of each word."""
        found = []
        for word in words:
            place = int(self.words.searchsorted(name := hashed(word)))
            is_known = place < len(self.words) and self.words[place] == name
            meaning = int(self.meanings[place]) if is_known else 0
            found.append((int(self.uses[place]) if is_known else 0, meaning, int(self.groups[meaning])))
        return found


def hashed(text: str) -> int:
    """Return the number by which the model knows a feature, or a word."""
    return crc32(text.encode())


def words_in(text: str) -> list[Word]:
    """Return the words of a text; what a clitic adds is one: it, 's."""
    text, last, words = text.replace("’", "'"), 0, []
    for hit in _WORD.finditer(text):
        signs = [sign for sign in text[last : hit.start()] if sign in _SIGNS]
        words.append(Word(hit.start(), hit.end(), hit[0].lower(), "".join(signs[:1])))
        last = hit.end()
    return words


def features_of(text: str, before: str, classes: Classes) -> tuple[list[Word], list[list[str]]]:
    """Return the words of a text, and the features of each."""
    words = words_in(text)
    n = len(words)
    known = classes.look_up([word.text for word in words])
    edge = (-1, -1, -1)
    w = ["<", "<", *(_digits(word.text) for word in words), ">", ">", ">"]  # word i is w[i + 2]
    kinds = [edge, edge, *known, edge, edge, edge]
    k, u, v = ([str(one[at]) for one in kinds] for at in range(3))
    k8, k5 = ([str(one[0] & mask) for one in kinds] for mask in (255, 31))
    asked = [word.text for word in words_in(before)][:_ASKED]
    context = "N" if not before else "Q" if "?" in before else "S"
    all_asked = {word.text for word in words_in(before)}
    common = ["b", f"q={context}", f"n={min(n // 4, _WIDE)}", f"W={w[2]}", f"W2={w[2]} {w[3]}"]
    common += [f"B={word}" for word in asked]
    if text.rstrip().endswith("?"):
        common.append("?")
    found = []
    for i, word in enumerate(words):
        at, me = i + 2, w[i + 2]
        some = [
            *common, f"w={me}", f"w-={w[at - 1]}", f"w+={w[at + 1]}", f"w--={w[at - 2]}", f"w++={w[at + 2]}",
            f"a={w[at - 1]} {me}", f"c={me} {w[at + 1]}", f"d={w[at - 2]} {w[at - 1]}", f"e={w[at + 1]} {w[at + 2]}",
            f"f={w[at - 2]} {w[at - 1]} {me}", f"g={w[at - 1]} _ {w[at + 1]}",
            f"k={k[at]}", f"k-={k[at - 1]}", f"k+={k[at + 1]}", f"k8={k8[at]}", f"k5={k5[at]}", f"k5-={k5[at - 1]}", f"k5+={k5[at + 1]}",
            f"kk-={k[at - 1]} {k[at]}", f"kk+={k[at]} {k[at + 1]}", f"k--={k[at - 2]}", f"k++={k[at + 2]}",
            f"wk={w[at - 1]} {k8[at]}", f"kw={k8[at]} {w[at + 1]}",
            f"u={u[at]}", f"u-={u[at - 1]}", f"u+={u[at + 1]}", f"v={v[at]}", f"v-={v[at - 1]}", f"v+={v[at + 1]}",
            f"v--={v[at - 2]}", f"v++={v[at + 2]}", f"vv-={v[at - 1]} {v[at]}", f"vv+={v[at]} {v[at + 1]}",
            f"wv={w[at - 1]} {v[at]}", f"vw={v[at]} {w[at + 1]}",
            f"i={min(i, 3)}", f"qi={context}{min(i, 4)}{'e' if i == n - 1 else ''}",
        ]  # fmt: skip
        some += [f"s{length}={me[-length:]}" for length in (2, 3, 4) if len(me) > length]
        some += [f"p{length}={me[:length]}" for length in (4, 6) if len(me) > length]
        sign, next_sign = word.sign or ("^" if i == 0 else ""), words[i + 1].sign if i + 1 < n else "$"
        some += [f"g-={sign}"] if sign else []
        some += [f"g+={next_sign}"] if next_sign else []
        if any(letter.isdigit() for letter in me):
            some.append(f"x={len(me) if me.isdigit() else 'x'}")
        if word.text in all_asked:
            some.append("asked")
        for j in range(max(0, i - _NEAR), i - 1):
            some += (f"L={w[j + 2]}", f"LV={v[j + 2]}")
        for j in range(i + 2, min(n, i + _NEAR)):
            some += (f"R={w[j + 2]}", f"RV={v[j + 2]}")
        found.append(some)
    return words, found


def _digits(word: str) -> str:
    return "0" * min(len(word), 6) if word.isdigit() else word


def _runs(
    words: Sequence[Word], tags: Sequence[str], firsts: Sequence[bool], chances: dict[str, Scores]
) -> Iterator[Span]:
    """Yield the spans of tags, each as sure as the least sure of its words."""
    first = 0
    for i in range(1, len(words) + 1):
        if i < len(words) and tags[i] == tags[first] and not firsts[i]:
            continue
        if tags[first] != OUTSIDE:
            kind, _, role = tags[first].partition(".")
            sure = float(chances[tags[first]][first:i].min())
            yield Span(kind, role, words[first].begin, words[i - 1].end, sure)
        first = i


class Tagger:
    """The fitted model of a language."""

    def __init__(self, file: Path) -> None:
        import numpy as np

        self._np = np
        part = read_parts(file)
        groups = part["groups"]
        self.classes = Classes(_numbers(part["word_gaps"]), part["uses"], part["meanings"], groups)
        self._features = _numbers(part["feature_gaps"])
        self._ends = np.cumsum(part["counts"], dtype=np.int64)
        self._labels, self._weights = (
            part["labels"],
            part["weights"].astype(np.float32) * float(part["scale"]),
        )
        self._next = part["next"].astype(np.float32)
        self.tags: list[str] = [str(tag) for tag in part["tags"]]
        self.least: dict[str, float] = dict(
            zip(map(str, part["kinds"]), map(float, part["least"]), strict=True)
        )

    def spans(self, text: str, before: str = "") -> list[Span]:
        """Return all likely spans, each with the least probability of its words."""
        np = self._np
        words, features = features_of(text, before, self.classes)
        if not words:
            return []
        chances = self._marginals(self._scores(features))
        best = [self.tags[n].removeprefix(FIRST) for n in np.argmax(chances, axis=1)]
        firsts = [self.tags[n].startswith(FIRST) for n in np.argmax(chances, axis=1)]
        of_tag: dict[str, Scores] = {}  # the chances of each word
        for n, tag in enumerate(self.tags):
            bare = tag.removeprefix(FIRST)
            of_tag[bare] = of_tag.get(bare, 0.0) + chances[:, n]
        spans = [*_runs(words, best, firsts, of_tag)]
        kinds = {span.kind for span in spans if span.role in ("value", "time")}
        found = {(span.kind, span.role) for span in spans}
        # What is surely stated is stated of something: there less is enough.
        for kind in sorted(kinds):
            for role in ("thing", "owner"):
                tag = f"{kind}.{role}"
                if tag in of_tag and (kind, role) not in found:
                    likely = [
                        tag if chance >= _LIKELY and best[n] == OUTSIDE else OUTSIDE
                        for n, chance in enumerate(of_tag[tag])
                    ]
                    spans += [*_runs(words, likely, [False] * len(words), of_tag)][:1]
        return sorted(spans, key=lambda span: span.begin)

    def _scores(self, features: Sequence[Sequence[str]]) -> Scores:
        """Return what the features of each word add to each tag."""
        np = self._np
        names = np.array([hashed(name) for some in features for name in some], np.uint32)
        owners = np.repeat(np.arange(len(features)), [len(some) for some in features])
        places = np.minimum(self._features.searchsorted(names), len(self._features) - 1)
        known = self._features[places] == names
        places, owners = places[known], owners[known]
        ends = self._ends[places]
        begins = np.where(places > 0, self._ends[places - 1], 0)
        counts = ends - begins
        total = int(counts.sum())
        offsets = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(begins, counts)
        cells = np.repeat(owners, counts) * len(self.tags) + self._labels[offsets]
        flat = np.bincount(cells, self._weights[offsets], minlength=len(features) * len(self.tags))
        scores: Scores = flat.reshape(len(features), len(self.tags)).astype(np.float32)
        return scores

    def _marginals(self, scores: Scores) -> Scores:
        """Return the probability of each tag of each word, by forward and backward sums."""
        np = self._np
        n, step = len(scores), np.exp(self._next)
        local = np.exp(scores - scores.max(axis=1, keepdims=True))
        ahead, back = np.empty_like(local), np.empty_like(local)
        ahead[0], back[-1] = local[0] / local[0].sum(), 1.0
        for i in range(1, n):
            row = (ahead[i - 1] @ step) * local[i]
            ahead[i] = row / row.sum()
        for i in range(n - 2, -1, -1):
            row = step @ (local[i + 1] * back[i + 1])
            back[i] = row / row.sum()
        chances: Scores = ahead * back
        chances /= chances.sum(axis=1, keepdims=True)
        return chances


def read_parts(file: Path) -> dict[str, Any]:
    """Return the arrays of a file of weights, by their names."""
    import numpy as np

    with np.load(BytesIO(lzma.decompress(file.read_bytes())), allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


def _numbers(gaps: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
    """Return sorted numbers of which the bytes of the gaps are kept, the lowest bytes first: they take least space so."""
    import numpy as np

    steps = (gaps.astype(np.uint64) << np.array([[0], [8], [16], [24]], np.uint64)).sum(
        axis=0, dtype=np.uint64
    )
    return np.cumsum(steps, dtype=np.uint64).astype(np.uint32)


def file_of(language: str) -> Path:
    """Return where the weights of a language lie."""
    return Path(__file__).with_name(f"tagger_{language}.npz.xz")


@lru_cache(maxsize=len(LANGUAGES))
def tagger_of(language: str) -> Tagger | None:
    """Return the tagger of a language, read once; None: there is none."""
    return Tagger(file_of(language)) if language in LANGUAGES else None
