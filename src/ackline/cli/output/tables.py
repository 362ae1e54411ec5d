"""Tables that fit the terminal: ids and numbers are never cut off."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Column, Table

ShrinkableColumn = tuple[str, int]
"""A column that may shrink, and the width that it keeps."""


def new_table(
    *columns: str,
    right: int = 0,
    gap: int = 2,
    shrinkable: Sequence[ShrinkableColumn] = (),
    fold: Collection[str] = (),
) -> FittingTable:
    """A table without borders; the last `right` columns hold numbers.

    In a narrow terminal the `shrinkable` columns shrink, in this order: their text is cut off, or
    wrapped for those in `fold`. All other columns keep their width.
    """
    table = FittingTable(gap, shrinkable)
    for index, name in enumerate(columns):
        table.add_column(
            name,
            justify="right" if index >= len(columns) - right else "left",
            no_wrap=name not in fold,
            overflow="fold" if name in fold else "ellipsis",
        )
    return table


class FittingTable(Table):
    """Shrinks only the columns that may shrink.

    By default, rich shrinks all columns: it cuts off digits and the ends of ids.
    """

    def __init__(self, gap: int, shrinkable: Sequence[ShrinkableColumn]) -> None:
        super().__init__(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="dim")
        self._gap = gap
        self._shrinkable = shrinkable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render the rows in the available width."""
        widths = [_width(column, console, options) for column in self.columns]
        missing = sum(widths) + self._gap * (len(widths) - 1) - options.max_width
        for name, min_width in self._shrinkable:
            index = self._index(name)
            cut = min(max(missing, 0), max(widths[index] - min_width, 0))
            missing -= cut
            widths[index] -= cut
            self.columns[index].width = widths[index]
        yield from super().__rich_console__(console, options)

    def _index(self, name: str) -> int:
        return next(i for i, column in enumerate(self.columns) if column.header == name)


def _width(column: Column, console: Console, options: ConsoleOptions) -> int:
    return max(
        Measurement.get(console, options, cell).maximum for cell in (column.header, *column.cells)
    )
