"""Negation: what must not be forgotten, told apart from what shall be."""

from __future__ import annotations

import pytest

from edgemem.negation import asks_not_to_forget, says_no

KEEP = """
Don't forget my birthday
don’t forget to buy milk
dont forget the milk
do not forget that I am allergic
Please never forget that
never ever forget my name
you must not forget that
make sure you don't forget
Don't you dare forget it
Don't delete my allergy
I don't want you to forget that
I told you not to forget it
I didn't say forget it
you shouldn't forget this
let's not forget the keys
Vergiss nicht, Milch zu kaufen
vergiss das bloß nicht
Vergiss meine Allergie nicht
bitte nicht vergessen
das darfst du nicht vergessen
Vergiss niemals meinen Geburtstag
lösch das nicht
Vergessen Sie nicht die Tabletten
vergiss nicht dass ich Nüsse nicht mag
Ich will nicht, dass du das vergisst
No te olvides de mi cumpleaños
no olvides comprar leche
nunca lo olvides
no borres mi alergia
que no se te olvide
no quiero que lo olvides
N'oublie pas mon anniversaire
n’oublie jamais ça
il ne faut pas oublier le lait
oublie pas le pain
ne l'oublie pas
n'efface pas ça
n'oubliez surtout pas
non dimenticare il latte
não esqueça o leite
vergeet de melk niet
niet vergeten
đừng quên sinh nhật tôi
"""

ERASE = """
Forget my birthday
please forget my PIN
forget that I like tea
Delete my allergy, I don't have it
Forget it, don't argue
I don't live there, forget it
I don't live there any more forget it
I'm not allergic any more so delete that
Can you forget my PIN?
Why don't you forget about my PIN
can't you forget that
forget my PIN and don't forget to call mum
don't forget to call mum and forget my PIN
I want you to forget that
Forget that I don't like nuts
no, forget it
Vergiss meinen Geburtstag
Bitte vergiss, dass ich Nüsse nicht mag
vergiss dass ich nüsse nicht mag
lösche meine Allergie
lösche das ich bin nicht allergisch
ich bin nicht mehr allergisch lösche das
Nein, vergiss es
kannst du das vergessen
olvida mi cumpleaños
olvida que no me gusta el té
borra mi alergia por favor
No, olvídalo
no soy alérgico borra eso
oublie mon anniversaire
oublie que je n'aime pas les noix
efface mon allergie s'il te plaît
efface ça je ne suis pas allergique
Non, oublie ça
what's the weather
that is wrong
"""


@pytest.mark.parametrize("said", KEEP.strip().splitlines())
def test_what_must_not_be_forgotten(said: str) -> None:
    """A negation that belongs to the verb turns the order round, in each language and without punctuation."""
    assert asks_not_to_forget(said)
    assert asks_not_to_forget(said.upper())


@pytest.mark.parametrize("said", ERASE.strip().splitlines())
def test_what_shall_be_forgotten(said: str) -> None:
    """A negation that belongs to something else does not."""
    assert not asks_not_to_forget(said)


@pytest.mark.parametrize(
    "said", ["no", "No, keep it.", "nein danke", "lieber nicht", "non", "Better not", "nope", "không"]
)
def test_a_no_is_a_no(said: str) -> None:
    """An answer that begins with a refusal declines."""
    assert says_no(said)


@pytest.mark.parametrize(
    "said", ["yes", "ja bitte", "sure, go on", "sí", "oui", "note it", "", "nobody needs it, yes"]
)
def test_everything_else_is_no_no(said: str) -> None:
    """Words that only begin like one are none."""
    assert not says_no(said)


@pytest.mark.parametrize(
    "said", ["", "\0", "\ud800 don't forget", "don't " * 100_000, "not to " * 50_000 + "forget"]
)
def test_any_text_is_read_quickly(said: str) -> None:
    """Half characters and endless repetition are looked at like anything else."""
    assert asks_not_to_forget(said) in (True, False)
