"""The Space of a run that is published, renewed with each round."""

import logging

from pvg_hf.browse.space import push_space
from pvg_hf.game.callbacks import GameCallback
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.publishing import on_main_process
from pvg_hf.hub.retry import HubError

logger = logging.getLogger(__name__)


class SpaceCallback(GameCallback):
    """
    After each evaluated round the app on the run goes to the Space `NAMESPACE/RUN-app`, private as the run's repositories
    are. A failure is an alert; the next round tries again.
    """

    def on_phase_end(self, context: PhaseContext) -> None:
        if context.phase.name == "evaluate":
            on_main_process(context.processes, lambda: self._push(context))

    def _push(self, context: PhaseContext) -> None:
        folder = context.folder
        published = [event for event in folder.read_events()[0] if event["event"] == "published"]
        if not published:
            return  # which the game has told
        space = f"{published[-1]['run']}-app"
        try:
            url = push_space(folder.root, space, is_private=context.recipe.hub.private)
        except (HubError, ValueError, OSError) as err:
            context.alert("hub", f"The Space {space} could not be brought up to date: {err}")
            return
        logger.info("Space: %s", url)
