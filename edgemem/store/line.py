"""Lines: what all records of an export share."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

Number = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
TokenId = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]


class Line(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    tag_field="record",
    tag=str.lower,
):
    """What all lines share: their kind stands in `record`, and nothing unknown is passed over."""


def as_text(value: Any) -> str:
    """Return a value as the JSON text that stands in a column."""
    return msgspec.json.encode(value).decode()
