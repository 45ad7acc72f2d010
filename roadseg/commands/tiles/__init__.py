"""Commands on the tiles of the world: list them, trace, cut and join the networks in them."""
