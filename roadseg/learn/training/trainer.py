"""Trainer: a network in training, with all that its next step depends on."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from roadseg.errors import ConfigError
from roadseg.learn.hardware.devices import Device
from roadseg.learn.hardware.distributed import Parallel
from roadseg.learn.network.losses import ignore_likely_roads, loss_of, loss_sums
from roadseg.learn.network.models import Normalise
from roadseg.learn.options import TrainOptions
from roadseg.learn.training.local_sgd import HierarchicalAverager, statistics
from roadseg.learn.training.optimizers import build_optimizer, clip_gradients, moving_average
from roadseg.learn.training.state import State, load_state, state_of
from roadseg.raster.scaling import Scaling

Batch = Sequence[Tensor]  # Images, masks and, if the loss needs them, skeletons.


class Trainer:
    """A network that is trained step by step, and can be saved and taken up again between two."""

    def __init__(
        self,
        model: nn.Module,
        options: TrainOptions,
        *,
        scaling: Scaling,
        device: Device,
        parallel: Parallel,
        state: State | None = None,
    ) -> None:
        """Make a model ready for its first step, or for the next one of an earlier training.

        Where `options.ema` is set, the moving average of the weights is what is evaluated and
        kept; it follows them at the steps after which all processes hold the same.

        Args:
            model: from normalised windows to logits, on the device.
            options: of the optimizer, the loss and the exchange between processes.
            scaling: mean and standard deviation of the bands.
            device: where the network runs.
            parallel: the processes that train together.
            state: what `state` returned of the trainer to resume.

        Raises:
            ConfigError: if these cannot be combined.
            CheckpointError: if the state is not one of such a trainer.
        """
        sharing = options.distributed
        if device.backend == "ipex" and (options.ema or sharing.hierarchy):
            raise ConfigError(
                "--backend ipex packs its weights, so they cannot be averaged; use backend "
                "native, or set train.ema and train.distributed.hierarchy to null"
            )
        self._options = options
        self._device, self._parallel, self._scaler = device, parallel, device.scaler()
        self._average = moving_average(model, options.ema) if options.ema else None
        optimizer = build_optimizer(model.parameters(), rate=options.learning_rate, device=device)
        if state is not None:
            load_state(state, model, optimizer, self._average, self._scaler)
        self._model, self._optimizer = device.for_training(model, optimizer)
        normalise = Normalise(scaling)
        network = device.to(nn.Sequential(normalise, self._model))
        self._averager = HierarchicalAverager(
            parallel,
            network,
            optimizer=self._optimizer,
            hierarchy=sharing.hierarchy or {},
            warmup_steps=sharing.warmup_steps,
        )
        self._network = parallel.wrap(network, device=device)
        self._in_training = device.compile(self._network)
        self._in_validation = device.compile(nn.Sequential(normalise, self.model))

    @property
    def model(self) -> nn.Module:
        """The model that is validated and kept: the moving average, if there is one."""
        return self._model if self._average is None else self._average.module

    def set_rate(self, rate: float) -> None:
        """Set the learning rate of all weights, which is kept with the state."""
        for group in self._optimizer.param_groups:
            group["lr"] = rate

    def step(self, batches: Sequence[Batch], *, number: int, rate: float) -> Tensor:
        """Take one step; return its loss, on the device.

        Args:
            batches: of the step; the gradient followed is that of the mean of their losses.
            number: of the step in the whole training, from 1.
            rate: learning rate.
        """
        is_shared = self._averager.synchronous(number)
        self._in_training.train()
        total = torch.zeros((), device=self._device.type)
        for batch in batches:
            last = is_shared and batch is batches[-1]
            with self._parallel.accumulating(self._network, last=last):
                loss = self._loss(batch, number) / len(batches)
                self._scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
            self._device.mark()
            total += loss.detach()
        self._averager.average_gradients(number)
        self.set_rate(rate)
        self._update_weights()
        self._averager.average(number)
        if self._average is not None and self.replicas_agree(number):
            self._average.update_parameters(self._model)
        return total

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the logits of the model that is kept, float32, and the sums of its loss."""
        logits, labels = self._forward(self._in_validation.eval(), batch)
        sums = loss_sums(logits, *labels, weights=self._options.loss)
        self._device.mark()
        return logits, sums

    def synchronize(self) -> None:
        """Wait until the device has done all that it was given."""
        self._device.synchronize()

    def replicas_agree(self, number: int) -> bool:
        """Return whether all processes hold the same weights after a step."""
        return self._averager.replicas_agree(number)

    def average_replicas(self) -> None:
        """Give all processes the same weights and statistics; they must all call this."""
        self._averager.average_all()
        if self._average is not None:
            module = self._average.module
            self._parallel.average([*module.parameters(), *statistics(module)])

    def state(self) -> State:
        """Return all that a trainer needs to resume as if it had never stopped."""
        return state_of(self._model, self._optimizer, self._average, self._scaler)

    def _loss(self, batch: Batch, number: int) -> Tensor:
        weights = self._options.loss
        with self._device.fast_gradients(), self._averager.normalising(number):
            logits, (masks, *skeletons) = self._forward(self._in_training, batch)
        masks = ignore_likely_roads(masks, logits, above=weights.bootstrap)
        sums = loss_sums(logits, masks, *skeletons, weights=weights)
        return loss_of(self._averager.shared(sums, number), weights=weights)

    def _forward(self, network: nn.Module, batch: Batch) -> tuple[Tensor, list[Tensor]]:
        """Return the logits of a batch, float32, and its labels on the device."""
        images, *labels = batch
        with self._device.autocast():
            logits = network(self._device.to(images)).float()
        return logits, [self._device.to(label) for label in labels]

    def _update_weights(self) -> None:
        if self._scaler.is_enabled():
            self._scaler.unscale_(self._optimizer)
        clip_gradients(self._model.parameters(), device=self._device)
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self._device.mark()
        self._optimizer.zero_grad(set_to_none=True)
