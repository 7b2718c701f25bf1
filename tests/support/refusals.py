"""Refusals: the one sentence with which something is refused."""

from collections.abc import Callable
from typing import Any

import pytest


def refusal(error: Any, call: Callable[..., object], *given: Any, match: str = ".", **named: Any) -> str:
    """Return the one sentence, in which a pattern is found, with which a call is refused."""
    with pytest.raises(error, match=match) as caught:
        call(*given, **named)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence
