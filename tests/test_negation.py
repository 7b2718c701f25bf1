"""Negation: what must not be forgotten, told apart from what shall be."""

from __future__ import annotations

import pytest

from edgemem.negation import asks_not_to_forget, asks_to_forget, says_no, says_yes

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
don t forget my birthday
do n't forget my birthday
das darfst du auf keinen Fall vergessen
vergiss meine Allergie auf keinen Fall
my allergy must not be forgotten
it should never be deleted
I don't think you should forget my birthday
don't accidentally forget it
do not under any circumstances forget it
I hope you haven't forgotten
chớ quên uống thuốc
please delete nothing
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
no delete it
what's the weather
that is wrong
"""

ORDERS = """
Forget my birthday
no delete it
Pip, forget my birthday
hey robot, please forget my PIN
No. Delete it.
ok now forget that I don't like nuts
Can you forget my PIN?
why don't you forget about my PIN
could you not just delete it please
I want you to forget that
I live in Bonn, please forget my address
go ahead and delete it
Vergiss meinen Geburtstag
Bitte vergiss, dass ich Nüsse nicht mag
kannst du meine Allergie bitte vergessen
du sollst das löschen
ich möchte, dass du das vergisst
olvida mi cumpleaños
quiero que olvides mi PIN
puedes borrar eso
Non, oublie ça
peux-tu oublier mon PIN
dimentica il mio compleanno
puoi cancellare il mio PIN
esqueça meu aniversário
pode apagar isso
vergeet mijn verjaardag
kun je dat vergeten
xóa ghi chú của tôi
hãy quên sinh nhật của tôi
"""

NO_ORDERS = """
did you forget my birthday
have you forgotten it?
I always forget my pills, so remember them
I go out and forget my keys
in the morning I get up, forget my pills, and go
he told me to forget it
you forgot my birthday
Forget something?
no, forget it
Nein, vergiss es!
don't, under any circumstances, forget my birthday
please don't go and forget my birthday
could you not forget my birthday
forget my PIN and don't forget to call mum
would you please never forget that
ich vergesse das immer
du hast mich vergessen
kannst du das bitte nicht vergessen
j'oublie toujours mes clés
siempre olvido mis llaves
glöm min födelsedag
не забудь про молоко
what's the weather
"""


YES = """
yes
Yes, please.
ja bitte
sure, go on
sí, bórralo
oui
va bene
sim, pode apagar
ja hoor
vâng
yes, forget it
please delete it
of course
ok do it
natürlich
"""

NO_YES = """
no
absolutely not
of course not
please don't
well, no
uh no
not now
I said no
I changed my mind
right, I changed my mind
yes but no
sure, but not now
what time is it?
ok what time is it?
bitte nicht
forget it
note it
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


@pytest.mark.parametrize("said", ORDERS.strip().splitlines())
def test_what_is_an_order(said: str) -> None:
    """A verb of forgetting where orders stand is one."""
    assert asks_to_forget(said)
    assert asks_to_forget(said.upper())


@pytest.mark.parametrize("said", [*KEEP.strip().splitlines(), *NO_ORDERS.strip().splitlines()])
def test_what_is_no_order(said: str) -> None:
    """Anywhere else it is none, and what must not be forgotten never is."""
    assert not asks_to_forget(said)


@pytest.mark.parametrize(
    "said",
    YES.strip().splitlines(),
)
def test_a_yes_is_a_yes(said: str) -> None:
    """An answer that agrees and says nothing else."""
    assert says_yes(said)
    assert not says_no(said)


@pytest.mark.parametrize(
    "said",
    ["", "\ud800", "yes " * 1000, *NO_YES.strip().splitlines()],
)
def test_everything_else_is_no_yes(said: str) -> None:
    """Also what only begins like one."""
    assert not says_yes(said)


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
    "said",
    ["", "\0", "\ud800 don't forget", "don't " * 100_000, "not to " * 50_000 + "forget", "no well, " * 9999],
)
def test_any_text_is_read_quickly(said: str) -> None:
    """Half characters and endless repetition are looked at like anything else."""
    assert asks_not_to_forget(said) in (True, False)
    assert asks_to_forget(said) in (True, False)
