"""A process that only reads: `python -m tests.harness.faults.reader ASSIGNMENT`."""

from __future__ import annotations

from ackline.stores.base import Filter
from tests.harness.faults.assignment import Post, from_command_line
from tests.harness.faults.history import Phase, Step, What

PAGE = 200


def main() -> None:
    """Follow the journal while it grows, and page through the jobs in between."""
    post = Post(from_command_line())
    post.open()
    cursor: str | None = None
    while not post.stopping.wait(0.005):
        cursor = _read_on(post, cursor)
        post.queue.store.page(post.queue.key, Filter(), None, PAGE)
    post.close()


def _read_on(post: Post, cursor: str | None) -> str | None:
    events = post.queue.store.events(post.queue.key, cursor, PAGE)
    if not events:
        return cursor
    last = events[-1].cursor
    post.history.write(Step(what=What.READ, phase=Phase.OK, attempt=len(events), note=last))
    return last


if __name__ == "__main__":
    main()
