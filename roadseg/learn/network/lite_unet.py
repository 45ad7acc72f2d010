"""The default network, a U-Net with EfficientNet-Lite0, built to be filled from a checkpoint.

It has the names of the one that timm and segmentation-models build, and computes the same, bit for
bit. Importing these takes more time than predicting a small scene.
"""

import math
from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

ENCODER = "tu-tf_efficientnet_lite0"
LEVELS = 5  # Of a decoder up to the resolution of the images; with one less, it ends at half of it.

_STEM = 32  # Channels of the first convolution.
_STAGES = (  # Number of blocks, side of their kernels, stride of the first, widening, channels.
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
_SHOWN = (0, 1, 2, 4, 6)  # Stages after which the image is next made smaller, and the last.
_EPSILON = 1e-3  # Of the batch norm of the encoder.


class LiteUnet(nn.Module):
    """U-Net from float windows (window, band, row, col) to logits, of any multiple of 32 pixels."""

    def __init__(self, bands: int, classes: int, decoder_channels: Sequence[int]) -> None:
        """Build it without values, on torch's meta device; `load_state_dict` has to assign them.

        Args:
            decoder_channels: of the five levels of the decoder, from coarse to fine, or of four,
                whose logits are enlarged (`enlarged`).
        """
        super().__init__()
        with torch.device("meta"):
            self.encoder = nn.ModuleDict({"model": _Encoder(bands)})
            self.decoder = _Decoder(decoder_channels)
            head = nn.Conv2d(decoder_channels[-1], classes, 3, padding=1)
            is_whole = len(decoder_channels) == LEVELS
            self.segmentation_head = nn.Sequential(head) if is_whole else enlarged(head)

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits (window, class, row, col)."""
        logits: Tensor = self.segmentation_head(self.decoder(self.encoder["model"](images)))
        return logits


def enlarged(head: nn.Conv2d) -> nn.Sequential:
    """Return a layer whose logits, at half the resolution of the images, are enlarged to it."""
    return nn.Sequential(head, nn.Upsample(scale_factor=2, mode="bilinear"))


class _Encoder(nn.Module):
    def __init__(self, bands: int) -> None:
        super().__init__()
        self.conv_stem = _Conv(bands, _STEM, 3, stride=2)
        self.bn1 = _Norm(_STEM, is_last=False)
        self.blocks = nn.Sequential()
        channels = _STEM
        for blocks, kernel, stride, widening, out in _STAGES:
            stage = nn.Sequential()
            for block in range(blocks):
                step = stride if block == 0 else 1
                stage.append(_Block(channels, out, kernel, stride=step, widening=widening))
                channels = out
            self.blocks.append(stage)

    def forward(self, images: Tensor) -> list[Tensor]:
        """Return the images and the maps of five levels, from fine to coarse."""
        maps, values = [images], self.bn1(self.conv_stem(images))
        for number, stage in enumerate(self.blocks):
            values = stage(values)
            if number in _SHOWN:
                maps.append(values)
        return maps


class _Block(nn.Sequential):
    """Widen, convolve each channel on its own, narrow; and add what came in if it fits."""

    def __init__(self, channels: int, out: int, kernel: int, *, stride: int, widening: int) -> None:
        wide = channels * widening
        parts = {"conv_dw": _Conv(wide, wide, kernel, stride=stride, groups=wide)}
        if widening == 1:
            parts["conv_pw"] = _Conv(wide, out, 1)
        else:
            parts = {"conv_pw": _Conv(channels, wide, 1), **parts, "conv_pwl": _Conv(wide, out, 1)}
        modules = OrderedDict[str, nn.Module]()
        for number, (name, conv) in enumerate(parts.items(), start=1):
            modules[name] = conv
            modules[f"bn{number}"] = _Norm(conv.out_channels, is_last=number == len(parts))
        super().__init__(modules)
        self.adds = stride == 1 and channels == out

    def forward(self, values: Tensor) -> Tensor:
        changed = values
        for part in self:
            changed = part(changed)
        return changed + values if self.adds else changed


class _Conv(nn.Conv2d):
    """Convolution without bias that pads as TensorFlow does: by an odd pixel after, not before."""

    def __init__(
        self, channels: int, out: int, kernel: int, *, stride: int = 1, groups: int = 1
    ) -> None:
        padding = 0 if stride > 1 else kernel // 2
        super().__init__(channels, out, kernel, stride, padding, groups=groups, bias=False)

    def forward(self, values: Tensor) -> Tensor:
        if self.stride[0] > 1:
            rows, cols = (self._beyond(length) for length in values.shape[-2:])
            values = functional.pad(values, (*cols, *rows))
        return super().forward(values)

    def _beyond(self, length: int) -> tuple[int, int]:
        """Return the pixels to add before and after a side."""
        stride = self.stride[0]
        missing = (math.ceil(length / stride) - 1) * stride + self.kernel_size[0] - length
        return max(missing, 0) // 2, max(missing, 0) - max(missing, 0) // 2


class _Norm(nn.BatchNorm2d):
    """Batch norm; behind it, unless it is the last of a block, a ReLU that ends at 6."""

    def __init__(self, channels: int, *, is_last: bool) -> None:
        super().__init__(channels, eps=_EPSILON)
        self.act = nn.Identity() if is_last else nn.ReLU6(inplace=True)

    def forward(self, values: Tensor) -> Tensor:
        active: Tensor = self.act(super().forward(values))
        return active


class _Decoder(nn.Module):
    def __init__(self, channels: Sequence[int]) -> None:
        super().__init__()
        *skipped, coarsest = (_STAGES[number][-1] for number in _SHOWN)
        self.blocks = nn.ModuleList()
        before, beside = [coarsest, *channels[:-1]], [*reversed(skipped), 0][: len(channels)]
        for coarse, skip, out in zip(before, beside, channels, strict=True):
            first, second = _conv_relu(coarse + skip, out), _conv_relu(out, out)
            self.blocks.append(nn.Sequential(OrderedDict(conv1=first, conv2=second)))

    def forward(self, maps: list[Tensor]) -> Tensor:
        """Return the finest level, as large as the first of the maps, the images, or half."""
        images, *skips, values = maps
        for block, skip in zip(self.blocks, [*reversed(skips), None], strict=False):
            size = (images if skip is None else skip).shape[-2:]
            values = functional.interpolate(values, size, mode="nearest")
            if skip is not None:
                values = torch.cat([values, skip], dim=1)
            values = block(values)
        return values


def _conv_relu(channels: int, out: int) -> nn.Sequential:
    conv = nn.Conv2d(channels, out, 3, padding=1, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(out), nn.ReLU(inplace=True))
