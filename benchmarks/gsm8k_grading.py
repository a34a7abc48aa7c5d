"""
Compare the GSM8K grader with the labels of real solutions, or its readings with those stored in a pool; writes the
tables of experiments/grader.md:

    python benchmarks/gsm8k_grading.py "$PVG_GSM8K_DIR"
    python benchmarks/gsm8k_grading.py --pool base.parquet --show 200
"""

import argparse
import json
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from pvg_hf.tasks.answers import ANSWER_FORMATS, answers_equal, grade_answer


def read_json_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def print_rate(name, flags):
    low, high = binomtest(sum(flags), len(flags)).proportion_ci(method="wilson")
    print(f"| {name} | {sum(flags)} | {len(flags)} | {sum(flags) / len(flags):.4f} | {low:.4f} - {high:.4f} |")


def print_reading(name, rows, solutions, answer_format):
    grades = [grade_answer(text, row["answer"], answer_format) for text, row in zip(solutions, rows)]
    print(f"\n### {name}\n\n| solutions | count | n | rate | 95 % interval (Wilson) |\n|---|---|---|---|---|")
    print_rate("with an answer", [grade.answer is not None for grade in grades])
    print_rate("graded correct", [grade.correct for grade in grades])
    print_rate("labelled correct", [row["is_correct"] for row in rows])
    print_rate("graded as labelled", [grade.correct == row["is_correct"] for grade, row in zip(grades, rows)])
    disagreements = [index for index, row in enumerate(rows) if grades[index].correct != row["is_correct"]]
    print(f"\nGraded against the label: {len(disagreements)}.")
    for index in disagreements[:10]:
        print(
            f"- row {index}: {solutions[index][-60:]!r}, {grades[index].answer} against {rows[index]['answer'][-9:]!r}"
        )


def print_pool(path, num_shown):
    pool = pd.read_parquet(path)
    pool = pool[~pool["is_truncated"]].astype(object).reset_index(drop=True)
    pool = pool.where(pool.notna(), None)
    grades = [grade_answer(*pair) for pair in zip(pool["solution"], pool["reference"])]
    is_changed = np.zeros(len(pool), bool)
    for name in ANSWER_FORMATS:
        before, after = pool[f"{name}_answer"], [grade.detail[f"{name}_answer"] for grade in grades]
        pairs = list(zip(before, after))
        print(f"\n### {name}\n\n| solutions | count | n | rate | 95 % interval (Wilson) |\n|---|---|---|---|---|")
        print_rate("with an answer, stored", [old is not None for old, _ in pairs])
        print_rate("with an answer, now", [new is not None for _, new in pairs])
        print_rate("without an answer, now with one", [new is not None for old, new in pairs if old is None])
        print_rate("with an answer, now without", [new is None for old, new in pairs if old is not None])
        others = [new is not None and not answers_equal(old, new) for old, new in pairs if old is not None]
        print_rate("with an answer, now another", others)
        print_rate("correct, stored", pool[f"{name}_correct"])
        print_rate("correct, now", [grade.detail[f"{name}_correct"] for grade in grades])
        is_changed |= [old != new and not answers_equal(old, new) for old, new in pairs]
    for title, chosen in (("changed", is_changed), ("without a strict answer, stored", pool["strict_answer"].isna())):
        places = np.flatnonzero(chosen)
        drawn = np.random.default_rng(0).choice(places, min(num_shown, len(places)), replace=False)
        for place in sorted(drawn):
            detail = {
                name: (pool[name][place], grades[place].detail[name]) for name in ("strict_answer", "lenient_answer")
            }
            print(f"\n### {title}: row {place}, {detail}\n\n{pool['problem'][place]}\n\n{pool['solution'][place]}")


def print_solutions(folder):
    test = read_json_lines(folder / "test.jsonl")
    rows = read_json_lines(folder / "model_solutions.jsonl")
    rows = [row | test[int(row["problem_id"].rsplit("-", 1)[1])] for row in rows]
    solutions = [row["solution"] for row in rows]
    unmarked = [text.rsplit("\nA:", 1)[0] for text in solutions]
    print_reading("strict", rows, solutions, "strict")
    print_reading("lenient", rows, solutions, "lenient")
    print_reading("strict, without the line `A: x`", rows, unmarked, "strict")
    print_reading("lenient, without the line `A: x`", rows, unmarked, "lenient")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="folder with test.jsonl and model_solutions.jsonl")
    parser.add_argument("--pool", type=Path, help="Parquet file of a GSM8K pool; truncated solutions are left out")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print N texts of each kind, to be read")
    arguments = parser.parse_args()
    if arguments.pool is not None:
        print_pool(arguments.pool, arguments.show)
    if arguments.folder is not None:
        print_solutions(arguments.folder)


if __name__ == "__main__":
    main()
