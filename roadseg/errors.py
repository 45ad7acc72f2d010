"""Errors a user can act on, and the one that stands for a fault of the program's own."""

from collections.abc import Iterator
from contextlib import contextmanager


class RoadsegError(Exception):
    """Base of every error that the command line shows as one line.

    A second argument is advice to those who asked for what failed, with which the line ends.
    """

    exit_code = 1

    def __str__(self) -> str:
        """Return what failed, and the advice."""
        return "; ".join(map(str, self.args))


class ConfigError(RoadsegError, ValueError):
    """The config cannot be used: unknown key, wrong type, impossible value."""

    exit_code = 2


class MissingInputError(RoadsegError, FileNotFoundError):
    """A stage needs a file that an earlier stage has not written, or that does not exist."""


class DataError(RoadsegError, ValueError):
    """An image or label file cannot be read, or not be used."""

    exit_code = 3


class OutputError(RoadsegError, OSError):
    """An output cannot be written: a full disk, a read-only folder, a run folder in use."""

    exit_code = 3


class CheckpointError(RoadsegError, ValueError):
    """A checkpoint cannot be read, or does not fit the images."""

    exit_code = 3


class DeviceError(RoadsegError, RuntimeError):
    """A device or precision was asked for that this machine does not have."""


class PartnerError(RoadsegError):
    """A process on which this one depends has ended or does not answer; trying again may help."""

    exit_code = 75  # EX_TEMPFAIL of BSD's sysexits


class FaultError(RoadsegError):
    """A fault of roadseg's own: something was raised that is not one of these errors."""

    exit_code = 70  # EX_SOFTWARE of BSD's sysexits


@contextmanager
def naming(source: object) -> Iterator[None]:
    """Name the file or folder from which values come in what is said of these.

    Raises:
        DataError: for a ValueError that is not already an error of the user.
    """
    try:
        yield
    except RoadsegError:
        raise
    except ValueError as error:
        raise DataError(f"{source}: {error}") from error


def root_cause(error: BaseException) -> BaseException:
    """Return the first of the errors that followed from each other."""
    return error if error.__cause__ is None else root_cause(error.__cause__)


def first_line(error: BaseException) -> str:
    """Return the first line of an error of a library; its type if it says nothing."""
    # Python quotes what a KeyError says.
    text = str(error.args[0] if isinstance(error, KeyError) and error.args else error).strip()
    return text.splitlines()[0] if text else type(error).__name__
