"""Small talk: questions that want nothing of a memory, though they have the form of one.

People ask an assistant how it is, whether it can sing, why cats purr, what time it is, and whether the weather is not lovely.
A clause is small talk if it asks the robot for itself ("do you ever sleep?") or for a deed that needs no knowledge of
anybody, the world at large ("how many legs does a lobster have?"), a clock or the sky, or nobody ("who cares?"). Whoever
speaks of what the robot knows ("tell", "remember"), or of the household, asks its memory, and so does whoever may. In
English; of eight other languages the greetings, the clock and the weather are known.
"""

from __future__ import annotations

import re

from edgemem.context.asking import LATER, MOST_CHARS, OPENING, WONDERS, asks, clauses, plain
from edgemem.patterns import Pattern
from edgemem.provisions import provided
from edgemem.recall.stemmer import stem
from edgemem.recall.words import terms

_BE = r"(?:['’]s|['’]re| is| are| am| was| were)"
_AUX = r"(?:is|was|are|were|do|does|did|has|have|had|can|could|will|would|should|shall|must|am|may|might|ca|wo|ai)"
_NOT = r"n['’]?t"
_WE = r"(?:i|you|he|she|it|we|they|that|this|there|one)"

_ADDRESS = Pattern(rf"^{OPENING}(?:[^,]*?{WONDERS}|\w+ (?={LATER}))?")
"""What stands before a question, and is none of it; one word may be a name, and what is wondered about is judged by itself."""


@provided
def _empty() -> frozenset[str]:
    """Return the stems of words that name nothing which could be remembered."""
    return frozenset(map(stem, (
        ["thing", "think", "know", "mean", "say", "said", "agree", "believe", "imagine", "hear", "heard", "sound", "sense", "right", "wrong", "world", "ever", "such", "always", "happen", "happened", "ask", "much", "strange", "funny", "odd", "weird", "lovely", "nice", "good", "bad", "great", "wonderful", "awful", "terrible", "true", "real", "really", "serious", "sure", "like", "want", "wish", "guess", "wonder", "thought", "suppose", "get", "make", "let", "see", "look", "well", "way", "lot", "too", "again", "then", "else", "anybody", "anyone", "somebody", "someone", "everybody", "everyone", "matter", "point", "fair", "possible", "pip", "robot", "okay", "do", "mind", "expect", "understand", "stop", "start", "new"]
    )))  # fmt: skip


_REFERS = re.compile(r"^(?:and |so |but |then )?(?:what|where|when|whose|which|who|how)\b")
"""How a question begins that may be about what was said just before: "I'm at the gate. What was it?"."""
_ENGLISH = re.compile(
    rf"^(?:(?!wo\b){_AUX}(?:{_NOT})?|what|where|when|whose?|which|how|why|really|seriously|you|huh|pardon)\b"
)
_RECALLS = re.compile(
    r"\b(?:remember\w*|recall\w*|know|known|knew|tell|told|say|said|remind\w*|mention\w*|heard|got|have|need|note[ds]?|writ\w+|wrote"
    r"|stored?|saved?|keep|kept|look(?:ed)? up|find|found|check\w*|list\w*|show|give|read|forg[eo]t\w*|learn\w*|sure|aware|seen"
    r"|put|explain\w*|understood)\b"
)
"""Of what the robot knows, though "you" is asked."""
_OURS = re.compile(
    r"\b(?:i|me|my|mine|myself|we|us|our|ours|he|him|his|she|her|hers|they|them|their)\b|['’]s (?!the\b|an?\b)\w"
)
"""Somebody is spoken of."""
_MINE = re.compile(r"\b(?:i|me|my|mine|we|us|our|ours)\b")
"""The asker is spoken of: "what did I wish for?"."""
_AS_TOLD = re.compile(
    r"\b(?:my|our|his|her|their|that|which|who|what|where|when|how|usual|favou?rite|again|likes|wants?|wanted|as|same|always|else|last|agreed|planned|said|told)\b"
    r"|['’]s\b"
)
"""How a deed is to be done depends on what was told."""
_LOOKS_UP = re.compile(
    r"\b(?:remember\w*|recall\w*|know|tell|say|remind\w*|mention|hear|look up|find|check\w*|read|show|name|explain|list|give \w+ the|call|phone|ring|text|invite)\b"
)
"""The same of a deed."""
_DEED = re.compile(
    rf"^(?:can|could|will|would|wo{_NOT}|ca{_NOT}|could{_NOT}) (?:you|somebody|someone|anybody|anyone)(?P<deed> .*)"
)
_ITSELF = Pattern(
    rf"^(?:do|are|were|do{_NOT}|are{_NOT}|what would|what could) you\b(?! (?:done|finished|going|still|supposed|already|think|believe|suppose|reckon)\b)",
    rf"^(?:how|what|where|who|why|when)(?: \w+)?(?:{_BE}| (?:made|built|named|invented)) your?\b(?! (?:supposed|going)\b)",
    (r"^(?:how|what|where|why|when)(?: \w+)? (?:do|can|could|would|will|have) you (?:ever |really |usually |always )*"
    r"(?:like|love|hate|want|prefer|eat|drink|dream|wear|feel|do|mean|weigh|cost|come|live|sleep|work|look|spend|enjoy|fear|choose|pick|recommend|suggest|call yourself)\b"),
    r"^(?:did|have) you (?:ever|sleep|slept|miss|missed|dream\w*|laugh\w*|lost your|been|just|enjoy\w*|really|grow\w*|mean)\b",
)  # fmt: skip
_WORLD = Pattern(
    r"^how many \w+ (?:does|do|has|have) an? \w+ have$",
    r"^(?:is|are|can|could|does|do|has) an? \w+ (?:an? )?\w+$",
    r"^how many \w+ (?:are|is|has|have|does) (?:there )?(?:in )?(?:an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\d+)\b",
    r"^(?:do|are|can|could|would|will|have) (?:robots|machines|computers|people|humans|animals|cats|dogs|birds|fish|dolphins)\b",
    r"^(?:why|how) do (?!these\b|those\b|kids\b|guests\b|visitors\b|children\b|things\b|parents\b|always\b|has\b)\w+[^\Ws]s (?!get\b|come\b)",
    r"^where do \w+s (?:live|come from|sleep|grow|hide)\b",
    r"\b(?:capital|population|president|king|queen|currency|flag|square root|meaning) of (?!my\b|our\b)",
    r"\b(?:in|of|on) the (?:world|universe|planet|solar system)\b",
    r"^who (?:invented|discovered|painted|composed|founded)\b",
    r"^(?:why|how (?:far|big|hot|deep|old|high|cold)|where does|what (?:is|makes|causes))\b.*\bthe (?:sky|moon|sun|earth|ocean|wind|universe|rainbow)\b",
    r"^what(?:['’]s| is| are) the \w+est (?:animal|mountain|river|country|city|building|planet|ocean|bird|fish|number|word)\b",
    r"\bwhat does (?!(?:he|she|it|this|that|the)\b)\w+ mean$",
    r"\brhymes? with\b",
    r"^how do (?:you|i|we) (?:spell|say|pronounce)\b",
    r"^what(?:['’]s| is) [\w ]*\b(?:plus|minus|times|divided by)\b",
    r"^why did the chicken\b|^what do you call an?\b",
)  # fmt: skip
_CLOCK = Pattern(
    r"^what time is it\b",
    r"^what(?:['’]s| is) the (?:time|date|weather|news|temperature)(?: (?:like|today|now|outside|tomorrow|out|again))*$",
    r"^what(?:['’]s| is) on the (?:news|radio|telly|tv)$",
    r"^what day is (?:it|today)$",
    r"^what(?:['’]s| is) today['’]s (?:date|news|weather)",
    (r"^(?:is|was|will) it (?:be |still |always |going to |gonna |so )*(?:rain\w*|snow\w*|storm\w*|cold|warm|hot|sunny|wind\w*|dark|late|early"
    r"|cloudy|freez\w+|weekend|monday|tuesday|wednesday|thursday|friday|saturday|sunday)(?: (?:yet|already|outside|today|tonight|tomorrow|now|this \w+))*$"),
    r"^how (?:warm|cold|hot|late|windy|wet) is it(?: (?:outside|today|now|out))*$",
)  # fmt: skip
_NOBODY = Pattern(
    # Greetings
    rf"^how(?:{_BE}| have| do| did) (?:you|we)(?: (?:been|doing|feeling|sleep|do|today|tonight|this|all)\b.*)?$",
    rf"^how(?:{_BE}| goes) (?:it|it going|things|life|everything|your \w+)(?: (?:today|tonight|going))*$",
    r"^is (?:anybody|anyone|somebody|this thing) (?:home|there|on|listening|awake)\b",
    # What was just said or done, or is going on
    (r"^what(?:['’]s| is) (?:up|new|not to \w+|the (?:point|use|matter)|going on|happening|wrong|that supposed to mean|so funny)"
    r"(?: (?:here|now|then|there|with you|of (?:life|it|all|this)))*$"),
    (r"^what (?:else is new|on earth|the (?:hell|heck)|gives|now|is it|next|was that|(?:do|did|would) you (?:think|say|mean|reckon|want))\b"
    r"(?: (?:now|about it|about that|of it|of that|to that))*(?: (?:is|was|are|were)? ?\w+ (?:on|up))?$"),
    r"^(?:can|could|would|will) you (?:please )?(?:say|repeat) (?:that|it|this|the last)\b",
    r"^(?:have|do|can|could) you (?:just )?(?:notice\w*|see|hear|smell|feel|saw) (?:that|this|it|what i|how|me)\b",
    r"^did you (?:just )?(?:notice|see|hear|smell|feel) (?:that|this|it|him|her|them|how)\b",
    r"^(?:is|was) (?:that|this) (?:the|an?|your)\b(?!.*\b(?:i|we|my|our)\b)",
    r"^(?:is|are)\b.*\b(?:boiling|ringing|barking|burning|beeping|humming|raining|leaking|crying|singing|snoring|buzzing|flickering|dripping|shaking)\b(?: again| still| already| now| for you)*$",
    r"^are (?:we|you) (?:there|done|ready)(?: yet| now)?$",
    # Exclamations
    r"^who (?:cares|would(?: ever)? have|could have|am i|do you think you are|asked you|says so|knows$|needs \w+ anyway)\b",
    r"^why (?:me|not|bother|even|do i even|oh why)\b",
    r"^why (?:are|is|do|does|must) (?:people|everything|everybody|everyone|nobody|nothing|life|it always)\b",
    rf"^why (?:do|wo){_NOT} (?:you|we)\b",
    r"^how about\b",
    r"^how could (?:i|you|he|she|they|anyone|anybody) (?:be|do|ever|not)\b",
    rf"^how (?!long|much|many|old|often|far|big|large|small|wide|tall|high|hot|warm|broad|deep|heavy|soon|late|expensive)\w+{_BE} (?:that|this|it|he|she|they)$",
    r"^(?:what|where|how) would (?:i|we|anybody|anyone|the world) \w+ without\b",
    r"^(?:can|could|would|will) (?:you|anybody|anyone) (?:believe|imagine)\b",
    r"^(?:guess (?:what|who)|you know(?: what)?$|did anybody ask)\b",
    r"^am i (?:the only|mad|crazy|dreaming|right|too|wrong|boring|getting|losing)\b",
    rf"^(?:do|do{_NOT}|did) i (?:look|sound|smell|seem)\b|^does my \w+ (?:look|sound|smell|suit)\b",
    (rf"^{_AUX}{_NOT} (?!i\b).*\b(?:lovely|beautiful|nice|great|wonderful|gorgeous|adorable|cute|sweet|funny|strange|weird|odd|crazy|awful"
    r"|terrible|horrible|delicious|tasty|amazing|awesome|charming|silly|marvellous|ridiculous|fun|brilliant|clever|terrific|a good|a beautiful)\b"
    r"(?: \w+)?(?: (?:this|in|out|here|today|tonight)\b.*)?$"),
    rf"^{_AUX}(?:{_NOT})? {_WE}(?: not| so| really)?$",
    r"^(?:really|seriously|pardon|huh|how come|how so|since when|says who)$",
    r"^why (?:is|are|am|do|does|must) (?:it|this|that|these|those|everything|everyone|everybody|life|people|i|you)\b.*\b(?:always|never|ever|every time|so \w+$)",
    r"^how (?:can|could|do|does) (?:anyone|anybody|people|a person|somebody|someone|they)\b",
    r"^(?:when|where|how|what) (?:will|does|did|has|have|had) (?:it|this|that|the (?:time|day|week|weekend|year|summer|winter)|all the \w+|time)\b.*\b(?:ever|end|stop|go|gone|come to)\b",
    r"^how (?:much longer|long (?:must|do|shall|should|will) i (?:have to )?wait)\b",
    r"^is (?:it|that) (?:just |only )?(?:me|too much to ask)\b",
    r"^is there anything (?:\w+er|more \w+) than\b|^is there anything (?:as|so) \w+ as\b",
    r"^what (?:if|are the (?:odds|chances)|kind of (?:a )?(?:person|people|idiot|world)|could (?:possibly )?go wrong|would happen)\b",
    r"^what(?:['’]s| is| has| does|['’]ll)(?: got)?(?: gotten)? (?:into|it with|the (?:deal|harm|world coming|worst)|a person|one to do)\b",
    r"^where(?:['’]s| is) the (?:fun|justice|harm|sense|point)\b",
    r"^did you know\b|^have you heard(?! (?:from|of|what|when|where|whether|if|who)\b)",
    r"^do you (?:really |honestly )?(?:think|believe|suppose|reckon) (?:so|it|that|this|i|we|you|people|there)\b",
    r"^why (?:do|would|must) you\b(?! (?:think|believe|suppose|reckon)\b)",
    r"^do you know (?:the|that) (?:feeling|joke|song|one|story|saying|type|kind|difference)\b",
    r"^what(?:['’]s| is)(?: all)? th(?:e|is|at) (?:hurry|rush|fuss|noise|big deal|drama|catch)\b",
    r"^(?:could|can|would|will)\b.*\b(?:be|get) (?:any|even)\b",
    r"\b(?:if|what would) (?:you|i|robots|we|people) (?:were|could|had|would)\b|\bwould you rather\b",
    # Wondered at: "I don't know how we ever lived without it"
    (r"^(?:how (?:did )?(?:i|we|you|they|people|anyone|anybody) ever|(?:what|where|how) (?:i|we|anybody|anyone|the world)(?:['’]d| would) \w+ without"
    r"|what (?:that|this|it|he|she) mean[st]$|when i (?:last|ever)\b.*\b(?:so|such)|why (?:people|anyone|anybody|nobody|everyone|everybody|it always|i (?:came|went|walked|stood|got up|opened))"
    r"|who (?:would|thought|comes up with)|if (?:it|that|this)(?:['’]s| is) (?:just |only )?me)\b"),
    # What is seen and heard just now
    r"^(?:did|does|do|is|are|was|were|has|have)\b.*\b(?:just|right) now$",
    r"^what(?:['’]s| is| was) (?:that|this) (?:\w+ )?(?:noise|sound|smell|light|mess|racket)\b",
    r"^(?:does|do|is|are) (?:this|that|these|those) (?:\w+ )?(?:look|smell|sound|taste|feel|suit|make|fit)s?\b",
    r"^(?:have i got|do i have|is there) (?:something|anything|\w+) (?:on|in|between) my (?:nose|face|teeth|hair|chin|back|beard|shirt)\b",
    r"^(?:does|is|has|did|would|can|will) (?:anyone|anybody|somebody|someone|everybody|everyone)(?: else)? (?:want|fancy|hungry|thirsty|ready|feel|smell|hear|mind|care|awake|tired)\b",
    r"^who(?:['’]s| is|['’]d)? (?:wants|fancies|would like|hungry|thirsty|ready|up for|in the mood|feels|like|a good)\b",
    # Offers
    r"^shall (?:we|i) (?:start|begin|go|stop|dance|play|eat|have|say|sing|continue|wait|leave|put|get|try|make|sit|talk)\b(?!.*\b(?:or|before|after|which|what)\b)",
    r"^(?:may|can|could|might) (?:i|we) (?:ask you|tell you|come in|go now|sit|join|interrupt|talk|start|stop|just|be honest)\b",
    r"^should (?:i|we) (?:be|worry|laugh|cry|bother|care)\b",
    r"^what (?:shall|should) (?:i|we) (?:wear|do|say|draw|sing|play|talk about)(?: (?:now|tonight|today|tomorrow))?$",
    # Of the robot itself, in words that else speak of what it knows
    r"^do you (?:have|got) (?:an?|any|some)? ?(?:minute|second|moment|time|feelings|friends|fun|soul|family|idea)\b",
    r"^do you know (?:any|an?) (?:\w+ )?(?:joke|song|story|poem|riddle|game|trick)s?\b",
)  # fmt: skip
_ELSEWHERE = Pattern(
    r"\bwie geht(?:['’]?s| es)\b|\bwie (?:spät|viel uhr) ist\b|\bwie ist das wetter\b|\b(?:regnet|schneit) es\b|\bwird es (?:regnen|schneien|kalt|warm)\b",
    r"^(?:hast du gut geschlafen|bist du (?:da|wach|müde))\b",
    r"\bc[oó]mo (?:est[aá]s?|te va|va todo|andas|vai)$|\bqu[eé] (?:tal|pasa)$|\bqu[eé] hora es\b|\bqu[eé] tiempo hace\b|\bva a (?:llover|nevar)\b",
    r"\bcomment (?:vas[- ]tu|allez[- ]vous|ça va)\b|^[cç]a va\b|\bquelle heure est[- ]il\b|\bquel temps fait[- ]il\b",
    r"\bcome (?:stai|va)$|\bche (?:ore sono|ora è|tempo fa)\b|\bque horas são\b|\bhoe gaat het\b|\bhoe laat is het\b",
    r"\bcó? ?kh[oỏ][eẻ] không\b|\bmấy giờ rồi\b|\bthời tiết\b.*\b(?:thế nào|ra sao)\b|\btrời (?:có )?mưa không\b",
    r"你好[吗嗎]|你怎么样|现在几点|几点了|天气(?:怎么样|如何)|会下雨[吗嗎]",
)  # fmt: skip


def wants_memory(utterance: str) -> bool:
    """Tell whether somebody asks something that a memory may answer; in doubt it does."""
    if not asks(utterance):
        return False
    if len(utterance) > MOST_CHARS:
        return True
    said = plain(utterance)
    topic = not _empty().issuperset(terms(said))
    asking = clauses(said)
    return any(not is_small_talk(clause, topic=topic) for clause in asking) if asking else topic


def is_small_talk(clause: str, *, topic: bool = False) -> bool:
    """Tell whether one clause that asks wants nothing of a memory.

    Args:
        clause: in small letters.
        topic: whether something that may be remembered is spoken of before it.
    """
    said = _ADDRESS.sub("", clause.strip(" .,!?¿？。！;")).strip()
    if _NOBODY.search(said) or _CLOCK.search(said) or _ELSEWHERE.search(said):
        return True
    if _empty().issuperset(terms(said)):
        about = _MINE.search(said) or (topic and _REFERS.search(said))
        return _ENGLISH.search(said) is not None and not about
    deed = _DEED.search(said)
    if deed is not None and _LOOKS_UP.search(deed["deed"]) is None:
        return _AS_TOLD.search(deed["deed"]) is None
    if _ITSELF.search(said) and _RECALLS.search(said) is None:
        return True
    return _WORLD.search(said) is not None and _OURS.search(said) is None
