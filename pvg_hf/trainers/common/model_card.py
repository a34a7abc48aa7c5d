"""Model cards written by the trainers: data, settings, versions and citation."""

from pathlib import Path
from typing import ClassVar

from huggingface_hub import ModelCard, ModelCardData
from peft import PeftModel
from transformers import PreTrainedModel, PreTrainedTokenizerBase, Trainer

from pvg_hf.core.afterwards import only_warning
from pvg_hf.core.markdown import hub_link
from pvg_hf.core.project import CARD_VALUES
from pvg_hf.core.versions import installed_versions, show_versions

PAPER_ID = "2407.13692"

PAPER = f"[Kirchner et al. (2024)](https://huggingface.co/papers/{PAPER_ID})"

CITATION = """\
@article{kirchner2024proververifier,
  title         = {Prover-Verifier Games improve legibility of {LLM} outputs},
  author        = {Kirchner, Jan Hendrik and Chen, Yining and Edwards, Harri and Leike, Jan
                   and McAleese, Nat and Burda, Yuri},
  year          = {2024},
  eprint        = {2407.13692},
  archivePrefix = {arXiv},
}
"""

TAGS = ["pvg_hf", "prover-verifier-game", f"arxiv:{PAPER_ID}"]

LIBRARIES = ("pvg_hf", "trl", "transformers", "peft", "torch", "datasets")
"""Libraries whose versions cards state."""


class ModelCardMixin(Trainer):
    """
    Writes the model card of a trainer.

    TRL's card would attribute the method to the paper of the training algorithm, and PEFT's card is an empty form.

    Class attributes:
        player (`str`):
            What the model is, e.g. `verifier`.
        card_settings (`tuple[str, ...]`):
            Names of the arguments in the card; those that are `None` are left out.
    """

    model: PreTrainedModel | PeftModel
    processing_class: PreTrainedTokenizerBase
    player: ClassVar[str] = "player"
    card_settings: ClassVar[tuple[str, ...]] = ()

    def create_model_card(  # type: ignore[override]  # TRL's has fewer arguments than transformers'
        self, model_name: str | None = None, dataset_name: str | None = None, tags: str | list[str] | None = None
    ) -> None:
        """Write `README.md` into the output folder; the arguments are TRL's."""
        if self.is_world_process_zero():
            self._write_card(self._folder(), model_name, dataset_name, tags)

    def train(self, *args, **kwargs):
        self._make_card(self._folder())  # what fails in it must fail before the training, not after it
        return super().train(*args, **kwargs)

    def _save(self, output_dir: str | None = None, state_dict: dict | None = None) -> None:
        super()._save(output_dir, state_dict)
        if self.args.should_save:
            self._write_card(self._folder(output_dir))

    def _folder(self, output_dir: str | None = None) -> Path:
        """Return the folder to save in: that of the arguments by default."""
        folder = output_dir or self.args.output_dir
        assert folder is not None  # the arguments replace `None`
        return Path(folder)

    def _write_card(self, folder: Path, *details) -> None:
        with only_warning(f"The model card of {folder} could not be written; the model is saved"):
            self._make_card(folder, *details).save(folder / "README.md")

    def _make_card(
        self,
        folder: Path,
        model_name: str | None = None,
        dataset_name: str | None = None,
        tags: str | list[str] | None = None,
    ) -> ModelCard:
        base, own_tags = base_model_of(self.model), [tags] if isinstance(tags, str) else list(tags or ())
        is_adapter = (folder / "adapter_config.json").exists()
        data = ModelCardData(
            model_name=model_name,
            base_model=base,
            datasets=[dataset_name] if dataset_name else None,
            library_name="peft" if is_adapter else "transformers",
            tags=[*TAGS, *own_tags],
        )
        settings = {name: value for name in self.card_settings if (value := vars(self.args)[name]) is not None}
        return ModelCard.from_template(
            data,
            template_str=_TEMPLATE,
            name=model_name or self.hub_model_id or self.player.capitalize(),
            **CARD_VALUES,
            role=self.player,
            base=hub_link(base) if base else "a model that is not on the Hub",
            trainer=type(self).__name__,
            paper=PAPER,
            settings=settings,
            versions=show_versions(installed_versions(LIBRARIES)),
            citation=CITATION,
        )


def base_model_of(model: PreTrainedModel | PeftModel) -> str | None:
    """Return the Hub id of the initial model; `None` for a folder, or a model made from a configuration."""
    name = model.config.name_or_path
    return name if name and not Path(name).is_absolute() and not Path(name).is_dir() else None


_TEMPLATE = """\
---
{{ card_data }}
---

# {{ name }}

A {{ role }} for prover-verifier games ({{ paper }}), trained from {{ base }} by `{{ trainer }}` of {{ pvg_hf }}
(`{{ install }}`).

| Setting | Value |
|---|---|
{% for name, value in settings.items() %}| `{{ name }}` | {{ value }} |
{% endfor %}
Versions: {{ versions }}.

## Citation

The method is that of:

```bibtex
{{ citation }}```
"""
