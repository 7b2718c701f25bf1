"""Negation: "don't forget my birthday" is the opposite of "forget my birthday", and models mix them up.

Pure text, in the languages that recognisers on small boards write: English, German, Spanish, French, Italian,
Portuguese, Dutch and Vietnamese; with and without punctuation, apostrophes and accents' composition. Where a sentence
says both, an order to erase counts; where it is unclear, nothing is erased, and the user can say it again.
"""

from __future__ import annotations

import re
import unicodedata

_VERB = (
    r"(?:forget|forgot|forgotten|erase|delete|remove|wipe|discard"  # English
    r"|vergiss|vergesst|vergess\w*|vergisst|losch\w*|entfern\w*"  # German (folded)
    r"|olvid\w+|borr\w+|elimin\w+|suprim\w+"  # Spanish
    r"|oubli\w*|efface\w*|supprim\w+"  # French
    r"|dimentic\w+|scord\w+|cancell\w+"  # Italian
    r"|esquec\w+|apag\w+|delet\w+"  # Portuguese
    r"|vergeet|vergeten|wis\b|wissen|verwijder\w*"  # Dutch
    r"|quen|xoa)"  # Vietnamese
)
_BETWEEN = (
    r"(?:,?\s+(?:dass|das|que|that)"
    r"|\s+(?:you|dare|ever|even|please|want|wish|like|to|let|us|me|him|her|them|need|have|go|just|simply|think|i|anyone"
    r"|ask|asked|tell|told|say|said"
    r"|du|ihr|sie|er|wir|es|etwa|mir|darfst|sollst|einfach|alles|wieder"
    r"|te|se|le|les|lo|la|los|las|nos|os|debes|debe|puedes|hay|quiero|vayas|vaya|tienes|a|jamas"
    r"|de|en|y|surtout|l'|ti|li|mi|si|devi|o|podes|pode|deves|je|het|duoc|bao|gio|co|nen|the)){0,5}?"
)
"""What may stand between a negation and its verb; any other word begins another thought: "I don't live there, forget it"."""

_BEFORE = re.compile(
    r"\b(?:do not|don't|dont|did not|didn't|never|must not|mustn't|should not|shouldn't|shall not|may not|will not|won't"
    r"|can't(?! you)|cannot|let's not|no need|not|no|nunca|jamas|tampoco|non|mai|nao|niet|nooit|dung|khong|chua)"
    rf"{_BETWEEN}\s+{_VERB}\b"
    # German and French orders have their negation behind the verb; before it, the verb is no order.
    rf"|\b(?:nicht|nie|niemals|keinesfalls){_BETWEEN}\s+(?:vergess\w+|vergisst|loschen|geloscht|entfernen|entfernt)\b"
    rf"|\b(?:pas|jamais){_BETWEEN}\s+(?:l')?(?:oublier|effacer|supprimer)\b"
)
"""The negation comes first: "don't ever forget", "darfst du nicht vergessen", "no te olvides", "ne pas oublier"."""

_SUBJECT = r"(?!(?:ich|wir|er|ist|bin|sind|war|hab\w*|mag|weil|denn|dass|das[sz]|was|wie|wo|wer|wenn|ob|dat|hoe|ik|ben|is)\b)"

_BEHIND = re.compile(
    rf"\b(?:vergiss|vergesst|vergessen|losch\w*|entfern\w*|vergeet|wis|verwijder)(?:\s+{_SUBJECT}[\w']+){{0,6}}?"
    r"\s+(?:nicht|nie|niemals|niet|nooit)\b"
    r"|\b(?:oubli\w*|efface\w*|supprim\w+)(?:[\s-]+(?:surtout|donc|le|la|les|ca|moi))?\s+(?:pas|jamais)\b"
)
"""The negation comes last: "vergiss das bloß nicht", "n'oublie pas", "vergeet het niet"."""

_ASIDE = re.compile(r"\b(?:why don't you|why do not you|can't you|couldn't you|won't you)\b")
"""What sounds like a negation and asks for the thing: "why don't you forget it"."""

_ORDER = re.compile(
    rf"(?:^|[.,;:!?]\s*|\b(?:please|and|then|but|just|now|can you|could you|you can|i want you to|bitte|und|aber|dann"
    rf"|y|pero|por favor|et|mais|puis|s'il te plait|e|ma|mas|en|maar|hay)\s+){_VERB}\b"
)
"""Where a clause begins with the verb, it is an order."""

_NO = re.compile(
    r"^\W*(?:no|nope|nah|nein|ne|nee|non|nao|khong|never|nie|stop|wait|cancel|don't|dont|do not|better not|rather not"
    r"|lieber nicht|bitte nicht|nicht|mejor no|keep it|leave it)\b"
)


def asks_not_to_forget(utterance: str) -> bool:
    """Tell whether somebody asks that something be not forgotten or erased, and nothing else."""
    text = _ASIDE.sub(",", _folded(utterance))
    rest = _BEHIND.sub(" ", _BEFORE.sub(" ", text))
    return rest != text and not _ORDER.search(rest)


def says_no(utterance: str) -> bool:
    """Tell whether an answer is a no."""
    return bool(_NO.search(_folded(utterance)))


def _folded(text: str) -> str:
    """Return the text in small letters without accents, its apostrophes straight."""
    text = text.lower().replace("ß", "ss").replace("đ", "d")
    for mark in "’‘ʼ´`":
        text = text.replace(mark, "'")
    parted = unicodedata.normalize("NFKD", text[:4000])
    return " ".join("".join(c for c in parted if not unicodedata.combining(c)).split())
