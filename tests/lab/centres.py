"""The centres of embedders that put all texts into one corner: the means of their vectors, learnt on the lab's homes."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from edgemem.bench.ground import report
from edgemem.llama import embedder as shipped
from edgemem.llama.embedder import LlamaEmbedder
from edgemem.llama.models.catalog import entry_of, path_of
from lab.judge_homes import paths, read
from lab.languages import LANGUAGES, household

_HEAD = """# Learnt by `make lab ARGS=centres`: the means of an embedder's vectors of questions and of stored texts, in ten thousandths.
# See Centre in llama/embedder.py.
"""


def run(*, model: str = "multilingual-e5-small", write: bool = False) -> dict[str, Any]:
    """Learn the centre of an embedder, every language of the lab's homes alike.

    Args:
        model: its name in the catalogue.
        write: put it where edgemem reads it, in place of those of all other embedders.
    """
    entry = entry_of(model)
    texts: dict[str, list[str]] = defaultdict(list)
    queries: dict[str, list[str]] = defaultdict(list)
    for home in map(read, paths("train")):
        texts[home.language] += [told.text for told in home.told]
        queries[home.language] += [asked.text for asked in home.asked]
    for language in LANGUAGES:
        home_ = household(language)
        texts[language] += [text for _, _, text in home_.said]
        queries[language] += [text for _, text in (*home_.asked, *home_.asked_freely)]
    query, text = entry.query_prefix, entry.text_prefix
    with LlamaEmbedder(path_of(model), query_prefix=query, text_prefix=text) as embedder:
        asked = [[embedder.embed_query(text) for text in each] for each in queries.values()]
        told = [embedder.embed_texts(each) for each in texts.values()]
    means = {
        name: np.stack([np.mean(np.array(each), axis=0) for each in of_languages]).mean(axis=0)
        for name, of_languages in (("query", asked), ("text", told))
    }
    if write:
        rows = (f"{name} = {np.rint(mean * 1e4).astype(int).tolist()}" for name, mean in means.items())
        file = Path(shipped.__file__).with_name(shipped.CENTRES_FILE)
        file.write_text(f"{_HEAD}\n[{model}]\n" + "".join(f"{row}\n" for row in rows), "utf-8")
    figures = {f"{name}: length": round(float(np.linalg.norm(mean)), 3) for name, mean in means.items()}
    return report("centres", figures | {"languages": len(texts)}, {})
