"""Outcomes: what became of one item of some work."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from roadseg.errors import RoadsegError

Item = TypeVar("Item")
Result = TypeVar("Result")
Work = Callable[[Item], Result]


@dataclass(frozen=True)
class Outcome(Generic[Result]):
    """The outcome of one item.

    Attributes:
        index: its place among the items.
        result: what the work returned; None if it failed.
        error: why it failed; None if it did not.
    """

    index: int
    result: Result | None = None
    error: RoadsegError | None = None


def outcome_of(work: Work[Item, Result], index: int, item: Item) -> Outcome[Result]:
    """Do the work for an item and return its outcome; errors other than RoadsegError are raised."""
    try:
        return Outcome(index, result=work(item))
    except RoadsegError as error:
        return Outcome(index, error=error)
