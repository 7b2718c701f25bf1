"""The token log: it only grows, and its ids begin every prompt."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edgemem.llama.context import TokenLog
from edgemem.llama.protocols import Prompt, Segment

PAIRS = {"th": 1000, "he": 1001, "e ": 1002, "\n\n": 1003, "in": 1004}
BYTES = {token: text.encode() for text, token in PAIRS.items()}
words = st.text(alphabet="the in\n", min_size=1, max_size=12)
# ids as a model may generate them: any spelling, also in single bytes where a pair exists
replies = st.lists(st.sampled_from([*PAIRS.values(), *b"thein \n", *"é好".encode()]), min_size=1, max_size=12)


def tokenize(text: str) -> tuple[int, ...]:
    """Tokenise greedily by pairs, else by bytes: a small stand-in for BPE, in which texts have several spellings."""
    ids: list[int] = []
    raw, at = text, 0
    while at < len(raw):
        pair = PAIRS.get(raw[at : at + 2])
        ids.extend([pair] if pair else raw[at].encode())
        at += 2 if pair else 1
    return tuple(ids)


def piece(token: int) -> bytes:
    """Return a token's bytes."""
    return BYTES.get(token) or bytes([token])


def render(messages: list[tuple[str, str]], *, generate: bool = True) -> Prompt:
    """Render messages in the manner of ChatML, cut before each marker."""
    texts = []
    for role, content in messages:
        texts += [f"<{role}>\n{content}", "<end>\n"]
    if generate:
        texts.append("<assistant>\n")
    return Prompt("".join(texts), tuple(Segment(text, tokenize(text)) for text in texts))


def generate(log: TokenLog, ids: list[int]) -> str:
    """Let the log see a reply; return its text."""
    for token in ids:
        log.append(token, piece(token))
    return b"".join(map(piece, ids)).decode("utf-8", "replace")


@given(st.lists(st.tuples(words, replies), min_size=1, max_size=6), st.booleans())
def test_log_only_grows(turns: list[tuple[str, list[int]]], trim: bool) -> None:
    """Whatever is said and generated, the ids of a turn begin with every id the model has seen before."""
    log = TokenLog(tokenize)
    messages = [("system", "be kind")]
    for said, reply_ids in turns:
        messages.append(("user", said))
        before = log.ids
        ids = log.set_prompt(render(messages))
        assert ids[: len(before)] == before
        assert ids == log.ids
        reply = generate(log, reply_ids)
        assert log.ids == [*ids, *reply_ids]
        messages.append(("assistant", reply.strip() if trim else reply))


@given(st.lists(st.tuples(words, replies, st.floats(0, 1)), min_size=1, max_size=6))
def test_after_a_cut_only_what_follows_is_new(turns: list[tuple[str, list[int], float]]) -> None:
    """After each barge-in the log ends with what was heard, and the next prompt begins with all of it."""
    log = TokenLog(tokenize)
    messages = [("system", "be kind")]
    for said, reply_ids, share in turns:
        messages.append(("user", said))
        before = log.ids
        ids = log.set_prompt(render(messages))
        assert ids[: len(before)] == before
        reply = generate(log, reply_ids)
        heard = reply[: int(len(reply) * share)]
        log.cut(heard)
        left = log.ids[len(ids) :]
        assert left == reply_ids[: len(left)]
        assert heard.lstrip().startswith(b"".join(map(piece, left)).decode("utf-8", "replace").strip())
        messages.append(("assistant", heard))


def test_thoughts_go_where_they_would_not_fit() -> None:
    """What is kept beyond the words of a prompt never makes it larger than what the model can take."""
    for most, kept in ((200, True), (60, False), (10, True)):
        log = TokenLog(tokenize)
        log.set_prompt(render([("user", "x")]))
        generate(log, [*b"<think>", *b"hmm" * 20, *b"</think>", *b"in"])
        before = log.ids
        prompt = render([("user", "x"), ("assistant", "in"), ("user", "y")])
        assert 10 < prompt.n < 60
        ids = log.set_prompt(prompt, most=most)
        assert (ids[: len(before)] == before) is kept
        assert kept or ids == prompt.ids
