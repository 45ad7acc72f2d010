"""Packages that only some formats need: a clear error where one is not installed."""

import importlib.util

from roadseg.errors import ConfigError

_EXTRAS = {"pyarrow": "parquet", "osmium": "osm"}  # The extra of roadseg that installs each.


def check_package(package: str, *, needed_by: str, otherwise: str) -> None:
    """Refuse work that needs a package which is not installed, before there is anything to do.

    Args:
        package: name of the module, "pyarrow" or "osmium".
        needed_by: what needs it, such as "the format pbf".
        otherwise: what helps besides installing it, such as "omit pbf".

    Raises:
        ConfigError: if it is not installed.
    """
    if importlib.util.find_spec(package) is None:
        raise ConfigError(
            f"{needed_by} needs {package}, which is not installed; pip install "
            f"'roadseg[{_EXTRAS[package]}]', or {otherwise}"
        )
