"""The proofs task."""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from datasets import Dataset, Features, Value

from pvg_hf.analyses.form import ALLOWED_SCORES
from pvg_hf.core.seeding import derive_rng
from pvg_hf.tasks.arithmetic.flaw import Reading
from pvg_hf.tasks.arithmetic.task import ArithmeticTask
from pvg_hf.tasks.base import PROOF_SCORE, Grade, Problem, Split
from pvg_hf.tasks.proofs.flaw_detection import Issue, check_lines, check_solution, find_issues, grade_proof
from pvg_hf.tasks.proofs.language import NamedIssue, judge_issues, rate_analysis, write_analysis
from pvg_hf.tasks.proofs.stories import reference_solution, sample_story, story_mistake, story_of
from pvg_hf.tasks.proofs.writing import FLAW_KINDS, flawed_solution, sample_lines, sample_rates, write_proof

_FEATURES = {**dict.fromkeys(("problem_id", "problem", "proof"), Value("string")), "score": Value("float64")}

EXAMPLES = (
    {
        "problem": (
            "Ana has 18 pens. On Monday Ben gives Ana 6 pens. Ben has 4 pens. On Tuesday Ana keeps a third of the "
            "pens. On Wednesday Ana doubles the pens. How many pens does Ana have?"
        ),
        "solution": (
            "has 18\nMonday gets 6: 18 + 6 = 24\nTuesday thirds 3: 24 / 3 = 8\nWednesday doubles 2: 8 * 2 = 16\n"
            "#### 16"
        ),
        "wrong_solution": (
            "has 18\nMonday gets 6: 18 + 6 = 24\nTuesday thirds 3: 24 / 3 = 6\nWednesday doubles 2: 6 * 2 = 12\n"
            "#### 12"
        ),
    },
    {
        "problem": (
            "Gus has 16 coins. On Monday Gus loses 7 coins. On Tuesday Gus triples the coins. On Wednesday Gus "
            "buys 2 coins. On Thursday Gus sells 9 coins. How many coins does Gus have?"
        ),
        "solution": (
            "has 16\nMonday loses 7: 16 - 7 = 9\nTuesday triples 3: 9 * 3 = 27\nWednesday buys 2: 27 + 2 = 29\n"
            "Thursday sells 9: 29 - 9 = 20\n#### 20"
        ),
        "wrong_solution": (
            "has 16\nMonday loses 7: 16 - 7 = 9\nTuesday triples 3: 9 * 3 = 27\nWednesday buys 2: 27 - 2 = 25\n"
            "Thursday sells 9: 25 - 9 = 16\n#### 16"
        ),
    },
    {
        "problem": (
            "Lena has 20 shells. On Monday Lena keeps half of the shells. On Tuesday Lena finds 5 shells. Kofi "
            "buys 3 shells. On Wednesday Lena gives Kofi 8 shells. How many shells does Lena have?"
        ),
        "solution": (
            "has 20\nMonday halves 2: 20 / 2 = 10\nTuesday finds 5: 10 + 5 = 15\nWednesday gives 8: 15 - 8 = 7\n#### 7"
        ),
        "wrong_solution": "has 20\nMonday halves 2: 20 / 2 = 10\nWednesday gives 8: 10 - 8 = 2\n#### 2",
    },
)


class ProofsTask(ArithmeticTask):
    """
    Proofs about the arithmetic world's stories: each step claims a count with its calculation, the last line the
    answer.

    A proof scores 1 if every step is valid and nothing is missing, 0.5 with a minor omission (a step's calculation,
    the last line), and 0 with a fatal flaw. Only a proof of score 1 is correct. The problems and arguments are those
    of [`ArithmeticTask`].

    Example:

    ```python
    task = ProofsTask(num_train=1000)
    train = task.rated_proofs("train")          # problem, proof, score
    quality = task.rate_analyses(["..."], ["has 3\\n#### 3"], ["has 3 | has 3 | ok"])
    ```
    """

    name = "proofs"
    detail_columns: ClassVar = {
        **ArithmeticTask.detail_columns,
        PROOF_SCORE: Value("float64"),
        "num_issues": Value("int32"),
    }
    few_shot_examples: ClassVar = EXAMPLES

    def draw_text(self, rng: np.random.Generator, difficulty: int) -> tuple[str, str]:
        story, text = sample_story(rng, difficulty, self.distractor_rate)
        return text, reference_solution(story)

    def check_steps(self, problem: str, solution: str) -> Reading:
        return check_solution(story_of(problem), solution)

    def problem_mistake(self, problem: str) -> str | None:
        return story_mistake(problem, self.difficulties)

    def near_misses(self, problem: Problem, rng: np.random.Generator) -> dict[str, str]:
        story = story_of(problem["problem"])
        drawn = {kind.value: flawed_solution(rng, story, kind) for kind in FLAW_KINDS}
        return {kind: text for kind, text in drawn.items() if text is not None}

    def grade(self, problem: Problem, solution: str) -> Grade:
        grade = super().grade(problem, solution)
        issues = self.find_issues(problem["problem"], solution)
        score = grade_proof(issues)
        return Grade(
            answer=grade.answer,
            # A right final answer does not make a flawed or incomplete proof correct.
            correct=grade.correct and score == 1,
            detail={**grade.detail, PROOF_SCORE: score, "num_issues": len(issues)},
        )

    def find_issues(self, problem: str, proof: str) -> list[Issue]:
        """Find the true issues of a proof, in order; `problem` is the problem's text."""
        return find_issues(story_of(problem), proof)

    def judge_issues(self, problem: str, proof: str, analysis: str) -> list[tuple[NamedIssue, bool]]:
        """List the issues that an analysis names, each with whether the proof has it (`False`: hallucinated)."""
        return judge_issues(analysis, self.find_issues(problem, proof))

    def named_issues(self, problem: str, proof: str, analysis: str) -> list[tuple[str, bool]]:
        """List the same as [`judge_issues`], with each issue as its line in the analysis."""
        return [(named.line, is_real) for named, is_real in self.judge_issues(problem, proof, analysis)]

    def analysis_of(self, problem: Problem, proof: str, index: int) -> tuple[str, float]:
        """Write an analysis of a proof, possibly with hallucinated or missed issues, and return its quality."""
        # The path includes the proof, so that each analysis is the same in whatever order proofs are analysed.
        rng = derive_rng(self.seed, self.name, "analysis", problem["problem_id"], proof, index)
        lines = check_lines(story_of(problem["problem"]), proof)
        analysis = write_analysis(sample_lines(rng, lines, sample_rates(rng)))
        return analysis, rate_analysis(analysis, self.find_issues(problem["problem"], proof))

    def rate_analyses(self, problems: list[str], proofs: list[str], analyses: list[str]) -> list[float]:
        """
        Rate analyses, as an exact meta-verifier.

        The quality of an analysis is 1 if all issues that it names exist, or if it rightly names none; 0.5 if only
        some exist; 0 if none exists, or if it misses them all.
        """
        return [
            rate_analysis(analysis, self.find_issues(problem, proof))
            for problem, proof, analysis in zip(problems, proofs, analyses, strict=True)
        ]

    def rated_proofs(self, split: Split, *, proofs_per_problem: int = 1) -> Dataset:
        """
        Write proofs of each score, drawn uniformly, with their scores.

        Returns:
            [`~datasets.Dataset`]: `problem_id`, `problem`, `proof` and `score`.
        """
        rows = list(self._proof_rows(split, proofs_per_problem))
        return Dataset.from_list(rows, features=Features(_FEATURES))

    def rated_analyses(self, split: Split, *, analyses_per_problem: int = 1) -> Dataset:
        """
        Write training data for a meta-verifier: proofs with analyses, possibly with hallucinated or missed issues.

        Returns:
            [`~datasets.Dataset`]: `problem_id`, `problem`, `proof`, `analysis`, and `score`, which is the analysis's
            quality.
        """
        rows = []
        for index, row in enumerate(self._proof_rows(split, analyses_per_problem)):
            analysis, quality = self.analysis_of(row, row["proof"], index)
            rows.append({**row, "analysis": analysis, "score": quality})
        return Dataset.from_list(rows, features=Features({**_FEATURES, "analysis": Value("string")}))

    def _proof_rows(self, split: Split, proofs_per_problem: int) -> Iterator[dict[str, Any]]:
        if proofs_per_problem < 1:
            raise ValueError(f"A problem needs at least 1 proof; got {proofs_per_problem}.")
        for row in self.problems(split):
            for index in range(proofs_per_problem):
                rng = derive_rng(self.seed, self.name, split, "proof", row["problem_id"], index)
                score = float(rng.choice(ALLOWED_SCORES))
                proof = write_proof(rng, story_of(row["problem"]), score)
                yield {"problem_id": row["problem_id"], "problem": row["problem"], "proof": proof, "score": score}
