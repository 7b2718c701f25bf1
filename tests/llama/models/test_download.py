"""Downloads over the network: a real server on the loopback that breaks off, lies and changes its mind."""

import hashlib
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edgemem.errors import DiskFullError, DownloadError, ModelError
from edgemem.llama.models.catalog import ModelEntry, Web, check_file, read_pin, sha256_of, state_of
from edgemem.llama.models.convert import convert_bert
from edgemem.llama.models.fetch import fetch_model
from support.disks import no_file_larger_than
from support.models import WIDTH, write_tiny_bert
from support.refusals import refusal
from support.servers import IDENTITY, Served, free_port, serving

TESTS = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("tiny")
    convert_bert(write_tiny_bert(folder / "source"), folder / "tiny.gguf", name="tiny")
    return (folder / "tiny.gguf").read_bytes() + random.Random(1).randbytes(300_000)


@pytest.fixture
def served(content: bytes) -> Iterator[Served]:
    with serving(content) as served:
        yield served


@pytest.fixture
def entry(served: Served) -> ModelEntry:
    return ModelEntry(name="tiny", kind="embedder", file="tiny.gguf", bytes=300_000, dimensions=WIDTH, context=32,
                      ram_mb=1, licence="CC0-1.0", credit="Random numbers, by nobody.",
                      web=Web(kind="https", url=served.url))  # fmt: skip


@pytest.fixture
def pinned(entry: ModelEntry, content: bytes) -> ModelEntry:
    return msgspec.structs.replace(entry, bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "models"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def refused(entry: ModelEntry, folder: Path, words: str) -> str:
    return refusal(ModelError, fetch_model, entry, folder, match=words)


def test_a_file_comes_whole_with_licence_and_pin(entry: ModelEntry, folder: Path, served: Served) -> None:
    """The bytes are the server's, the bar has moved to the end, and no part is left."""
    heard: list[tuple[str, int, int]] = []
    path = fetch_model(entry, folder, progress=lambda *told: heard.append(told))
    assert path.read_bytes() == served.content
    assert names(folder) == ["NOTICE-tiny.txt", "tiny.gguf", "tiny.gguf.pin"]
    assert served.url in (folder / "NOTICE-tiny.txt").read_text()
    assert heard[-1] == ("downloading", len(served.content), len(served.content))
    assert len(heard) > 3


def test_the_first_download_pins_all_later_ones(entry: ModelEntry, folder: Path, served: Served) -> None:
    """A changed file is told, fetched again, and refused if the server has changed its mind."""
    path = fetch_model(entry, folder)
    check_file(entry, path)
    assert state_of(entry, path) == "verified"
    fetch_model(entry, folder)
    assert len(served.asked) == 1
    path.write_bytes(served.content[:-1] + b"x")
    refusal(ModelError, check_file, entry, path, match="same size, other bytes")
    fetch_model(entry, folder)
    assert path.read_bytes() == served.content
    path.unlink()
    served.content = served.content[:-1] + b"y"
    refused(entry, folder, "edgemem models remove tiny")
    assert names(folder) == ["NOTICE-tiny.txt", "tiny.gguf.pin"]


def test_a_file_carried_over_by_hand_is_pinned(entry: ModelEntry, folder: Path, served: Served) -> None:
    """It is the first one that comes; half of one is fetched anew instead."""
    folder.mkdir()
    (folder / entry.file).write_bytes(served.content)
    fetch_model(entry, folder)
    assert served.asked == []
    pin = read_pin(folder / entry.file)
    assert pin is not None
    assert pin.sha256 == sha256_of(folder / entry.file)
    (folder / "tiny.gguf.pin").unlink()
    (folder / entry.file).write_bytes(served.content[:1000])
    fetch_model(entry, folder)
    assert (folder / entry.file).read_bytes() == served.content


@pytest.mark.parametrize("cut", [1, 50_000])
def test_where_the_connection_breaks_off_the_rest_is_asked_for_once(
    entry: ModelEntry, folder: Path, served: Served, cut: int
) -> None:
    """No byte is sent twice; where it breaks off again nothing is kept."""
    served.cuts = [cut]
    assert fetch_model(entry, folder).read_bytes() == served.content
    assert (served.asked, served.sent) == (["", f"bytes={cut}-"], len(served.content))
    (folder / entry.file).unlink()
    served.cuts = [cut, 5]
    refused(entry, folder, f"after {cut + 5:,} of .*try again")
    assert names(folder) == ["NOTICE-tiny.txt", "tiny.gguf.pin"]


def test_the_wrong_file_replaces_nothing(pinned: ModelEntry, folder: Path, served: Served) -> None:
    """The part is deleted, and what lies there stays as it was."""
    folder.mkdir()
    (folder / pinned.file).write_bytes(b"what was there before")
    right = served.content
    served.content = right[:-1] + bytes([right[-1] ^ 1])
    refused(pinned, folder, "another checksum.*do not trust this server")
    served.content = right + b"x"
    refused(pinned, folder, "and the known file")
    assert names(folder) == [pinned.file]
    assert (folder / pinned.file).read_bytes() == b"what was there before"


def test_https_needs_a_server_that_proves_who_it_is(
    entry: ModelEntry, content: bytes, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A certificate that nobody vouches for is refused; one that the machine trusts is not, and nothing else differs."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    identity = tmp_path / "identity.pem"
    identity.write_bytes(IDENTITY.read_bytes())
    with serving(content, identity=identity) as safe:
        entry = msgspec.structs.replace(entry, web=Web(kind="https", url=safe.url))
        refusal(DownloadError, fetch_model, entry, folder, match=r"could not prove who it is.*clock")
        assert safe.asked == []
        monkeypatch.setenv("SSL_CERT_FILE", str(identity))
        safe.cuts = [50_000]
        assert fetch_model(entry, folder).read_bytes() == content


def test_a_disk_that_becomes_full_keeps_nothing(entry: ModelEntry, folder: Path, served: Served) -> None:
    """It is told in one sentence."""
    with no_file_larger_than(100_000), pytest.raises(DiskFullError, match="No half file was left"):
        fetch_model(entry, folder)
    assert names(folder) == []
    assert served.asked == [""]


def test_a_process_that_is_killed_leaves_a_part_that_the_next_one_takes_away(
    entry: ModelEntry, folder: Path, served: Served
) -> None:
    """Ended in the middle of a file, it leaves a part that is written anew."""
    folder.mkdir()
    script = f"""
import sys, time, msgspec
from pathlib import Path
from edgemem.llama.models.catalog import ModelEntry
from edgemem.llama.models.fetch import fetch_model

def tell(stage, done, of):
    print(done, flush=True)
    for _ in range(6000):  # in naps: a signal that comes right before a long sleep is noticed after it
        time.sleep(0.01)

entry = msgspec.json.decode(sys.argv[1], type=ModelEntry)
fetch_model(entry, Path({str(folder)!r}), progress=tell)
"""
    command = [sys.executable, "-c", script, msgspec.json.encode(entry).decode()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=TESTS.parent) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
    assert names(folder) == ["tiny.gguf.part"]
    assert fetch_model(entry, folder).read_bytes() == served.content
    assert names(folder) == ["NOTICE-tiny.txt", "tiny.gguf", "tiny.gguf.pin"]


def test_nothing_but_get_touches_the_network(folder: Path, content: bytes) -> None:
    """`models list`, `add`, `verify` and `remove` make no socket and look no name up."""
    script = """
import json, sys
sys.path.insert(0, "tests")
from support.servers import seen, watch
sys.addaudithook(watch)
from click.testing import CliRunner
from edgemem.cli import main

for args in (["add", sys.argv[1]], ["list"], ["verify", "tiny"], ["get"], ["remove", "tiny"]):
    result = CliRunner().invoke(main, ["models", *args, "--home", sys.argv[2]])
    assert result.exit_code == 0, result.output
print(json.dumps(seen))
"""
    folder.mkdir()
    (folder / "tiny.gguf").write_bytes(content)
    command = [sys.executable, "-c", script, str(folder / "tiny.gguf"), str(folder / "home")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=TESTS.parent)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []


def test_a_redirect_keeps_the_range(entry: ModelEntry, folder: Path, served: Served) -> None:
    """Hubs send everybody on to where the files lie."""
    with serving(b"") as hub:
        hub.location = served.url
        by_hub = msgspec.structs.replace(entry, web=Web(kind="https", url=hub.url))
        served.cuts = [50_000]
        fetch_model(by_hub, folder)
    assert (served.asked, served.sent) == (["", "bytes=50000-"], len(served.content))


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        ({"content": b"<html>Please log in</html>" * 9000}, "wrong file.*not a GGUF"),
        ({"content": b"GGUF"}, "wrong file.*not a GGUF"),
        ({"status": 403}, "answered 403 and gives no .*; try again later, or .*models add FILE"),
        ({"status": 206}, "answered 206"),
        ({"location": "http://192.0.2.1/x.gguf"}, "not an https address"),
        ({"location": "file:///etc/passwd"}, "not an https address|answered 302"),
        ({"cuts": [0]}, "after 0 of"),
        ({"cuts": [50_000], "then": {"ranges": False}}, "broke off.* after 50,000"),
        ({"cuts": [50_000], "then": {"shift": 7}}, "broke off.* after 50,000"),
        ({"cuts": [50_000], "then": {"etag": 'W/"weak"'}}, "broke off.* after 50,000"),
        ({"cuts": [50_000], "then": {"etag": '"other"', "if_range": False}}, "broke off.* after 50,000"),
    ],
)
def test_what_a_server_does_wrong_is_told_and_nothing_is_kept(
    entry: ModelEntry, folder: Path, served: Served, trouble: dict[str, Any], words: str
) -> None:
    """Another file, a refusal, a way off https, and a rest that may be of another file: one sentence for each."""
    for name, value in trouble.items():
        setattr(served, name, value)
    refused(entry, folder, words)
    assert names(folder) == []


def test_a_server_that_is_not_there_or_falls_silent_is_told(
    entry: ModelEntry, folder: Path, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody listens, nobody may be asked, there is none, there is no room for its file, or no byte comes for too long."""
    way = "no way to 127.0.0.1.*edgemem models add FILE"
    for host, words in ((f"127.0.0.1:{free_port()}", way), ("192.0.2.1", "not an https address")):
        web = Web(kind="https", url=f"http://{host}/x.gguf")
        refused(msgspec.structs.replace(entry, web=web), folder, words)
    refused(msgspec.structs.replace(entry, web=None), folder, "edgemem models add FILE --as tiny")
    served.more = 9 * 10**18
    refusal(DiskFullError, fetch_model, entry, folder, match="free")
    monkeypatch.setattr("edgemem.llama.models.fetch.TIMEOUT_S", 0.1)
    served.silent.clear()
    refused(entry, folder, "fell silent")
    assert names(folder) == []
