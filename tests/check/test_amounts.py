"""Numbers of texts that a phase writes and trains on; sizes and lengths are in `plan_fixtures`."""

from pvg_hf.check.phase_costs import Writing, count_tokens, describe_phase, list_writings
from pvg_hf.core.roles import Role


def test_amounts_of_a_shared_prover(amounts_of):
    amounts = amounts_of("mint.test_solutions_per_problem=2", "mint.solutions_per_problem=3")
    assert amounts.max_pairs == 20 * 2  # half of `data.solutions_per_problem` = 4
    assert amounts_of("data.pairs=all", "data.pair_share=0.5").max_pairs == 20 * 3  # half of the six pairs of four
    assert amounts.num_prompts == 12 * 2  # both roles
    assert amounts.recipe.prover.rows_per_step == 16
    assert amounts.num_test_solutions == 3 * 2 * 2
    assert describe_phase("bootstrap", amounts) == "100 solutions on D_V, 12 on test"  # (20 + 5) x 4
    assert describe_phase("mint", amounts) == "150 solutions on D_V, 12 on test"  # (20 + 5) x 2 roles x 3
    assert describe_phase("verifier", amounts) == "10 steps of 4 pairs; at most 40 pairs (1.0 epochs)"
    assert describe_phase("prover", amounts).endswith("24 prompts (0.8 epochs)")  # 5 steps x 4 of 24
    assert list_writings("mint", amounts) == [
        Writing(Role.HELPFUL, 3, 2),
        Writing(Role.SNEAKY, 3, 2),
        Writing(Role.HELPFUL, 25, 3),
        Writing(Role.SNEAKY, 25, 3),
        Writing(Role.HELPFUL, 5, 2),  # by which answers are calibrated
    ]


def test_tokens_of_each_phase(amounts_of):
    amounts = amounts_of("mint.test_solutions_per_problem=2", "mint.solutions_per_problem=3")
    assert count_tokens("bootstrap", amounts) == {"writing": (12 + 25 * 4) * 8}  # solutions of 8 tokens
    # Two inputs of 30 tokens a pair, and then four solutions to each of five held-out problems.
    assert count_tokens("verifier", amounts) == {"training": 10 * 4 * 2 * 30, "evaluating": 5 * 4 * 30}
    prover = count_tokens("prover", amounts)
    config, number = amounts.recipe.prover, 5 * 16
    selecting = (1 + -(-5 // config.evaluation_steps)) * min(4, config.eval_problems) * config.eval_samples
    assert prover == {
        "writing": number * 8,
        "scoring": number * 30,
        "training": number * (15 + 8),  # prompts of both roles
        "evaluating": selecting * (8 + 30),
    }
    minted = 12 + 25 * 2 * 3 + 5 * 2
    assert count_tokens("mint", amounts) == {"writing": minted * 8, "scoring": minted * 30}
    assert count_tokens("evaluate", amounts) == {"scoring": (12 + 12) * 30}  # the base prover's, and of another round


def test_amounts_of_separate_and_single_roles(amounts_of):
    separate = amounts_of("prover.roles=separate", "prover.lora={}")
    assert separate.num_prompts == 12
    assert count_tokens("prover", separate)["training"] == 2 * 5 * 16 * (15 + 8)  # trained twice
    assert "for each role" in describe_phase("prover", separate)
    unlike = amounts_of("prover.roles=separate", "prover.lora={}", "prover.helpful_max_steps=2")
    assert count_tokens("prover", unlike)["training"] == (2 + 5) * 16 * (15 + 8)
    assert "at most 5 steps for the sneaky role and 2 for the helpful one" in describe_phase("prover", unlike)
    sneaky = amounts_of("prover.roles=sneaky_only")
    assert sneaky.num_prompts == 12
    assert count_tokens("prover", sneaky) == {"writing": 80 * 8, "scoring": 80 * 30, "training": 80 * (20 + 8)}


def test_amounts_of_a_warmup_and_of_imported_solutions(amounts_of):
    amounts = amounts_of("prover.warmup={max_steps: 7, batch_size: 2}", "verifier.scratch={}")
    assert describe_phase("warmup", amounts) == "prover: 7 steps of 2 references; verifier: random weights"
    assert count_tokens("warmup", amounts) == {"training": 7 * 2 * (10 + 8)}
    imported = amounts_of("bootstrap.import_from=org/solutions", "mint.test_solutions_per_problem=2")
    assert describe_phase("bootstrap", imported) == "solutions from org/solutions; 12 on test"
    assert list_writings("bootstrap", imported) == [Writing(Role.HELPFUL, 3, 2), Writing(Role.SNEAKY, 3, 2)]


def test_tokens_of_a_generative_verifier(amounts_of):
    """It writes analyses to learn, to score and to label, and learns from input and analysis."""
    amounts = amounts_of("verifier.kind=score", "verifier.score={max_completion_length: 40, num_generations: 4}")
    score = amounts.recipe.verifier.score_settings
    number = 10 * score.proofs_per_step * 4
    tokens = count_tokens("verifier", amounts)
    assert (tokens["writing"], tokens["training"]) == (number * 20, number * (30 + 20))
    assert count_tokens("evaluate", amounts)["scoring"] == 2 * amounts.num_test_solutions * score.num_analyses * 20
