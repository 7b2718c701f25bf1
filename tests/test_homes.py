"""Homes: the invented households that are learnt on are whole, and what is learnt of them is what they show."""

from __future__ import annotations

import numpy as np

from edgemem.recall.linear import LinearModel, Messages
from edgemem.recall.replacing import Said
from edgemem.recall.signals import SIGNALS
from lab.fit import LENGTHS, Asked, learnt_replacing
from lab.judged import homes
from lab.languages import LANGUAGES


def test_homes_are_whole():
    """All are in known languages; what answers was told or stored, and what is told anew is newer."""
    for name, spoken in homes().items():
        assert name.partition("_")[0] in LANGUAGES
        keys = [row[0] for row in (*spoken.told, *spoken.facts)]
        keys += [key for pair in spoken.replaced for key in (pair.old, pair.new)]
        assert len(set(keys)) == len(keys)
        assert all(set(one.evidence.split()) <= set(keys) for one in spoken.answerable)
        assert all(pair.old_days > pair.new_days for pair in spoken.replaced)
        assert spoken.replaced


def asked(*, replaced):
    """Return a question that an old message answers, or a newer one in much the same words, beside one of another thing."""
    signals = np.zeros((3, len(SIGNALS)), np.float32)
    signals[:, list(SIGNALS).index("words")] = (0.9, 0.8, 0.7)
    stems = frozenset({"key", "hook"}), frozenset({"key", "hook" if replaced else "car"}), frozenset({"key"})
    said = Said(np.array([1, 1, 2]), np.zeros(3, bool), stems, stems, frozenset({"key"}))
    messages = Messages(signals, np.array([0.0, 9.0, 5.0]) * 86400, "now", said)
    right = np.array([not replaced, replaced, False])
    return Asked("en", messages, right, np.array([replaced, False, False]), 1)


def test_what_replaces_is_learnt():
    """What was told anew is lifted above the old, and what is about another thing is not."""
    told = [asked(replaced=n % 2 == 0) for n in range(40)]
    model = LinearModel.bare({"words": 1.0})
    found = learnt_replacing(model, told, told, without=LENGTHS)
    assert found.weights["alike"] > 0
    assert not found.weights.keys() & LENGTHS
    for one in told[:2]:
        own = model.own_odds(one.messages)
        lifted = found.lifted(own, one.messages) > own
        assert lifted.tolist() == [False, bool(one.right[1]), False]
