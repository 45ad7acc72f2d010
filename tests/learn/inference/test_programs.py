"""Programs: a network as one graph, for a number of windows that is fixed or not."""

import pytest
import torch
from torch import nn

from roadseg.errors import RoadsegError
from roadseg.learn.inference import programs
from roadseg.learn.network.models import Normalise
from roadseg.raster.scaling import Scaling

SCALING = Scaling({}, mean=(100.0, 90.0), std=(50.0, 40.0))


class Fixed(nn.Module):
    """Stands for a network that can be given two windows only."""

    def forward(self, windows):
        return windows.float().reshape(2, -1, 8, 8)


@pytest.fixture
def network():
    torch.manual_seed(0)
    layers = Normalise(SCALING), nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3), nn.Sigmoid()
    return nn.Sequential(*layers).eval()


def windows(count):
    return torch.arange(count * 2 * 8 * 8).view(count, 2, 8, 8).to(torch.uint8)


def test_weights_may_lie_in_memory_in_any_way(network):
    network = network.to(memory_format=torch.channels_last)
    program = programs.trace(network, window_shape=(2, 2, 8, 8))
    torch.testing.assert_close(program.module()(windows(2)), network(windows(2)))
    assert network[1].weight.is_contiguous(memory_format=torch.channels_last)


def test_a_network_for_two_windows_cannot_be_given_any_number():
    with pytest.raises(RoadsegError, match=r"for any number of windows .*; give a batch size"):
        programs.trace(Fixed(), window_shape=(None, 2, 8, 8))


def test_a_network_for_two_windows_is_followed_with_two():
    program = programs.trace(Fixed(), window_shape=(2, 2, 8, 8))
    assert torch.equal(program.module()(windows(2)), Fixed()(windows(2)))


def test_a_network_that_fails_on_its_windows_is_refused_in_one_line(network):
    with pytest.raises(RoadsegError, match="for 1 windows of 5 bands, 8 x 8 px") as error:
        programs.trace(network, window_shape=(1, 5, 8, 8))
    assert "\n" not in str(error.value)
