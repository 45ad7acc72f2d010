"""Configs that differ in some settings."""


def changed(config, section, **settings):
    """Return a config with other settings in one of its sections."""
    values = getattr(config, section).model_copy(update=settings)
    return config.model_copy(update={section: values})
