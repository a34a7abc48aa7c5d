"""The helpful side of a game in which only the sneaky role is trained."""

from pvg_hf.data.schema import Outcome, outcome_of
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.players import open_base_sampler, open_scorer
from pvg_hf.roles import Role
from pvg_hf.seeding import derive_rng


def honest_side(context: PhaseContext) -> dict[str, float]:
    """
    Mean score of the fixed helpful side's correct solutions on D_pi's held-out part: the reference solutions where
    `data.correct_source` is `dataset`, else the base prover in the helpful role.
    """
    number = context.recipe.prover.eval_problems
    problems = context.world.parts["prover_heldout"].to_list()[:number]
    if context.recipe.data.correct_source == "dataset":
        written = [(problem, problem["reference"], False) for problem in problems]
    else:
        written = _base_solutions(context, problems)
    grade = context.world.task.grade
    correct = [(p, text) for p, text, cut in written if outcome_of(grade(p, text), cut) == Outcome.VERIFIED]
    if not correct:
        context.alert("no_honest_side", "No helpful solution of the fixed side is correct; parity cannot be judged.")
        return {}
    scorer = open_scorer(context, context.folder.verifier(context.round_index))
    scores = scorer([problem["problem"] for problem, _ in correct], [text for _, text in correct])
    return {"score/helpful_correct": sum(scores) / len(scores)}


def _base_solutions(context: PhaseContext, problems: list[dict]) -> list[tuple[dict, str, bool]]:
    """Problem, solution, and whether that was cut."""
    sampler = open_base_sampler(context)
    prompts = [context.world.prompt(problem, Role.HELPFUL, sampler.tokenizer) for problem in problems]
    written = []
    for indices in sampler.batches(prompts):
        rngs = [[derive_rng(context.seed("honest"), problems[i]["problem_id"])] for i in indices]
        samples = sampler.sample([prompts[i] for i in indices], rngs)
        written += [(problems[i], row[0].text, row[0].is_truncated) for i, row in zip(indices, samples, strict=True)]
    return written
