"""Files of a lake are whole, whoever writes them at the same time and wherever they are killed."""

from __future__ import annotations

import msgspec
import pyarrow
import pyarrow.fs
import pyarrow.parquet
import pytest

from ackline.spark.errors import LakeClaimed
from ackline.spark.lake import folder as folder_module
from ackline.spark.lake import placing
from ackline.spark.lake.batch_log import Batch
from ackline.spark.lake.folder import Folder
from ackline.spark.lake.lake import Lake
from ackline.spark.lake.mark import SCHEMA, Mark
from ackline.spark.lake.placing import replacing
from ackline.spark.paths import open_folder

LOCAL = pyarrow.fs.LocalFileSystem()


@pytest.fixture
def folder(tmp_path):
    return Folder(str(tmp_path))


def test_two_who_write_one_file_do_not_mix(folder, tmp_path):
    """A run that was taken for dead wakes up while the one that took over writes."""
    path = tmp_path / "x.json"

    with replacing(LOCAL, str(path)) as woken:
        woken.write(b"of the one that woke up")
        with replacing(LOCAL, str(path)) as successor:
            successor.write(b"of its successor")
        assert path.read_bytes() == b"of its successor"

    assert path.read_bytes() == b"of the one that woke up"
    assert folder.names() == ["x.json"]


def test_what_cannot_take_its_place_is_not_left_behind(folder, tmp_path):
    (tmp_path / "x.json" / "in the way").mkdir(parents=True)

    with pytest.raises(OSError, match="directory"):
        folder.write_json({"a": 1}, "x.json")

    assert folder.names() == ["x.json"]


def test_what_was_left_by_those_that_were_killed_is_swept(folder, tmp_path):
    folder.write_json({"a": 1}, "x.json")
    for name in (".x.json.018f.new", ".x.json.new", ".of-somebody-else"):
        (tmp_path / name).touch()

    folder.sweep()

    assert folder.names() == [".of-somebody-else", "x.json"]


class TestAFileThatIsMadeOnce:
    def test_the_first_stays(self, folder):
        for value in ("first", "second"):
            folder.create_json(value, "log", "x.json")

        assert folder.read_json(str, "log", "x.json") == "first"

    @pytest.mark.parametrize("links", [True, False])
    def test_one_made_at_the_same_time_stays(self, folder, monkeypatch, links):
        monkeypatch.setattr(Folder, "exists", lambda *_: False)
        if not links:
            monkeypatch.setattr("os.link", refuse_to_link)
        for value in ("first", "second"):
            folder.create_json(value, "x.json")
        monkeypatch.undo()

        assert folder.read_json(str, "x.json") == "first"
        assert folder.names() == ["x.json"]

    def test_what_one_that_was_killed_left_is_swept(self, folder, monkeypatch):
        monkeypatch.setattr("pathlib.Path.unlink", lambda *_, **__: None)
        folder.create_json("value", "x.json")
        assert len(folder.names()) == 2

        folder.sweep()

        assert folder.names() == ["x.json"]


def refuse_to_link(*_paths):
    raise PermissionError("no links here")


class Claim:
    """That of a run which may sleep before it looks at it, or after, while another takes over."""

    def __init__(self, takes_over=lambda: None):
        self.lost = False
        self.takes_over = takes_over

    def sleep(self):
        if not self.lost:
            self.lost = True
            self.takes_over()

    def check(self):
        if self.lost:
            raise LakeClaimed("another run has taken over")

    def check_asleep(self):
        self.sleep()
        self.check()

    def check_then_sleep(self):
        self.check()
        self.sleep()


def test_a_file_is_not_replaced_by_one_that_slept_while_it_wrote(folder):
    table = pyarrow.table({"x": ["old"]})
    claim = Claim(lambda: folder.write_table(pyarrow.table({"x": ["new"]}), "day.parquet"))
    folder.write_table(table, "day.parquet")

    with pytest.raises(LakeClaimed):
        Folder(folder.path, claim.check_asleep).write_table(table, "day.parquet")

    assert pyarrow.parquet.read_table(folder.at("day.parquet"))["x"].to_pylist() == ["new"]
    assert folder.names() == ["day.parquet"]


def test_a_file_is_not_replaced_by_one_that_slept_before_it_took_its_place(folder):
    """Else a day of gold would be outdated until something happens on that day again."""
    table = pyarrow.table({"x": ["old"]})
    claim = Claim(lambda: folder.write_table(pyarrow.table({"x": ["new"]}), "day.parquet"))
    folder.write_table(table, "day.parquet")

    with pytest.raises(LakeClaimed):
        Folder(folder.path, claim.check_then_sleep).write_table(table, "day.parquet")

    assert pyarrow.parquet.read_table(folder.at("day.parquet"))["x"].to_pylist() == ["new"]
    assert folder.names() == ["day.parquet"]


def test_a_file_of_another_is_not_removed_by_one_that_slept(folder):
    claim = Claim(lambda: folder.write_json("another's", "note.json"))
    folder.write_json("mine", "note.json")

    with pytest.raises(LakeClaimed):
        Folder(folder.path, claim.check_then_sleep).remove("note.json")

    assert folder.read_json(str, "note.json") == "another's"
    assert folder.names() == ["note.json"]


class ObjectStore:
    """A file system of Arrow's in which something may happen after a file is deleted."""

    def __init__(self, files):
        self._files = files

    def __getattr__(self, name):
        return getattr(self._files, name)

    def delete_file(self, path):
        self._files.delete_file(path)
        self.after_delete()

    def after_delete(self):
        pass


class TestAFolderInThePlaceOfAnother:
    """By a rename, or by a copy in an object store, for which Arrow has a stand-in."""

    @pytest.fixture(params=["file", "mock"])
    def folder(self, request, tmp_path, monkeypatch):
        path = f"{request.param}://{tmp_path}"
        if request.param == "mock":
            files, root = open_folder(path)
            monkeypatch.setattr(folder_module, "open_folder", lambda _: (ObjectStore(files), root))
        folder = Folder(path)
        folder.write_json("old", "table", "part-1")
        folder.write_json("new", "aside", "part-2")
        folder.write_json("another's", "another", "part-3")
        return folder

    @pytest.fixture
    def claim(self, folder):
        def take_over():
            mine, folder.check = folder.check, lambda: None
            folder.replace(("another",), ("table",))
            folder.check = mine

        return Claim(take_over)

    def contents(self, folder):
        names = folder.names("table")
        return [folder.read_json(str, "table", name) for name in names if name[0] != "."]

    def test_it_has_what_the_new_one_had(self, folder):
        folder.replace(("aside",), ("table",))

        assert self.contents(folder) == ["new"]
        assert folder.names() == ["another", "aside", "table"]

    def test_there_may_have_been_none(self, folder):
        folder.remove("table")
        folder.replace(("aside",), ("table",))

        assert self.contents(folder) == ["new"]

    def test_one_that_slept_before_it_looked_changes_nothing(self, folder, claim):
        folder.check = claim.check_asleep

        with pytest.raises(LakeClaimed):
            folder.replace(("aside",), ("table",))

        assert self.contents(folder) == ["another's"]
        assert folder.names() == ["another", "aside", "table"]

    def test_one_that_slept_before_it_removed_changes_nothing(self, folder, claim):
        folder.check = claim.check_asleep

        with pytest.raises(LakeClaimed):
            folder.remove("table")

        assert self.contents(folder) == ["another's"]

    @pytest.mark.parametrize("folder", ["file"], indirect=True)
    def test_one_that_slept_before_it_replaced_puts_back_what_the_other_put_there(
        self, folder, claim
    ):
        folder.check = claim.check_then_sleep

        with pytest.raises(LakeClaimed):
            folder.replace(("aside",), ("table",))

        assert self.contents(folder) == ["another's"]
        assert folder.names() == ["another", "aside", "table"]

    @pytest.mark.parametrize("folder", ["file"], indirect=True)
    def test_one_that_slept_between_the_renames_takes_its_own_back(
        self, folder, claim, monkeypatch
    ):
        """The other has put this table together with others, and it has no place any more."""
        folder.check, claim.takes_over = claim.check, lambda: None
        rename = placing.move

        def sleep_after(*arguments):
            rename(*arguments)
            claim.sleep()

        monkeypatch.setattr(placing, "move", sleep_after)

        with pytest.raises(LakeClaimed):
            folder.replace(("aside",), ("table",))

        assert self.contents(folder) == []

    @pytest.mark.parametrize("folder", ["file"], indirect=True)
    def test_one_that_slept_between_the_renames_leaves_what_the_other_put_there(
        self, folder, claim, monkeypatch
    ):
        folder.check = claim.check
        rename = placing.move

        def sleep_after(*arguments):
            rename(*arguments)
            claim.sleep()

        monkeypatch.setattr(placing, "move", sleep_after)

        with pytest.raises(LakeClaimed):
            folder.replace(("aside",), ("table",))

        assert self.contents(folder) == ["another's"]

    @pytest.mark.parametrize("folder", ["mock"], indirect=True)
    def test_one_that_slept_before_it_copied_takes_its_own_back(self, folder, claim, monkeypatch):
        folder.check = claim.check
        monkeypatch.setattr(ObjectStore, "after_delete", lambda _files: claim.sleep())

        with pytest.raises(LakeClaimed):
            folder.replace(("aside",), ("table",))

        assert self.contents(folder) == ["another's"]

    @pytest.mark.parametrize("folder", ["file"], indirect=True)
    def test_it_need_not_be_copied(self, folder, monkeypatch):
        monkeypatch.setattr("shutil.copyfile", None)

        folder.replace(("aside",), ("table",))

        assert self.contents(folder) == ["new"]

    @pytest.mark.parametrize("folder", ["file"], indirect=True)
    def test_where_there_are_no_links_it_is_copied_before_it_takes_its_place(
        self, folder, monkeypatch
    ):
        monkeypatch.setattr("os.link", refuse_to_link)

        folder.replace(("aside",), ("table",))

        assert self.contents(folder) == ["new"]


class TestTheLog:
    """It grows for as long as the lake lives, and a run asks for it many times."""

    @pytest.fixture
    def lake(self, tmp_path):
        lake = Lake(str(tmp_path))
        for number in range(3):
            lake.log.add(logged(number))
        return lake

    @pytest.fixture
    def read(self, monkeypatch):
        """The files that are read, one after the other."""
        names, read = [], Folder.read

        def note(folder, *parts):
            names.append(parts[-1])
            return read(folder, *parts)

        monkeypatch.setattr(Folder, "read", note)
        return names

    def test_each_file_is_read_once(self, lake, read):
        for _ in range(3):
            assert [batch.number for batch in lake.log.batches] == [0, 1, 2]

        assert sorted(read) == [f"{number:012d}.json" for number in range(3)]

    def test_what_has_changed_is_read_again(self, lake, tmp_path, read):
        """By this run, or by the process that takes a batch in."""
        assert lake.log.batches
        read.clear()
        lake.log.add(logged(1, dropped=True))
        Lake(str(tmp_path)).log.add(logged(2, events=77))
        Lake(str(tmp_path)).log.add(logged(3))
        lake.log.forget(0)

        found = [(one.number, one.dropped, one.events) for one in lake.log.batches]

        assert found == [(1, True, 1), (2, False, 77), (3, False, 1)]
        assert sorted(read) == [f"{number:012d}.json" for number in (1, 2, 3)]


def logged(number, events=1, **more):
    return Batch(number=number, events=events, ended=0, days=[], last_at=1.0, **more)


def test_the_names_in_the_files_of_a_lake_stay():
    """A lake that was made today is read by later versions."""
    mark = Mark(schema=SCHEMA, store="x", tenant="t", id="i", first_events={"a": None})
    batch = logged(0, first=0, since=0.5, summary_rows={"traffic": 3})

    fields = msgspec.to_builtins(mark) | msgspec.to_builtins(batch)

    assert {"begins": {"a": None}, "parts": {"traffic": 3}, "since": 0.5}.items() <= fields.items()
