from functools import partialmethod

import pytest
from matplotlib.figure import Figure


@pytest.fixture(autouse=True, scope="module")
def savefig():
    """Let figures be written in few pixels, in a part of the time; give what writes all."""
    fine = Figure.savefig
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", partialmethod(fine, dpi=20))
        yield fine
