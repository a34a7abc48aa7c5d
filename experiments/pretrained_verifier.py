"""
Read the solutions of GSM8K by a pretrained language model, and judge the verifiers that can be fitted to what it reads
beside baselines that check nothing.

    python -m experiments.pretrained_verifier MODEL "$PVG_GSM8K_DIR" --output build/pretrained-verifier.json

MODEL is a causal language model: a folder, or an id on the Hub. It stays as it is, in bfloat16; heads are fitted to
its last hidden states on half of the problems (by seed), and judged on the other half. The folder holds
`model_solutions.jsonl`. States are kept in the output's folder, so that a stopped command resumes after them.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from experiments.command import run_experiment
from experiments.gsm8k_verifier import SOLUTIONS, measure, read_lines
from pvg_hf.run.console import ScriptParser

BATCH = 8  # solutions read at a time
STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1)  # inverse regularisation of the heads, chosen on folds of the learned problems
TOKEN_STEP = 4  # the head at every token learns from each fourth token, which are alike


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("model")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="of the halves (default: 0 1 2)")
    parser.add_argument("--num-solutions", type=int, help="read the first ones only, to try the command")
    parser.add_argument("--output", type=Path, required=True, help="a JSON file for the figures")
    arguments = parser.parse_args()
    return run_experiment(lambda: study(arguments))


def study(arguments) -> str:
    import pandas as pd

    from pvg_hf.core.figure import Figure
    from pvg_hf.core.files import write_json
    from pvg_hf.core.markdown import markdown_table
    from pvg_hf.evaluation.intervals import first_half
    from pvg_hf.experimental.sweep.seeds import mean_over_seeds, show_figure

    rows = pd.DataFrame(read_lines(arguments.folder / SOLUTIONS)).rename(columns={"is_correct": "correct"})
    rows = rows[: arguments.num_solutions]
    cache = arguments.output.with_name(f"{arguments.output.stem}-{Path(arguments.model).name}.npz")
    states, ends, likelihoods = read_states(arguments.model, rows, cache)
    found: dict[str, dict[str, list[Figure]]] = {}
    for seed in arguments.seeds:
        is_first = first_half(rows["problem_id"], seed=seed).to_numpy()
        scores = {
            "length: shorter is better": -rows["solution"].str.len().to_numpy(float),
            "writer: the second of the two models": rows.duplicated("problem_id").to_numpy(float),
            "bag of words": fit_words(rows, is_first),
            "likelihood, untrained": likelihoods,
            **fit_heads(rows, states, ends, is_first),
        }
        judged = rows[~is_first].reset_index(drop=True)
        for name, values in scores.items():
            scored = judged.assign(score=values[~is_first])
            for figure, value in (measure(scored, seed) | measure_choice(scored)).items():
                found.setdefault(name, {}).setdefault(figure, []).append(value)
    write_json(
        arguments.output,
        {
            "model": Path(arguments.model).name,
            "seeds": arguments.seeds,
            "figures": {
                name: {figure: [value.to_dict() for value in values] for figure, values in row.items()}
                for name, row in found.items()
            },
        },
    )
    names = list(next(iter(found.values())))
    table = [["score", *names]]
    for name, row in found.items():
        means = (mean_over_seeds([value.value for value in row[figure]]) for figure in names)
        table.append([name, *(show_figure(mean, with_n=False) for mean in means)])
    return markdown_table(table)


def read_states(model: str, rows, cache: Path):
    """
    Return the last hidden states of all solutions' tokens, the place after each solution's last one, and each
    solution's mean log-probability per token.
    """
    import numpy as np
    import torch
    from tqdm import tqdm
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if not cache.is_file():
        tokenizer = AutoTokenizer.from_pretrained(model, trust_remote_code=False)
        network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.bfloat16, trust_remote_code=False).eval()
        begins = [tokenizer(f"{text}\n")["input_ids"] for text in rows["question"]]
        texts = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in rows["solution"]]
        lengths = np.array([len(first) + len(last) for first, last in zip(begins, texts, strict=True)])
        order = np.argsort(lengths, kind="stable")
        states, likelihoods = [np.zeros(0)] * len(rows), np.zeros(len(rows))
        for start in tqdm(range(0, len(rows), BATCH), desc="solutions read", unit="batch"):
            batch = order[start : start + BATCH]
            ids = torch.zeros((len(batch), lengths[batch].max()), dtype=torch.long)
            mask = torch.zeros_like(ids)
            for place, row in enumerate(batch):
                ids[place, : lengths[row]] = torch.tensor(begins[row] + texts[row])
                mask[place, : lengths[row]] = 1
            with torch.no_grad():
                hidden = network.model(input_ids=ids, attention_mask=mask).last_hidden_state
                for place, row in enumerate(batch):
                    first, end = len(begins[row]), int(lengths[row])
                    logits = network.lm_head(hidden[place, first - 1 : end - 1]).float()
                    chosen = logits.log_softmax(-1).gather(1, ids[place, first:end, None])
                    likelihoods[row] = chosen.double().mean().item()
                    states[row] = hidden[place, first:end].to(torch.float16).numpy()
        ends = np.cumsum([len(one) for one in states])
        cache.parent.mkdir(parents=True, exist_ok=True)
        with cache.open("wb") as file:
            np.savez(file, states=np.concatenate(states), ends=ends, likelihoods=likelihoods)
    stored = np.load(cache)
    if len(stored["ends"]) != len(rows):
        raise ValueError(f"{cache} is of {len(stored['ends'])} solutions, and there are {len(rows)}; delete it.")
    return stored["states"], stored["ends"], stored["likelihoods"]


def fit_words(rows, is_first):
    """Score all solutions by a logistic regression on their words, fitted to the first half."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline

    learned = rows[is_first]
    regression = _regression([0.1, 1.0, 10.0], learned["problem_id"])
    fitted = make_pipeline(TfidfVectorizer(ngram_range=(1, 2), min_df=2), regression)
    fitted.fit(learned["solution"], learned["correct"])
    return fitted.decision_function(rows["solution"])


def fit_heads(rows, states, ends, is_first) -> dict:
    """
    Score all solutions by linear heads on the states of their tokens, fitted to the first half.

    One learns the outcome at the last token, one at every token (Cobbe et al. 2021). The second one's score is the
    last token's, the mean over tokens, or the lowest of eight parts of the solution.
    """
    import numpy as np
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    starts = np.concatenate([[0], ends[:-1]])
    owner = np.repeat(np.arange(len(rows)), ends - starts)
    correct, problems = rows["correct"].to_numpy(bool), rows["problem_id"].to_numpy()

    def fit(tokens):
        used = tokens[is_first[owner[tokens]]]
        fitted = make_pipeline(StandardScaler(), _regression(STRENGTHS, problems[owner[used]]))
        return fitted.fit(states[used].astype(np.float32), correct[owner[used]])

    at_end = fit(ends - 1).decision_function(states[ends - 1].astype(np.float32))
    at_all = fit(np.arange(0, len(owner), TOKEN_STEP)).decision_function(states.astype(np.float32))
    return {
        "head at the last token": at_end,
        "head at every token, last": at_all[ends - 1],
        "head at every token, mean": np.add.reduceat(at_all, starts) / (ends - starts),
        "head at every token, lowest part": np.array(
            [min(map(np.mean, _parts(at_all[first:end]))) for first, end in zip(starts, ends, strict=True)]
        ),
    }


def _parts(values) -> Iterator:
    import numpy as np

    return (part for part in np.array_split(values, 8) if len(part))


def _regression(strengths, problems):
    """Logistic regression whose strength is chosen on folds of whole problems."""
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.model_selection import GroupKFold

    folds = list(GroupKFold(3).split(problems, groups=problems))
    return LogisticRegressionCV(
        Cs=strengths, cv=folds, scoring="roc_auc", l1_ratios=(0,), use_legacy_attributes=False, max_iter=300
    )


def measure_choice(rows) -> dict:
    """
    Of problems with two solutions: how often the higher score is right, less a random solution, and the first.

    `pairs by writer` is the pair accuracy as if each of the two models had written the correct solution equally often,
    so that a score which only tells the models apart has .5.
    """
    from pvg_hf.core.figure import Figure
    from pvg_hf.evaluation.intervals import rate_by_problem, rate_difference

    counts = rows.groupby("problem_id")["correct"].transform("size")
    rows = rows[counts == 2]
    chosen = rows.loc[rows.groupby("problem_id", sort=False)["score"].idxmax()]
    first, random = rows.drop_duplicates("problem_id"), rows
    ids, right = chosen["problem_id"], chosen["correct"].astype(float)

    def gain(others) -> Figure:
        return rate_difference(right, ids, others["correct"].astype(float), others["problem_id"])

    scores = rows.pivot(index="problem_id", columns="model", values="score")
    outcomes = rows.pivot(index="problem_id", columns="model", values="correct").astype(bool)
    wins = [
        (((scores[one] > scores[other]) + 0.5 * (scores[one] == scores[other]))[outcomes[one] & ~outcomes[other]])
        for one, other in (outcomes.columns, outcomes.columns[::-1])
    ]
    by_writer = Figure(sum(won.mean() for won in wins) / 2, None, None, sum(map(len, wins)))

    return {
        "pairs by writer": by_writer,
        "choice of two": rate_by_problem(right, ids),
        "over random": gain(random),
        "over the first": gain(first),
    }


if __name__ == "__main__":
    sys.exit(main())
