"""A tiling of the world into squares of UTM zones, and road networks tile by tile."""
