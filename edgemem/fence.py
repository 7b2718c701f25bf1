"""The fence: stored text made safe to show to a model; pure text, no files, no models.

Stored text is data (law 8): it comes before the model as one line that cannot produce a special token, open or close a fence,
pass for another role, or, repeated by the model, for a tool call. Nothing that a person would read is deleted: the brackets of
a marker become parentheses, so `<|im_start|>` reads `(im_start)`, and so do the braces of JSON.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence

from edgemem.errors import InvalidInputError
from edgemem.preload import Pattern

OPEN = "<memory>"
CLOSE = "</memory>\n"
BULLET = "- "

MAX_KEY_CHARS = 256  # longest key, scope or session id; people and models write names, not texts

_MOST_FOLDED = 8192
_LONGEST_CLUSTER = 16
"""Characters that may belong to one visible sign; more are a prank, and are cut through."""

# Only a tokenizer sees these: controls, direction overrides and marks, zero-width spaces, BOM, tag characters, variation
# selectors that no text needs. Arabic number signs (also "format characters") stay.
_INVISIBLE = Pattern(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\ufe00-\ufe0d\ufeff\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# A joiner means something between emoji and between letters of Arabic, Indic, Burmese, Khmer and Mongolian
# script; anywhere else it only hides a marker from a search.
_JOINED = (
    "\u0600-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u18af\u20e3\u2190-\u2bff\ufe0e\ufe0f\U0001f000-\U0001faff"
)
_LOOSE_JOINER = Pattern(f"(?<![{_JOINED}])[\u200c\u200d]|[\u200c\u200d](?![{_JOINED}])")
_SELECTORS = Pattern("([\ufe0e\ufe0f])[\ufe0e\ufe0f]+")
_ATTACHED = Pattern("[\u200c\u200d\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]")
_LINE_ENDS = Pattern(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")

# Letters, brackets and bars that look like ASCII ones, beside those that NFKC folds.
_LETTERS = dict(zip("аеорсухтіјѕԁоεορτυмкнᴀᴅᴇᴍᴏʀʏꜱᴛᴜı", "aeopcyxtijsdoeoptumkhademorystui", strict=True))
_BARS = dict.fromkeys("∣│┃¦ǀ❘", "|")
_BRACKETS = str.maketrans("‹«〈《⟨❮ᐸ˂≺›»〉》⟩❯ᐳ˃≻", "<" * 9 + ">" * 9)

_ROLES = (
    "system|user|assistant|human|ai|bot|chatbot|developer|prompter|tool|function|model|instructions?|response"
    "|система|пользователь|ассистент|系统|用户|助手"
).translate({ord(seen): plain for seen, plain in _LETTERS.items()})
"""Roles as templates name them, in tags, in brackets and before a colon: all families of llama.cpp and of the catalogue."""
_ROLE = rf"(?:(?:gpt\d correct )?(?:{_ROLES})(?: (?:prompt|message|result|name))?)"
# All of these run over folded text (lower case, look-alikes replaced), which has the same length as the text.
_TAG = Pattern(r"<(?![\s\d=-])[^<>]{1,80}>|<\d[^<>\s]{0,40}>")
_FENCE = Pattern(rf"<\s*(?:[|/\\]\s*)*memory|<\s*[|/\\]|<\s*{_ROLE}\b(?=[^<>]{{0,40}}>)")
_CLOSING = Pattern(r"[^<>]{0,80}>")
_OPENING = Pattern(r"<(?=[^\s\d=\-.,;:)…])")
_SQUARE = Pattern(
    r"\[\s*(?:\|[^\[\]]{1,40}\||(?!(?:\d+|true|false|null)\s*\])/?\s*[@\w]{2,40}"
    r"|(?:begin|start|end|round)(?: \w+){1,3})\s*\]"
)
_WAVE = Pattern(r"(?<=[\[\]])~|~(?=[\[\]])")
_HASHES = Pattern(r"#{2,} *")
_HEADED = Pattern(rf"(?<!#)#{{2,}} *(?=prompt|{_ROLE})")
_MARKER = Pattern(rf"(?:(?<!\w)|(?<=\\n))([_*#]{{0,8}})({_ROLE})[\s*_]{{0,8}}: ?")

# An object of JSON or its kin begins with a key; `name{}` is how Gemma calls a tool without arguments.
_OBJECT = Pattern(r"""\{(?:(?=\s*(?:["']|[\w.-]+\s*:))|(?<=[\w.-]\{)(?=\s*\}))""")
# Python calls with named arguments or with none, comments between; others are no calls of tools.
_SPACE = r"(?:\s|\\+[nrt])*"  # JSON within JSON escapes it
_GAP = r"(?:\s|\\+[nrt\n]|#(?:[^\n\\]|\\(?!n))*(?:\n|\\n))*"
_CALLED = Pattern(rf"\((?:(?<=\w\()|(?<=\w \()){_GAP}(?:\)|\*\*(?={_GAP}[{{(])|\w+{_GAP}=(?!=))")
# Keys without which no object is a call, whatever quotes them: JSON may be in the text of other JSON. A name may stand alone.
_CALL_KEY = Pattern(
    rf"""(\{{{_SPACE}\\*["'](?=name\\*["']{_SPACE}:[^,}}]{{0,200}}\}})"""
    rf"""|(?<!\\)\\*["'](?=(?:arguments|parameters|function|tool_name)\\*["']{_SPACE}:))\w+"""
)
_ESCAPED = Pattern(r"(?<!\\)\\+u00(?!22|27|5[cC]|7[fF])[2-7][0-9a-fA-F]")
_KEYED = Pattern(r"\bcall:(?=[\w.-]+\{)")

# What the rules above begin with, in every form that folds to it: most lines have none of them.
_ANGLED = Pattern("[<︽︿＜﹤‹«\u2329〈《⟨❮ᐸ˂≺]")
_SQUARED = Pattern(r"[\[\]［］﹇﹈]")
_COLON = Pattern("[:：﹕︓]")
_BRACED = Pattern("[{｛﹛︷]")
_ROUND = Pattern("[(（﹙⁽₍︵]")

_PLAIN = Pattern(r"[ !\"$-9;=-Z\\^-~]*")
"""Text without any character that a rule below looks at; most utterances."""
_WITH_COLONS = re.compile(r"[ !\"$-;=-Z\\^-~]*")
"""The same with colons, at which only one rule looks; most lines of a block."""


def storable(text: str) -> str:
    """Return the text as UTF-8 files and SQLite can keep it: lone surrogates replaced, NUL removed."""
    if not text.isascii():
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\x00", "")


def clean(text: str, *, max_chars: int) -> str:
    """Return the text as one safe line of at most `max_chars`, cut at a whole sign and then ending in `…`.

    Cleaning twice changes nothing. Ordinary text of any language stays as it is.
    """
    if max_chars < 1:
        return ""
    # The part that is cut need not be looked at: a megabyte of text costs no more than a long line.
    head = text[: 16 * max_chars + 256]
    line = _defang(head)
    if len(line) <= max_chars and len(head) == len(text):
        return line
    return line[: sign_start(line, min(len(line), max_chars - 1))].rstrip(" \u200c\u200d") + "…"


def clean_result(text: str) -> str:
    """Return the answer of a tool made safe as `clean` makes a line, but with its own lines, and JSON that stays JSON.

    Keys that make an object a call are put into parentheses. Cleaning twice changes nothing.
    """
    while _ESCAPED.search(text):
        text = _ESCAPED.sub(lambda match: chr(int(match[0][-2:], 16)), text)
    text = _edit(_visible(text), _HEADED, lambda _part, _match: "")
    text = _edit(text, _CALL_KEY, _as_no_key)
    return _without_markers(_KEYED.sub("call: ", text))


def sign_start(text: str, at: int, *, forward: bool = False) -> int:
    """Return the nearest place before `at` (`forward`: behind it) where a cut splits no visible sign."""
    for _ in range(_LONGEST_CLUSTER):
        if not 0 < at < len(text):
            break
        left, right = text[at - 1], text[at]
        is_torn = left == "\u200d" or _ATTACHED.match(right) or unicodedata.category(right).startswith("M")
        if not is_torn:
            break
        at += 1 if forward else -1
    return at


def fence(lines: Sequence[str], *, header: str = "") -> str:
    """Return the block that goes before an utterance, lines and header made safe once more; empty without lines.

    The same lines give the same bytes. A single line goes between the tags without a bullet and lines of its own, which
    takes 3 or 4 tokens less.
    """
    body = [line for line in map(_defang, lines) if line]
    if not body:
        return ""
    title = _defang(header)
    if len(body) == 1 and not title:
        return OPEN + (body[0].removeprefix(BULLET) or body[0]) + CLOSE
    return f"{OPEN}\n" + "".join(f"{line}\n" for line in ([title, *body] if title else body)) + CLOSE


def is_fenced(text: str) -> bool:
    """Tell whether the text begins with a block as `fence` makes it."""
    return text.startswith(OPEN) and CLOSE in text


def is_alone(block: str) -> bool:
    """Tell whether a block has a single line, without a bullet."""
    return block.startswith(OPEN) and not block.startswith(f"{OPEN}\n")


def check_text(text: str, *, what: str, max_bytes: int) -> None:
    """Raise InvalidInputError unless the text can be stored as it is; messages call it `what`, such as `the value of a fact`."""
    if not isinstance(text, str):
        raise InvalidInputError(f"{what} must be text, not {type(text).__name__}; pass a string.")
    if "\x00" in text:
        raise InvalidInputError(f"{what} holds a NUL character; remove it.")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"{what} holds half a character (a lone surrogate); remove it.") from error
    if size > max_bytes:
        raise InvalidInputError(f"{what} has {size:,} bytes; at most {max_bytes:,} are kept, so shorten it.")


def check_key(key: str, *, what: str = "a key") -> None:
    """Raise InvalidInputError unless the key is a name of one line: 1 to 256 visible characters."""
    if not isinstance(key, str):
        raise InvalidInputError(f"{what} must be text, not {type(key).__name__}; pass a string.")
    if not key.strip():
        raise InvalidInputError(f"{what} must not be empty; give it a name.")
    if len(key) > MAX_KEY_CHARS:
        raise InvalidInputError(
            f"{what} has {len(key):,} characters; at most {MAX_KEY_CHARS} are kept, so shorten it."
        )
    for character in key:
        if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp"):
            raise InvalidInputError(
                f"{what} holds U+{ord(character):04X}, a control character or half a character; remove it."
            )


def check_session_id(session_id: str) -> None:
    """Raise InvalidInputError unless the session id is a name of one line; no path is ever made of it."""
    check_key(session_id, what="a session id")


def look_alike(text: str) -> str:
    """Return text of the same length in lower case, each character as the plain one that it looks like."""
    return text.lower() if text.isascii() else text.translate(_FOLDING)


def _defang(text: str) -> str:
    if _WITH_COLONS.fullmatch(text) and not (_OBJECT.search(text) or _CALLED.search(text)):
        text = " ".join(text.split())
        return text if _PLAIN.fullmatch(text) else " ".join(_edit(text, _MARKER, _without_colon).split())
    text = " / ".join(filter(None, (" ".join(line.split()) for line in _LINE_ENDS.split(_visible(text)))))
    text = _HASHES.sub("", text)
    if _BRACED.search(text):
        text = _without_objects(text)
    return " ".join(_without_markers(text).split())


def _visible(text: str) -> str:
    text = _INVISIBLE.sub("", storable(text))
    return _SELECTORS.sub(r"\1", _LOOSE_JOINER.sub("", text))


def _without_markers(text: str) -> str:
    if _ANGLED.search(text):
        text = _edit(text, _TAG, _in_parentheses)
        text = _without_fences(text)
        text = _edit(text, _OPENING, lambda part, _: f"{part} ")
    if _SQUARED.search(text):
        text = _edit(text, _SQUARE, _in_parentheses)
        text = _edit(text, _WAVE, lambda _part, _match: "-")
    if _ROUND.search(text):
        text = _edit(text, _CALLED, _not_called)
    if _COLON.search(text):
        text = _edit(text, _MARKER, _without_colon)
    return text


def _edit(text: str, pattern: Pattern, change: Callable[[str, re.Match[str]], str]) -> str:
    """Return the text with each match in its folded form changed; `change` gets the original part."""
    parts = []
    end = 0
    for match in pattern.finditer(look_alike(text)):
        parts += [text[end : match.start()], change(text[match.start() : match.end()], match)]
        end = match.end()
    return "".join(parts) + text[end:] if parts else text


def _in_parentheses(part: str, _match: re.Match[str]) -> str:
    return f"({part[1:-1].strip(' |｜')})"


def _as_no_key(part: str, match: re.Match[str]) -> str:
    return f"{part[: len(match[1])]}({part[len(match[1]) :]})"


def _without_colon(part: str, match: re.Match[str]) -> str:
    role = part[match.start(2) - match.start() : match.end(2) - match.start()]
    before = match.string[max(0, match.start() - 8) : match.start()]
    if role.islower() and before.rstrip(" \t")[-1:].isalnum() and not before.endswith("\\n"):
        return part  # a word in the middle of a sentence
    return f"{part[: match.end(1) - match.start()].replace('#', '')}({role}) "


def _not_called(part: str, match: re.Match[str]) -> str:
    """Return the beginning of a call without the sign that names an argument, or with an ellipsis."""
    if match[0].endswith("="):
        return f"{part[:-1].rstrip()}: "
    return f"{part[:-1]}…{part[-1]}" if match[0].endswith(")") else f"{part[:-1]} {part[-1]}"


def _without_objects(text: str) -> str:
    folded = look_alike(text)
    begins = {match.start() for match in _OBJECT.finditer(folded)}
    if not begins:
        return text
    characters = list(text)
    opened: list[bool] = []
    for at, character in enumerate(folded):
        if character == "{":
            opened.append(at in begins)
            if opened[-1]:
                characters[at] = "("
        elif character == "}" and opened and opened.pop():
            characters[at] = ")"
    return "".join(characters)


def _without_fences(text: str) -> str:
    """Turn the brackets of what looks like a fence or a role's tag into parentheses."""
    folded = look_alike(text).translate(_BRACKETS)
    characters = list(text)
    for match in _FENCE.finditer(folded):
        characters[match.start()] = "("
        closing = _CLOSING.match(folded, match.end())
        if closing:
            characters[closing.end() - 1] = ")"
    return "".join(characters)


class _Folding(dict[int, str]):
    """Maps a character to the one it looks like, lower case; always one to one, so that positions stay."""

    def __missing__(self, code: int) -> str:
        wide = unicodedata.normalize("NFKC", chr(code))
        plain = wide.lower() if len(wide) == 1 else chr(code)
        if len(plain) != 1:
            plain = chr(code)
        if len(self) > _MOST_FOLDED:
            self.clear()
        self[code] = _LETTERS.get(plain) or _BARS.get(plain) or plain
        return self[code]


_FOLDING = _Folding()
