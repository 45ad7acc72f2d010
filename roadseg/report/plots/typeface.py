"""The typeface of images that Pillow draws."""

from functools import lru_cache

from PIL import ImageFont


@lru_cache(maxsize=64)
def font(size_px: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Return the typeface in a size."""
    return ImageFont.load_default(size_px)
