"""Solutions of the arithmetic world: one line per step, which states the event it uses, then the final answer."""

from dataclasses import dataclass

from pvg_hf.tasks.arithmetic.stories.grammar import Event, Story


@dataclass(frozen=True)
class Step:
    """
    One line of a solution, such as `Monday finds 5: 12 + 5 = 17`, as written (it may be wrong).

    Args:
        day (`str`), verb (`str`), amount (`int`):
            The event that the step claims to use.
        left (`int`), operator (`str`), right (`int`), result (`int`):
            The parts of the equation.
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
        """Return the valid step for `event` at the current count `value`."""
        return cls(event.day, event.verb, event.amount, value, event.operator, event.amount, event.apply(value))

    def __str__(self) -> str:
        return f"{self.day} {self.verb} {self.amount}: {self.left} {self.operator} {self.right} = {self.result}"


def write_solution(start: int, steps: list[Step], conclusion: int) -> str:
    """Format a solution as text."""
    return "\n".join([start_line(start), *map(str, steps), conclusion_line(conclusion)])


def start_line(start: int) -> str:
    """Write a solution's first line."""
    return f"has {start}"


def conclusion_line(conclusion: int) -> str:
    """Write a solution's last line."""
    return f"#### {conclusion}"


def reference_solution(story: Story) -> str:
    """Write the flawless solution."""
    steps = [Step.of(event, value) for event, value in zip(story.events, story.values, strict=False)]
    return write_solution(story.start, steps, story.answer)
