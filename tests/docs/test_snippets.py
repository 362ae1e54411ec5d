"""Python code and commands on the pages run."""

import contextlib
import gc
import io
import sys
from pathlib import Path

import pytest

from ackline.cli.app import run as run_command
from ackline.queues import Queues
from tests.docs.pages import blocks_of, command_lines, name_of, written_pages

PAGES = [page for page in written_pages() if any(b.language == "python" for b in blocks_of(page))]
ENDLESS = {"bench", "demo", "serve", "top", "worker"}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_runs_from_top_to_bottom(page, working_directory, monkeypatch):
    before = set(sys.modules)
    opened = watch_opened(monkeypatch)
    runner = PageRunner(page)
    try:
        for block in blocks_of(page):
            runner.run(block)
    finally:
        for queues in opened:
            queues.close()
        for name in set(sys.modules) - before:
            if (working_directory / f"{name}.py").exists():
                del sys.modules[name]
        gc.collect()


def watch_opened(monkeypatch):
    """The stores that a page opens, which are closed after it."""
    opened = []
    original = Queues.__init__

    def make_and_record(self, *arguments, **options):
        original(self, *arguments, **options)
        opened.append(self)

    monkeypatch.setattr(Queues, "__init__", make_and_record)
    return opened


class PageRunner:
    """Runs the blocks of a page, and keeps what was printed."""

    def __init__(self, page):
        self.page = page
        self.names = {"__name__": "__main__"}
        self.printed = ""

    def run(self, block):
        match block.language:
            case "python":
                self.run_python(block)
            case "console":
                for line in command_lines(block):
                    self.run_command(block, *line)
            case "text" if block.mark == "prints":
                assert self.printed == block.text, f"line {block.line}"

    def run_python(self, block):
        first = block.text.partition("\n")[0]
        if first.startswith("# ") and first.endswith(".py"):
            with open(first[2:], "w") as file:
                file.write(block.text)
        # Preceded by empty lines, so that a traceback has the line number of the page.
        code = compile("\n" * (block.line - 1) + block.text, str(self.page), "exec")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, self.names)
        if block.mark != "hidden":
            self.printed = printed.getvalue()

    def run_command(self, block, arguments, into):
        if ENDLESS & set(arguments[:1]) or {"--follow", "-f"} & set(arguments):
            return
        expected = int(block.mark.removeprefix("exit ")) if block.mark else 0
        with (
            contextlib.redirect_stdout(io.StringIO()) as output,
            contextlib.redirect_stderr(io.StringIO()) as stderr,
        ):
            code = run_command(arguments)
        if into is not None:
            Path(into).write_text(output.getvalue())
        where = f"line {block.line}: ackline {' '.join(arguments)}"
        assert code == expected, f"{where}: {stderr.getvalue()}"
