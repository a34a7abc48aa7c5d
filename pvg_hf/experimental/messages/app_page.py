"""The app of a message game's run: its games in numbers, and plots of the training."""

from pathlib import Path

import gradio as gr

from pvg_hf.app.events import SLOW
from pvg_hf.app.render import heading, notice
from pvg_hf.experimental.messages.folder import MessageRunFolder
from pvg_hf.experimental.messages.report import render_message_figures


def is_message_run(source: str) -> bool:
    """Whether a source is the folder of a message game's run."""
    return MessageRunFolder(Path(source)).recipe.is_file()


def make_message_app(root: Path) -> gr.Blocks:
    """
    Build the app of a message game's run.

    Args:
        root (`Path`):
            The run's folder. It is read whenever the page is loaded.
    """
    with gr.Blocks(title=f"{root.name}: message game", analytics_enabled=False) as app:
        explanation = "A prover that always argues for yes, and a verifier that sees problem and message and decides."
        gr.HTML(heading(f"{root.resolve().name}: message game", explanation))
        figures = gr.HTML(notice("Drawing the plots."), elem_id="message-game")

        def load() -> str:
            try:
                return render_message_figures(root)
            except (ValueError, OSError) as err:  # not judged yet, or a damaged file
                return notice(str(err), kind="problem")

        app.load(load, None, figures, **SLOW)
    return app
