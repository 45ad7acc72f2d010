import pytest
import torch
from torch import nn

from roadseg.learn.training.optimizers import moving_average


def model_of(value):
    model = nn.BatchNorm2d(1)
    nn.init.constant_(model.weight, value)
    return model


def test_the_first_update_copies_the_weights():
    model = model_of(1.0)
    average = moving_average(model, 0.9)
    nn.init.constant_(model.weight, 3.0)
    average.update_parameters(model)
    assert average.module.weight.item() == 3.0


@pytest.mark.parametrize(("decay", "expected"), [(0.1, 0.9), (0.999, 1 - 2 / 11)])
def test_an_update_keeps_no_more_than_the_decay_and_little_at_first(decay, expected):
    model = model_of(0.0)
    average = moving_average(model, decay)
    average.update_parameters(model)
    nn.init.constant_(model.weight, 1.0)
    average.update_parameters(model)
    assert average.module.weight.item() == pytest.approx(expected)


def test_in_the_long_run_the_decay_is_that_asked_for():
    model = model_of(0.0)
    average = moving_average(model, 0.5)
    for _ in range(50):
        average.update_parameters(model)
    nn.init.constant_(model.weight, 1.0)
    average.update_parameters(model)
    assert average.module.weight.item() == pytest.approx(0.5)


def test_statistics_of_batch_norm_are_copied():
    model = model_of(0.0)
    average = moving_average(model, 0.9)
    for mean in (1.0, 5.0):
        nn.init.constant_(model.running_mean, mean)
        average.update_parameters(model)
    assert average.module.running_mean.item() == 5.0


def test_weights_keep_their_memory_format():
    model = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    average = moving_average(model, 0.9)
    for _ in range(2):
        average.update_parameters(model)
    assert average.module.weight.is_contiguous(memory_format=torch.channels_last)
