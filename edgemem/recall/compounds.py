"""Compounds: the nouns that a German one is made of, so that who asks for the paper finds the Papiertonne.

A word is cut before a noun of the list below that it ends in. The list holds what is talked about at home; a compound
that ends in something else stays whole, and loses nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache

from edgemem.recall.stemmer import stem, stems

_NOUNS = """
abend abfall abholung ablage abschluss absender abteil abteilung adapter adresse akku akte aktion alarm allee allergie
alter ampel amt anfang angebot anhang anhanger ankunft anlage anleitung anprobe anruf ansage anschluss ansprache
antenne antrag antwort anwalt anweisung anzeige anzug apfel apotheke apparat arbeit arbeiter arm armel artikel arzt
arztin assistent atem aufgabe aufkleber auflauf aufnahme aufsatz aufsicht auftrag auftritt aufzug auge ausbildung
ausflug ausgabe ausgang auskunft ausrustung ausschlag ausstellung auswahl ausweis auto automat bach backerei bad bahn
balkon ball band bank bau bauer baum beamter becher becken bedarf beet befehl befeuchter beginn begleiter behalter
behandlung beilage bein beitrag belag beleg beleuchtung berater bereich berg bericht beruf beschreibung besen besitzer
besprechung besteck bestellung besuch betrag betreuer betrieb bett beutel bewerbung bezug biene bier bild birne blatt
blick blume bluse blute boden bogen bohne bohrer boot bote brause brei brett brezel brief brille brot bruch brucke
bruder brust bub buch buchse bude bugel buhne burg buro burste bus butler butter champion chef chor clown club code
computer container creme dach dackel dame dampf datum dauer deckchen decke deckel dieb diele dienst ding diplom
direktor dirndl dokument dorf dose dosis drache drachen draht dreck druck drucker druckerei duft durst dusche ecke ehe
eimer eingang einkauf einladung einlage einrichtung eintritt eis eisen elektriker eltern empfanger ende engel ente
entferner erde ergebnis erinnerung ernte essen essig etikett eule fabrik fach faden fahne fahrer fahrt fall
falle familie fan farbe faser fass feder feger fehler feier feile feind feld felge fell fenster ferien fest feuer
fieber figur film filter finger firma fisch flache flasche fleck fleisch fleischer fliege flieger floh flote flug flur
fluss folge folie form forum foto fotograf frage frau freund freundin frist frosch frucht fruhling fuchs fuhrer
fuhrung fund fuss futter gabe gabel galerie gang gans garage gardine garn garten gartner gas gasse gast gebaude gebiet
gebuhr geburt gedicht gefass gehalt geheimnis gelander geld gelenk gemeinde gemuse gerat gericht geruch geschaft
geschenk geschichte geschirr geschoss gesellschaft gesicht gespenst gesprach gestell getrank getriebe gewicht gewitter
gewurz gift gitarre gitter glas glaser glocke gluck graben gras grenze griess griff grill grippe grosse grund gruppe
gruss gummi gurke gurtel gymnastik haar hafen hahn hahnchen hai haken halle hals halter halterung hammer hand handel
handler handy hase haube haus hauschen haut hebamme heber hecke heft heilung heim heizer heizung helfer helm hemd herd
hersteller herz hexe hilfe himbeere himmel hirsch hitze hobel hocker hof hohe hohle holz honig horer horn hose hotel
huhn huhnchen huhner hulle hummel hund hupe hut hutte igel imbiss impfung infekt ingenieur inhalt insel inspektion
installateur interesse jacke jager jahr jause joghurt jubilaum junge kabel kabine kafer kaffee kafig kalb kalender
kamera kamerad kamin kamm kammer kanal kandidat kanne kanten kanzlei kapelle kapitan kappe kapsel karte kartoffel
karton kase kasse kasten kater katze kehrer keks kelle keller kellner kellnerin kern kerze kessel kette kiefer kind
kirche kirsche kissen kiste kittel klammer klang klasse klassiker klavier kleber kleid kleidung klemme kletterer klima
klingel klinik kloss knacker kneipe knodel knopf knoten koch kocher koffer kohl kohle kollege kommode kompott
konferenz konig konto kontrolle konzert kopf kopie korb korper kosmetik kosten kraft kran krankheit kranz kratzer
kraut krebs kreis kreuz krieg krippe krone kubel kuche kuchen kugel kuh kuhl kuhler kunde kunst kupplung kurs kuss
kuste laden lager lamm lampe land landschaft lange lappen larm laterne latte laub laube lauf laune leben leder lehne
lehre lehrer lehrerin leidenschaft leihe leine leistung leiter leitung lektion leser leuchte leute licht liebling lied
lieferant lieferung liege likor limonade linie linse lippe liste loch locher locke loffel lohn losung lowe luft luster
macher madchen maher mahlzeit makler maler mann mannschaft mantel mappe marder marke markise markt marmelade maschine
maske massage matratze mauer maus maut mechaniker medikament medizin meer mehl meinung meister melder melone menge
menu messe messer metall meter miete mieter milch minister minute mischung mitarbeiter mitglied mittag mitte mittel
mixer mobel mode modell monat montag monteur moped morgen motor motte mull mund munze museum musik musiker musli
muster mutter mutze nachbar nachricht nacht nadel nagel nahrung name nase nest netz neugier note notiz nudel nummer
nuss oberteil obst ofen offner ohr oma onkel opa oper operation optiker orange orchester ordner ordnung orgel ort
packung paket palme pantoffel papagei papier paradies parfum park partner party pass pasta paste patient pause pedal
perle person personal pfahl pfand pfanne pfeffer pfeife pfeil pferd pflanze pflaster pflege pfleger pflicht pflug
pforte pille pilz pinguin pinsel pirat pizza plage plan planer planung plastik platte platz platzchen polizei polizist
polster portion post pracht praktikum praxis preis presse prinzessin probe produkt professor profi programm projekt
prospekt protokoll prufer prufung pudding pulli pult pulver pumpe punkt puppe pute putzer qualitat quark quelle quiz
rabatt rad radio radler rahmen rakete rampe rand rasen rasierer raster rat ratsel ratte raum reaktion rechner rechnung
rede regal regel regen register reh reifen reihe reiniger reinigung reis reise reiter reparatur reserve rest
restaurant rettung rezept richter riegel rind rinde ring rinne rock rohr rohre rolle roller roman rose route rucken
ruder ruhe ruhrer runde rutsche saal sache sack safari saft sage sager salami salat salbe salz samen sammler sammlung
sand sandale sanger sattel satz sauger saule schacht schaden schaf schaffner schal schale schalter schatz schaukel
scheibe schein schema schere schicht schicksal schiene schiff schild schimmel schinken schirm schlaf schlafer schlag
schlange schlauch schleife schleim schlitten schloss schluss schlussel schmerz schminke schmuck schnee schneider
schnitt schnitte schnitzel schnur schokolade schoner schrank schraube schreiben schrift schritt schub schublade schuh
schulden schule schuler schulter schuppen schurze schussel schutz schutzer schwamm schwanz schwein schwelle schwester
schwimmer see segel seife seil seite sekretar sekunde semmel sender sendung sensor serie service sessel sicherung sieb
sieger signal silber sinn situation sitz sitzung skala skizze socke socken sofa software sohn sommer sonne sorge sorte
sosse spange spargel spass speck speicher speise spender sperre spezialist spiegel spiel spieler spinat spinne spion
spitze splitter sport sprache sprecher spritze sprung spule spur stabchen stachel stadt stahl stall stamm stander
station statte status stau staub stecker steg steig stein stelle stempel stern steuer stich stiefel stiege stift stil
stimme stimmung stock stoff stoffe storung strahl strahler strand strasse strauch strauss strecke streit strom strumpf
stube stuck student studie studio stufe stuhl stunde sturm suche sulze suppe symbol system tabelle tablett tablette
tafel tag taler tanne tante tanz tape tapete tasche tasse taste tat tatigkeit taube tausch taxi technik techniker tee
teich teig teil telefon teller tempel temperatur tempo tennis teppich termin test theater thema therapeut therapie
ticket tier tisch tochter tomate ton tonne topf tor torte tour tourist trager trainer training transport traube traum
treffen treppe tresor trikot tritt trockner tropfen truhe trunk tube tuch tur turm turnier tute typ uberraschung
uberweisung ubung uhr umfrage umschlag umzug unfall uniform unterlagen unterricht untersuchung urkunde urlaub ursache
vase vater verband verbot verein vereinbarung verfahren vergleich verkaufer verkehr verlag verleih verletzung verlust
vermieter verpackung versand versicherung verspatung versteck versuch vertrag vertreter verwalter verwaltung
verzeichnis viertel vogel vorhang vorrat vorschlag vorstellung waage wache wachter waffe waffel wagen wahl wald walze
wand wanderung wanne wappen ware warmer wart warter wasche wascher wasser weber wechsel weck wecker weg wehr wein
weise weite welle welpe welt werbung werk wespe weste wettbewerb wette wetter wickel wiege wiese wind winkel winter
wirt wirtschaft witz woche wohnung wolf wolke wolle workshop wort wunde wunder wunsch wurfel wurm wurst wurstchen
wurzel wuste zahl zahler zahlung zahn zange zauber zaun zebra zeichen zeichnung zeile zeit zeitung zelle zelt zement
zentimeter zentrale zentrum zettel zeug zeuge zeugnis ziege ziegel zieher ziel ziffer zigarette zimmer zirkus zitrone
zoll zone zopf zucht zucker zug zugang zustand zutat zweig zwerg zwiebel zwilling zylinder
"""
_JOINED = """
abendessen akkuschrauber arbeitsplatz armband bahnhof baustelle bohrmaschine fahrkarte fahrplan fahrrad feuerwehr
flughafen fruhstuck fussball gaststatte geburtstag gutschein handschuh handtuch hausaufgabe haustier heuschnupfen
hochzeit kennzeichen kindergarten krankenhaus kuhlschrank lautsprecher lebkuchen lippenstift meerschwein mittagessen
mittagsschlaf mulltonne nachtisch netzteil parkplatz passwort rotwein rucksack rufnummer schlafzimmer schultasche
schwimmbad sitzplatz spielplatz spielzeug standort staubsauger steckdose taschenlampe tierarzt torwart turnschuh
unterhose wanduhr waschbecken waschmaschine wasserhahn weihnachten werkstatt werkzeug zahnarzt zubehor
"""
"""Compounds that others end in: an Ersatzfahrrad is a Fahrrad, and a Rad."""
_WHOLE = """
artistisch ausbildung automatisch danemark deutsch dienstag donnerstag eigentlich einladung elektronisch entscheidung
figur fleischer forscher freitag fruhling girlande gymnasium hamburg hoffentlich ibuprofen information journalist
klamotten kleidung kompost kontakt kultur langsam liebling literatur lutscher manchmal meldung mittwoch montag natur
niemals parkett plattform politisch praktisch programm pudding reparatur romantisch samstag scheidung schlange
schmetterling schmutz schneider schreiner schwein schwester sendung sonntag sorgfalt spezialist temperatur turnier
uniform verabredung verbindung wunderschon
"""
"""What ends as if it were one."""
_PREFIX = (
    "(?:ab|an|auf|aus|bei|durch|ein|her|hin|los|mit|nach|raus|rein|runter|uber|um|unter|vor|weg|wider|zu|zuruck)?"
    "(?:be|emp|ent|er|ge|miss|ver|zer)?"
)
"""What stands before a word and makes another one of it: an Ausgang is no Gang."""
_FIRST_LETTERS = "[^aeiouy]*"
"""With the letters that a word begins with: eingeschlafen holds no Schlaf, and geschwind no Wind."""
_LEAST_WORD, _LEAST_PART = 7, 3
_SURE_HEAD = 4
"""Letters of a noun that are no other word's end by chance: Kultur holds no Tür."""


@lru_cache(maxsize=16384)
def parts_of(word: str) -> tuple[str, ...]:
    """Return the stems of the parts of a German compound, given in small letters without umlauts; none if it is none.

    They are the noun that it ends in, what stands before that, and the parts of it in turn.
    """
    if len(word) < _LEAST_WORD or not word.isascii() or word.endswith(("ieren", "iert")):
        return ()
    nouns, single, prefix, prefix_and_letters = _known()
    if stem(word, "de") in single:
        return ()
    begins = range(_LEAST_PART, len(word) - _LEAST_PART + 1)
    unsure: tuple[str, ...] = ()
    # By the stem that the noun has alone: Rechnung keeps its ending, and Stromrechnung loses it.
    for begin, head in zip(begins, stems([word[begin:] for begin in begins], "de")):  # noqa: B905 - as long
        if head not in nouns or prefix.fullmatch(before := word[:begin]):
            continue
        rest = stem(before, "de")  # also without the s that binds: Weihnachts is of Weihnacht
        if rest in nouns:
            return _each_once(head, rest, *parts_of(word[begin:]), *parts_of(before))
        if not unsure and len(head) >= _SURE_HEAD and not prefix_and_letters.fullmatch(before):
            unsure = _each_once(head, rest, *parts_of(word[begin:]), *parts_of(before))
    return unsure


def _each_once(*parts: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(parts))


@lru_cache(maxsize=1)
def _known() -> tuple[frozenset[str], frozenset[str], re.Pattern[str], re.Pattern[str]]:
    """Return the stems of what a compound may end in, and of what is none; and what tells prefixes."""
    nouns, joined, whole = (stems(words.split(), "de") for words in (_NOUNS, _JOINED, _WHOLE))
    patterns = re.compile(_PREFIX), re.compile(f"{_PREFIX}{_FIRST_LETTERS}")
    return frozenset(nouns + joined), frozenset(nouns + whole), *patterns
