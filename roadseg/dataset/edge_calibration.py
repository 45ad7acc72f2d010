"""Calibration: the probability that edges are real, fitted on held-out ground."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import shapely
from pydantic import Field

from roadseg.arrays import Bools, Columns, Floats, Ints, Lines
from roadseg.dataset.chips import NO_ZONE, ChipRecord
from roadseg.dataset.footprints import same_place_pairs
from roadseg.roads.graph.clipping import clip_graph
from roadseg.roads.graph.groups import connected_groups
from roadseg.roads.graph.road_graph import RoadGraph, take_edges
from roadseg.roads.logistic import EdgeModel, LogisticModel, Terms, fit_near
from roadseg.roads.metrics.buffer import lengths_near
from roadseg.roads.metrics.reliability import Reliability, measure_reliability
from roadseg.system.fingerprints import fingerprint
from roadseg.system.records import write_json
from roadseg.system.schemas import TOLERANT, Count, read_strict
from roadseg.system.text import count
from roadseg.system.units import road_text

if TYPE_CHECKING:
    from roadseg.raster.extents import Polygons

# Files in the folder of a checkpoint.
CONFIDENCE_FILE, WEIGHTS = "confidence.json", "best.safetensors"
TRUE_M = 4.0  # Metres from a labelled road up to which a predicted road is real.

_STRENGTH = 30.0  # Weight of the prior model, in edges; see `fit_near`.
_PARTS = 20  # Most parts of the places in the cross-validation.
_EDGE = "edge"  # Attribute of clipped edges: row of the whole edge.


@dataclass(frozen=True)
class ChipEdges(Columns):
    """Edges, or parts of edges, on a held-out chip, and the share of each that is real.

    Attributes:
        terms: features of the whole edges, arrays of shape (k,) by name, see `edge_terms`.
        length_m: shape (k,), length on the chip in metres.
        share: shape (k,), share of this length that is on labelled roads, 0 to 1.
    """

    terms: Terms
    length_m: Floats
    share: Floats


@dataclass(frozen=True)
class MeasuredEdges(ChipEdges):
    """The edges of all held-out chips, one chip after the other.

    Attributes:
        chip: shape (k,), index of the chip of each edge.
        places: number of the place of each chip.
        sets: name of the set of each chip; an empty name without sets.
    """

    chip: Ints
    places: Sequence[int]
    sets: Sequence[str]

    @classmethod
    def of_chips(
        cls, edges: Sequence[ChipEdges], places: Sequence[int], sets: Sequence[str]
    ) -> "MeasuredEdges":
        """Join the edges of at least one chip."""
        every = ChipEdges.joined(edges)
        chip = np.repeat(np.arange(len(edges)), [len(each.share) for each in edges])
        return cls(every.terms, every.length_m, every.share, chip, places, sets)

    @property
    def weight(self) -> Floats:
        """Weights of the edges by length, divided by the number of images of their place.

        The weights add up to Kish's effective sample size: edges of equal length count as one each;
        a few long edges among many short ones count as fewer.
        """
        squares = (self.length_m**2).sum()
        each = self.length_m * (self.length_m.sum() / squares if squares else 0.0)
        images = np.bincount(self.places)[self.places][self.chip]
        return np.asarray(each / images)

    def is_of_set(self, name: str) -> Bools:
        """Return whether each edge belongs to a set, shape (k,)."""
        return np.array([own == name for own in self.sets], dtype=bool)[self.chip]


@dataclass(frozen=True)
class Models:
    """Models of the probability that edges are real."""

    overall: LogisticModel
    by_set: Mapping[str, LogisticModel]

    def confidence(self, edges: MeasuredEdges) -> Floats:
        """Return the probability that each edge is real, shape (k,), by the model of its set."""
        confidence = self.overall.probability(edges.terms)
        for name, model in self.by_set.items():
            is_own = edges.is_of_set(name)
            confidence[is_own] = model.probability(edges.take(is_own).terms)
        return confidence


@dataclass(frozen=True)
class Calibration:
    """The models of the confidence of edges of a network, and their reliability.

    It is stored as `confidence.json`. The reliability is cross-validated: edges at a place are
    predicted by models that were fitted at other places.

    Attributes:
        weights: fingerprint of the weights of the network.
        by_set: model of each set of scenes; empty without sets.
        reliability: measured reliability; None if all chips show one place.
    """

    __pydantic_config__ = TOLERANT

    weights: Annotated[str, Field(max_length=64)]
    chips: Count
    places: Count
    km: Annotated[float, Field(ge=0)]
    model: EdgeModel
    by_set: Mapping[str, EdgeModel] = field(default_factory=dict)
    reliability: Reliability | None = None
    reliability_by_set: Mapping[str, Reliability] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return a sentence on the data of the model and its error."""
        chips = count(self.chips, "held-out chip")
        based = f"confidence calibrated on {road_text(self.km)} of roads on {chips}"
        if (least := self.model.least_threshold) is not None:
            based = f"roads traced where their probability is at least {least:g}; {based}"
        if self.reliability is None:
            return f"{based} of one place"
        return f"{based} (expected error {self.reliability.error:.3f})"

    def model_of(self, name: str) -> EdgeModel:
        """Return the model of a set; of all edges for an unknown set."""
        return self.by_set.get(name, self.model)


def places_of(chips: Sequence[ChipRecord], labels: Mapping[str, Path]) -> list[int]:
    """Return the number of the place of each chip.

    Chips that overlap, or that share a label file without georeference, show one place. All chips
    of a scene without georeference count as one place.

    Args:
        labels: label file of each scene, see `same_place_pairs`.
    """
    pairs = same_place_pairs(chips, labels)
    first = {chip.scene: row for row, chip in reversed(list(enumerate(chips)))}
    local = [(first[c.scene], row) for row, c in enumerate(chips) if c.zone == NO_ZONE]
    together = np.concatenate([pairs, np.array(local, dtype=np.int64).reshape(-1, 2)])
    places: list[int] = connected_groups(together, nodes=len(chips)).tolist()
    return places


def measure_chips(
    graph: RoadGraph, terms: Terms, reference: RoadGraph, areas: "Sequence[Polygons]"
) -> list[ChipEdges]:
    """Return the edges on each chip of a scene, and the share of each that is real.

    Args:
        graph: roads of the scene as `trace_and_measure` returns them.
        terms: features of its edges, see `edge_terms`.
        reference: labelled roads of the scene, in the same CRS.
        areas: the part of each chip in which labels are complete.
    """
    numbered = replace(graph, attributes={_EDGE: np.arange(len(graph.lines))})
    # Of a large scene, each chip needs a small part of both sides.
    edges, labels = shapely.STRtree(graph.lines), shapely.STRtree(reference.lines)
    return [
        _measure_chip(
            clip_graph(take_edges(numbered, np.sort(edges.query(area))), area),
            terms,
            reference.lines[labels.query(area, predicate="dwithin", distance=TRUE_M)],
        )
        for area in areas
    ]


def _measure_chip(inside: RoadGraph, terms: Terms, labels: Lines) -> ChipEdges:
    """Return the parts of edges on a chip, and the share of each that is real."""
    row, piece = np.unique(inside.attributes[_EDGE], return_inverse=True)
    near_m = lengths_near(inside.lines, labels, tolerance_m=TRUE_M)
    length_m, real_m = (
        np.bincount(piece, weights=metres, minlength=len(row)).astype(np.float64)
        for metres in (inside.length_m, near_m)
    )
    share = np.minimum(real_m / length_m, 1.0)
    return ChipEdges({name: column[row] for name, column in terms.items()}, length_m, share)


def fit_models(measured: MeasuredEdges) -> Models:
    """Fit a model to all edges near the general model, and one to each set near the first."""
    from roadseg.roads.tracing.edge_confidence import general_edge_model

    overall = _fit(measured, general_edge_model())
    names = sorted({name for name in measured.sets if name})
    of_sets = {name: _fit(measured.take(measured.is_of_set(name)), overall) for name in names}
    return Models(overall, of_sets)


def cross_fit(measured: MeasuredEdges) -> Floats | None:
    """Return the confidence of each edge by models of other places; None if there is one place.

    Places are divided into up to 20 parts, with each set spread over them; each part is left out
    once.
    """
    place_set = dict(zip(measured.places, measured.sets, strict=True))
    places = sorted(place_set, key=lambda place: (place_set[place], place))
    if len(places) < 2:  # noqa: PLR2004 - one place leaves no other
        return None
    part_of = np.zeros(max(places) + 1, dtype=np.int64)
    part_of[places] = np.arange(len(places)) % _PARTS
    part = part_of[measured.places][measured.chip]
    confidence = np.zeros(len(part))
    for left_out in np.unique(part):
        models = fit_models(measured.take(part != left_out))
        confidence[part == left_out] = models.confidence(measured.take(part == left_out))
    return confidence


def calibrate(measured: MeasuredEdges, *, least_threshold: float | None = None) -> Calibration:
    """Fit models of the confidence of edges, and measure them by cross-validation.

    Args:
        least_threshold: threshold with which the edges were traced, see `EdgeModel`.
    """
    models, confidence = fit_models(measured), cross_fit(measured)
    length_m = measured.length_m

    def of_edges(model: LogisticModel) -> EdgeModel:
        return EdgeModel(model.intercept, model.coefficients, least_threshold)

    calibration = Calibration(
        weights="",
        chips=len(measured.places),
        places=len(set(measured.places)),
        km=float(length_m.sum()) / 1000,
        model=of_edges(models.overall),
        by_set={name: of_edges(model) for name, model in models.by_set.items()},
    )
    if confidence is None:
        return calibration
    return replace(
        calibration,
        reliability=_reliability(measured, confidence, np.ones(len(length_m), dtype=bool)),
        reliability_by_set={
            name: _reliability(measured, confidence, measured.is_of_set(name))
            for name in models.by_set
        },
    )


def write_calibration(folder: Path, calibration: Calibration) -> Path:
    """Write a calibration into the folder of a checkpoint, with the fingerprint of its weights.

    Raises:
        OutputError: if it cannot be written.
    """
    of_weights = replace(calibration, weights=fingerprint(folder / WEIGHTS))
    write_json(folder / CONFIDENCE_FILE, asdict(of_weights))
    return folder / CONFIDENCE_FILE


def read_calibration(folder: Path) -> Calibration | None:
    """Read the calibration of a checkpoint; None if there is none for its present weights.

    Raises:
        DataError: if `write_calibration` did not write the file.
    """
    path = folder / CONFIDENCE_FILE
    if not path.is_file():
        return None
    advice = "delete it, and run `roadseg graph` again"
    calibration = read_strict(path, Calibration, advice=advice)
    return calibration if calibration.weights == fingerprint(folder / WEIGHTS) else None


def _fit(measured: MeasuredEdges, prior: LogisticModel) -> LogisticModel:
    terms, share = measured.terms, measured.share
    return fit_near(prior, terms, share, measured.weight, strength=_STRENGTH)


def _reliability(measured: MeasuredEdges, confidence: Floats, chosen: Bools) -> Reliability:
    share, length_m = measured.share[chosen], measured.length_m[chosen]
    return measure_reliability(confidence[chosen], share, length_m)
