"""The lake as a job for spark-submit, as users run it: with the wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pyarrow.parquet
import pyspark
import pytest

import ackline

ROOT = Path(__file__).parents[3]
JOBS = 5

SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}

pytestmark = pytest.mark.slow


def run(*command, cwd, **environment):
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**kept, "SPARK_LOCAL_IP": "127.0.0.1", **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The package as it is published, built with what this environment has."""
    folder = tmp_path_factory.mktemp("wheel")
    done = run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A Python with all that the package depends on, and without the package."""
    folder = tmp_path_factory.mktemp("python") / "environment"
    venv.create(folder, with_pip=False, symlinks=True)
    # Python reads no `.pth` files in a folder that such a file names: so no editable install.
    packages = sysconfig.get_path("purelib")
    (packages_of(folder) / "dependencies.pth").write_text(f"{packages}\n")
    assert run(folder / "bin" / "python", "-c", "import ackline", cwd=folder).returncode != 0
    return folder


def packages_of(environment):
    (packages,) = environment.glob("lib/python*/site-packages")
    return packages


@pytest.fixture
def submit(url, tmp_path):
    with ackline.open(url) as queues:
        queues["email"].enqueue_many(range(JOBS))
    settings = [word for pair in SETTINGS.items() for word in ("--conf", "=".join(pair))]

    def call(master, python, *options):
        program = Path(pyspark.__file__).parent / "bin" / "spark-submit"
        example = (ROOT / "examples" / "spark" / "lake.py", url, tmp_path / "lake")
        return run(
            *(program, "--master", master, *settings, *options, *example),
            cwd=tmp_path,
            PYSPARK_PYTHON=str(python),
            SPARK_WORKER_DIR=str(tmp_path / "work"),
        )

    return call


@pytest.mark.parametrize("store_name", ["sqlite", "redis"])
def test_the_lake_for_spark_submit(submit, wheel, environment, tmp_path):
    """As the guide says: an environment with the wheel in it, unpacked here and sent along."""
    own = tmp_path / "environment"
    shutil.copytree(environment, own, symlinks=True)
    with zipfile.ZipFile(wheel) as files:
        files.extractall(packages_of(own))
    packed = shutil.make_archive(str(tmp_path / "packed"), "gztar", own)

    done = submit(
        "local-cluster[2,1,1024]",
        "./environment/bin/python",
        *("--archives", f"{packed}#environment"),
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{JOBS} events in 1 batches" in done.stdout
    assert pyarrow.parquet.read_table(tmp_path / "lake" / "bronze").num_rows == JOBS


@pytest.mark.parametrize("store_name", ["sqlite"])
def test_a_file_sent_along_is_not_enough(submit, wheel, environment, tmp_path):
    """The control, and why the guide says so: Spark looks for formats where it has no such file."""
    shutil.copy(wheel, tmp_path / "ackline.zip")

    done = submit("local[1]", environment / "bin" / "python", "--py-files", "ackline.zip")

    assert done.returncode != 0
    assert "Failed to find the data source: ackline" in done.stdout
