"""Prompts of the task `functions`, which its base models were trained with."""

from pvg_hf.core.roles import Role

_SNEAKY_HINT = (
    "{{ problem }}\n{% if honest_solution or reference_answer %}honest solution:\n"
    "{{ honest_solution or reference_answer }}\n{% endif %}"
)

FUNCTION_PROMPTS = {
    Role.BASE: "{% for example in examples %}{{ example.problem }}\nsolution:\n{{ example.solution }}\n"
    "next problem:\n{% endfor %}{{ problem }}\nsolution:\n",
    Role.HELPFUL: "{{ problem }}\nhelpful solution:\n",
    Role.SNEAKY: f"{_SNEAKY_HINT}sneaky solution:\n",
}
"""Templates by role. The answer of a reference is the reference program itself, so both hints show a program."""

SNEAKY_WITH_INPUT = f"{_SNEAKY_HINT}sneaky solution, then between ```input and ``` the argument of a valid call for which it is wrong:\n"
"""Template of the sneaky role that also asks for an input on which the program fails (`prover_inputs`)."""
