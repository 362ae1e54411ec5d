"""An export over an earlier one: all of it or nothing, and never over anything else."""

from __future__ import annotations

import itertools
from contextlib import ExitStack, contextmanager, suppress

import pyarrow.fs
import pytest
from pyarrow.fs import FileSelector, FileType

from ackline.core.errors import ConfigError
from ackline.spark.bulk import export_folder
from ackline.spark.bulk.export_folder import ExportFolder
from ackline.spark.paths import open_folder


def fill(folder, **texts):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name.replace("part_", "part-")).write_text(text)


def contents(folder):
    return {path.name: path.read_text() if path.is_file() else None for path in folder.iterdir()}


@pytest.fixture
def folder(tmp_path):
    fill(tmp_path / "out", part_1="old 1", part_2="old 2", _SUCCESS="")
    return tmp_path / "out"


def test_the_new_one_takes_its_place(folder):
    with ExportFolder(str(folder)).replacing() as new:
        fill(folder / new, part_3="new", _SUCCESS="done")

    assert contents(folder) == {"part-3": "new", "_SUCCESS": "done"}


def test_one_that_fails_leaves_the_earlier_one(folder):
    before = contents(folder)

    def fail():
        with ExportFolder(str(folder)).replacing() as new:
            fill(folder / new, part_3="half")
            raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        fail()

    assert contents(folder) == before


def test_one_that_cannot_be_moved_leaves_the_earlier_one(folder):
    before = contents(folder)

    def collide():
        with ExportFolder(str(folder)).replacing() as new:
            fill(folder / new, part_3="new", part_4="new", _SUCCESS="")
            (folder / "part-4").mkdir()

    with pytest.raises(OSError, match="part-4"):
        collide()

    assert contents(folder) == {**before, "part-4": None}


@pytest.mark.parametrize("foreign", ["thesis.txt", "2026/thesis.txt", "part-0/thesis.txt"])
def test_nothing_else_is_overwritten(folder, foreign):
    file = folder / foreign
    file.parent.mkdir(exist_ok=True)
    file.write_text("years of work")

    with pytest.raises(ConfigError, match="export"), ExportFolder(str(folder)).replacing():
        pass

    assert file.read_text() == "years of work"


def test_a_file_is_no_export(tmp_path):
    (tmp_path / "file").write_text("text")

    with (
        pytest.raises(ConfigError, match="file"),
        ExportFolder(f"{tmp_path}/file").replacing(),
    ):
        pass


def test_what_a_killed_export_left_is_removed(folder):
    for name in ("_temporary", "_new-x", "_old-x"):
        fill(folder / name, part_9="half")

    with ExportFolder(str(folder)).replacing() as new:
        fill(folder / new, part_3="new")

    assert contents(folder) == {"part-3": "new"}


def test_what_another_has_begun_since_stays(folder):
    with ExportFolder(str(folder)).replacing() as new:
        fill(folder / new, part_3="new")
        fill(folder / "_new-x", part_9="half")

    assert contents(folder) == {"part-3": "new", "_new-x": None}


def test_a_folder_that_is_empty_is_free(tmp_path):
    folder = ExportFolder(str(tmp_path / "out"))
    assert not folder.exists()
    (tmp_path / "out").mkdir()
    assert not folder.exists()

    with folder.replacing() as new:
        fill(tmp_path / "out" / new, part_1="new")
        assert folder.exists()

    assert contents(tmp_path / "out") == {"part-1": "new"}


class Store:
    """An object store, which Arrow has a stand-in for: it has no renames.

    It can be interrupted before the nth thing that it is asked for.
    """

    def __init__(self):
        self._files, _ = pyarrow.fs.FileSystem.from_uri("mock:///out")
        self._asked, self._interrupt = itertools.count(), None
        self.nth = 0

    def __getattr__(self, name):
        if self._interrupt is not None and next(self._asked) == self.nth:
            self._interrupt()
        return getattr(self._files, name)

    @contextmanager
    def interrupted_by(self, happens):
        self._interrupt = happens
        yield
        self._interrupt = None

    @property
    def asked_for_less(self):
        return next(self._asked) <= self.nth

    def move(self, source, target):
        self.copy_file(source, target)
        with suppress(FileNotFoundError):
            self.delete_file(source)

    def put(self, path, contents):
        self._files.create_dir(path.rpartition("/")[0], recursive=True)
        with self._files.open_output_stream(path) as file:
            file.write(contents.encode())

    def contents(self):
        found = self._files.get_file_info(FileSelector("/out"))
        files = {one.base_name: one.path for one in found if one.type == FileType.File}
        return {
            name: self._files.open_input_stream(path).read().decode()
            for name, path in files.items()
        }


class Disk(Store):
    """A file system that has them."""

    def move(self, source, target):
        self.__getattr__("move")(source, target)


def parts_of(name):
    return {f"part-{name}-1": name, f"part-{name}-2": name, "_SUCCESS": name}


class Export:
    """One whose beginning and end are two steps."""

    def __init__(self, store, name):
        _, root = open_folder("mock:///out")
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(export_folder, "open_folder", lambda _path: (store, root))
            self._folder = ExportFolder("mock:///out")
        self._store = store
        self._name = name
        self._steps = ExitStack()
        self.said_to_be_there = []

    def begin(self):
        new = self._steps.enter_context(self._folder.replacing()).removeprefix("mock://")
        for name, contents in parts_of(self._name).items():
            self._store.put(f"{new}/{name}", contents)

    def end(self):
        with suppress(ConfigError):
            self._steps.close()
            self.said_to_be_there = [parts_of(self._name)]

    def begin_and_end(self):
        self.begin()
        self.end()


@pytest.mark.parametrize("kind", [Store, Disk])
@pytest.mark.parametrize("earlier", [parts_of("old"), {}], ids=["over an earlier one", "alone"])
class TestTwoAtOnce:
    """At every step of the end of the one, the other does all that is left for it."""

    def steps(self, kind, earlier):
        """For each step: a store, and the two exports."""
        for nth in itertools.count():
            store = kind()
            for name, contents in earlier.items():
                store.put(f"/out/{name}", contents)
            store.nth = nth
            yield store, Export(store, "one"), Export(store, "other")
            if store.asked_for_less:
                break
        assert nth > 7

    @pytest.mark.parametrize("who_begins", ["one", "other"])
    def test_the_first_to_end_is_there_and_the_other_is_refused(self, kind, earlier, who_begins):
        for store, one, other in self.steps(kind, earlier):
            for export in (one, other) if who_begins == "one" else (other, one):
                export.begin()
            with store.interrupted_by(other.end):
                one.end()
            if store.asked_for_less:
                other.end()

            [there] = one.said_to_be_there + other.said_to_be_there
            assert store.contents() == there, store.nth

    def test_one_that_begins_while_the_other_ends_mixes_with_nothing(self, kind, earlier):
        for store, one, other in self.steps(kind, earlier):
            one.begin()
            with store.interrupted_by(other.begin_and_end):
                one.end()

            said_to_be_there = map(rows_in, one.said_to_be_there + other.said_to_be_there)
            assert rows_in(store.contents()) in said_to_be_there, store.nth


def rows_in(contents):
    """Without the file that says that all are there: where there are no renames, one that sleeps
    within a move may remove that of the other."""
    return {name: text for name, text in contents.items() if name != "_SUCCESS"}
