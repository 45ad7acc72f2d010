"""Attack: all parts, and a table of what was tried, what held and what fell."""

import argparse
import contextlib
import importlib
import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import harness

_ROOT = Path(__file__).parents[2]
# Modules beside this one that yield cases, and functions of `programs`, which start others.
_CASES = ("configs", "vectors", "rasters", "disks")
_PROGRAMS = ("facts", "kills")
_COUNT = 200  # Attacks of each part.
_CONFIG = {
    "imagery": {"images": ["images"]},
    "labels": {"roads": ["roads"]},
    "split": {"folds": 2, "block_m": 100.0},
    "train": {"encoder": "tu-test_resnet", "window_px": 64, "windows_per_chip": 2},
    "predict": {"window_px": 64, "overlap_px": 16},
    "compute": {"workers": 0},
}


def main() -> None:
    """Run the parts that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(_CASES + _PROGRAMS))
    parser.add_argument("--count", type=int, default=_COUNT, help="attacks of each part")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="cases whose name holds this")
    options = parser.parse_args()
    if unknown := set(options.parts) - {*_CASES, *_PROGRAMS}:
        parser.error(f"no such part: {', '.join(unknown)}")
    table = Counter[tuple[str, str]]()
    fallen: list[tuple[str, object, str]] = []
    with contextlib.suppress(KeyboardInterrupt):  # The table shows what was tried until then.
        for part, case, reason in _attack(options):
            table[part, "fell" if reason else "held"] += 1
            if reason:
                fallen.append((part, case, reason))
                print(f"{part}: fell: {reason}\n  {case}", flush=True)
    _show(table, fallen)


def _attack(options: argparse.Namespace) -> Iterator[tuple[str, object, str]]:
    """Yield every case of the parts, and why it fell."""
    for part in options.parts or (*_CASES, *_PROGRAMS):
        attack = _attack_cases if part in _CASES else _attack_by_program
        for case, reason in attack(part, options):
            yield part, case, reason


def _attack_cases(part: str, options: argparse.Namespace) -> Iterator[tuple[object, str]]:
    """Yield every case of a part, and why it fell."""
    harness.load_all()
    with tempfile.TemporaryDirectory() as name:
        template = Path(name) / "template"
        write_project(template)
        cases = importlib.import_module(part).cases(options.count, harness.random_of(options.seed))
        for number, case in enumerate(cases):
            if options.only not in case.name:
                continue
            folder = Path(name) / str(number)
            shutil.copytree(template, folder)
            yield case, harness.run_case(case, folder)
            shutil.rmtree(folder, ignore_errors=True)


def _attack_by_program(part: str, options: argparse.Namespace) -> Iterator[tuple[object, str]]:
    """Yield every command of a part that other programs judge, and why it fell."""
    program = getattr(importlib.import_module("programs"), part)
    yield from program(options.count, options.seed)


def write_project(folder: Path) -> None:
    """Write a tiny city and its config."""
    path = _ROOT / "tests" / "data" / "make_scene.py"
    spec = spec_from_file_location("make_scene", path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    scenes = module_from_spec(spec)
    spec.loader.exec_module(scenes)
    for number in range(2):
        scenes.make_scene(folder, f"city_{number}", origin=(660000.0 + 200 * number, 4000000.0))
    (folder / "roadseg.json").write_text(json.dumps(_CONFIG, indent=2))


def _show(table: Counter[tuple[str, str]], fallen: Iterable[tuple[str, object, str]]) -> None:
    """Print the table; exit with 1 if anything fell."""
    print(f"{'part':<10} {'tried':>6} {'held':>6} {'fell':>6}")
    for part in dict.fromkeys(part for part, _ in table):
        held, lost = table[part, "held"], table[part, "fell"]
        print(f"{part:<10} {held + lost:>6} {held:>6} {lost:>6}")
    for part, case, reason in fallen:
        print(f"{part}: {reason}\n  {case}")
    sys.exit(1 if fallen else 0)


if __name__ == "__main__":
    main()
