"""Compounds: the nouns that a German one is made of, so that who asks for the paper finds the Papiertonne.

A word is cut before a noun of the list below that it ends in. The list holds what is talked about at home; a compound
that ends in something else stays whole, and loses nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache

from edgemem.recall.stemmer import stem, stems

_NOUNS = """
abend abfall abfluss abgabe abholung ablage abschluss absender abteil abteilung adapter adresse akkordeon akku akte
aktion alarm allee allergie alter ambulanz ameise ampel amt ananas anbieter anfang angebot anhang anhanger ankunft
anlage anleitung anprobe anrichte anruf ansage anschluss ansprache antenne antrag antwort anwalt anweisung anwohner
anzeige anzug apfel apotheke apparat aquarium arbeit arbeiter arm armatur armel artikel arzt arztin assistent atem
auffuhrung aufgabe aufkleber auflauf aufnahme aufsatz aufsicht auftrag auftritt aufzug auge ausbildung ausflug ausgabe
ausgang auskunft ausrustung ausschlag ausstellung auswahl ausweis auto automat autor babysitter bach backer backerei
bad bahn balkon ball band bank basis batterie bau bauch bauer baum beamter becher becken bedarf bedienung beerdigung
beet befehl befeuchter beginn begleiter behalter behandlung beilage bein beitrag belag beleg beleuchtung berater
bereich berg bericht beruf beschreibung besen besitzer besprechung besteck bestellung besuch betrag betreuer betrieb
bett beutel bewerbung bezug bibliothek biene bier bike bild binde birne blatt blech blick blume bluse blute boden
bogen bohne bohrer bonbon boot bord bote brand brause brei brett brezel brief brille brosche brot bruch brucke bruder
bruhe brust bub buch buchhandlung buchse buchung bude bugel buhne bulette burg buro bursche burste bus butler butter
champignon champion chef chor clown club coach code computer container creme dach dackel dame dampf datum dauer
deckchen decke deckel delle dessert dieb diele dienst dimmer ding diplom direktor dirndl display doktor dokument dorf
dose dosis drache drachen draht dreck drogerie druck drucker druckerei duft durchfall durst dusche echse ecke ehe
eiche eimer einbrecher einbruch eingang eingriff einkauf einladung einlage einrichtung eintopf eintritt einzug eis
eisen elektriker eltern email empfanger empfehlung ende engel enkel ente entferner entsorgung entwickler erbse
erdbeere erde ergebnis erinnerung ernte ersatz erzahlung esel essen essig etikett eule fabrik fach faden fahne fahrer
fahrt fall falle familie fan farbe faser fass feder feger fehler feier feile feind feld felge fell fenster ferien
fernbedienung fernseher fest feuer fichte fieber figur film filter finger firma fisch flache flasche fleck fleisch
fleischer fliege flieger fliese floh flote flug flugel flur fluss fohn folge folie forelle form forum foto fotograf
fotografie frage frau freibad freund freundin friedhof friseur frisor frist frisur frosch frucht fruhling fuchs fuhrer
fuhrung fuller fullung fund fuss fussmatte futter gabe gabel galerie gang gans garage garderobe gardine garn garnele
garten gartner gas gasse gast gebaude gebiet gebrauch gebuhr geburt gedicht gefass gehalt geheimnis gelander geld
gelenk gemeinde gemuse gerat gericht geruch geschaft geschenk geschichte geschirr geschoss gesellschaft gesicht
gespenst gesprach gestell getrank getriebe gewicht gewitter gewurz gift gitarre gitter glas glaser glocke gluck graben
gras grenze griess griff grill grippe grosse grund gruppe gruss gummi gurke gurtel gymnastik haar hafen hagel hahn
hahnchen hai haken halfte halle hals halter halterung hammer hamster hand handel handler handy harfe hase haube haufen
haus hauschen haut hebamme heber hecke hefe heft heilung heim heizer heizung helfer helm hemd herd hering hersteller
herz hexe hilfe himbeere himmel hirsch hitze hobby hobel hocker hof hohe hohle holz honig horer horn hose hotel hufte
huhn huhnchen huhner hulle hummel hund hunger hupe hut hutte igel imbiss impfung infekt ingenieur inhalt insel
inspektion installateur interesse jacke jager jahr jalousie jause joghurt jubilaum junge kabel kabine kachel kafer
kaffee kafig kaktus kalb kalender kamera kamerad kamille kamin kamm kammer kanal kandidat kanne kanten kanzlei kapelle
kapitan kappe kapsel karte kartoffel karton kase kasse kasten kater katze kehrer keks kelle keller kellner kellnerin
kern kerze kessel kette kiefer kilo kind kirche kirsche kissen kiste kittel klammer klang klasse klassiker klavier
kleber kleid kleidung klemme kletterer klima klingel klinik kloss klub kluppe knacker kneipe knie knochel knodel knopf
knoten koch kocher koffer kohl kohle kollege kommode komodie kompott konferenz konig konserve konsole konto kontrolle
konzert kopf kopie korb korper kosmetik kosten kostum krach kraft kran krankheit kranz kratzer kraut krebs kreis kreuz
krieg krimi krippe krone kubel kuche kuchen kugel kuh kuhl kuhler kunde kundigung kunst kupplung kurs kuss kuste laden
lager lamm lampe land landschaft lange lappen laptop larm laterne latte laub laube lauch lauf laune leben leder lehne
lehre lehrer lehrerin lehrling leidenschaft leihe leine leistung leiter leitung lektion lekture leser leuchte leute
licht liebling lied lieferant lieferung liege likor limonade linie linse lippe liste liter loch locher locke loffel
lohn lokal losung lowe luft luster macher madchen magazin maher mahlzeit mail makler maler mann mannschaft mantel
mappe marder marke markise markt marmelade maschine maske massage match material matratze mauer maurer maus maut
mechaniker medaille medikament medizin meer mehl meinung meister melder melone menge menu messe messer metall meter
metzger miete mieter migrane mikrofon milch minister minute mischung mitarbeiter mitbewohner mitglied mittag mitte
mittel mixer mobel mode modell modus mohre monat monitor montag monteur moped morgen motor motte muffin muhle mull
mund munze museum musik musiker musli muster mutter mutze nachbar nachricht nacht nadel nagel nahrung name napf nase
neffe nelke nest netz neugier nikolaus note notebook notiz nudel nummer nuss oberteil obst ofen offner ohr olive oma
onkel opa oper operation optiker orange orchester orchidee ordner ordnung orgel ostern ort packung paket palme panik panne
pantoffel papagei papier paradies parfum park partner party pass pasta paste patient pause pedal pension perle person
personal pfahl pfand pfanne pfeffer pfeife pfeil pferd pflanze pflaster pflaume pflege pfleger pflicht pflug pforte
phase piano pille pilz pinguin pinsel pirat piste pizza plage plan planer planung plastik platte platz platzchen
plombe polizei polizist polster pool portion post pracht praktikum praline praxis preis presse prinzessin probe
problem produkt professor profi programm programmierer projekt prospekt protokoll prufer prufung pudding pulli pult
pulver pumpe punkt puppe pute putzer puzzle qualitat quark quelle quittung quiz rabatt rad radiator radio radler
rahmen rakete rampe rand ranzen rasen rasierer raster rat ratsel ratte rauch raum reaktion rechner rechnung recycling
rede regal regel regen register reh reifen reihe reiniger reinigung reis reise reiter rektor rente rentner reparatur
reserve reservierung rest restaurant rettung rezept richter riegel rind rinde ring rinne riss roboter rock rohr rohre
rolle roller roman rose rosine route rucken ruder ruhe ruhrer runde rutsche saal sache sack safari saft sage sager
salami salat salbe salz samen sammler sammlung sand sandale sanger sattel satz sauger saule schacht schachtel schaden
schaf schaffner schal schale schalter schatz schaukel scheibe schein schema schenkel schere schicht schicksal schiene
schiff schild schimmel schinken schirm schlaf schlafer schlag schlange schlauch schleife schleim schlitten schloss
schluss schlussel schmerz schminke schmuck schnaps schnee schneider schnitt schnitte schnitzel schnuller schnur
schokolade schoner schrank schraube schraubendreher schreiben schrift schritt schub schublade schuh schulden schule
schuler schulter schulung schuppen schurze schussel schutz schutzer schwager schwamm schwanz schwein schwelle
schwester schwimmer see segel seife seil seite sekretar sekunde seminar semmel sender sendung senf sensor serie
service sessel shampoo shop sicherung sieb sieger signal silber sinn sirup situation sitz sitzung skala skizze snack
socke socken sofa software sohn sommer song sonne sorge sorte sosse spange spargel spass spatz speck speicher speise
spender sperre spezialist spiegel spiel spieler spinat spinne spion spitze splitter sport sprache spray sprecher
spritze sprung spule spur stabchen stachel stadt staffel stahl stall stamm stander station statte status stau staub
stecker steg steig stein stelle stempel stern steuer stich stiefel stiege stift stil stimme stimmung stock stoff
stoffe storch storung strahl strahler strand strasse strauch strauss strecke streit stress strom strudel strumpf stube
stuck student studie studio studium stufe stuhl stunde sturm sturz suche sulze suppe symbol system tabelle tablett
tablette tafel tag taler tanne tante tanz tape tapete tasche tasse taste tat tatigkeit taube tausch taxi team technik
techniker tee teich teig teil telefon teller tempel temperatur tempo tennis teppich termin test theater thema
therapeut therapie thermometer ticket tier tiger timer tisch titel toaster tochter toilette tomate ton tonne topf tor
torte tour tourist trager trainer training transport traube traum treffen trennung treppe tresor trikot trip tritt
trockner trompete tropfen truhe trunk tube tuch tulpe tur turm turnier tute typ uberraschung uberschwemmung
uberweisung ubung uhr umbau umfrage umschlag umzug unfall uniform unterlagen unterricht untersuchung urkunde urlaub
ursache vase vater ventil ventilator veranda verband verbot verbrauch verein vereinbarung verfahren vergleich
verkaufer verkehr verlag verleih verletzung verlust vermieter verpackung versand versicherung verspatung versteck
verstopfung versuch vertrag vertreter verwalter verwaltung verzeichnis viertel villa violine vitrine vogel vorhang
vorhersage vorrat vorschlag vorspeise vorstellung waage wache wachter waffe waffel wagen wahl wald walze wand
wanderung wanne wappen ware warmer wart warter wasche wascher wasser weber wechsel weck wecker weg wehr wein weise
weite welle welpe welt werbung werk wespe weste wettbewerb wette wetter wettkampf wickel wiege wiese wind windel
winkel winter wirt wirtschaft witz woche wohnung wolf wolke wolle workshop wort wunde wunder wunsch wurfel wurm wurst
wurstchen wurzel wuste yoga zahl zahler zahlung zahn zange zauber zaun zebra zehe zeichen zeichnung zeile zeit zeitung
zelle zelt zement zentimeter zentrale zentrum zettel zeug zeuge zeugnis ziege ziegel zieher ziel ziffer zigarette
zimmer zirkus zitrone zoll zone zopf zucht zucker zug zugang zustand zutat zweig zwerg zwiebel zwilling zwirn zylinder
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
