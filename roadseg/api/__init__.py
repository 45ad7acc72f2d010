"""The Python interface: what the commands do, with arrays, graphs and tables as values.

Everything here is also an attribute of `roadseg` itself. Options are keyword arguments with the
names of the config; errors are those of `roadseg.errors`, with one line that says what to do.
"""

from roadseg.api.comparisons import AplsScores, Differences, Scores, diff, score
from roadseg.api.graphs import Graph, Route, read_graph, route, trace
from roadseg.api.masks import Mask, burn
from roadseg.api.rasters import predict
from roadseg.api.runs import (
    cross_validate,
    demo,
    evaluate,
    init,
    load_config,
    map_roads,
    predict_scenes,
    prepare,
    run,
    split,
    trace_scenes,
    train,
    write_report,
)
from roadseg.config import Config
from roadseg.raster.grid import Grid
from roadseg.roads.masks.probabilities import Probability

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
