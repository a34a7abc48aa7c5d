"""Work that comes after results are complete, and must not cost them if it fails."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

logger = logging.getLogger(__name__)


@contextmanager
def only_warning(what: str) -> Iterator[None]:
    """
    Log any error in the block as a warning, `what` without its full stop, with its traceback, and go on after the
    block.

    It is for what shows results that are complete without it: model cards, the report with its plots, trackers and
    publishing. A defect there, in this package or in a library, must not cost hours of training. So this is the one
    place that catches every error; nothing that results depend on belongs in such a block.
    """
    try:
        yield
    except Exception as err:
        logger.warning("%s (%s: %s).", what, type(err).__name__, err, exc_info=True)
