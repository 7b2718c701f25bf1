"""A home for each case of `make lab ARGS=recall`: filled as a robot would have filled it, and kept between runs.

With a cache, the filled home is kept under a hash of what was said, and so are the vectors; where the code of the index has
changed since, the index is made again from them. A run works on a copy, so several may use one cache.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

import edgemem
import edgemem.recall
from edgemem.bench.ground import say
from edgemem.llama.protocols import Embedder, Encoding
from lab.judge import SetClock
from lab.lent import Lent
from lab.recall_cases import ids, tell_case

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.config import Profile
    from edgemem.llama.protocols import Tokenizer
    from edgemem.memory import Memory
    from lab.recall_cases import Case

IDLE_S = 3600.0
_FORM = "1"  # changes whenever the same case would fill a home in another way


class KeptVectors(Lent):
    """An embedder that keeps the vectors of stored texts in a file (None: nowhere), and lends everything else from the real one."""

    def __init__(self, real: Embedder, path: Path | None) -> None:
        super().__init__(real)
        self._path = path
        self._kept: dict[bytes, Encoding] = {}
        self._new = False
        if path is not None and path.exists():
            import numpy as np

            with np.load(path) as file:
                ends = file["counts"].cumsum()[:-1]
                rows = map(Encoding, file["vectors"], np.split(file["tokens"], ends))
                self._kept = dict(zip(map(bytes, file["names"]), rows, strict=True))

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row for each text, embedding only those that are new."""
        import numpy as np

        return np.stack([encoding.vector for encoding in self.encode_texts(texts)])

    def encode_texts(self, texts: Sequence[str], stop: Callable[[], bool] | None = None) -> list[Encoding]:
        """Return an encoding of each text, up to where `stop()` became true."""
        encodings = []
        for text in texts:
            if stop is not None and stop():
                break
            name = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()
            if name not in self._kept:
                (self._kept[name],) = self.real.encode_texts([text])
                self._new = True
            encodings.append(self._kept[name])
        return encodings

    def embed_until(self, texts: Sequence[str], stop: Callable[[], bool]) -> Sequence[NDArray[np.float32]]:
        """Return rows as above, up to where `stop()` became true."""
        return [encoding.vector for encoding in self.encode_texts(texts, stop)]

    def save(self) -> None:
        if self._path is None or not self._new:
            return
        import numpy as np

        part = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        with part.open("wb") as file:
            rows = list(self._kept.values())
            empty = np.zeros((0, 1), np.int8)
            tokens = [empty if row.tokens is None else row.tokens for row in rows]
            np.savez(
                file,
                names=np.array([np.frombuffer(name, np.uint8) for name in self._kept]),
                vectors=np.stack([row.vector for row in rows]),
                tokens=np.concatenate([some for some in tokens if len(some)] or [empty]),
                counts=np.array(list(map(len, tokens))),
            )
        part.replace(self._path)
        self._new = False


class Filled(NamedTuple):
    memory: Memory
    clock: SetClock
    ids: dict[str, str]  # of each stored message, by the id that recall tells: its id in the case
    left: dict[str, int]  # what was not indexed or embedded


@contextmanager
def filled(
    case: Case,
    folder: Path,
    *,
    embedder: Embedder | None,
    profile: Profile,
    tokenizer: Tokenizer | None = None,
    cache: Path | None = None,
) -> Iterator[Filled]:
    """Open a memory that holds what was said, kept in a cache if there is one; without an embedder words alone are found."""
    kept = cache / _key(case, embedder) if cache is not None else None
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
    vectors = None
    if embedder is None:  # or else a memory opens the one that its profile names
        profile = msgspec.structs.replace(profile, llama=msgspec.structs.replace(profile.llama, embedder=""))
    else:
        vectors = KeptVectors(embedder, kept / "vectors.npz" if kept is not None else None)
    clock, home = SetClock(), folder / "home"
    shutil.rmtree(home, ignore_errors=True)
    code = _code()
    there = kept is not None and _take(kept, home, code)

    def opened() -> Memory:
        return edgemem.open(
            home, profile=profile, embedder=vectors, tokenizer=tokenizer, clock=clock, worker=False
        )

    if not there:
        clock.at = case.said[0].at
        say(f"{case.name}: storing {len(case.said)} messages, indexing …")
        with opened() as memory:
            if not memory.diagnostics.database.query("select 1 from turns limit 1"):
                tell_case(memory, clock, case)
            clock.at = max(one.at for one in case.said) + 1
            memory.idle(IDLE_S)
            if vectors is not None:
                vectors.save()
        if kept is not None:
            _keep(kept, home, code)
    clock.at = max(one.at for one in case.said) + 1
    with opened() as memory:
        memory.idle(IDLE_S)
        yield Filled(memory, clock, dict(ids(memory, case.said)), memory.diagnostics.search.pending())


def _key(case: Case, embedder: Embedder | None) -> str:
    made_by = embedder.fingerprint if embedder is not None else ""
    content = msgspec.json.encode((_FORM, made_by, case.said))
    return hashlib.blake2b(content, digest_size=12).hexdigest()


def _code() -> str:
    seen = hashlib.blake2b(digest_size=12)
    floor = Path(str(edgemem.recall.__file__)).parent
    for path in sorted([*floor.glob("*.py"), *(floor.parent / "store").glob("*.py")]):
        seen.update(path.read_bytes())
    return seen.hexdigest()


def _take(kept: Path, home: Path, code: str) -> bool:
    """Copy a kept home; return whether its index is of this code."""
    if not (kept / "home").is_dir():
        return False
    shutil.copytree(kept / "home", home)
    same = (kept / "code").read_text() == code
    if not same:
        for path in (home / "db").glob("index*"):
            path.unlink()
    return same


def _keep(kept: Path, home: Path, code: str) -> None:
    """Put a copy of a home into the cache, in place of an older one."""
    part = kept / f".home.{os.getpid()}"
    shutil.copytree(home, part)
    shutil.rmtree(kept / "home", ignore_errors=True)
    try:
        part.rename(kept / "home")
    except OSError:  # another run was quicker, with the same
        shutil.rmtree(part, ignore_errors=True)
        return
    (kept / "code").write_text(code)
