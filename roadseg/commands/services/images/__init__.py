"""Images of an area: from tiles, map services, STAC and rasters elsewhere."""
