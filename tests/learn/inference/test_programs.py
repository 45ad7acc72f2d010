"""Programs: a network as one graph, for a number of windows that is fixed or not."""

import copy

import pytest
import torch
from torch import nn

from roadseg.errors import RoadsegError
from roadseg.learn.inference import programs


class Fixed(nn.Module):
    """Stands for a network that can be given two windows only."""

    def forward(self, windows):
        return windows.float().reshape(2, -1, 8, 8)


def test_weights_may_lie_in_memory_in_any_way(small_network, small_windows):
    network = copy.deepcopy(small_network).to(memory_format=torch.channels_last)
    program = programs.as_program(network, window_shape=(2, 2, 8, 8))
    torch.testing.assert_close(program.module()(small_windows(2)), network(small_windows(2)))
    assert network[1].weight.is_contiguous(memory_format=torch.channels_last)


def test_a_network_for_two_windows_is_followed_with_two_but_not_with_any_number(small_windows):
    program = programs.as_program(Fixed(), window_shape=(2, 2, 8, 8))
    assert torch.equal(program.module()(small_windows(2)), Fixed()(small_windows(2)))
    with pytest.raises(RoadsegError, match=r"for any number of windows .*; give a batch size"):
        programs.as_program(Fixed(), window_shape=(None, 2, 8, 8))


def test_a_network_that_fails_on_its_windows_is_refused_in_one_line(small_network):
    with pytest.raises(RoadsegError, match="for 1 windows of 5 bands, 8 x 8 px") as error:
        programs.as_program(small_network, window_shape=(1, 5, 8, 8))
    assert "\n" not in str(error.value)
