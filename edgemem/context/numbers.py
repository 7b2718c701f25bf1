"""Numbers, units and dates in what was said: digits and words of English, German, Spanish and Vietnamese.

Two texts say the same number when the values are equal, however they are spelled: `3,000`, `three thousand`, `dreitausend`
and `ba nghìn`. What a word means is read generously where a text is the source (`năm` is five and year), and only where
it is certain in what is checked against it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise

import msgspec


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _numbered(start: int, words: str) -> dict[str, int]:
    return {word: start + n for n, word in enumerate(words.split())}


_TENS = (
    "twenty thirty forty fifty sixty seventy eighty ninety",
    "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
    "veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa",
)
_UNITS_DE = _numbered(1, "ein zwei drei vier fünf sechs sieben acht neun")
_PLAIN = {
    **_numbered(0, "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"),
    **_numbered(16, "sixteen seventeen eighteen nineteen"),
    **_numbered(1, "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn"),
    **_numbered(16, "sechzehn siebzehn achtzehn neunzehn"),
    **_numbered(1, "uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince"),
    **_numbered(16, "dieciséis diecisiete dieciocho diecinueve"),
    **_numbered(21, "veintiuno veintidós veintitrés veinticuatro veinticinco veintiséis veintisiete veintiocho"),
    **_numbered(1, "một hai ba bốn năm sáu bảy tám chín mười"),
    "ein": 1, "eine": 1, "einen": 1, "una": 1, "un": 1, "a": 1, "an": 1, "zwo": 2, "dreissig": 30,
    "mốt": 1, "tư": 4, "lăm": 5, "twelfth": 12, "midnight": 0, "noon": 12, "null": 0, "cero": 0,
    **{ten: 20 + 10 * n for tens in _TENS for n, ten in enumerate(tens.split())},
    **{f"{one}und{ten}": 20 + 10 * n + value for n, ten in enumerate(_TENS[1].split()) for one, value in _UNITS_DE.items()},
    **_numbered(1, "first ¹ third fourth fifth sixth seventh eighth ninth tenth eleventh"),
}  # fmt: skip
_TIMES = {
    "mươi": 10, "hundred": 100, "hundert": 100, "cien": 100, "ciento": 100, "trăm": 100,
    "thousand": 1000, "tausend": 1000, "mil": 1000, "nghìn": 1000, "ngàn": 1000, "million": 10**6, "triệu": 10**6,
}  # fmt: skip
_JOINS = frozenset(("and", "und", "y", "lẻ", "linh"))
_UNCERTAIN = _set(
    "one eins ein eine einen uno una un a an một once elf acht năm ba tư mil first third hai null"
)
"""Words that are more often something else, when they stand alone."""

_UNIT_WORDS = {
    "mg": "mg milligram milligrams milligramm miligramo miligramos miligam",
    "g": "g gram grams gramm gramo gramos gam",
    "kg": "kg kilo kilos kilogram kilograms kilogramm kilogramo kilogramos ký cân",
    "lb": "lb lbs pound pounds pfund libra libras",
    "ml": "ml millilitre milliliter millilitres milliliters mililitro mililitros",
    "l": "l litre liter litres liters litro litros lít",
    "mm": "mm millimetre millimeter millimetres millimeters",
    "cm": "cm centimetre centimeter centimetres centimeters zentimeter centímetro centímetros",
    "m": "m metre meter metres meters metro metros mét",
    "km": "km kilometre kilometer kilometres kilometers kilómetro kilómetros cây",
    "s": "s sec second seconds sekunde sekunden segundo segundos giây",
    "min": "min mins minute minutes minuten minuto minutos phút",
    "h": "hour hours stunde stunden hora horas tiếng",
    "d": "day days tag tage tagen día días ngày",
    "w": "week weeks woche wochen semana semanas tuần",
    "mo": "month months monat monate monaten mes meses",
    "y": "year years jahr jahre jahren año años",
    "am": "am a.m", "pm": "pm p.m",
    "%": "% percent prozent porciento", "°": "° °c °f degree degrees grad grados độ",
    "€": "€ euro euros", "$": "$ dollar dollars dólar dólares", "£": "£", "đ": "đồng",
}  # fmt: skip
_UNITS = {word: unit for unit, words in _UNIT_WORDS.items() for word in words.split()}

_DAYS = (
    "monday montag lunes", "tuesday dienstag martes", "wednesday mittwoch miércoles", "thursday donnerstag jueves",
    "friday freitag viernes", "saturday samstag sonnabend sábado", "sunday sonntag domingo",
    "today tonight heute hoy", "tomorrow morgen mañana", "yesterday gestern ayer", "übermorgen", "vorgestern anteayer",
    "january januar enero", "february februar febrero", "april abril", "june juni junio", "july juli julio",
    "august agosto", "september septiembre", "october oktober octubre", "november noviembre",
    "december dezember diciembre", "märz marzo march", "mai mayo may", "weekend wochenende", "christmas weihnachten navidad",
    "easter ostern pascua", "midnight mitternacht medianoche", "noon mittag mediodía",
)  # fmt: skip
_DATES = {word: words.split()[0] for words in _DAYS for word in words.split()}
_PHRASES = re.compile(r"\b(?:thứ (?:hai|ba|tư|năm|sáu|bảy)|chủ nhật|hôm nay|ngày mai|hôm qua|cuối tuần)\b")
_NOT_ALWAYS_DATES = frozenset(("may", "march", "mai"))

_TOKEN = re.compile(r"\d{1,40}(?:[.,:]\d{1,40})*|[^\W\d_]+|[%°€$£]")
_THOUSANDS = re.compile(r"\d{1,3}(?:[.,]\d{3})+")
_HAN = dict(zip("零〇一二两兩三四五六七八九十", (0, 0, 1, 2, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10), strict=True))
_COUNTED = re.compile(f"([{''.join(_HAN)}]+)(?=[点點時时年月日号號歳岁度円元块杯片粒个個])")


class Said(msgspec.Struct, frozen=True):
    """One number: its value, and the unit that stands with it."""

    value: str
    unit: str = ""


def folded(text: str) -> str:
    """Return the text in one form: composed, in small letters."""
    return unicodedata.normalize("NFC", text).casefold().replace("ß", "ss").replace("’", "'")


def numbers(text: str, *, generous: bool = False) -> set[Said]:
    """Return the numbers of a text.

    Args:
        generous: also every other reading: `7:30` is 7 and 30 as well, a word that may be a number is one.
    """
    tokens = _TOKEN.findall(folded(text))
    found: set[Said] = set()
    at = 0
    while at < len(tokens):
        if tokens[at][0].isdecimal():
            values, at = _digits(tokens[at], generous=generous), at + 1
        else:
            end = _run(tokens, at)
            if end == at:
                at += 1
                continue
            words = tokens[at:end]
            certain = generous or len(words) > 1 or words[0] not in _UNCERTAIN
            values = [str(value) for value in _spelled(words)] if certain else []
            if generous:
                values += [f"{a}:{b}" for a, b in pairwise(values) if int(a) < 24 and 10 <= int(b) < 60]
            at = end
        unit = _unit(tokens, at)
        found.update(Said(value, unit) for value in values)
        if generous and unit == "pm":
            found.update(
                Said(str(int(value) + 12)) for value in values if value.isdigit() and int(value) < 12
            )
    return found | set(_han(text))


def dates(text: str, *, generous: bool = False) -> set[str]:
    """Return the days, months and days from today that a text names, one spelling for all languages."""
    plain = folded(text)
    words = re.findall(r"[^\W\d_]+", plain)
    found = {
        _FOLDED_DATES[word]
        for word in words
        if word in _FOLDED_DATES and (generous or word not in _NOT_ALWAYS_DATES)
    }
    return found | set(_PHRASES.findall(plain))


def is_date(word: str) -> bool:
    """Tell whether a folded word is a day or a month."""
    return word in _FOLDED_DATES


def is_number(word: str) -> bool:
    """Tell whether a folded word is a number or a unit."""
    return word in _SPELLED or word in _FOLDED_TIMES or word in _UNITS


def _digits(token: str, *, generous: bool) -> list[str]:
    parts = [str(int(part)) for part in re.split("[.,:]", token)]
    if len(parts) == 1:
        return parts
    if ":" in token:
        hour, minute = parts[0], token.split(":")[1][:2]
        whole = [hour if int(minute) == 0 else f"{hour}:{minute}"]
    elif _THOUSANDS.fullmatch(token):
        whole = [str(int(re.sub("[.,]", "", token)))]
    elif len(parts) == 2:
        decimals = re.split("[.,]", token)[1].rstrip("0")
        whole = [f"{parts[0]}.{decimals}" if decimals else parts[0]]
    else:
        return parts  # a date
    return [*whole, *parts] if generous else whole


def _run(tokens: list[str], at: int) -> int:
    """Return where the number words that begin at `at` end."""
    end = at
    while end < len(tokens):
        word = tokens[end]
        joins = word in _JOINS and at < end < len(tokens) - 1 and tokens[end + 1] in _SPELLED
        if not (joins or word in _SPELLED or word in _FOLDED_TIMES or _compound(word)):
            break
        end += 1
    return end


def _spelled(words: list[str]) -> Iterator[int]:
    total = current = 0
    begun = False
    for word in words:
        if word in _JOINS:
            continue
        for value, times in _compound(word) or [(_SPELLED.get(word, 0), _FOLDED_TIMES.get(word, 0))]:
            if times >= 1000:
                total, current, begun = total + (current or 1) * times, 0, True
            elif times:
                current, begun = (current or 1) * times, True
            elif begun and not _fits(total, current, value):
                yield total + current
                total, current = 0, value
            else:
                current, begun = current + value, True
    if begun:
        yield total + current


def _fits(total: int, current: int, value: int) -> bool:
    """Tell whether a value continues a number (twenty, five) or begins the next one (two, three)."""
    if current == 0:
        return total > 0 and value < 1000
    return value > 0 and (
        (current % 100 == 0 and value < 100) or (current % 10 == 0 and current % 100 >= 10 and value < 10)
    )


def _compound(word: str) -> list[tuple[int, int]]:
    """Read a German word such as `dreitausend` or `zweihundertfünf`."""
    match = re.fullmatch(r"(\w*?)(tausend|hundert)(\w*)", word)
    if match is None or word in _FOLDED_TIMES:
        return []
    head, times, tail = match.groups()
    if (head and head not in _SPELLED) or (tail and tail not in _SPELLED and not _compound(tail)):
        return []
    before = [(_SPELLED[head], 0)] if head else []
    after = (_compound(tail) or [(_SPELLED[tail], 0)]) if tail else []
    return [*before, (0, _FOLDED_TIMES[times]), *after]


def _unit(tokens: list[str], at: int) -> str:
    """Return the unit behind a number."""
    after = tokens[at] if at < len(tokens) else ""
    if after in ("a", "p") and at + 1 < len(tokens) and tokens[at + 1] == "m":
        return f"{after}m"
    return _UNITS.get(after, "")


def _han(text: str) -> Iterator[Said]:
    for run in _COUNTED.findall(text):
        if len(run) == 1:
            yield Said(str(_HAN[run]))
        elif "十" in run:
            tens, _, ones = run.partition("十")
            yield Said(str(_HAN.get(tens, 1) * 10 + _HAN.get(ones, 0)))
        else:
            yield Said("".join(str(_HAN[sign]) for sign in run))


_SPELLED = {folded(word): value for word, value in _PLAIN.items()}
_FOLDED_TIMES = {folded(word): value for word, value in _TIMES.items()}
_FOLDED_DATES = {folded(word): date for word, date in _DATES.items()}
