"""Compounds: the nouns that a German one is made of, so that who asks for the paper finds the Papiertonne.

A word is cut before a noun of the list below that it ends in. The list holds what is talked about at home; a compound
that ends in something else stays whole, and loses nothing.
"""

from __future__ import annotations

from functools import lru_cache

from edgemem.recall.stemmer import stem

_NOUNS = """
abend abfall abholung adapter adresse akku allee allergie ampel amt angebot anhanger anlage anleitung anruf ansage antenne
antrag anzeige anzug apfel apotheke apparat arbeit arm armband artikel arzt arztin aufgabe aufkleber auge ausflug ausgabe
ausgang auskunft ausrustung ausschlag ausweis auto bach backerei bad bahn bahnhof balkon ball band bank baum becher becken
beet behalter bein bericht beruf besen besprechung besteck besuch betrag bett beutel bier bild birne blatt blick blume boden
bogen bohne bohrer bohrmaschine boot brett brief brille brot bruch brucke bruder brust buch buchse buhne buro burste bus
butter chef code computer creme dach dame datum decke deckel dieb dienst dokument dorf dose draht druck drucker durst dusche
ecke eimer eingang einkauf eis eisen ende ente erde ernte essen etage fach faden fahrer fahrrad fahrt fall falle familie
farbe fass feder fehler feier feld fell fenster ferien fest feuer fieber film finger firma fisch flasche fleck fleisch fliege
flug flur foto frage frau freund freundin frist fruhstuck fuhrung fuss futter gabe gabel gang gans garage garten gast gebaude
geburt gebuhr gefass gehalt geld gemuse gerat gericht geruch geschaft geschenk gesicht getrank gewicht gift glas glocke gras
grenze griff grippe gruppe gurke gurtel gutschein haar hahn haken hals hammer hand handler handtuch handy hase haube haus
haut heft heim heizung hemd herd hilfe hitze hof holz honig hose hotel huhn hund hut impfung insel jacke jahr junge kabel
kaffee kalender kamera kamin kamm kammer kanne kanten karte kartoffel kase kasse kasten kater katze keks keller kellner kessel
kette kind kirche kirsche kissen kiste klasse klavier kleid kleidung klingel klinik knopf koch koffer kohl kollege komode
konto konzert kopf korb kosten kraft kran kranz kraut krieg kuche kuchen kugel kuh kuhl kuhlschrank kurs kuste laden lager
lampe land lappen larm lauf leben leder lehrer lehrerin leine leistung leiter leitung leuchte leute licht lied liebling linie
liste loch loffel lohn luft mantel mappe markt marmelade maschine maske mauer maus mehl meister melder menge messer meter
miete milch minute mittag mitte mittel mobel monat montag morgen motor mull mulltonne munze musik muster mutter mutze nacht
nadel nagel name nase netz nummer nudel nuss obst ofen ohr oma onkel opa ordner ort papier park partner pass passwort pause
pfanne pferd pflanze pflaster pflege pille pilz pinsel plan platte platz post praxis preis presse probe programm prufung
pulli pulver pumpe punkt puppe quelle rad radio rasen raster rat raum rechnung regal regen reifen reihe reise reis rezept
richter ring rock rohr rolle roller rose rucksack ruhe runde saal sache sack saft salat salbe salz samen sand sattel satz
schacht schal schale schalter schaukel schein schere schicht schiff schild schinken schirm schlaf schlag schlange schlauch
schlitten schloss schlussel schmerz schmuck schnee schnitt schrank schraube schreiben schublade schuh schule schuler schulter
schussel schutz schwamm schwester schwein see seife seil seite sender sessel sicherung sieb signal sitz sitzung socke sofa
sohn sommer sonne sosse spass spiegel spiel spielzeug sport sprache spritze spule stadt stall stander station staub stein stelle
stern steuer stiefel stift stock stoff stoffe strand strasse strauch strauss strecke streit strom stuck student studio stuhl
stunde sturm suche suppe tabelle tablett tablette tafel tag tante tasche tasse tee teich teig teil telefon teller teppich
termin test theater ticket tier tisch tochter tomate tonne topf tor torte tour treffen treppe tuch tur turm tute ubung uhr
unfall unterlagen unterricht urlaub vase vater verband vereinbarung verein vertrag verkehr versicherung vogel vorhang wache
wagen wald wand wanne ware waschbecken wasche wasser wechsel wecker weg weihnachten wein welle werk werkstatt werkzeug wetter
wiese wind winter woche wohnung wolle wort wunde wunsch wurst wurzel zahl zahler zahn zange zaun zeichen zeit zeitung zelt
zentrum zettel zeug ziegel ziel zimmer zitrone zug zutat zwiebel
"""
_LEAST_WORD, _LEAST_REST = 7, 3
_SURE_HEAD = 4
"""Letters of a noun that are no other word's end by chance: Kultur holds no Tür."""


@lru_cache(maxsize=16384)
def parts_of(word: str) -> tuple[str, ...]:
    """Return the stems of the two parts of a German compound, given in small letters without umlauts; none if it is none."""
    if len(word) < _LEAST_WORD or not word.isascii():
        return ()
    nouns, whole = _stems(), stem(word, "de")
    for begin in range(_LEAST_REST, len(whole) - _LEAST_REST + 1):
        head = whole[begin:]
        if head not in nouns:
            continue
        rest = stem(word[:begin], "de")  # also without the s that binds: Weihnachts is of Weihnacht
        if len(head) >= _SURE_HEAD or rest in nouns:
            return head, rest
    return ()


@lru_cache(maxsize=1)
def _stems() -> frozenset[str]:
    return frozenset(stem(noun, "de") for noun in _NOUNS.split())
