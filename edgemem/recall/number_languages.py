"""Number words of a few languages: small letters, without accents, as `words.plain_words` leaves them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class NumberWords(NamedTuple):
    """The number words of one language."""

    values: dict[str, int]
    """Of whole numbers, compounds included."""
    places: dict[str, int]
    """Of ordinals."""
    rare_places: dict[str, int]
    """Of ordinals that mean something else but in a date and after tens."""
    repeats: dict[str, int]
    """How often the digit after it stands there."""
    sizes: dict[str, int]
    """What multiplies the number before it."""
    joins: frozenset[str]
    """What stands between parts of one number."""
    zeros: frozenset[str] = frozenset()
    """What is zero only beside other digits."""
    points: frozenset[str] = frozenset()
    past: frozenset[str] = frozenset()
    """Between minutes and the hour that is over, and below the hour to come."""
    to: frozenset[str] = frozenset()
    quarter: str = ""
    half: str = ""
    half_is_to: bool = False
    """Whether half five is half an hour before five."""
    clock: tuple[str, ...] = ()
    """What follows a full hour."""
    and_: frozenset[str] = frozenset()
    less: frozenset[str] = frozenset()
    """Between an hour and the minutes after and before it, where the hour comes first."""
    months: frozenset[str] = frozenset()
    of: str = ""
    """Between a day and its month."""


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _numbered(words: str, first: int = 0, step: int = 1) -> dict[str, int]:
    return {word: first + n * step for n, word in enumerate(words.split())}


def _english() -> NumberWords:
    units = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
    tens = "twenty thirty forty fifty sixty seventy eighty ninety"
    places = "third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth"
    return NumberWords(
        values=_numbered(units) | _numbered(tens, 20, 10),
        places=_numbered(places, 3) | _numbered(tens.replace("y", "ieth"), 20, 10),
        rare_places={"first": 1, "second": 2},
        sizes={"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9},
        joins=_set("and"),
        zeros=_set("oh o"),
        repeats={"double": 2, "triple": 3},
        points=_set("point"),
        past=_set("past after"),
        to=_set("to till"),
        quarter="quarter",
        half="half",
        clock=("o", "clock"),
        of="of",
        months=_set("january february march april may june july august september october november december"),
    )


def _german() -> NumberWords:
    units = "null eins zwei drei vier funf sechs sieben acht neun zehn elf zwolf dreizehn vierzehn funfzehn sechzehn siebzehn achtzehn neunzehn"
    tens = "zwanzig dreissig vierzig funfzig sechzig siebzig achtzig neunzig"
    ones = list(_numbered("ein zwei drei vier funf sechs sieben acht neun"))
    values = _numbered(units) | _numbered(tens, 20, 10)
    values |= {
        f"{one}und{ten}": n + tens_
        for ten, tens_ in _numbered(tens, 20, 10).items()
        for n, one in enumerate(ones, 1)
    }
    places = {f"{word}te": n for word, n in values.items() if 3 < n < 20 and n not in (7, 8)}
    places |= {"dritte": 3, "siebte": 7, "achte": 8} | {
        f"{word}ste": n for word, n in values.items() if n >= 20
    }
    hundreds = {f"{one}hundert": 100 * n for n, one in enumerate(["", *ones[1:]], 1)} | {"einhundert": 100}
    hundreds |= {f"{word}hundert": 100 * n for word, n in values.items() if 11 <= n < 20}
    values |= hundreds | {
        f"{front}{und}{word}": size + n
        for front, size in hundreds.items()
        for word, n in values.items()
        if 0 < n < 100
        for und in ("", "und")
    }
    values |= {f"{one}tausend": 1000 * n for n, one in enumerate(ones, 1)} | {
        f"zweitausend{word}": 2000 + n for word, n in values.items() if 0 < n < 100
    }
    return NumberWords(
        values=values,
        places={f"{word}{end}": n for word, n in places.items() for end in ("", "n", "r", "s", "m")},
        rare_places={
            f"{word}{end}": n
            for n, word in enumerate(("erste", "zweite"), 1)
            for end in ("", "n", "r", "s", "m")
        },
        repeats={},
        sizes={"tausend": 1000, "million": 10**6, "millionen": 10**6},
        joins=_set("und"),
        points=_set("komma"),
        past=_set("nach"),
        to=_set("vor"),
        quarter="viertel",
        half="halb",
        half_is_to=True,
        clock=("uhr",),
        months=_set("januar februar marz april mai juni juli august september oktober november dezember"),
    )


def _spanish() -> NumberWords:
    units = "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciseis diecisiete dieciocho diecinueve"
    twenties = "veinte veintiuno veintidos veintitres veinticuatro veinticinco veintiseis veintisiete veintiocho veintinueve"
    hundreds = "ciento doscientos trescientos cuatrocientos quinientos seiscientos setecientos ochocientos novecientos"
    return NumberWords(
        values=_numbered(f"{units} {twenties}")
        | _numbered("treinta cuarenta cincuenta sesenta setenta ochenta noventa", 30, 10)
        | _numbered(hundreds, 100, 100)
        | {"cien": 100},
        places={},
        rare_places={"primero": 1},
        repeats={},
        sizes={"mil": 1000, "millon": 10**6, "millones": 10**6},
        joins=_set("y"),
        points=_set("coma punto"),
        quarter="cuarto",
        half="media",
        and_=_set("y"),
        less=_set("menos"),
        of="de",
        months=_set(
            "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre"
        ),
    )


LANGUAGES: dict[str, Callable[[], NumberWords]] = {"en": _english, "de": _german, "es": _spanish}
"""What makes the words of a language; German has two thousand, which nobody needs who speaks none."""
