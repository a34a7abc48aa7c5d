"""Solutions of the arithmetic world: a line per step that says what it uses, then the final answer."""

from dataclasses import dataclass

from pvg_hf.tasks.arithmetic.grammar import Event, Story


@dataclass(frozen=True)
class Step:
    """
    One line of a solution, `Monday finds 5: 12 + 5 = 17`, as it was written (not as it should be).

    Args:
        day (`str`), verb (`str`), amount (`int`):
            The event that the step says it uses.
        left (`int`), operator (`str`), right (`int`), result (`int`):
            The equation.
    """

    day: str
    verb: str
    amount: int
    left: int
    operator: str
    right: int
    result: int

    @classmethod
    def of(cls, event: Event, value: int) -> "Step":
        """The valid step for `event` when the count is `value`."""
        return cls(event.day, event.verb, event.amount, value, event.operator, event.amount, event.apply(value))

    def __str__(self) -> str:
        return f"{self.day} {self.verb} {self.amount}: {self.left} {self.operator} {self.right} = {self.result}"


def write_solution(start: int, steps: list[Step], conclusion: int) -> str:
    """The text of a solution."""
    return "\n".join([f"has {start}", *map(str, steps), f"#### {conclusion}"])


def read_conclusion(solution: str) -> int:
    """The final answer of a solution that [`write_solution`] wrote."""
    return int(solution.rpartition("#### ")[2])


def reference_solution(story: Story) -> str:
    """The solution without a flaw."""
    steps = [Step.of(event, value) for event, value in zip(story.events, story.values, strict=False)]
    return write_solution(story.start, steps, story.answer)
