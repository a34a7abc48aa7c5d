import pytest
import torch

from pvg_hf import VerifierScorer, load_recipe
from pvg_hf.game.folder import read_json_lines
from pvg_hf.game.world import World
from pvg_hf.models.prover import load_prover
from pvg_hf.rewards import correctness_gated_convincingness, goodhart
from pvg_hf.roles import Role
from pvg_hf.sampling import Sampler
from pvg_hf.seeding import derive_rng, derive_seed


def heldout_solutions(folder, weights):
    """What a prover writes for the first four of D_pi's held-out problems, by the seeds that a phase takes."""
    recipe = load_recipe(folder.recipe)
    world = World.load(recipe)
    problems = world.parts["prover_heldout"].to_list()[:4]
    model, tokenizer = load_prover(weights)
    prompts = [world.prompt(problem, Role.HELPFUL, tokenizer) for problem in problems]
    seed = derive_seed(recipe.seed, "round-000", "prover", "heldout")
    rngs = [[derive_rng(seed, problem["problem_id"], i) for i in range(2)] for problem in problems]
    written = Sampler(model, tokenizer, max_new_tokens=8).sample(prompts, rngs)
    rows = [(problem, sample.text) for problem, row in zip(problems, written, strict=True) for sample in row]
    scores = VerifierScorer.from_pretrained(folder.verifier(0))([p["problem"] for p, _ in rows], [t for _, t in rows])
    return torch.tensor(scores), torch.tensor([world.task.grade(p, text).correct for p, text in rows])


@pytest.mark.parametrize(
    ("reward", "judge"), [("src", correctness_gated_convincingness), ("goodhart", goodhart)], ids=["src", "goodhart"]
)
def test_prover_is_judged_by_its_heldout_solutions(reward, judge, play_phase):
    """Under SRC by CGC, as a reward relative to the prover's own group says nothing of the group."""
    folder = play_phase("prover", 0, prover__reward=reward)
    line = read_json_lines(folder.prover(0) / "metrics.jsonl")[-1]
    assert line["step"] == 6
    scores, correct = heldout_solutions(folder, folder.prover(0))
    rewards = judge(scores, correct, torch.zeros(8, dtype=torch.bool), group_size=2)
    assert line["prover/heldout/accuracy"] == pytest.approx(correct.float().mean().item())
    assert line["prover/heldout/score"] == pytest.approx(scores.mean().item(), abs=1e-5)
    assert line["prover/heldout/selection"] == pytest.approx(rewards.mean().item(), abs=1e-5)


def test_only_every_few_steps_and_the_last_are_judged(play_phase):
    folder = play_phase("prover", 0, prover__eval_steps=4)
    lines = read_json_lines(folder.prover(0) / "metrics.jsonl")
    assert [line["step"] for line in lines if "prover/heldout/selection" in line] == [4, 6]


def test_best_checkpoint_is_the_one_that_was_judged_best(play_phase):
    folder = play_phase("prover", 0, prover__learning_rate=0.01, watchdogs__max_truncated=1.0)
    figures = [
        line["prover/heldout/selection"]
        for line in read_json_lines(folder.prover(0) / "metrics.jsonl")
        if "prover/heldout/selection" in line
    ]
    assert len(set(figures)) > 1
    scores, correct = heldout_solutions(folder, folder.prover(0) / "best-helpful")
    rewards = torch.where(correct, scores, -2.0)  # CGC of the helpful role
    assert max(figures) == pytest.approx(rewards.mean().item(), abs=1e-5)
