"""Yes, no and "do not forget" in nine languages; a language is one file, and the words of an index follow what it says."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import edgemem
from edgemem.languages import words
from edgemem.languages.words import says_no, says_not_to_forget, says_yes
from support.data import sentences
from support.homes import opened

FILES = sorted(Path(words.__file__).parent.glob("*.toml"))


def test_who_says_do_not_forget_is_understood() -> None:
    """In each language, with and without punctuation, apostrophes and accents; that is no yes, and a yes asks to keep nothing."""
    for text, answer in sentences("keep").items():
        assert says_not_to_forget(text) is says_not_to_forget(text.upper()) is (answer == "yes"), text
        assert answer == "no" or not says_yes(text), text


def test_a_plain_yes_is_a_yes_and_a_no_a_no() -> None:
    """An answer that agrees and says nothing else; a no wherever it stands; words that only begin like one are none."""
    for text, answer in sentences("answers").items():
        assert says_yes(text) is (answer == "yes"), text
        assert answer == "yes" or says_no(text) is (answer == "no"), text
        assert answer != "yes" or not says_not_to_forget(text), text
    assert [text for text in ("", " ", "?", "\ud800", "yes " * 1000) if says_yes(text)] == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_file_has_answers_and_no_yes_is_a_no(file: Path) -> None:
    """Each listed yes counts, each listed no counts as one, and nothing is listed as both in any two languages."""
    listed = msgspec.toml.decode(file.read_bytes())
    yes, no = (listed[key].split(", ") for key in ("yes", "no"))
    assert all(says_yes(item) for item in yes)
    assert not any(says_yes(item) for item in no)
    assert all(says_no(item) for item in no)


ODD = (
    "", "\0", "\ud800 don't forget", "don't " * 100_000, "not to " * 50_000 + "forget", "vergiss das " * 9999,
)  # fmt: skip


@pytest.mark.parametrize("text", ODD)
def test_any_text_is_read_quickly(text: str) -> None:
    """Half characters and endless repetition are read like anything else."""
    for reads in (says_yes, says_no, says_not_to_forget):
        assert reads(text) in (True, False)


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
