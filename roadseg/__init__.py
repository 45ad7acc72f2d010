"""From satellite images and road labels to a routable road network with speeds.

The functions and values of `roadseg.api` are attributes of this package; they are loaded when they
are first used, so that importing it takes no time.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roadseg.api import *

__all__ = [
    "AplsScores",
    "Config",
    "Differences",
    "Graph",
    "Grid",
    "Mask",
    "Probability",
    "Route",
    "Scores",
    "__version__",
    "burn",
    "cross_validate",
    "demo",
    "diff",
    "evaluate",
    "init",
    "load_config",
    "map_roads",
    "predict",
    "predict_scenes",
    "prepare",
    "read_graph",
    "route",
    "run",
    "score",
    "split",
    "trace",
    "trace_scenes",
    "train",
    "write_report",
]


def __getattr__(name: str) -> object:
    """Load what is asked for, as PEP 562 has it."""
    if name == "__version__":
        return import_module("importlib.metadata").version("roadseg")
    if name == "api" or name in __all__:
        api = import_module("roadseg.api")
        return api if name == "api" else getattr(api, name)
    raise AttributeError(f"module 'roadseg' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
