"""Recipe: all that decides which weights a training ends with, apart from the data."""

from pathlib import Path
from typing import Any

from roadseg.learn.network.checkpoints import checkpoint_path
from roadseg.learn.network.pretrained import names_file
from roadseg.learn.options import TrainOptions
from roadseg.system.fingerprints import fingerprint

_MAY_CHANGE = ("epochs", "patience")


def first_weights(recipe: TrainOptions) -> dict[str, str]:
    """Return the weights that training starts from, by the options that name them.

    Files count by what they hold, wherever they lie; see `fingerprint`.
    """
    weights = recipe.encoder_weights
    is_file = weights is not None and names_file(weights)
    return {
        "init": fingerprint(checkpoint_path(recipe.init, "best")) if recipe.init else "none",
        "encoder_weights": fingerprint(Path(weights)) if weights and is_file else str(weights),
    }


def fixed(recipe: TrainOptions) -> dict[str, Any]:
    """Return as JSON values what has to stay as it is while a training goes on.

    More epochs may be asked for later, unless the learning rate is planned to the end. Options
    that do not decide which weights come out (`distributed`, `tensorboard`) are not among them.
    """
    fields = recipe.model_dump(exclude={"distributed", "tensorboard"})
    fields["init"] = recipe.init and str(recipe.init)
    free = _MAY_CHANGE if recipe.schedule == "step" else ("patience",)
    return {key: value for key, value in fields.items() if key not in free}
