"""What is wrong with a recipe's settings for the Hub, as far as it can be known without asking there."""

from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec

from huggingface_hub import constants, get_token

from pvg_hf.config import Recipe
from pvg_hf.game.plan.refusals import refusals
from pvg_hf.hub.names import RunRepos

ANYBODY = "x"  # stands for the token's owner, who is asked for when a round is published


def check_hub(recipe: Recipe) -> Iterator[str]:
    """The names, a token, and a client that may talk."""
    hub = recipe.hub
    for key in recipe.unpublished_paths():
        if not key.startswith("bootstrap."):  # which is asked for only while there is no bootstrap
            yield f"`{key}` was a path on the machine that published the run; say where that is here, `{key}=...`."
    if recipe.resume_from_hub is not None:
        yield from refusals("`resume_from_hub`", partial(RunRepos.parse, recipe.resume_from_hub))
    if hub.space and not hub.push:
        yield "`hub.space` is true, and `hub.push` is not: a Space shows a run that is published. Set `hub.push: true` too."
    if not hub.push:
        return
    if hub.space and find_spec("duckdb") is None:
        yield "`hub.space` needs the app, which is not installed: `pip install -e '.[app]'` in a clone."
    key = "`hub.run_name`" if hub.run_name else "`hub.namespace`, `name`"
    yield from refusals(key, partial(RunRepos, hub.namespace or ANYBODY, hub.run_name or recipe.name))
    if get_token() is None:
        yield "`hub.push` needs a token that may write: `hf auth login`, or set HF_TOKEN. The recipe has no place for one."
    if constants.HF_HUB_OFFLINE:
        yield "`hub.push` is set, and so is HF_HUB_OFFLINE, with which nothing can be published; unset one of them."
