"""A verifier behind a server: vLLM's `/classify`, or `/predict` of text-embeddings-inference."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit, urlunsplit
from urllib.request import Request, urlopen

from pvg_hf.core.scored_texts import check_scores, check_texts
from pvg_hf.core.templates import compile_template

TEXTS_PER_REQUEST = 32  # the largest batch of text-embeddings-inference by default
TIMEOUT_SECONDS = 300
SHOWN = 300  # characters of a server's answer in a message

TEMPLATE = "{{ problem }}\n{{ solution }}"


class Endpoint:
    """
    Scores solutions by a server (docs/how-to/serve-a-verifier.md).

    Args:
        url: Address that ends with `/classify` (vLLM) or `/predict` (text-embeddings-inference).
        template: Jinja template over `problem` and `solution`, which writes the text that the verifier reads.
    Raises `ValueError` when called, if the server cannot be reached, refuses, or answers in another form or with a
    score that is not finite.
    """

    def __init__(self, url: str, template: str = TEMPLATE):
        self.url = url
        self._template = compile_template(template)
        self._is_vllm = urlsplit(url).path.endswith("/classify")
        self._model: str | None = None

    def __call__(self, problems: list[str], solutions: list[str]) -> list[float]:
        check_texts(problems, solutions)
        texts = [self._template.render(problem=p, solution=s) for p, s in zip(problems, solutions, strict=True)]
        parts = [texts[start : start + TEXTS_PER_REQUEST] for start in range(0, len(texts), TEXTS_PER_REQUEST)]
        scores = [score for part in parts for score in self._score(part)]
        check_scores(scores, solutions)
        return scores

    def _score(self, texts: list[str]) -> list[float]:
        if self._is_vllm:
            asked: dict[str, Any] = {"model": self._name_of_model(), "input": texts}
        else:
            asked = {"inputs": [[text] for text in texts], "raw_scores": True, "truncate": True}
        answer = self._ask(self.url, asked)
        try:
            if self._is_vllm:
                found = [row["probs"] for row in sorted(answer["data"], key=lambda row: row["index"])]
            else:
                found = [[label["score"] for label in row] for row in answer]
            scores = [float(values[0]) for values in found if len(values) == 1]
        except (KeyError, TypeError, ValueError) as err:
            raise self._unknown_form(self.url, answer) from err
        if len(scores) != len(texts):
            raise ValueError(
                f"`{self.url}` returns {len(scores)} single scores for {len(texts)} texts; a verifier has one output: "
                f"{json.dumps(answer)[:SHOWN]}"
            )
        return scores

    def _name_of_model(self) -> str:
        if self._model is None:
            parts = urlsplit(self.url)
            path = parts.path.removesuffix("/classify") + "/v1/models"
            url = urlunsplit(parts._replace(path=path))
            answer = self._ask(url)
            try:
                self._model = str(answer["data"][0]["id"])
            except (KeyError, TypeError, IndexError) as err:
                raise self._unknown_form(url, answer) from err
        return self._model

    @staticmethod
    def _unknown_form(url: str, answer: Any) -> ValueError:
        return ValueError(
            f"`{url}` answers in an unknown form: {json.dumps(answer)[:SHOWN]}. Name `/classify` of vLLM "
            "or `/predict` of text-embeddings-inference."
        )

    def _ask(self, url: str, body: Mapping[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        try:
            with urlopen(Request(url, data, {"Content-Type": "application/json"}), timeout=TIMEOUT_SECONDS) as answer:
                return json.loads(answer.read())
        except HTTPError as err:
            raise ValueError(
                f"`{url}` refuses ({err.code}): {err.read().decode(errors='replace')[:SHOWN]} The server must serve a "
                "classifier (docs/how-to/serve-a-verifier.md)."
            ) from err
        except (URLError, TimeoutError, ConnectionError, json.JSONDecodeError) as err:
            raise ValueError(
                f"`{url}` does not answer ({err}). Start the server first: `vllm serve VERIFIER --runner pooling "
                "--dtype float32` (docs/how-to/serve-a-verifier.md)."
            ) from err
