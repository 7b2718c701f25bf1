"""Hints: what a speech recogniser should expect, most important first, and nothing that is not the speaker's to know."""

from edgemem.recall.people.hints import SOMEBODY_HERE, find_hints, statements
from edgemem.records import Heard, Reader, StoredMessage, Turn


def say(memory, text, reply="Fine.", *, speaker="mai", **options):
    messages = (StoredMessage("user", text), StoredMessage("assistant", reply))
    n = len(memory.sessions.journal.read_turns("s"))
    memory.sessions.journal.commit(Turn("s", n, messages, heard=Heard(speaker), **options)).result()


def test_people_come_first_whatever_they_are_called(memory):
    """Whoever speaks here, has facts or stands in the profile is expected, also under a name that is a common word."""
    memory.store.add_fact("tea", "Lapsang Souchong", scope="user:mark", level="household")
    memory.store.add_fact("doctor", "Oyelaran", heard=Heard("mai"))
    now = memory.diagnostics.clock.now()
    hits = find_hints(memory.diagnostics.database, reader=SOMEBODY_HERE, now=now, names=["Joni"])
    assert set(hits[:3]) == {"Joni", "Mark", "Mai"}
    assert {"Lapsang", "Souchong", "Oyelaran"} <= set(hits)


def test_terms_are_names_rare_words_and_fresh_keys(memory):
    """Subjects, names and rare words are hints; common words, numbers and codes are not."""
    memory.store.add_fact("helene.shoe_size", "39")
    memory.store.add_fact("thermostat", "set to 21, the quokka likes the kitchen warm")
    memory.store.add_fact("door_code", "4711")
    hits = memory.hints()
    assert hits[0] == "Helene"
    assert set(hits) == {"Helene", "thermostat", "quokka"}


def test_words_that_every_recogniser_knows_are_none_in_other_languages_either(memory):
    """German and Vietnamese function words stay out; the names and terms between them are found."""
    said = "Das ist die Lampe, und sie ist nicht mit dem Dimmer Wallenstein verbunden"
    memory.store.add_fact("wohnzimmer.leuchte", said)
    memory.store.add_fact("con_meo", "tên là Mướp và thích ăn cá của bà Quỳnh")
    hits = {word.casefold() for word in memory.hints()}
    assert {"wohnzimmer", "leuchte", "wallenstein", "mướp", "quỳnh"} <= hits
    small = "das ist die und sie nicht mit dem tên là và của bà ăn"
    assert hits.isdisjoint(small.split())


def test_letters_of_codes_and_addresses_are_no_words(memory):
    """Nobody says the letters of a serial number, a key, an address or a time as a word."""
    told = "needs a CR2032, see https://quokka.example/faq or mail zorro@quokka.example"
    memory.store.add_fact("pergola.opener", told)
    memory.store.add_fact("box", "serial a8f3-22bb-QUX, seen 2026-11-02T18:30:00Z, 部屋は3階です")
    hits = {word.casefold() for word in memory.hints()}
    assert not hits & {"cr", "quokka", "zorro", "qux", "faq", "t", "z", "bb"}
    assert {"pergola", "部屋は", "階です"} <= hits


def test_what_is_said_often_and_lately_comes_first(memory, hand):
    """A name that fell in many recent turns is worth more than an old one, and than one that fell once."""
    memory.store.add_fact("guest", "Oyelaran")
    hand.advance(90 * 86400)
    for n in range(5):
        memory.store.add_fact(f"trip{n}", "to Bad Harzburg with Ngozi")
    memory.store.add_fact("cake", "from Zanzibar")
    hits = memory.hints()
    assert hits.index("Ngozi") < hits.index("Zanzibar") < hits.index("Oyelaran")
    assert memory.hints(limit=2) == hits[:2]
    assert memory.hints(limit=0) == []


def test_names_in_recent_turns_are_hints(memory):
    """A name that fell in a conversation is expected, the first word of a sentence hardly, small words not at all."""
    say(memory, "Could you call Ngozi? Tapioca is out, and the quokka sleeps.", "I will call Ngozi's office.")
    hits = memory.hints()
    assert hits[:2] == ["Mai", "Ngozi"]
    assert set(hits) == {"Mai", "Ngozi", "Tapioca"}
    say(memory, "My doctor is Oyelaran.", speaker="alice", level="private", owner="alice")
    assert "Oyelaran" in memory.hints(speaker="alice")
    assert not {"Oyelaran", "Alice"} & set(memory.hints())


def test_at_most_sixty_of_any_script(memory):
    """Names are found in scripts without capitals, whole; sixty hints are given at most, unless another number is asked for."""
    memory.store.add_fact("user.name", "हिन्दी ทิพย์ 味噌")
    assert set(memory.hints()) == {"हिन्दी", "ทิพย์", "味噌"}
    for n in range(90):
        memory.store.add_fact(f"k{n}", f"Zz{chr(97 + n % 26) * (n // 26 + 1)}")
    assert (len(memory.hints()), len(memory.hints(limit=70))) == (60, 70)


def test_nothing_private_of_others_is_a_hint(memory):
    """A private fact gives hints to its owner alone; what the household knows, to no stranger."""
    memory.store.add_fact("medicine", "Metoprolol", scope="user:alice")
    memory.store.add_fact("plan", "Zanzibar", scope="household")
    memory.store.add_fact("wifi", "Quokkanet")
    assert {"Metoprolol", "Zanzibar", "Quokkanet"} <= set(memory.hints(speaker="alice"))
    for hints in (memory.hints(speaker="bob"), memory.hints()):
        assert "Metoprolol" not in hints
        assert {"Zanzibar", "Quokkanet"} <= set(hints)
    assert memory.hints(speaker="") == ["Quokkanet"]


def test_what_does_not_hold_any_more_is_no_hint(memory, hand):
    """A value that was replaced, retracted or forgotten is not expected."""
    for key in ("a", "b", "c"):
        memory.store.add_fact(key, f"Xylo{key}phone")
    hand.advance(5)
    memory.store.add_fact("a", "Balalaika")
    memory.store.retract_fact("b")
    memory.forget("c")
    assert memory.hints() == ["Balalaika"]


def test_a_database_of_ten_thousand_facts_is_read_by_its_end(memory):
    """Every statement walks a bounded end of its table or steps through an index, and sorts nothing."""
    for reader in (None, SOMEBODY_HERE, Reader("alice"), Reader()):
        for name, (sql, values) in statements(reader).items():
            bound = values if name == "people" else {**values, "now": 0.0, "rows": 2000}
            plan = [row[3] for row in memory.diagnostics.database.query(f"explain query plan {sql}", bound)]
            assert not [line for line in plan if "TEMP B-TREE" in line or "AUTOMATIC" in line]
            scanned = {line.split()[1] for line in plan if line.startswith("SCAN")}
            assert scanned <= {"facts", "messages", "f", "k", "m", "p", "people", "CONSTANT"}
            if name == "people":
                assert "facts" not in scanned
