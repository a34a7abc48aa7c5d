"""
Compare the rules that choose among a run's answers, on its test problems and on fresh ones:

    python benchmarks/answer_choice.py runs/quickstart --num-problems 150 --seed 7

For each problem, 16 solutions are written; a choice among n uses the first n. Probabilities come from the run's own
fit and are given only for the number of solutions that it was made for.
"""

import argparse
from pathlib import Path

import numpy as np
import torch

from pvg_hf.data.problems import load_recipe_task
from pvg_hf.evaluation.intervals import rate_by_problem
from pvg_hf.evaluation.selective import ANSWER_RULES, choose_answer
from pvg_hf.experimental.answering.answerer import Answerer
from pvg_hf.run.console import quiet_libraries
from pvg_hf.run.layout import RunFolder
from pvg_hf.tasks.arithmetic import ArithmeticTask


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a run of the task `arithmetic`")
    parser.add_argument("--num-problems", type=int, default=150, help="of either kind (%(default)s)")
    parser.add_argument("--num-samples", type=int, nargs="+", default=[1, 4, 16], help="(%(default)s)")
    parser.add_argument(
        "--seed", type=int, default=7, help="seed of the fresh problems and of the solutions (%(default)s)"
    )
    arguments = parser.parse_args()
    quiet_libraries()
    torch.set_num_threads(1)

    answerer = Answerer.from_run(arguments.run, device="cpu")
    recipe = RunFolder(arguments.run).read_recipe()
    fresh = ArithmeticTask(**{**recipe.task.options, "seed": arguments.seed, "num_test": arguments.num_problems})
    kinds = {"test": load_recipe_task(recipe), f"fresh, seed {arguments.seed}": fresh}
    print(
        f"Rules were fitted on {answerer.rules.num_problems} problems of `{answerer.rules.part}`: {answerer.rules}\n"
    )
    print(
        "| problems | n | "
        + " | ".join(ANSWER_RULES)
        + " | stated by the default rule |\n|---|---|"
        + "---|" * (len(ANSWER_RULES) + 1)
    )
    for kind, task in kinds.items():
        _compare(answerer, task, kind, arguments)


def _compare(answerer: Answerer, task: ArithmeticTask, kind: str, arguments: argparse.Namespace) -> None:
    problems = task.problems("test").select(range(arguments.num_problems)).to_list()
    written = [_write(answerer, task, problem, max(arguments.num_samples), arguments.seed) for problem in problems]
    ids = np.array([problem["problem_id"] for problem in problems])
    for number in arguments.num_samples:
        rules = answerer._rules_for(number)
        weigh = (rules or answerer.rules).weigh
        cells = []
        for rule in ANSWER_RULES:
            choices = [
                choose_answer(answers[:number], scores[:number], rule, weigh=weigh, same=task.answers_equal)
                for answers, scores, _ in written
            ]
            correct = np.array(
                [c is not None and right[c.index] for c, (_, _, right) in zip(choices, written, strict=True)]
            )
            cells.append(str(rate_by_problem(correct, ids)))
            if rules is not None and rule == rules.default:
                fit = rules.calibrations[rule]
                stated = f"{np.mean([fit.probability(c.confidence) for c in choices if c is not None]):.2f} ({rule})"
        print(
            f"| {kind} | {number} | " + " | ".join(cells) + f" | {'none' if rules is None else stated} |", flush=True
        )


def _write(
    answerer: Answerer, task: ArithmeticTask, problem: dict, number: int, seed: int
) -> tuple[list[str | None], list[float], list[bool]]:
    samples, scores = answerer._write(problem["problem"], number, seed)
    answers = [None if sample.is_truncated else task.read_answer(sample.text) for sample in samples]
    right = [
        answer is not None and task.grade(problem, sample.text).correct
        for sample, answer in zip(samples, answers, strict=True)
    ]
    return answers, scores, right


if __name__ == "__main__":
    main()
