"""A language is one file: whoever adds it changes nothing else, and the words of an index follow what it says."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import edgemem
from support.homes import opened

SPOKEN = """
import json, sys, edgemem
from edgemem.languages.words import says_yes
from edgemem.recall.text.analyse import language_in, terms
waits = []
for _ in range(2):
    with edgemem.open(sys.argv[1], worker=False) as memory:
        waits.append(memory.diagnostics.search.pending()["text"])
        memory.idle(60)
text = "aquest anell és amb els altres"
print(json.dumps({"waits": waits, "yes": says_yes("endavant"), "language": language_in(text), "terms": terms(text)}))
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a home whose index was made by the languages that edgemem has."""
    with opened(tmp_path / "home") as memory:
        memory.store.add_fact("ring.place", "with the others", scope="household")
        memory.idle(60)
    return tmp_path / "home"


@pytest.fixture
def languages(tmp_path: Path) -> Path:
    """Return the folder of the languages of a second edgemem."""
    package = Path(edgemem.__file__).parent
    return Path(shutil.copytree(package, tmp_path / "other" / "edgemem")) / "languages"


def spoken(languages: Path, home: Path) -> dict[str, object]:
    """Open a home twice with an edgemem that has these languages, and return what it knows of a sentence."""
    path = {"PYTHONPATH": str(languages.parent.parent)}
    command = [sys.executable, "-c", SPOKEN, str(home)]
    known: dict[str, object] = json.loads(subprocess.check_output(command, env=os.environ | path, cwd=home))
    return known


def test_a_whole_language_is_one_file_and_words_are_made_anew_once(home: Path, languages: Path) -> None:
    """It is told by its little words, which say nothing; its yes counts, and no letters need to be its own."""
    text = (languages / "es.toml").read_text("utf-8")
    catalan = {
        "stop": "'''amb aquest els és'''", "letters": '""', "stemmer": '"catalan"', "yes": '"endavant"',
    }  # fmt: skip
    for key, value in catalan.items():
        text = re.sub(rf"(?ms)^{key} = ('''.*?'''|\".*?\")$", f"{key} = {value}", text)
    (languages / "ca.toml").write_text(text, "utf-8")
    known = spoken(languages, home)
    assert known == {"waits": [2, 0], "yes": True, "language": "ca", "terms": ["an", "anel", "altr"]}


def test_answers_alone_are_one_file_and_leave_the_words_of_an_index(home: Path, languages: Path) -> None:
    """So does a comment on the words of a whole language."""
    text = (languages / "fr.toml").read_text("utf-8")
    (languages / "ca.toml").write_text(re.sub(r"(?m)^yes = .*$", 'yes = "endavant"', text), "utf-8")
    with (languages / "de.toml").open("a", encoding="utf-8") as file:
        file.write("# This is a comment.\n")
    known = spoken(languages, home)
    assert (known["waits"], known["yes"]) == ([0, 0], True)
