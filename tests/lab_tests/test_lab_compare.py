"""Peers run apart from edgemem, get the same texts and vectors, and are named with the reason where they cannot run."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from lab import compare, peers
from lab.peers import Peer


def test_peers_are_compared_question_by_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that finds only the first row is below ours by what it misses, and its slowness is held against the bar."""
    stub = tmp_path / "stub.py"
    stub.write_text(
        "import json, sys\n"
        "job = json.load(open(sys.argv[2] + '/job.json'))\n"
        "assert all(': ' in text for text in job['texts']), 'names were asked for'\n"
        "n = len(job['questions'])\n"
        "print(json.dumps({'ranked': [[0]] * n, 'ms': [1e6] * n, 'fill_s': 1.0}))\n"
    )
    peer = Peer("engrava", ())
    monkeypatch.setattr(peers, "SCRIPT", stub)
    monkeypatch.setattr(peers, "PEERS", {"engrava": peer})
    monkeypatch.setattr(peers, "python_of", lambda _peer, _folder: Path(sys.executable))
    monkeypatch.setattr(peers, "version_of", lambda _peer, _python: "0")
    talk = json.loads((Path(__file__).parents[1] / "data" / "corpora.json").read_text("utf-8"))["compared"]
    data = tmp_path / "talk.json"
    data.write_text(json.dumps([talk]))
    figures = compare.run(data=data, rows=0, peers="engrava", home=tmp_path)
    assert figures["side_by_side"]["recall@5"] == {"edgemem": 1.0, "engrava": 0.5}
    above = figures["ours_above"]["engrava"]["recall@10"]
    assert (above["difference"], above["better"], above["worse"], above["n"]) == (0.5, 1, 0, 2)
    monkeypatch.setattr(peers, "SCRIPT", stub)
    stub.write_text(stub.read_text().replace("assert all", "assert not all"))
    slow = compare.run(rows=40, asked=2, quality=False, peers="engrava", home=tmp_path)
    assert slow["bars"]["engrava_times_ours"]["ok"]
