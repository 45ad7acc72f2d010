"""Files for clusters: they are what schedulers take, and name commands that exist."""

import os
import re
import subprocess
import sys
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from click.testing import CliRunner

from roadseg.commands.cli.main import main

FOLDER = Path(__file__).parents[1] / "configs" / "cluster"
MANIFESTS = sorted(FOLDER.glob("*.yaml"))
SCRIPTS = sorted([*FOLDER.glob("*.sbatch"), *FOLDER.glob("*.sh")])
KUBERNETES = "1.34"


def resources(path):
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def containers():
    for path in MANIFESTS:
        for resource in resources(path):
            if resource["kind"] in {"Job", "Deployment"}:
                yield from resource["spec"]["template"]["spec"]["containers"]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests_are_resources_of_kubernetes(path):
    assert resources(path)
    for resource in resources(path):
        kubernetes_validate.validate(resource, KUBERNETES, strict=True)


def test_a_resource_with_a_misspelt_field_is_none():
    (_, *others) = resources(FOLDER / "kubernetes_train.yaml")
    others[0]["spec"]["completion"] = 3
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(others[0], KUBERNETES, strict=True)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_bash(path):
    assert path.stat().st_mode & 0o100
    subprocess.run(["bash", "-n", str(path)], check=True)  # noqa: S607


def roadseg_words():
    """The words of commands of roadseg: in containers without a command, and in the scripts."""
    for container in containers():
        if "command" not in container:
            yield container["args"]
    for path in SCRIPTS:
        text = path.read_text(encoding="utf-8").replace("\\\n", " ")
        yield from (
            found.split()
            for found in re.findall(r"^#.*(?:sh|sbatch) \d* ?(predict .*)$", text, re.MULTILINE)
        )


@pytest.mark.parametrize("words", list(roadseg_words()), ids=" ".join)
def test_the_commands_in_them_have_these_options(words):
    shown = CliRunner().invoke(main, [words[0], "--help"]).output
    for option in (word for word in words if word.startswith("--")):
        assert f"{option} " in shown


def test_a_shard_is_taken_from_the_number_of_a_task(tmp_path):
    (tmp_path / "roadseg").write_text('#!/bin/bash\necho "$@"\n')
    (tmp_path / "roadseg").chmod(0o755)
    for name in ("SLURM_ARRAY_TASK_ID", "PBS_ARRAY_INDEX", "SGE_TASK_ID", "LSB_JOBINDEX", "PART"):
        environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", name: "7"}
        done = subprocess.run(
            [str(FOLDER / "shard.sh"), "20", "predict", "a.tif"],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == "predict a.tif --shard 7/20\n"


CLUSTER = """
class SLURMCluster:
    scheduler_address = "tcp://login:8786"
    def __init__(self, **options):
        assert options["scheduler_options"] == {"interface": "ib0"}
        assert "interface" not in options  # Hosts of workers have others.
    def __enter__(self):
        return self
    def __exit__(self, *_):
        pass
    def adapt(self, *, minimum, maximum):
        print(minimum, maximum)
"""


def test_a_command_waits_for_workers_that_slurm_has_in_its_queue(tmp_path):
    (tmp_path / "dask_jobqueue.py").write_text(CLUSTER)
    (tmp_path / "roadseg.py").write_text("import sys; print(*sys.argv[1:])")
    words = ["--most", "20", "--interface", "ib0", "--", "-q", "predict", "--fold", "0"]
    done = subprocess.run(
        [sys.executable, str(FOLDER / "dask_slurm.py"), *words],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONUNBUFFERED": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == (
        "1 20\n-q predict --fold 0 --scheduler tcp://login:8786 --set "
        "compute.scheduler_timeout_s=3600\n"
    )
