"""Files for clusters: they are bash, and name commands that exist."""

import re
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from roadseg.commands.cli.main import main

FOLDER = Path(__file__).parents[1] / "configs" / "cluster"
SCRIPTS = sorted([*FOLDER.glob("*.sbatch"), *FOLDER.glob("*.sh")])


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_bash(path):
    assert path.stat().st_mode & 0o100
    subprocess.run(["bash", "-n", str(path)], check=True)  # noqa: S607


def roadseg_words():
    """The words of commands of roadseg in the scripts."""
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
