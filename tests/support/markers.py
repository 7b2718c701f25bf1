"""The role markers of every family: those of the templates that llama.cpp ships, and those that it prints without one."""

import re
from pathlib import Path

from edgemem.llama.tokens.vocabulary import FileVocabulary


def special_strings(vocabularies: Path) -> set[str]:
    """Return every string of the shipped templates, and of some vocabularies, that looks like a special token, and those without a template."""
    found: set[str] = set()
    for template in (vocabularies / "templates").glob("*.jinja"):
        source = template.read_text(encoding="utf-8")
        pattern = r"<[^<> {}\"'%]{1,40}>|\[/?[A-Z_][A-Za-z_ ]{1,30}\]|\[e~\[|\]~!?b\]?\[?|〈\|\w+\|〉"
        found.update(re.findall(pattern, source))
    for name in ("phi-3", "falcon", "bert-bge"):
        vocabulary = FileVocabulary.load(vocabularies / f"ggml-vocab-{name}.gguf")
        found.update(special.text for special in vocabulary.specials if special.control)
        vocabulary.close()
    plain = Path(__file__).parents[1] / "data" / "markers.txt"
    return found.union(plain.read_text("utf-8").splitlines()[1:])
