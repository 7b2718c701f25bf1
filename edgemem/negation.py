"""Negation: "don't forget my birthday" is the opposite of "forget my birthday", and models mix them up.

Pure text, in the languages that recognisers on small boards write: English, German, Spanish, French, Italian,
Portuguese, Dutch and Vietnamese; with and without punctuation, apostrophes and accents' composition. A verb of
forgetting is an order only where orders stand: at the beginning of a sentence, or behind "please", "can you", "I want
you to" and the like. Everything else ("did you forget", "I always forget"), everything that says both, and every other
language is no order: the tool asks first, and erases after a yes in one of these languages.
"""

from __future__ import annotations

import unicodedata

from edgemem.patterns import Pattern

_VERB = (
    r"(?:forget|forgets|forgot|forgotten|forgetting|erased?|erasing|deleted?|deleting|removed?|wiped?|discard(?:ed)?"
    r"|vergiss|vergesst|vergess\w*|vergisst|losch\w*|geloscht|entfern\w*"  # German (folded)
    r"|olvid\w+|borr\w+|elimin\w+|suprim\w+"  # Spanish
    r"|oubli\w*|efface\w*|supprim\w+"  # French
    r"|dimentic\w+|scord\w+|cancell\w+"  # Italian
    r"|esquec\w+|apag\w+|delet\w+"  # Portuguese
    r"|vergeet|vergeten|wis\b|wissen|verwijder\w*"  # Dutch
    r"|quen|xoa)"  # Vietnamese
)

# What must not be forgotten

_BETWEEN = (
    r"(?:,?\s+(?:dass|das|que|that)"
    r"|\s+(?:you|dare|ever|even|please|want|wish|like|to|let|us|me|him|her|them|need|have|go|just|simply|think|i|anyone"
    r"|ask|asked|tell|told|say|said|be|been|should|must|may|going|again|not|allowed|supposed|under any circumstances"
    r"|in any case|\w+ly"
    r"|du|ihr|sie|er|wir|es|etwa|mir|darfst|sollst|einfach|alles|wieder|werden|man"
    r"|te|se|le|les|lo|la|los|las|nos|os|debes|debe|puedes|hay|quiero|vayas|vaya|tienes|a|jamas"
    r"|de|en|y|surtout|l'|ti|li|mi|si|devi|o|podes|pode|deves|je|het|duoc|bao|gio|co|nen|the)){0,6}?"
)
"""What may stand between a negation and its verb; any other word begins another thought: "I don't live there, forget it"."""

_BEFORE = Pattern(
    r"\b(?:do not|don't|dont|did not|didn't|never|must not|mustn't|should not|shouldn't|shall not|may not|will not|won't"
    r"|have not|haven't|has not|hasn't|is not|isn't|are not|aren't"
    r"|can't(?! you)|cannot|let's not|no need|not|nunca|jamas|tampoco|non|mai|nao|niet|nooit|dung|cho|khong|chua"
    # An English "no" before the verb is an answer: "no delete it".
    r"|no(?!,?\s+(?:forget|erase|delete|remove|wipe|discard)\b))"
    rf"{_BETWEEN}\s+{_VERB}\b"
    # German and French orders have their negation behind the verb; before it, the verb is no order.
    rf"|\b(?:nicht|nie|niemals|keinesfalls|auf (?:gar )?keinen fall){_BETWEEN}\s+(?:vergess\w+|vergisst|loschen|geloscht|entfernen|entfernt)\b"
    rf"|\b(?:pas|jamais){_BETWEEN}\s+(?:l')?(?:oublier|effacer|supprimer)\b"
)
"""The negation comes first: "don't ever forget", "darfst du nicht vergessen", "no te olvides", "ne pas oublier"."""

_SUBJECT = r"(?!(?:ich|wir|er|ist|bin|sind|war|hab\w*|mag|weil|denn|dass|das[sz]|was|wie|wo|wer|wenn|ob|dat|hoe|ik|ben|is)\b)"

_BEHIND = Pattern(
    rf"\b(?:vergiss|vergesst|vergessen|losch\w*|entfern\w*|vergeet|wis|verwijder)(?:\s+{_SUBJECT}[\w']+){{0,6}}?"
    r"\s+(?:nicht|nichts|nie|niemals|keinesfalls|auf (?:gar )?keinen fall|niet|niets|nooit|in geen geval)\b"
    r"|\b(?:oubli\w*|efface\w*|supprim\w+)(?:[\s-]+(?:surtout|donc|le|la|les|ca|moi))?\s+(?:pas|jamais|rien)\b"
    rf"|\b{_VERB}\s+(?:nothing|none|never|not|nada|niente|nulla)\b"
)
"""The negation comes last: "vergiss das bloß nicht", "n'oublie pas", "vergeet het niet", "delete nothing"."""

_ASIDE = Pattern(
    r"\b(?:why don't you|why do not you|can't you|couldn't you|could you not just|won't you)(?: just)?\b"
)
"""What sounds like a negation and asks for the thing: "why don't you forget it"."""

_AFTER_ANOTHER_THOUGHT = Pattern(
    rf"(?:^|[.,;:!?]\s*|\b(?:please|and|then|but|just|now|can you|could you|you can|i want you to|bitte|und|aber|dann"
    rf"|y|pero|por favor|et|mais|puis|s'il te plait|e|ma|mas|en|maar|hay)\s+){_VERB}\b"
)
"""A verb that perhaps is an order of its own, beside one that is negated: then nobody knows."""

# What shall be forgotten

_IMPERATIVE = (
    r"(?:forget|erase|delete|remove|wipe|discard"
    r"|vergiss|vergesst|losche?|loscht|entferne?|entfernt|(?:vergessen|loschen|entfernen) sie"
    r"|(?:olvid[ae]|borr[ae]|elimin[ae]|suprim[ae])n?(?:me|te)?(?:l[oae]s?)?"
    r"|(?:oubli|effac|supprim)(?:e|ez|er)"
    r"|(?:dimentica|scorda|cancella|elimina)(?:te|re)?(?:l[oaie])?|(?:dimentichi|scordi|cancelli|elimini)(?:l[oaie])?"
    r"|esquece|esqueca|apag(?:a|ue)|delet[ae]|elimin[ae]"
    r"|vergeet|wis|verwijder|xoa)"
)
_LAST = (
    r"(?:vergessen|loschen|entfernen|vergisst|loschst|entfernst|vergeten|wissen|verwijderen"
    r"|olvid(?:ar|es|e)\w*|borr(?:ar|es|e)\w*|elimin(?:ar|es|e)\w*|suprim(?:ir|as|a)\w*"
    r"|oubli(?:er|es)|effac(?:er|es)|supprim(?:er|es)|dimentic(?:are|hi)\w*|scord(?:are|i)\w*|cancell(?:are|i)\w*"
    r"|esquec(?:er|as?)|apag(?:ar|ues?)|delet(?:ar|es?)|quen)"
)
"""The forms behind a request: "kannst du das vergessen", "quiero que olvides", "hãy quên"."""

_REQUEST = Pattern(
    r"(?:\bplease|\b(?:can|could|would|will) you|\byou (?:can|may|could|should|must|have to|need to)"
    r"|\bi (?:want|need|ask|order|would like|told|asked) you to|\bi'd like you to|\bi (?:want|would like) to|\bgo ahead and"
    r"|\bbitte|\b(?:kannst|konntest|wurdest|wirst) du|\b(?:konnen|konnten|wurden) sie|\bdu (?:sollst|kannst|darfst|musst)"
    r"|\bich (?:will|mochte),? dass du"
    r"|\bpor favor|\b(?:puedes|podrias|puede|podria)|\b(?:quiero|necesito) que"
    r"|\bs'il (?:te|vous) plait|\b(?:peux|pourrais|veux)[ -]tu|\b(?:pouvez|pourriez)[ -]vous|\btu (?:peux|dois)|\bje veux que tu"
    r"|\bper favore|\b(?:puoi|potresti|puo|devi)|\b(?:voglio|vorrei) che"
    r"|\b(?:pode|podes|poderia)|\bquero que"
    r"|\b(?:kun|kan|wil|zou) (?:je|u)|\bje (?:kunt|mag|moet)|\balsjeblieft|\balstublieft"
    r"|\b(?:hay|lam on|vui long|xin)|\bban (?:co the|hay))"
    r"(?:,? (?:please|just|now|kindly|also|actually|completely|bitte|einfach|jetzt|mal|por favor|maintenant|ora|agora|nu))*,?$"
)
"""What an order may stand behind."""

_SMALL = (
    r"(?:no|yes|ok|okay|well|oh|so|and|but|now|then|right|actually|just|do|never mind|nein|ja|also|doch|und|aber|bueno"
    r"|si|pues|non|oui|bon|alors|nao|sim|nee|hey \w+|hallo \w+|hi \w+|ne)"
)
_LEAD_IN = Pattern(rf"^(?:{_SMALL}[,\s]+)*(?:[\w']+(?: \w+)?,\s*)?(?:{_SMALL}(?:[,\s]+|$))*$")
"""What may stand before an order at a sentence's beginning: small words, a name with a comma."""

_NEAR = 60
"""Characters within which an order begins; whoever takes longer is asked."""

_SOMEBODY = Pattern(
    r"\b(?:i|i'm|i've|i'd|i'll|we|he|she|they|you|it|who|that|ich|wir|er|sie|du|yo|je|j'|il|elle|on|nous|vous|tu|io|lui|lei"
    r"|eu|ele|ela|ik|hij|zij|ze|wij|we|toi|anh|em|ban)\b"
)
_NEGATED = Pattern(
    r"\b(?:not|never|\w+n't|dont|cannot|without|nicht\w*|nie|niemals|kein\w*|no|nunca|jamas|tampoco|sin|pas|jamais|ne|n'|sans"
    r"|non|mai|senza|nao|sem|niet\w*|nooit|geen|dung|cho|khong|chua)\b"
)
_NEVER_MIND = Pattern(
    rf"^(?:{_SMALL}[,.\s]+){{0,4}}(?:forget (?:about )?it|vergiss es|vergiss's|olvidalo|oublie|laisse tomber|lascia perdere"
    r"|esquece|vergeet het)\W*$"
)
"""What means "let it be", and nothing that was stored."""
_SENTENCE = Pattern(r"[^.!?;]+[.!?;]*")
_A_VERB = Pattern(rf"\b(?:{_IMPERATIVE}|{_LAST})\b")
_FIRST = Pattern(rf"{_IMPERATIVE}\b")

# Answers

_NO = Pattern(
    r"^\W*(?:no|nope|nah|nein|ne|nee|non|nao|khong|never|nie|stop|wait|cancel|don't|dont|do not|better not|rather not"
    r"|lieber nicht|bitte nicht|nicht|mejor no|keep it|leave it|absolutely not|of course not|not now|no way|please don't)\b"
)
_YES = (
    r"(?:yes|yeah|yep|yup|sure|ok|okay|all right|alright|certainly|absolutely|definitely|of course|correct|exactly|confirmed?"
    r"|go on|go ahead|do it|do that|do so|please do|i do|i am sure|i'm sure|i confirm"
    r"|ja|jawohl|jo|klar|na klar|sicher|naturlich|genau|gerne?|mach das|mach es|tu das|tu es|einverstanden|in ordnung"
    r"|si|claro|vale|adelante|hazlo|por supuesto|desde luego|de acuerdo|correcto"
    r"|oui|ouais|d'accord|bien sur|vas[ -]y|fais[ -]le|allez[ -]y|certainement"
    r"|certo|va bene|fallo|procedi|certamente|d'accordo|sicuro"
    r"|sim|pode|pode ser|faca isso|com certeza|claro que sim|isso"
    r"|zeker|natuurlijk|graag|doe maar|doe het|akkoord|prima"
    r"|vang|da vang|u|duoc|dong y|co|phai|dung vay)"
)
_BESIDE_YES = (
    r"(?:please|thanks|thank you|it|that|them|this|now|for good|forever|away|well|oh|um|uh|hmm|robot|very|really"
    r"|(?:delete|erase|remove|wipe|forget)|bitte|danke|es|das|doch|schon|jetzt|losch\w*|vergiss|entfern\w*"
    r"|por favor|gracias|eso|lo|borra\w*|olvida\w*|elimina\w*|s'il te plait|s'il vous plait|merci|ca|le|la"
    r"|efface\w*|oublie\w*|supprime\w*|per favore|grazie|cancella\w*|dimentica\w*|obrigad[oa]|apag[ae]\w*|esquec[ae]\w*"
    r"|alsjeblieft|alstublieft|dank je|het|dat|maar|hoor|wis|vergeet|verwijder|di|a|xoa|quen|cam on)"
)
_ANSWER = Pattern(
    rf"(?:{_BESIDE_YES}\W+)*?(?:{_YES}|please (?:delete|erase|remove|wipe)|(?:delete|erase|remove|wipe) (?:it|that)|bitte)"
    rf"(?:\W+(?:{_YES}|{_BESIDE_YES}))*"
)
_LONGEST_YES = 80
"""Characters; whoever says more says more than yes."""


def asks_to_forget(utterance: str) -> bool:
    """Tell whether somebody orders that something be forgotten or erased, beyond doubt and in a language known here."""
    text = _ASIDE.sub("please", _folded(utterance))
    if _BEFORE.search(text) or _BEHIND.search(text) or _NEVER_MIND.match(text):
        return False
    return any(_is_order(sentence.strip()) for sentence in _SENTENCE.findall(text))


def asks_not_to_forget(utterance: str) -> bool:
    """Tell whether somebody asks that something be not forgotten or erased, and nothing else."""
    text = _ASIDE.sub(",", _folded(utterance))
    rest = _BEHIND.sub(" ", _BEFORE.sub(" ", text))
    return rest != text and not _AFTER_ANOTHER_THOUGHT.search(rest)


def says_yes(utterance: str) -> bool:
    """Tell whether an answer is a yes and nothing but a yes."""
    answer = _folded(utterance).strip(" .,;:!¡\"'…")
    return len(answer) <= _LONGEST_YES and bool(_ANSWER.fullmatch(answer))


def says_no(utterance: str) -> bool:
    """Tell whether an answer is a no."""
    return bool(_NO.search(_folded(utterance)))


def _is_order(sentence: str) -> bool:
    """Tell whether one of a sentence's verbs of forgetting stands where orders stand."""
    for verb in _A_VERB.finditer(sentence):
        before = sentence[: verb.start()].rstrip()
        first = _FIRST.match(sentence, verb.start()) is not None
        request = _REQUEST.search(before, max(0, len(before) - _NEAR))
        if request is not None:
            # "I don't think that you should forget": what is negated before the request is no order.
            if not _NEGATED.search(before[: request.start()].rpartition(",")[2]):
                return True
        elif first and _begins(before):
            return not sentence.endswith("?")
        elif not first and _request_before(before):
            return True
    return False


def _begins(before: str) -> bool:
    """Tell whether nothing stands before a verb that could have another subject, or turn it round."""
    if len(before) > _NEAR:
        return False
    if _LEAD_IN.match(before):
        return True
    return before.endswith(",") and not _SOMEBODY.search(before) and not _NEGATED.search(before)


def _request_before(before: str) -> bool:
    """Tell whether a request stands before a verb at the end, with its object between: "kannst du das vergessen"."""
    words = before.split()
    heads = (" ".join(words[:end]) for end in range(1, min(len(words), 12) + 1))
    return any(_REQUEST.search(head) for head in heads) and not _NEGATED.search(before)


def _folded(text: str) -> str:
    """Return the text in small letters without accents, its apostrophes straight and in their places."""
    text = text.lower().replace("ß", "ss").replace("đ", "d")
    for mark in "’‘ʼ´`":
        text = text.replace(mark, "'")
    parted = unicodedata.normalize("NFKD", text[:4000])
    plain = " ".join("".join(c for c in parted if not unicodedata.combining(c)).split())
    return _TORN.sub(r"\1n't", plain)


_TORN = Pattern(
    r"\b(do|does|did|is|are|was|were|has|have|had|ca|could|must|need|should|wo|would)(?: ?n ?'? ?| n')t\b"
)
"""As some recognisers write it: "don t", "do n't", "dont"."""
