"""Estimates of the memory and time of a prediction, before it starts."""

_MB = 1e6

# Measured with PyTorch 2.15 on an x86 CPU (AVX2), eager, fp32: the largest resident memory of
# `roadseg predict`, for U-Nets of four encoders (ResNet18, 34 and 50, MobileNetV2), windows of 256
# to 1024 pixels, batches of 1 to 4, and scenes 512 to 24,000 pixels wide.
_PROCESS_MB = 1150  # Python, PyTorch, the other libraries, and making the raster in the end
_PARAMETER_BYTES = 8  # A weight, and its copy in the form that the CPU's kernels take.
_PIXEL_BYTES = 580  # Of a batch: what the layers hold at once; 500 to 790 by encoder.

# Counted, not measured.
_SUM_BYTES = 4  # For each class of a pixel that the next row of windows still changes.
_LEAST_CACHE_MB = 67  # Blocks that GDAL keeps in memory.
_BLOCK_PX = 512  # Rows by which GDAL's blocks reach beyond a window.


def predict_memory_mb(
    *,
    width: int,
    bands: int,
    band_bytes: int,
    classes: int,
    window_px: int,
    overlap_px: int,
    batch_size: int,
    parameters: int,
) -> float:
    """Estimate the largest memory of a process that predicts a scene on a CPU, megabytes.

    Its height does not matter: only the rows that two rows of windows share are held. Engines
    other than eager hold less or more than what was measured; on a GPU, most of it lies there.

    Args:
        width: columns of the scene.
        bands: that are read.
        band_bytes: of a pixel of a band, as the file has it.
        classes: probabilities of a pixel.
        window_px: side of the windows.
        overlap_px: of neighbouring windows.
        batch_size: windows predicted at once.
        parameters: of the network, or of all that are averaged.
    """
    network_mb = parameters * _PARAMETER_BYTES / _MB
    batch_mb = batch_size * window_px**2 * _PIXEL_BYTES / _MB
    open_rows_mb = width * overlap_px * classes * _SUM_BYTES / _MB
    cache_mb = width * (window_px + _BLOCK_PX) * bands * band_bytes / _MB
    return _PROCESS_MB + network_mb + batch_mb + open_rows_mb + max(cache_mb, _LEAST_CACHE_MB)
