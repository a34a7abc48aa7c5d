"""The evaluations and their results as text."""

from collections.abc import Sequence
from dataclasses import fields

from pvg_hf.config.fields import default_of
from pvg_hf.core.disk_names import round_name
from pvg_hf.experimental.judging.round_evaluations import EVALUATIONS, RoundEvaluation
from pvg_hf.run.judgements import Judgement


def list_evaluations() -> str:
    """List all evaluations with their settings and defaults."""
    return "\n\n".join(_describe(name, evaluation) for name, evaluation in EVALUATIONS.items())


def show_results(results: Sequence[Judgement]) -> str:
    """Show the figures of results with n and interval, a line each."""
    lines = []
    for result in results:
        lines.append(f"{result.title}, {round_name(result.round_index)}")
        width = max(map(len, result.figures), default=0)
        lines += [f"  {key:{width}}  {figure:.3f}" for key, figure in result.figures.items()]
    return "\n".join(lines)


def _describe(name: str, evaluation: RoundEvaluation) -> str:
    cost = "; runs only if named" if evaluation.is_costly else ""
    lines = [f"{name}: {evaluation.title} (needs {', '.join(evaluation.phases)}{cost})"]
    for field in fields(evaluation.settings):
        description = evaluation.settings.__pydantic_fields__[field.name].description
        lines.append(f"  {name}.{field.name}={default_of(evaluation.settings, field.name)}  {description}")
    return "\n".join(lines)
