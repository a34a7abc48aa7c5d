"""
Compare the GSM8K grader with the labels of real solutions; writes the table of docs/grading.md:

    python benchmarks/gsm8k_grading.py "$PVG_GSM8K_DIR"
"""

import argparse
import json
from pathlib import Path

from statsmodels.stats.proportion import proportion_confint

from pvg_hf.tasks.answers import grade_answer


def read_json_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def print_rate(name, flags):
    low, high = proportion_confint(sum(flags), len(flags), method="wilson")
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder with test.jsonl and model_solutions.jsonl")
    folder = parser.parse_args().folder
    test = read_json_lines(folder / "test.jsonl")
    rows = read_json_lines(folder / "model_solutions.jsonl")
    rows = [row | test[int(row["problem_id"].rsplit("-", 1)[1])] for row in rows]
    solutions = [row["solution"] for row in rows]
    unmarked = [text.rsplit("\nA:", 1)[0] for text in solutions]
    print_reading("strict", rows, solutions, "strict")
    print_reading("lenient", rows, solutions, "lenient")
    print_reading("strict, without the line `A: x`", rows, unmarked, "strict")
    print_reading("lenient, without the line `A: x`", rows, unmarked, "lenient")


if __name__ == "__main__":
    main()
