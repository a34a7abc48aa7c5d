"""The model card of a message game: how to load its players, the settings of the training, and the last evaluation."""

from collections.abc import Mapping
from typing import Any

from huggingface_hub import ModelCard, ModelCardData

from pvg_hf.core.project import CARD_VALUES
from pvg_hf.core.versions import installed_versions, show_versions
from pvg_hf.experimental.messages.game_modules import PLAYERS, MessageGame
from pvg_hf.experimental.messages.stackelberg_config import GAME_OPTIONS, TRAINER_OPTIONS, StackelbergConfig

PAPER_ID = "2108.12099"
TAGS = ("pvg_hf", "prover-verifier-game", f"arxiv:{PAPER_ID}")
LIBRARIES = ("pvg_hf", "transformers", "torch")
_NOISE = ("message_source", "noise_rho0", "noise_rho1", "noise_resample")


def message_card(
    game: MessageGame, args: StackelbergConfig, figures: Mapping[str, float], source: str, **metadata: Any
) -> ModelCard:
    """
    Write the card of a repository with `prover/` and `verifier/`.

    Args:
        game ([`~pvg_hf.experimental.messages.game_modules.MessageGame`]): The players.
        args ([`StackelbergConfig`]): Settings of the training.
        figures (`Mapping[str, float]`): Figures of the last evaluation by their names in the log; may be empty.
        source (`str`): Hub id or folder from which the players are loaded.
        **metadata:
            Fields of [`~huggingface_hub.ModelCardData`], such as `license`; `tags` are added to those of the library.
    """
    tags = metadata.pop("tags", None) or []
    data = ModelCardData(
        library_name="transformers",
        tags=[*TAGS, *([tags] if isinstance(tags, str) else tags)],
        **{name: value for name, value in metadata.items() if value is not None},
    )
    classes = {player: type(game.get_submodule(player)) for player in PLAYERS}
    settings = {name: vars(args)[name] for name in (*GAME_OPTIONS, *TRAINER_OPTIONS.values(), *_NOISE)}
    return ModelCard.from_template(
        data,
        template_str=_TEMPLATE,
        source=source,
        **CARD_VALUES,
        paper=f"[Anil et al. (2021)](https://huggingface.co/papers/{PAPER_ID})",
        classes={player: (of_player.__module__, of_player.__name__) for player, of_player in classes.items()},
        settings={name: value for name, value in settings.items() if value is not None},
        figures={name: value for name, value in figures.items() if name.startswith("eval_")},
        versions=show_versions(installed_versions(LIBRARIES)),
    )


_TEMPLATE = """\
---
{{ card_data }}
---

# {{ source }}

The players of a message game ({{ paper }}), trained by `StackelbergTrainer` of {{ pvg_hf }} (`{{ install }}`):
a prover that sends a message about a problem and always argues for yes, and a verifier that sees problem and message
and decides.

```python
{% for module, name in classes.values() %}from {{ module }} import {{ name }}
{% endfor %}
{% for player, (_, name) in classes.items() %}{#
#}{{ player }} = {{ name }}.from_pretrained("{{ source }}", subfolder="{{ player }}")
{% endfor %}```

| Setting | Value |
|---|---|
{% for name, value in settings.items() %}| `{{ name }}` | {{ value }} |
{% endfor %}{% if figures %}
The last evaluation, on clean labels:

| Figure | Value |
|---|---|
{% for name, value in figures.items() %}| `{{ name }}` | {{ "%.4g" | format(value) }} |
{% endfor %}{% endif %}
Versions: {{ versions }}.
"""
