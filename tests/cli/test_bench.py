"""`pvg bench` on verifiers of games, reward models, language models, endpoints and baselines."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import yaml
from transformers import LlamaConfig, LlamaForSequenceClassification

from pvg_hf.cli.main import main
from pvg_hf.models import resolve_model
from pvg_hf.models.sources import load_tokenizer

FEW = ["--num-problems", "8"]


def bench(capsys, *words):
    assert main(["bench", *map(str, words), *FEW, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("verifier", "scored_by"),
    [
        ("arithmetic-judge-small", "a head"),
        ("length", "a baseline"),
        (resolve_model("arithmetic", "prover"), "the likelihood under a language model"),
    ],
    ids=["packaged", "baseline", "language-model"],
)
def test_a_verifier_is_measured(verifier, scored_by, capsys):
    told = bench(capsys, verifier)
    assert told["scored_by"] == scored_by
    assert told["num_problems"] == 8
    kinds = told["accepted"]
    assert {"trained_head", "trained_likelihood", "base", "near_miss", "padded"} <= set(kinds)
    mean = sum(figure["value"] for figure in kinds.values()) / len(kinds)
    assert told["mistakes_accepted"]["value"] == pytest.approx(mean)
    assert told["worst"]["accepted"]["value"] == max(figure["value"] for figure in kinds.values())


def test_the_last_line_is_the_figure_and_a_card_has_it(capsys):
    assert main(["bench", "length", *FEW]) == 0
    last = capsys.readouterr().out.strip().splitlines()[-1]
    assert main(["bench", "length", *FEW, "--card"]) == 0
    card = yaml.safe_load(capsys.readouterr().out.strip().strip("-"))
    (result,) = card["model-index"][0]["results"]
    assert "first" in result["dataset"]["name"]
    metrics = {one["type"]: one["value"] for one in result["metrics"]}
    interval = next(one["args"] for one in result["metrics"] if one["type"] == "mistakes_accepted")
    assert interval["low"] < metrics["mistakes_accepted"] < interval["high"]
    assert last.startswith(f"mistakes accepted, mean over 7 kinds: {metrics['mistakes_accepted']:.2f} [")


@pytest.mark.parametrize("has_template", [True, False])
def test_a_reward_model_reads_its_chat_template(tmp_path, has_template, capsys):
    tokenizer = load_tokenizer(resolve_model("arithmetic", "verifier"))
    if has_template:
        tokenizer.chat_template = "{% for message in messages %}{{ message.content }}\n{% endfor %}"
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_labels=1, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    LlamaForSequenceClassification(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert bench(capsys, tmp_path)["scored_by"] == "a reward model"
    config.num_labels = 3
    LlamaForSequenceClassification(config).save_pretrained(tmp_path)
    assert main(["bench", str(tmp_path)]) == 2
    assert "3 logits" in capsys.readouterr().err


class Server(BaseHTTPRequestHandler):
    """Answers as vLLM and text-embeddings-inference do; the score is minus the length of the text."""

    def do_GET(self):
        self.answer({"data": [{"id": "exported"}]})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/classify":
            assert asked["model"] == "exported"
            texts = asked["input"]
            rows = [{"index": k, "label": "LABEL_0", "probs": [-len(text)]} for k, text in enumerate(texts)]
            self.answer({"data": rows[::-1]})
        elif self.path == "/predict":
            assert asked["raw_scores"]
            self.answer([[{"label": "LABEL_0", "score": -len(text)}] for (text,) in asked["inputs"]])
        else:
            self.answer([[{"label": "A", "score": 0}, {"label": "B", "score": 1}] for _ in asked["inputs"]])

    def answer(self, body):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def address():
    server = HTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def test_both_servers_are_asked_in_their_own_form(address, capsys):
    told = [bench(capsys, f"{address}/{path}") for path in ("classify", "predict")]
    assert told[0]["accepted"] == told[1]["accepted"]
    assert told[0]["scored_by"] == "a server"


def test_a_server_with_several_outputs_is_an_error(address, capsys):
    assert main(["bench", f"{address}/other/predict", *FEW]) == 2
    assert "a verifier has one output" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("verifier", "message"),
    [
        ("http://127.0.0.1:9/classify", "vllm serve"),
        ("http://127.0.0.1:9/score", "/classify"),
        ("no-such-verifier", "pvg train verifier"),
    ],
)
def test_an_error_names_the_next_command(verifier, message, capsys):
    assert main(["bench", verifier, *FEW]) == 2
    assert message in capsys.readouterr().err
