"""Options of the page that shows a run."""

from roadseg.options import Section, setting


class ReportConfig(Section):
    """The page that shows a run."""

    max_mb: float = setting(
        25.0,
        "MB",
        "Most that the file may have; pictures are made smaller until it fits.",
        ge=0.1,
        le=10_000,
    )
