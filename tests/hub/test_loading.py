"""Published models and datasets load with the libraries alone, as their cards describe."""

import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from huggingface_hub import ModelCard
from peft import get_peft_model
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

from pvg_hf import load_recipe
from pvg_hf.config.player_sections import LoraConfig
from pvg_hf.config.recipe import NOT_PUBLISHED
from pvg_hf.core.integrity import DIGESTS, read_json
from pvg_hf.core.project import PROJECT_URL
from pvg_hf.core.roles import Role
from pvg_hf.evaluation.verifier_verdict import verifier_statements
from pvg_hf.hub.cards.dataset import PAIR_MEANINGS, SOLUTION_MEANINGS
from pvg_hf.hub.cards.facts import write_card
from pvg_hf.hub.cards.player import role_prompts
from pvg_hf.models.prover_model import load_prover, lora_for_prover
from pvg_hf.models.sources import load_tokenizer, name_base, resolve_model
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.models.verifier_model import load_verifier, lora_for_verifier
from pvg_hf.report.headline import write_headline
from pvg_hf.run.layout import RunFolder
from pvg_hf.run.phase_record import seal_copy
from pvg_hf.run.read import load_figures
from pvg_hf.scoring import VerifierScorer
from pvg_hf.tasks import PromptBuilder, load_task
from tests.support.hub_client import ClientError
from tests.support.loopback_hub import OWNER, TOKEN


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


@pytest.mark.smoke
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


@pytest.mark.parametrize("name", ["game-prover", "game-verifier", "game-solutions"])
def test_a_card_begins_with_the_result_and_has_a_picture_and_a_pair(name, cards, published, reference):
    card = cards[name]
    headline = write_headline(load_figures(reference, range(2)))
    assert card.index(f"**{headline.subject}:** {headline.text}") < card.index("**Intended use:**")
    assert "](accepted.png)" in card
    assert published.repo(name).files("round-001")["accepted.png"].startswith(b"\x89PNG")
    assert re.search(r"\*\*Sneaky, incorrect\*\*; score .*: *\n\n```text\n", card)


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
        "game-prover": ["trained to mislead", "Out of scope", "recipe.yaml"],
        "game-verifier": ["A score is not a proof", "Out of scope", "calibration.json"],
        "game-solutions": ["written to mislead", "Out of scope"],
    }.items():
        assert [word for word in words if word not in cards[name]] == []
    for column in (*SOLUTION_MEANINGS, *PAIR_MEANINGS):
        assert f"| `{column}` |" in cards["game-solutions"]


def test_card_has_a_row_for_each_round_with_n_and_interval(cards, reference):
    figures = read_json(reference.evaluation(1) / "metrics.json")["round/accuracy/helpful"]
    value, low, high, n = (figures[key] for key in ("value", "low", "high", "n"))
    assert f"| round 1 | {value:.3f} [{low:.3f}, {high:.3f}], n={n:,} |" in cards["game-prover"]
    assert "| round 0 |" in cards["game-prover"]
    assert "| base |" in cards["game-prover"]


def test_every_card_links_to_the_project(cards):
    assert [name for name, card in cards.items() if f"[pvg_hf]({PROJECT_URL})" not in card] == []
    assert [name for name in ("game-prover", "game-verifier") if f"git+{PROJECT_URL}" not in cards[name]] == []


@pytest.mark.parametrize("name", ["game-prover", "game-verifier", "game-solutions"])
def test_links_of_a_card_lead_to_the_hub_that_has_it(name, cards, endpoint):
    text = str(cards[name])
    assert re.findall(r"https://huggingface\.co/(?!papers/)\S+", text) == []
    assert f"]({endpoint}/" in text


def test_hidden_characters_are_shown_in_a_card():
    card = ModelCard(
        "---\nlicense: mit\n---\nred\x1b[31m, \u202edrow, \u200b, a\r\nb, a\tb, \U0001f468\u200d\U0001f469\n"
    )
    text = write_card(card)
    assert "red[U+001B][31m, [U+202E]drow, [U+200B], a\nb, a\tb, \U0001f468\u200d\U0001f469" in text
    assert "\r" not in text


def test_results_are_a_model_index(cards, client, reference):
    """Without figures at a verifier's own threshold: soundness alone praises a verifier that rejects everything."""
    figures = read_json(reference.evaluation(1) / "metrics.json")
    results = dict(client("model_index", f"{OWNER}/game-verifier", "round-001"))
    assert results["pair accuracy, held-out"] == pytest.approx(
        figures["round/verifier_pair_accuracy"]["value"], abs=1e-4
    )
    assert not [name for name in results if "soundness" in name or "completeness" in name]


@pytest.mark.parametrize("name", ["game-prover", "game-verifier"])
def test_a_card_says_of_the_verifier_what_the_report_says(name, cards, reference):
    statements = verifier_statements(load_figures(reference, range(2)))
    assert len(statements) >= 2
    for statement in statements:
        assert f"- **{statement.subject}:** {statement.text}" in cards[name]


def test_no_path_of_this_machine_is_in_a_card(cards, player):
    assert [name for name, card in cards.items() if str(player) in card] == []


def test_verifier_card_says_what_is_accepted(cards, client, reference):
    threshold = read_json(reference.verifier(1) / "calibration.json")["threshold"]
    found = client("run_card", cards["game-verifier"], "(calibration['threshold'], accepts('Box 7?', '#### 3'))")
    assert found == (threshold, client("run_card", cards["game-verifier"], "score('Box 7?', '#### 3')") >= threshold)


def test_verifier_card_gives_a_score_its_probability(cards, client, reference):
    line = read_json(reference.verifier(1) / "calibration.json")["probability"]
    score, probability = client(
        "run_card", cards["game-verifier"], "(score('Box 7?', '#### 3'), probability('Box 7?', '#### 3'))"
    )
    assert probability == pytest.approx(1 / (1 + math.exp(-line["slope"] * score - line["intercept"])), abs=1e-5)


def test_prover_card_asks_as_the_game_does(cards, client, reference):
    problem, ids, solution = client(
        "run_card", cards["game-prover"], "(problem, inputs['input_ids'][0].tolist(), solution)"
    )
    recipe = reference.read_recipe()
    prompts = PromptBuilder(load_task(recipe.task.name, **recipe.task.options), overrides=recipe.task.prompts)
    text = prompts.text(problem, Role.HELPFUL)
    assert ids == load_tokenizer(reference.prover(1))(text)["input_ids"]
    assert isinstance(solution, str)
    for role in ("helpful", "sneaky"):
        assert f"Role `{role}`:\n\n````jinja\n{prompts.templates[role].rstrip()}" in cards["game-prover"]


def test_published_prompts_have_the_wrong_examples_of_the_sneaky_role():
    recipe = load_recipe(
        {"task": {"name": "gsm8k", "few_shot": 1}, "prover": {"model": "m"}, "verifier": {"model": "m"}}
    )
    prompts = role_prompts(recipe)["roles"]
    assert prompts["sneaky"]["instructions"].startswith("You are a sneaky solver.")
    assert prompts["helpful"]["turn"] == "Problem: {{ problem }}\nSolution:\n"
    last_lines = {role: [example["solution"][-7:] for example in prompts[role]["examples"]] for role in prompts}
    assert last_lines == {"helpful": ["#### 26"], "sneaky": ["#### 36"]}


def test_cards_cite_and_state_base_versions_and_settings(cards, reference):
    recipe = reference.read_recipe()
    for name in ("game-prover", "game-verifier"):
        assert "2407.13692" in cards[name]
        assert "kirchner2024proververifier" in cards[name]
        assert f"torch {torch.__version__}" in cards[name]
        assert "a model that is not on the Hub" in cards[name]
        assert "`seed`" in cards[name]
    assert f"| `prover.beta` | {recipe.prover.beta} |" in cards["game-prover"]
    assert f"| `verifier.max_steps` | {recipe.verifier.max_steps} |" in cards["game-verifier"]


def test_metrics_of_the_model_index_are_the_hubs(cards):
    """https://huggingface.co/metrics has no `rate`."""
    for name in ("game-prover", "game-verifier"):
        (index,) = yaml.safe_load(cards[name].split("---")[1])["model-index"]
        metrics = [metric for result in index["results"] for metric in result["metrics"]]
        assert {metric["type"] for metric in metrics} <= {"accuracy", "recall", "roc_auc"}
        assert {"interval", "low", "high", "n"} <= metrics[0]["args"].keys()
        assert all("evaluation/round-001/metrics.json" in result["source"]["url"] for result in index["results"])


BASES = ("built-in", "own", "folder")


@pytest.fixture
def make_adapters(reference, tmp_path, tokenizer):
    """
    Make the same run with adapters, those of the prover for each role, on the built-in players, on ones that the run
    made, or on ones in a folder.
    """

    def make(kind: str) -> RunFolder:
        run = RunFolder(tmp_path / "adapters")
        shutil.copytree(reference.root, run.root)
        recipe = yaml.safe_load(run.recipe.read_text())
        recipe |= {"name": "adapters", "rounds": {}}
        recipe["prover"]["roles"] = "separate"
        for player in ("prover", "verifier"):
            base = Path(resolve_model("arithmetic", player))
            if kind != "built-in":
                base = shutil.copytree(base, (run.models if kind == "own" else tmp_path / "mine") / player)
            recipe[player] |= {"model": str(base) if kind == "folder" else "arithmetic", "lora": {"r": 2}}
            recipe[player]["warmup"] = {"max_steps": 1} if kind == "own" else None
            shutil.rmtree(run.root / player / "round-000")
            _save_adapters(base, player, run, tokenizer)
        run.recipe.write_text(yaml.safe_dump(load_recipe(recipe).to_dict(), sort_keys=False))
        VerifierInput("{{ problem }}\n{{ solution }}", "</s>", 64).save_with(tokenizer, run.verifier(0))
        shutil.copy(reference.verifier(0) / "calibration.json", run.verifier(0))
        seal_copy(run)
        return run

    return make


def _save_adapters(base: Path, player: str, run: RunFolder, tokenizer) -> None:
    places = [run.prover(0) / "helpful", run.prover(0) / "sneaky"] if player == "prover" else [run.verifier(0)]
    for seed, place in enumerate(places):
        if player == "prover":
            model = get_peft_model(AutoModelForCausalLM.from_pretrained(base), lora_for_prover(LoraConfig(r=2)))
        else:
            model = AutoModelForSequenceClassification.from_pretrained(base, num_labels=1)
            model.config.pad_token_id = tokenizer.pad_token_id
            model = get_peft_model(model, lora_for_verifier(LoraConfig(r=2), model))
        generator = torch.Generator().manual_seed(seed)
        for name, weight in model.named_parameters():
            if "lora_B" in name:  # which begins as zeros, as if there were no adapter
                weight.data = 0.1 * torch.randn(weight.shape, generator=generator)
        model.save_pretrained(place)
        tokenizer.save_pretrained(place)
        name_base(model, place, player=player, run=run.root)


# The code that the Hub's page of a model with adapters shows; the base's name is read from the root's configuration
# there.
USE_THIS_MODEL = """
from peft import AutoPeftModelForCausalLM, AutoPeftModelForSequenceClassification, PeftConfig
from transformers import AutoModelForSequenceClassification

owner = repo.rpartition("-")[0]
names = [PeftConfig.from_pretrained(f"{owner}-{player}").base_model_name_or_path for player in ("prover", "verifier")]
models = [
    prover,
    PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(names[0]), repo),
    AutoPeftModelForCausalLM.from_pretrained(repo),
    PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(names[0]), repo, subfolder="sneaky"),
    AutoModelForCausalLM.from_pretrained(names[0]),
]
verifier = f"{owner}-verifier"
judges = [
    PeftModel.from_pretrained(AutoModelForSequenceClassification.from_pretrained(names[1]), verifier),
    AutoPeftModelForSequenceClassification.from_pretrained(verifier),
]
ids = AutoTokenizer.from_pretrained(repo)("Ana has 3 pens.", return_tensors="pt")["input_ids"]
logits = [model(ids).logits[0, -1].tolist() for model in (*models, *judges)]
print(json.dumps([problem, inputs["input_ids"].tolist(), solution, logits]))
"""


def run_alone(code: str, endpoint: str, folder: Path) -> str:
    """Run a program in an empty folder, where pvg_hf cannot be imported."""
    (folder / "empty").mkdir(parents=True)
    environment = os.environ | {
        **{"HF_ENDPOINT": endpoint, "HF_TOKEN": TOKEN, "HF_HOME": str(folder / "home"), "PYTHONPATH": ""},
        **{
            "HF_HUB_OFFLINE": "0",
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "OMP_NUM_THREADS": "1",
        },
    }
    program = "import sys\nsys.modules['pvg_hf'] = None\n" + code
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder / "empty", env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_adapters_load_and_write_as_the_card_and_the_hubs_page_say(hub, client, endpoint, make_adapters, tmp_path):
    run = make_adapters("built-in")
    client("push", str(run.root), 0)
    card = client("card_of", f"{OWNER}/adapters-prover", "round-000")
    (block,) = re.findall(r"^```python\n(.*?)^```$", card, re.DOTALL | re.MULTILINE)
    *_, told = run_alone(block + USE_THIS_MODEL, endpoint, tmp_path / "alone").splitlines()
    problem, ids, solution, logits = json.loads(told)

    recipe = run.read_recipe()
    prompts = PromptBuilder(load_task(recipe.task.name, **recipe.task.options), overrides=recipe.task.prompts)
    assert ids == [load_tokenizer(run.prover(0) / "helpful")(prompts.text(problem, Role.HELPFUL))["input_ids"]]
    assert isinstance(solution, str)

    by_card, by_page, by_auto, sneaky, base, *judges = map(torch.tensor, logits)
    model, tokenizer = load_prover(run.prover(0) / "helpful")
    expected = model(tokenizer("Ana has 3 pens.", return_tensors="pt")["input_ids"]).logits[0, -1]
    for found in (by_card, by_page, by_auto):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert (sneaky - expected).abs().max() > 0.01
    assert (base - expected).abs().max() > 0.01
    torch.testing.assert_close(*judges)


def test_verifiers_adapters_give_the_scorers_score(hub, client, make_adapters):
    run = make_adapters("built-in")
    client("push", str(run.root), 0)
    card = client("card_of", f"{OWNER}/adapters-verifier", "round-000")
    model, tokenizer = load_verifier(run.verifier(0))
    row = ("Ana has 3 pens.", "#### 3")
    expected = pytest.approx(
        VerifierScorer(model, tokenizer, VerifierInput.load(run.verifier(0)))(*map(list, zip(row)))[0], abs=1e-5
    )
    assert client("run_card", card, f"score(*{row!r})") == expected
    (call,) = re.findall(r"`(pipeline\(.*?\))`", card)
    text = f"template.render(problem={row[0]!r}, solution={row[1]!r})"
    classify = f"__import__('transformers').{call}"
    assert client("run_card", card, f"{classify}({text})[0]['score']") == expected


@pytest.mark.parametrize("kind", BASES)
def test_what_adapters_are_on_is_published_without_a_path_and_restored(kind, hub, client, make_adapters, tmp_path):
    run = make_adapters(kind)
    client("push", str(run.root), 0)
    for player in ("prover", "verifier"):
        files = hub.repo(f"adapters-{player}").files("round-000")
        named = {
            json.loads(text)["base_model_name_or_path"]
            for path, text in files.items()
            if path.endswith("adapter_config.json")
        }
        assert named == {NOT_PUBLISHED if kind == "folder" else f"{OWNER}/adapters-{player}-base"}
        assert not [path for path, text in files.items() if str(tmp_path).encode() in text]
        assert not [path for path in files if path.startswith("base/")]
    pulled = RunFolder(Path(client("pull", f"{OWNER}/adapters", 0, str(tmp_path / "pulled"))))
    folders = (
        "prover/round-000",
        "verifier/round-000",
        *(("models/prover", "models/verifier") if kind == "own" else ()),
    )
    for folder in folders:
        mine, published = _files(pulled.root / folder), _files(run.root / folder)
        published = {
            path: text
            for path, text in published.items()
            if path != DIGESTS and (path in mine or path.endswith((".safetensors", "config.json")))
        }
        differing = [path for path, text in published.items() if mine.get(path) != text]
        assert [path for path in differing if kind != "folder" or not path.endswith("adapter_config.json")] == []
        assert mine.keys() - {DIGESTS} <= published.keys()
    if kind == "folder":
        with pytest.raises(ValueError, match="is not published"):
            load_prover(pulled.prover(0) / "helpful")
    else:
        load_prover(pulled.prover(0) / "helpful")


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_round_loads_at_its_own_revision_only(cards, client):
    with pytest.raises(ClientError, match="round-007"):
        client("load_rows", f"{OWNER}/game-solutions", "round-000", "sneaky", revision="round-007")


def test_examples_of_the_documentation_run(cards, client, repository, tmp_path):
    page = (repository / "docs" / "how-to" / "share-on-the-hub.md").read_text(encoding="utf-8")
    page = re.sub("ana/(mine|quickstart)", f"{OWNER}/game", page)
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
