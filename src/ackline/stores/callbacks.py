"""Where jobs call back whose life has ended: told by the journal entry of that end."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ackline.events import Entry
from ackline.job import Options


def tell_callbacks(
    entries: list[Entry | None], ending: Mapping[int, int], options: Mapping[int, Options]
) -> None:
    """Add the URLs to entries; `ending` says which of them end the life of which job."""
    for index, num in ending.items():
        entry, said = entries[index], options.get(num)
        if entry is not None and said is not None and said.callback_url is not None:
            entries[index] = msgspec.structs.replace(entry, callback=said.callback_url)
