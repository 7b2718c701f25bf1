"""Answers: yes, no and "do not forget", in nine languages."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from edgemem.languages import words
from edgemem.languages.words import says_no, says_not_to_forget, says_yes

FILES = sorted(Path(words.__file__).parent.glob("*.toml"))

KEEP = """
Don't forget my birthday | don’t forget to buy milk | dont forget the milk | don t forget my birthday |
do n't forget my birthday | do not forget that I am allergic | Please never forget that | never ever forget my name |
you must not forget that | Don't you dare forget it | Don't delete my allergy | I don't want you to forget that |
I told you not to forget it | let's not forget the keys | my allergy must not be forgotten |
it should never be deleted | forget my PIN and don't forget to call mum | could you not forget my birthday |
please delete nothing | Vergiss nicht, Milch zu kaufen | vergiss das bloß nicht | Vergiss meine Allergie nicht |
bitte nicht vergessen | das darfst du nicht vergessen | das darfst du auf keinen Fall vergessen |
Vergiss niemals meinen Geburtstag | lösch das nicht | Vergessen Sie nicht die Tabletten |
vergiss meine Allergie auf keinen Fall | No te olvides de mi cumpleaños | no olvides comprar leche |
nunca lo olvides | no borres mi alergia | que no se te olvide | no quiero que lo olvides | đừng quên sinh nhật tôi |
chớ quên uống thuốc | dung quen uong thuoc | 别忘了我的生日 | 不要忘记买牛奶 | N'oublie pas mon anniversaire | n’oublie jamais ça |
il ne faut pas oublier le lait | oublie pas le pain | ne l'oublie pas | n'efface pas ça | n'oubliez surtout pas |
non dimenticare il latte | non ti dimenticare di me | não esqueça o leite | não se esqueça | nao esqueca o leite |
vergeet de melk niet | niet vergeten
"""
FORGET = """
Forget my birthday | forget that I don't like nuts | Delete my allergy, I don't have it |
I'm not allergic any more so delete that | Why don't you forget about my PIN | can't you forget that |
did you forget my birthday | no, forget it | Bitte vergiss, dass ich Nüsse nicht mag |
vergiss dass ich nüsse nicht mag | lösche das ich bin nicht allergisch | Nein, vergiss es |
olvida que no me gusta el té | no soy alérgico borra eso | oublie que je n'aime pas les noix |
efface ça je ne suis pas allergique | Non, oublie ça | puoi cancellare il mio PIN | pode apagar isso |
vergeet mijn verjaardag | hãy quên sinh nhật của tôi | 忘了我的生日吧 | what's the weather
"""
YES = """
yes | Yes, please. | YES! | yes, forget it | please delete it | sure, go on | of course | ok do it | ja bitte |
natürlich | Ja, lösch das. | sí | si | sí, bórralo | vâng | vang | Vâng ạ, xóa đi | đúng vậy | 是的 | 好的，删除吧。 | 没问题 |
oui | Oui, s'il te plaît. | vas-y | va bene | sì, cancellalo | sim, pode apagar | ja hoor | ja, verwijder het
"""
NO_YES = """
what time is it? | ok what time is it? | yes and what time is it? | note it | I see | nobody needs it, yes |
let me think, yes | да | ja aber was ist mit dem anderen | sí pero más tarde | 是的，明天再说
"""
NO = """
no | No, keep it. | nope | Better not | absolutely not | of course not | please don't | well, no | not now |
I changed my mind | right, I changed my mind | yes but no | sure, but not now | forget it | nein danke |
lieber nicht | bitte nicht | mejor no | không | khong | 不要 | 算了 | non | no, grazie | não | nee | laat maar
"""


def lines(table: str) -> list[str]:
    """Return the sentences of a table."""
    return [sentence for sentence in map(str.strip, table.split("|")) if sentence]


def test_who_says_do_not_forget_is_understood() -> None:
    """In each language, with and without punctuation, apostrophes and accents; a negation of something else does not count."""
    assert [
        text for text in lines(KEEP) if not says_not_to_forget(text) or not says_not_to_forget(text.upper())
    ] == []
    assert [text for text in lines(KEEP) if says_yes(text)] == []
    assert [text for text in (*lines(FORGET), *lines(YES)) if says_not_to_forget(text)] == []


def test_a_plain_yes_is_a_yes() -> None:
    """An answer that agrees and says nothing else; what only begins with a yes is none."""
    assert [text for text in lines(YES) if not says_yes(text)] == []
    others = ("", " ", "?", "\ud800", "yes " * 1000, *lines(NO), *lines(NO_YES))
    assert [text for text in others if says_yes(text)] == []


def test_a_no_is_a_no() -> None:
    """Wherever it stands in the answer; words that only begin like one are none."""
    assert [text for text in lines(NO) if not says_no(text)] == []
    assert [text for text in lines(NO_YES) if says_no(text)] == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_file_has_answers_and_no_yes_is_a_no(file: Path) -> None:
    """Each listed yes counts, each listed no counts as one, and nothing is listed as both in any two languages."""
    listed = msgspec.toml.decode(file.read_bytes())
    yes, no = (listed[key].split(", ") for key in ("yes", "no"))
    assert all(says_yes(item) for item in yes)
    assert not any(says_yes(item) for item in no)
    assert all(says_no(item) for item in no)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0",
        "\ud800 don't forget",
        "don't " * 100_000,
        "not to " * 50_000 + "forget",
        "vergiss das " * 9999,
    ],
)
def test_any_text_is_read_quickly(text: str) -> None:
    """Half characters and endless repetition are read like anything else."""
    for reads in (says_yes, says_no, says_not_to_forget):
        assert reads(text) in (True, False)
