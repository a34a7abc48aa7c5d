"""
Audit a task's grader: rewrite solutions in ways whose effect on the verdict is known, and count wrong verdicts.

    python experiments/commands/audit_grader.py arithmetic num_test=200
    python experiments/commands/audit_grader.py gsm8k path="$PVG_GSM8K_DIR" answer_format=lenient
    python experiments/commands/audit_grader.py my_task:MyTask --split train --problems 100

It prints two Markdown tables: the verdicts by family of transforms, and the transforms whose verdict was not always the certified
one. docs/grading.md explains them.
"""

import argparse
import sys

import yaml


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", help="a registered task, or a custom class as package.module:Name")
    parser.add_argument("options", nargs="*", metavar="option=value", help="arguments of the task's class")
    parser.add_argument("--split", choices=["train", "test"], default="test", help="default: %(default)s")
    parser.add_argument("--problems", type=int, metavar="N", help="audit only the first N problems")
    parser.add_argument("--seed", type=int, default=0, help="seed of the large answers (default: %(default)s)")
    arguments = parser.parse_intermixed_args()
    if arguments.problems is not None and arguments.problems < 1:
        parser.error(f"--problems is {arguments.problems}; it must be at least 1.")
    if wrong := [option for option in arguments.options if "=" not in option]:
        parser.error(f"{wrong[0]!r} is not of the form option=value.")

    # Imported late: loading pandas and `datasets` takes seconds, and `--help` does not need them.
    from experiments.audit import audit_grader
    from experiments.grader_audit import family_table, finding_table, tabulate_trials
    from pvg_hf.tasks import load_task

    try:
        options = {
            name: yaml.safe_load(value) for name, _, value in (option.partition("=") for option in arguments.options)
        }
        task = load_task(arguments.task, **options)
        trials = audit_grader(task, split=arguments.split, num_problems=arguments.problems, seed=arguments.seed)
        table = tabulate_trials(trials)
    except (ValueError, OSError, yaml.YAMLError) as err:
        print(f"error: {err}", file=sys.stderr)
        return 2
    print(family_table(table))
    print(f"\n{finding_table(table) or 'Every verdict is the certified one.'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
