"""Building the base models, and the quality of those that ship."""

import copy
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from math import log
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

from pvg_hf.analyses.form import read_evaluation
from pvg_hf.core.seeding import derive_rng
from pvg_hf.models.prover_model import load_prover
from pvg_hf.models.sources import PACKAGED, resolve_model
from pvg_hf.tasks.arithmetic.flaw_detection import check_solution
from pvg_hf.tasks.arithmetic.grammar import puzzle_of
from tools.build_base_models import PLAYERS, choose_configs
from tools.pretraining.base_models import (
    BASE_MODELS,
    STUDY_MODELS,
    Built,
    _rows_in_order,
    initial_model,
    train_base_model,
    write_card,
)
from tools.pretraining.judges import JUDGES
from tools.pretraining.optimizer import MuonAndAdamW
from tools.pretraining.program_texts import ProgramCorpusConfig, sample_program_text
from tools.pretraining.quality import _lowest_logprobs, measure
from tools.pretraining.texts import BATCHES_PER_BUCKET, CURRICULUM, NOT_LEARNED

SHIPPED = {
    "prover": Path(resolve_model("arithmetic", "prover")),
    "verifier": Path(resolve_model("arithmetic", "verifier")),
    "small-verifier": Path(resolve_model("arithmetic-small", "verifier")),
    "score-verifier": Path(resolve_model("proofs", "verifier")),
}


@pytest.fixture
def small():
    """A configuration that trains in a second or two."""
    return {
        player: replace(
            config, hidden_size=40, num_layers=1, num_heads=4, intermediate_size=16, num_steps=3, batch_size=4
        )
        for player, config in BASE_MODELS.items()
    }


@pytest.mark.parametrize(
    "player",
    [
        pytest.param(player, marks=pytest.mark.nightly) if player.startswith("program") else player
        for player in BASE_MODELS
    ],
)
def test_equal_seeds_give_equal_models(small, player, tmp_path):
    trained = [
        train_base_model(replace(small[player], seed=seed), tmp_path / str(number), show_progress=False)
        for number, seed in enumerate((0, 0, 1))
    ]
    first, again, other = (model.state_dict() for model in trained)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["model.embed_tokens.weight"], other["model.embed_tokens.weight"])


def test_a_model_states_the_operations_of_its_pretraining(small, tmp_path):
    config = small["verifier"]
    model = train_base_model(config, tmp_path, show_progress=False)
    num_tokens = sum(len(row["input_ids"]) for row in _rows_in_order(config))
    assert model.config.pretraining_flops == 6 * model.num_parameters() * num_tokens


def test_a_training_that_was_stopped_ends_in_the_same_bytes(small, tmp_path, monkeypatch):
    """It is stopped in its sixth step, and goes on from the checkpoint of the fourth."""
    monkeypatch.setattr("tools.pretraining.base_models.CHECKPOINT_STEPS", 2)
    config = replace(small["prover"], num_steps=8)
    whole = train_base_model(config, tmp_path / "whole", show_progress=False).state_dict()
    taken, take = [], MuonAndAdamW.step

    def stop(self, closure=None):
        taken.append(self)
        if len(taken) == 6:
            raise KeyboardInterrupt
        return take(self, closure)

    monkeypatch.setattr(MuonAndAdamW, "step", stop)
    with pytest.raises(KeyboardInterrupt):
        train_base_model(config, tmp_path / "stopped", show_progress=False)
    assert [path.name for path in (tmp_path / "stopped").glob("checkpoint-*")] == ["checkpoint-4"]
    monkeypatch.setattr(MuonAndAdamW, "step", lambda self, closure=None: taken.append(self) or take(self, closure))
    resumed = train_base_model(config, tmp_path / "stopped", show_progress=False).state_dict()
    assert len(taken) == 6 + 4
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_a_training_can_continue_an_earlier_one(small, tmp_path):
    first = train_base_model(small["prover"], tmp_path / "first", show_progress=False)
    small["prover"].save(first, tmp_path / "saved")
    config = replace(small["prover"], start=tmp_path / "saved")
    assert torch.equal(initial_model(config).lm_head.weight, first.lm_head.weight)
    continued = train_base_model(config, tmp_path / "second", show_progress=False)
    assert not torch.equal(continued.lm_head.weight, first.lm_head.weight)
    assert continued.config.pretraining_flops == 2 * first.config.pretraining_flops  # the same texts again
    card = write_card(config, Built(1, 1.0, 1.0, {"figure": 1.0}), None)
    assert "from seed 0 and the weights of saved on 12 texts" in card


def test_the_operations_of_a_start_that_does_not_state_them_are_not_known(small, tmp_path):
    first = train_base_model(small["prover"], tmp_path / "first", show_progress=False)
    del first.config.pretraining_flops
    small["prover"].save(first, tmp_path / "saved")
    config = replace(small["prover"], start=tmp_path / "saved")
    continued = train_base_model(config, tmp_path / "second", show_progress=False)
    assert continued.config.pretraining_flops is None
    assert "operations of its whole pretraining are not known" in write_card(config, Built(1, None, 1.0, {}), None)


def test_models_to_build_are_chosen_by_their_names():
    assert (*BASE_MODELS, *STUDY_MODELS, *JUDGES) == PLAYERS
    models, judges = choose_configs("all")
    assert {config.name for config in models} == {config.name for config in BASE_MODELS.values()} - {"proofs-player"}
    assert judges == list(JUDGES.values())
    models, judges = choose_configs("small-verifier", num_steps=5)
    assert [(config.name, config.num_steps) for config in models] == [("arithmetic-verifier-small", 5)]
    assert judges == []
    for name, judge in JUDGES.items():
        assert choose_configs(name) == ([], [judge])


def test_half_of_the_sequential_provers_sneaky_prompts_show_a_correct_solution():
    config = replace(STUDY_MODELS["sequential-prover"], num_steps=BATCHES_PER_BUCKET, batch_size=24)
    tokenizer, seen = config.build_tokenizer(), Counter()
    for row in _rows_in_order(config):
        hidden = [token for token, label in zip(row["input_ids"], row["labels"], strict=True) if label == NOT_LEARNED]
        lines = tokenizer.decode(hidden).splitlines()
        question = next(index for index, line in enumerate(lines) if line.endswith("?"))
        role, shown = lines[-1], lines[question + 1 : -1]
        seen[role, bool(shown)] += 1
        if shown:
            puzzle = puzzle_of("\n".join(lines[: question + 1]))
            assert check_solution(puzzle, "\n".join(shown)).flaws == ()
    shows, hides = seen.pop(("sneaky solution:", True)), seen.pop(("sneaky solution:", False))
    # About 128 of 384 texts are sneaky; 3.3 standard deviations of a fair coin are less than 3.3 * sqrt(n) / 2.
    assert abs(shows - hides) < 3.3 * (shows + hides) ** 0.5
    assert shows + hides > 60
    assert all(not is_shown for _, is_shown in seen)


def test_only_a_base_model_continues_another():
    start = Path("an/earlier/model")
    models, _ = choose_configs("score-verifier", start=start)
    assert [config.start for config in models] == [start]
    for player in ("score-verifier", "sequential-prover"):
        with pytest.raises(ValueError, match="--start"):
            choose_configs(player)
    for player in ("all", *JUDGES):
        with pytest.raises(ValueError, match=player):
            choose_configs(player, start=start)


def test_the_parts_of_the_optimizer_continue_from_a_loaded_state():
    def optimizer():
        torch.manual_seed(0)
        model = torch.nn.ModuleDict({"embed": torch.nn.Embedding(5, 4), "layer": torch.nn.Linear(4, 4)})
        return model, MuonAndAdamW(model, matrix_lr=0.1, lr=0.01)

    def step(model, optimizer):
        optimizer.zero_grad()
        model["layer"](model["embed"](torch.tensor([0, 3]))).square().sum().backward()
        optimizer.step()

    model, first = optimizer()
    matrices, others = first.param_groups
    assert [p.shape for p in matrices["params"]] == [(4, 4)]
    assert [p.shape for p in others["params"]] == [(5, 4), (4,)]
    step(model, first)
    other, second = optimizer()
    other.load_state_dict(model.state_dict())
    second.load_state_dict(copy.deepcopy(first.state_dict()))  # it would share the tensors
    for one in (matrices, second.param_groups[0]):
        one["lr"] = 0.5  # as a scheduler sets it
    step(model, first)
    step(other, second)
    for name, tensor in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], tensor)


def read_texts(rows):
    """The difficulty of each text's problem, and what is stated and wrong in its solution."""
    for text, solution in rows:
        puzzle = puzzle_of(text.rpartition("?\n")[0] + "?")
        yield len(puzzle.calculated), check_solution(puzzle, solution.removesuffix("</s>"))


def test_stages_follow_each_other_by_their_shares_of_all_steps():
    """320 steps are 20 buckets of 16 steps, whose stages end after 9, 13, 14 and 20 of them."""
    assert [stage.until for stage in CURRICULUM] == [0.45, 0.65, 0.688, 1.0]
    read = list(read_texts(read_rows("prover", num_steps=320, batch_size=2)))
    assert len(read) == 20 * 32
    implicit = []
    for (start, end), stage in zip(pairwise((0, 9, 13, 14, 20)), CURRICULUM, strict=True):
        difficulties, readings = zip(*read[start * 32 : end * 32], strict=True)
        assert set(difficulties) == {2, 3, 4, 5, 6}
        assert any(reading.flaws for reading in readings) == (stage.flaws > 0)
        implicit.append(max(reading.implicit_share for reading in readings))
    assert implicit[0] < implicit[1] <= min(implicit[2:])  # explicit solutions first


def test_a_score_verifier_first_learns_from_evaluations_without_errors():
    """160 steps are 10 buckets of 16 steps; the stages without flaws end after 6.5 of them, so with the seventh."""
    broken = []
    for text, learned in read_rows("score-verifier", num_steps=160, batch_size=2):
        if "\nproof:\n" in text:
            broken.append(not read_evaluation(learned.removesuffix("</s>")).has_form)
    assert not any(broken[: int(0.6 * len(broken))])
    assert any(broken[int(0.75 * len(broken)) :])


def test_a_cap_on_the_difficulty_holds_in_every_stage():
    for text, _ in read_rows("verifier", num_steps=160, batch_size=2, max_difficulty=3):
        assert len(puzzle_of(text.partition("?\n")[0] + "?").calculated) <= 3


def read_rows(player, **changes):
    """Texts of training rows, and the part of each that is learned."""
    config = replace(BASE_MODELS[player], **changes)
    tokenizer = config.build_tokenizer()
    for row in _rows_in_order(config):
        learned = [label for label in row["labels"] if label != NOT_LEARNED]
        yield tokenizer.decode(row["input_ids"]), tokenizer.decode(learned)


@pytest.mark.parametrize(("player", "before"), [("prover", "solution:\n"), ("verifier", "have?\n")])
def test_solutions_and_their_end_are_learned(player, before):
    for text, learned in read_rows(player, num_steps=16, batch_size=2):
        assert learned == text.partition(before)[2]
        assert learned.endswith("</s>")
        assert "####" in learned


def test_a_verifier_reads_correct_and_incorrect_solutions():
    """The last stage has both, and no text says which is which."""
    correct = Counter()
    for text, solution in list(read_rows("verifier", num_steps=64, batch_size=16))[-256:]:
        problem = text.removesuffix(f"\n{solution}")
        correct[int(solution.removesuffix("</s>").rpartition("#### ")[2]) == puzzle_of(problem).answer] += 1
    assert 10 < correct[False] < 128 < correct[True]


@pytest.mark.parametrize("player", BASE_MODELS)
def test_batches_hold_rows_of_similar_length(player):
    config = replace(BASE_MODELS[player], num_steps=160, batch_size=4)
    lengths = [len(row["input_ids"]) for row in _rows_in_order(config)]
    assert len(lengths) == 160 * 4
    assert max(lengths) <= config.max_length
    batches = [lengths[start : start + 4] for start in range(0, len(lengths), 4)]
    padding = sum(max(batch) * 4 - sum(batch) for batch in batches) / sum(lengths)
    assert padding < 0.05


@pytest.mark.parametrize("player", SHIPPED)
def test_packaged_models_are_small_and_match_the_tokenizers_in_the_code(player):
    weights = SHIPPED[player] / "model.safetensors"
    assert weights.stat().st_size <= 6_000_000
    assert (SHIPPED[player] / "README.md").read_text().count("| ") > 4
    built = BASE_MODELS[player].build_tokenizer()
    assert AutoTokenizer.from_pretrained(SHIPPED[player]).get_vocab() == built.get_vocab()


def test_every_packaged_model_is_built_here():
    named = {folder for players in PACKAGED.values() for folder in players.values()}
    assert named == {config.name for config in (*BASE_MODELS.values(), *JUDGES.values())}


def test_the_verifier_is_the_smaller_player():
    sizes = {player: (folder / "model.safetensors").stat().st_size for player, folder in SHIPPED.items()}
    assert sizes["verifier"] < 0.7 * sizes["prover"]


@pytest.mark.nightly
@pytest.mark.parametrize("player", SHIPPED)
def test_the_cards_figures_are_the_models(player):
    """The card's command on the shipped weights gives the same figures, up to rounding to three digits."""
    model, _ = load_prover(SHIPPED[player])
    card = (SHIPPED[player] / "README.md").read_text()
    config = BASE_MODELS[player]
    for name, value in measure(config.texts, model, config.build_tokenizer()).items():
        assert f"| {name} | {value:.3f} |" in card


@pytest.mark.parametrize("player", ["prover", "verifier"])
def test_the_models_of_functions_know_every_word_of_their_world(player):
    tokenizer = AutoTokenizer.from_pretrained(resolve_model("functions", player))
    rng = derive_rng("functions", "words")
    for _ in range(300):
        drawn = sample_program_text(rng, ProgramCorpusConfig(max_difficulty=5))
        text = f"{drawn.specification.text}\n{drawn.program}"
        ids = tokenizer(text)["input_ids"]
        assert tokenizer.unk_token_id not in ids
        assert tokenizer.decode(ids) == text


@pytest.mark.parametrize("player", ["verifier", "small-verifier"])
def test_a_packaged_verifier_is_surprised_by_a_wrong_result(player):
    """
    The least likely token of a solution with a wrong result is less than a twentieth as likely as that of the right
    one.
    """
    model, tokenizer = load_prover(SHIPPED[player])
    problem = (
        "Ana has 5 pens.\nBen has 3 more than Ana.\nCleo has twice as many as Ben.\nHow many pens does Cleo have?"
    )
    lines = "Ana has 5\nBen has 3 more than Ana: 5 + 3 = 8\nCleo has twice as many as Ben: 8 * 2 = {}\n#### {}"
    right, wrong, contradicted = _lowest_logprobs(
        model, tokenizer, [(problem, lines.format(*results)) for results in ((16, 16), (17, 17), (16, 15))]
    ).tolist()
    assert right - max(wrong, contradicted) > log(20)
