"""Words that bind a sentence in other languages than English, and words of programs: neither is a hint to a recogniser."""

from __future__ import annotations

_GERMAN = """
aber alle als also am an andere auch auf aus bei beim bin bis bist bitte damit dann das dass dein deine dem den denn der
des dich die dies diese diesem diesen dieser dieses dir doch dort du durch ein eine einem einen einer eines er es etwas
euch euer für gegen gern gerne habe haben hat hatte heute hier hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer
im immer in ins ist ja jede jeden jeder jedes jetzt kann kein keine keinen können kommt machen macht mal man mehr mein
meine meinem meinen meiner mich mir mit morgen muss nach nächste neben nein nicht nichts noch nun nur ob oder oft ohne
schon sehr sein seine seinem seinen seiner seit sich sie sind so soll sondern sonst über um und uns unser unsere unter
viel viele vom von vor wann war waren warum was weil wenn wer werden wie wieder will wir wird wo wurde wurden würde zu
zum zur zwei zwischen drei vier fünf sechs sieben acht neun zehn nie ganz gut neu alt groß klein links rechts
"""
_VIETNAMESE = """
anh ăn bạn bị cái cả các chỉ cho chưa chúng chị có còn con cũng của đã đang đây để đến đi đó được gì giờ hai hay không
khi là lại làm lên mà mình mới một nào này năm nên nếu ngày nhà những như nhiều nó ở phải qua ra rất rồi sau sẽ tại tên
theo thì thích tôi trên trong trước và vào vẫn về với vì việc xuống em ông bà cô chú ba bốn sáu bảy tám chín mười quán
đặt đèn hỏng người lúc
"""
_ROMANCE = """
al algo ahora aquí como con cuando cual de del desde donde dos el ella ellos en entre era es esa ese eso esta este esto
están está fue ha hace hasta hay la las le les lo los más me mi mis muy nada ni nos nosotros otra otro para pero poco por
porque pues que qué quien se ser si sí sin sobre son su sus también te tiene toda todo todos tu tus un una uno unos ya yo
alors au aux avec bien ce ces cet cette chez comme dans des deux donc du elle elles et être eux ici il ils je leur leurs
lui ma mais mes moi mon même ne nous on ou où par pas peu plus pour puis qui sa sans ses son sont sous suis sur ta tes toi
ton tout tous très trop vos votre vous était été ça
"""
_MACHINES = """
api com config conf csv device enabled disabled false html http https json net null org sensor temp timestamp token true url
uuid xml yaml mode status
"""

FUNCTION_WORDS = frozenset(f"{_GERMAN} {_VIETNAMESE} {_ROMANCE} {_MACHINES}".split())
"""In small letters, as they are written."""
