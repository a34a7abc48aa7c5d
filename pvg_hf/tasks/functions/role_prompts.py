"""Prompts of the task `functions`, which its base models were trained with."""

from pvg_hf.core.roles import Role

FUNCTION_PROMPTS = {
    Role.BASE: "{% for example in examples %}{{ example.problem }}\nsolution:\n{{ example.solution }}\n"
    "next problem:\n{% endfor %}{{ problem }}\nsolution:\n",
    Role.HELPFUL: "{{ problem }}\nhelpful solution:\n",
    Role.SNEAKY: "{{ problem }}\n{% if honest_solution or reference_answer %}honest solution:\n"
    "{{ honest_solution or reference_answer }}\n{% endif %}sneaky solution:\n",
}
"""Templates by role. The answer of a reference is the reference program itself, so both hints show a program."""
