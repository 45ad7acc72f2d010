"""What the config says of labels and places, as values that core takes."""

from pyproj import CRS
from pyproj.exceptions import CRSError

from roadseg.core.schemes import Scheme
from roadseg.core.speeds import SpeedBins
from roadseg.data_settings import LabelsConfig
from roadseg.errors import ConfigError


def crs_setting(text: str | None, key: str) -> CRS | None:
    """Return the CRS that a setting names, None where it is null.

    Raises:
        ConfigError: if there is no such CRS.
    """
    try:
        return CRS.from_user_input(text) if text else None
    except CRSError as error:
        raise ConfigError(f"{key}: expected a CRS such as EPSG:32611, got {text!r}") from error


def label_scheme(labels: LabelsConfig) -> Scheme:
    """Return how the attributes of labels become speed and width."""
    return Scheme(
        name=labels.scheme,
        speed_key=labels.speed_key,
        speed_unit=labels.speed_unit,
        default_mph=labels.default_speed_mph,
        width=labels.width,
        width_m=2 * labels.buffer_m,
        width_key=labels.width_key,
        lane_m=labels.lane_m,
        exclude=labels.exclude,
        tunnels=labels.tunnels,
    )


def speed_bins(labels: LabelsConfig) -> SpeedBins:
    """Return the speed bins of the masks."""
    return SpeedBins(labels.bin_edges, labels.bin_unit)
