"""Training clock: how long a training has taken, and when the clock has to end an epoch."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from roadseg.learn.hardware.distributed import Parallel
from roadseg.learn.network.checkpoint_facts import Facts
from roadseg.learn.options import TrainOptions
from roadseg.learn.training.history import Row, seconds_of

_CHECKS = 0.25  # Largest share of the time left for validation and its files.


@dataclass
class TrainingClock:
    """The time of a training over all its sessions; all processes go by the same readings.

    Attributes:
        options: options of the training; `epochs` share the time that `minutes` limits.
        history: a row for each finished epoch, to which others add.
        since_s: seconds that earlier sessions took since the last finished epoch.
        check_s: seconds that the last validation took, with writing its files.
        step_s: seconds between the last two readings.
        tick: seconds of a clock that never goes back.
        now_s: seconds of the training at the last reading.
    """

    options: TrainOptions
    history: list[Row]
    parallel: Parallel
    since_s: float = 0.0
    check_s: float = 0.0
    step_s: float = 0.0
    tick: Callable[[], float] = time.monotonic
    now_s: float = field(init=False)
    _zero_s: float = field(init=False)

    def __post_init__(self) -> None:
        """Go on where the earlier sessions ended."""
        self.now_s = seconds_of(self.history) + self.since_s
        self._zero_s = self.tick() - self.now_s

    def read(self, *, stop: bool = False) -> bool:
        """Read the clock, in all processes together; return whether any of them has to stop."""
        before_s = self.now_s
        stops, self.now_s = self.parallel.largest(stop, self.tick() - self._zero_s)
        self.step_s = self.now_s - before_s
        return bool(stops)

    def state(self) -> Facts:
        """Return what the next session needs, by the clock of this process now."""
        since_s = self.tick() - self._zero_s - seconds_of(self.history)
        # Below 0 if the seconds in the history were rounded up.
        return {"seconds": max(0.0, since_s), "check_s": self.check_s, "step_s": self.step_s}

    @property
    def used(self) -> float | None:
        """The share of the time that is used, from 0 to about 1; None without a limit."""
        limit_s = self.options.limit_s
        return None if limit_s is None else self.now_s / limit_s

    @property
    def epoch_is_over(self) -> bool:
        """Whether another step would exceed the time of the epoch; never without a limit.

        The epochs that are left share the time that is left, and each needs time for its
        validation. So a training that was slow for a while has fewer steps, but as many epochs,
        unless validation would take more than a quarter of that time.
        """
        if self.options.limit_s is None:
            return False
        begun_s = seconds_of(self.history)
        left_s, epochs = self.options.limit_s - begun_s, self.options.epochs - len(self.history)
        if self.check_s:
            epochs = min(epochs, int(_CHECKS * left_s / self.check_s))
        share_s = left_s / max(1, epochs)
        return self.now_s + self.step_s > begun_s + share_s - self.check_s

    @property
    def is_over(self) -> bool:
        """Whether the time left is too short to validate once more; never without a limit."""
        limit_s = self.options.limit_s
        return limit_s is not None and self.now_s + self.check_s >= limit_s
