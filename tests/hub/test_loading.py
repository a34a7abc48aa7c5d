"""What is published loads with the libraries alone, as the cards say."""

import re
import shutil

import pytest
import yaml
from client import ClientError
from loopback_hub import OWNER
from peft import get_peft_model
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

from pvg_hf.config.sections import LoraConfig
from pvg_hf.game.folder import read_json
from pvg_hf.hub.cards.columns import PAIRS, SOLUTIONS
from pvg_hf.models.prover import lora_for_prover
from pvg_hf.models.sources import name_base, resolve_model
from pvg_hf.models.verifier import load_verifier, lora_for_verifier
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.scoring import VerifierScorer


@pytest.fixture
def cards(published):
    """The cards of round 1, by repository."""
    names = ("game-prover", "game-verifier", "game-solutions")
    return {name: published.repo(name).files("round-001")["README.md"].decode() for name in names}


def test_prover_card_loads_the_prover(cards, client, reference):
    weights = AutoModelForCausalLM.from_pretrained(reference.prover(1)).state_dict()
    total = sum(tensor.double().sum().item() for tensor in weights.values())
    probe = "sum(tensor.double().sum().item() for tensor in prover.state_dict().values())"
    assert client("run_card", cards["game-prover"], probe) == total


def test_verifier_card_gives_the_scorers_score(cards, client, reference):
    row = ("Box 7?", "#### 3")
    scorer = VerifierScorer.from_pretrained(reference.verifier(1))
    found = client("run_card", cards["game-verifier"], f"score(*{row!r})")
    assert found == pytest.approx(scorer([row[0]], [row[1]])[0], abs=1e-5)


def test_solutions_card_loads_solutions_and_pairs(cards, client, reference):
    sneaky, pairs = client("run_card", cards["game-solutions"], "(sneaky.to_list(), pairs.to_list())")
    assert {row["role"] for row in sneaky} == {"sneaky"}
    assert {row["round_index"] for row in sneaky} == {1}
    assert {row["part"] for row in sneaky} == {"verifier", "verifier_heldout", "test"}
    assert len(pairs) == read_json(reference.verifier(1) / "pairs.json")["pairs/num_pairs"]


@pytest.mark.parametrize(
    ("config", "split", "role", "round_index"),
    [
        ("base", "base", "base", -1),
        ("base", "sneaky", "sneaky", -1),
        ("round-000", "helpful", "helpful", 0),
        ("round-000", "best_helpful", "helpful", 0),
    ],
)
def test_every_config_and_split_loads(config, split, role, round_index, cards, client):
    rows = client("load_rows", f"{OWNER}/game-solutions", config, split)
    assert {(row["role"], row["round_index"]) for row in rows} == {(role, round_index)}


def test_pairs_that_the_verifier_was_judged_by_load_too(cards, client, reference):
    rows = client("load_rows", f"{OWNER}/game-solutions", "pairs-round-001", "heldout", revision="round-001")
    assert len(rows) == read_json(reference.verifier(1) / "pairs.json")["heldout_pairs/num_pairs"]


def test_cards_warn_and_describe(cards):
    for name, words in {
        "game-prover": ["trained to mislead", "Not meant for", "recipe.yaml"],
        "game-verifier": ["A score is no proof", "Not meant for", "calibration.json"],
        "game-solutions": ["written to mislead", "Not meant for"],
    }.items():
        assert [word for word in words if word not in cards[name]] == []
    for column in (*SOLUTIONS, *PAIRS):
        assert f"| `{column}` |" in cards["game-solutions"]


def test_card_has_a_row_for_each_round_with_n_and_interval(cards, reference):
    figures = read_json(reference.evaluation(1) / "metrics.json")["round/accuracy/helpful"]
    value, low, high, n = (figures[key] for key in ("value", "low", "high", "n"))
    assert f"| round 1 | {value:.3f} [{low:.3f}, {high:.3f}], n={n:,} |" in cards["game-prover"]
    assert "| round 0 |" in cards["game-prover"]
    assert "| base |" in cards["game-prover"]


def test_results_are_a_model_index(cards, client, reference):
    figures = read_json(reference.evaluation(1) / "metrics.json")
    results = dict(client("model_index", f"{OWNER}/game-verifier", "round-001"))
    assert results["soundness"] == pytest.approx(figures["round/soundness"]["value"], abs=1e-4)


def test_no_path_of_this_machine_is_in_a_card(cards, player):
    assert [name for name, card in cards.items() if str(player) in card] == []


@pytest.fixture
def adapters(reference, tmp_path, tokenizer):
    """The same run as if it had trained adapters on the built-in players, those of the prover for each role."""
    folder = tmp_path / "adapters"
    shutil.copytree(reference.root, folder)
    recipe = yaml.safe_load((folder / "recipe.yaml").read_text())
    for player in ("prover", "verifier"):
        recipe[player] |= {"model": "arithmetic", "lora": {"r": 2}}
        shutil.rmtree(folder / player / "round-000")
    recipe["prover"]["roles"] = "separate"
    recipe["name"] = "adapters"
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    for role in ("helpful", "sneaky"):
        prover = AutoModelForCausalLM.from_pretrained(resolve_model("arithmetic", "prover"))
        _save(
            get_peft_model(prover, lora_for_prover(LoraConfig(r=2))),
            tokenizer,
            folder / "prover/round-000" / role,
            "prover",
        )
    verifier = AutoModelForSequenceClassification.from_pretrained(
        resolve_model("arithmetic", "verifier"), num_labels=1
    )
    verifier.config.pad_token_id = tokenizer.pad_token_id
    place = folder / "verifier/round-000"
    _save(get_peft_model(verifier, lora_for_verifier(LoraConfig(r=2), verifier)), tokenizer, place, "verifier")
    VerifierInput("{{ problem }}\n{{ solution }}", "</s>", 64).save(place)
    return folder


def _save(model, tokenizer, folder, player) -> None:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    name_base(model, folder, player=player, run=folder.parents[2])


def test_adapters_load_on_the_base_that_is_published_beside(hub, client, adapters):
    client("push", str(adapters), 0)
    prover = hub.repo("adapters-prover").files("round-000")
    assert {"base/model.safetensors", "helpful/adapter_model.safetensors", "sneaky/tokenizer.json"} <= prover.keys()
    card = client("card_of", f"{OWNER}/adapters-prover", "round-000")
    assert client("run_card", card, "type(prover).__name__") == "PeftModelForCausalLM"
    assert client("run_card", card, "sorted(prover.peft_config)", helpful="sneaky") == ["default"]

    card = client("card_of", f"{OWNER}/adapters-verifier", "round-000")
    model, tokenizer = load_verifier(adapters / "verifier/round-000")
    row = ("Ana has 3 pens.", "#### 3")
    scorer = VerifierScorer(model, tokenizer, VerifierInput.load(adapters / "verifier/round-000"))
    assert client("run_card", card, f"score(*{row!r})") == pytest.approx(scorer([row[0]], [row[1]])[0], abs=1e-5)


def test_a_round_loads_at_its_own_revision_only(cards, client):
    with pytest.raises(ClientError, match="round-007"):
        client("load_rows", f"{OWNER}/game-solutions", "round-000", "sneaky", revision="round-007")


def test_examples_of_the_documentation_run(cards, client, repository, tmp_path):
    page = (repository / "docs" / "hub.md").read_text(encoding="utf-8")
    page = re.sub("ana/(arithmetic|quickstart)", f"{OWNER}/game", page)
    page = page.replace('pull_round("ana/game", 1)', f'pull_round("ana/game", 1, output_dir={str(tmp_path)!r})')
    assert client("run_card", page, "(len(sneaky) > 0, str(folder))") == (True, str(tmp_path / "game"))


def test_a_plan_reads_a_players_size_from_the_hub_and_no_weights(published, client, make_recipe, tmp_path):
    published.requests.clear()
    plan = client("plan", make_recipe(tmp_path, prover__model=f"{OWNER}/game-prover", prover__revision="round-001"))
    assert "unknown" not in plan
    asked = [request for request in published.requests if "resolve" in request]
    assert any("config.json" in request for request in asked)
    assert [request for request in asked if "safetensors" in request] == []


def test_a_player_that_the_hub_does_not_have_is_refused_before_anything_is_played(
    published, client, make_recipe, tmp_path
):
    (mistake,) = client("all_mistakes", make_recipe(tmp_path, prover__model=f"{OWNER}/nowhere"))
    assert [part for part in ("`prover.model`", f"`{OWNER}/nowhere`", "40") if part not in mistake] == []
    with pytest.raises(ClientError, match="nowhere"):
        client("play_recipe", make_recipe(tmp_path, prover__model=f"{OWNER}/nowhere"))
    assert not (tmp_path / "game").exists()


def test_solutions_to_import_must_be_on_the_hub(published, client, make_recipe, tmp_path):
    (mistake,) = client("all_mistakes", make_recipe(tmp_path, bootstrap__import_from=f"{OWNER}/nothing"))
    assert [part for part in ("`bootstrap.import_from`", f"`{OWNER}/nothing`", "40") if part not in mistake] == []
    assert client("all_mistakes", make_recipe(tmp_path, bootstrap__import_from=f"{OWNER}/game-solutions")) == []


def test_a_player_in_the_cache_needs_no_hub(published, hub, client, make_recipe, tmp_path):
    recipe = make_recipe(tmp_path, prover__model=f"{OWNER}/game-prover", prover__revision="round-001")
    assert client("all_mistakes", recipe) == []
    client("fetch", f"{OWNER}/game-prover", "round-001")
    hub.reset()
    assert client("all_mistakes", recipe) == []
