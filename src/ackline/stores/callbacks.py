"""The callback URL of a job whose life has ended: noted in the journal entry of that end."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ackline.events import Entry
from ackline.job import Options


def tell_callbacks(
    entries: list[Entry | None], ending: Mapping[int, int], options: Mapping[int, Options]
) -> None:
    """Add the URLs to entries; `ending` maps the index of each entry that ends a job to its job."""
    for index, num in ending.items():
        entry, given = entries[index], options.get(num)
        if entry is not None and given is not None and given.callback_url is not None:
            entries[index] = msgspec.structs.replace(entry, callback=given.callback_url)
