import pickle
from typing import ClassVar

import pytest
from datasets import Value
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from pvg_hf.core.roles import Role
from pvg_hf.core.templates import render_chat, split_instructions
from pvg_hf.experimental.programs.functions import FunctionsTask
from pvg_hf.tasks import Grade, PromptBuilder, Task
from pvg_hf.tasks.arithmetic import ArithmeticTask
from pvg_hf.tasks.gsm8k import Gsm8kTask
from pvg_hf.tasks.proofs import ProofsTask
from tests.support.chat_templates import (
    IN_PARTS,
    LAST_TURN_ONLY,
    REFUSED_TEMPLATES,
    SPECIAL_TOKENS,
    WRITTEN_TEMPLATES,
    make_chat_tokenizer,
)

PROBLEM = {
    "problem_id": "p-1",
    "problem": "How many?",
    "reference": "two and two\n#### 1,234",
    "difficulty": 2,
    "solution": "a column of the pool",
}


class TinyTask(Task):
    name = "tiny"
    columns: ClassVar = {"difficulty": Value("int32")}
    prompts: ClassVar = {
        Role.BASE: "{{ problem }}\n",
        Role.SNEAKY: (
            "{{ problem_id }} {{ problem }} {{ difficulty }}"
            "{% if reference_answer %} not {{ reference_answer }}{% endif %}"
            "{% if honest_solution %} unlike {{ honest_solution }}{% endif %}"
        ),
    }
    few_shot_examples: ClassVar = (
        {"problem": "1+1?", "solution": "2", "wrong_solution": "11"},
        {"problem": "1+2?", "solution": "3"},
    )

    def problems(self, split):
        raise NotImplementedError

    def grade(self, problem, solution):
        return Grade(None, False)


def test_a_template_sees_the_problem_and_its_columns():
    assert PromptBuilder(TinyTask(), few_shot=0).text(PROBLEM, Role.SNEAKY) == "p-1 How many? 2"
    assert PromptBuilder(TinyTask(), few_shot=0).text(PROBLEM, "sneaky") == "p-1 How many? 2"


@pytest.mark.parametrize(
    ("few_shot", "text"),
    [
        (None, "1+1?\n2\n\n1+2?\n3\n\nHow many?\n"),
        (2, "1+1?\n2\n\n1+2?\n3\n\nHow many?\n"),
        (1, "1+1?\n2\n\nHow many?\n"),
        (0, "How many?\n"),
    ],
)
def test_few_shot_counts_the_examples(few_shot, text):
    assert PromptBuilder(TinyTask(), few_shot=few_shot).text(PROBLEM, Role.BASE) == text


@pytest.mark.parametrize("few_shot", [-1, 3])
def test_more_examples_than_available_is_an_error(few_shot):
    with pytest.raises(ValueError, match=rf"`few_shot` .*\[0, 2\], .* got {few_shot}"):
        PromptBuilder(TinyTask(), few_shot=few_shot)


@pytest.mark.parametrize(
    ("sneaky_sees", "text"),
    [
        ("nothing", "p-1 How many? 2"),
        ("reference_answer", "p-1 How many? 2 not 1234"),
        ("honest_solution", "p-1 How many? 2 unlike the honest one"),
    ],
)
def test_the_sneaky_role_sees_what_it_is_allowed_to(sneaky_sees, text):
    builder = PromptBuilder(TinyTask(), sneaky_sees=sneaky_sees, few_shot=0)
    assert builder.text(PROBLEM, Role.SNEAKY, honest_solution="the honest one") == text


def test_no_other_role_sees_an_answer():
    peeking = "{{ problem }} {{ reference_answer }} {{ honest_solution }}"
    builder = PromptBuilder(TinyTask(), overrides={"helpful": peeking}, sneaky_sees="reference_answer", few_shot=0)
    assert builder.text(PROBLEM, Role.HELPFUL, honest_solution="the honest one") == "How many? None None"


def test_an_honest_solution_that_is_asked_for_must_be_given():
    builder = PromptBuilder(TinyTask(), sneaky_sees="honest_solution")
    assert builder.text(PROBLEM, Role.BASE).endswith("How many?\n")
    with pytest.raises(ValueError, match="no `honest_solution` was given"):
        builder.text(PROBLEM, Role.SNEAKY)


@pytest.mark.parametrize("sneaky_sees", ["reference_answer", "honest_solution"])
def test_a_template_that_ignores_the_sneaky_roles_variable_is_refused(sneaky_sees):
    with pytest.raises(ValueError, match=f"role `sneaky` .* variable `{sneaky_sees}`"):
        PromptBuilder(TinyTask(), overrides={Role.SNEAKY: "{{ problem }}"}, sneaky_sees=sneaky_sees)


def test_an_override_replaces_the_template_of_its_role_alone():
    builder = PromptBuilder(TinyTask(), overrides={"sneaky": "Be sneaky: {{ problem }}\n"}, few_shot=0)
    assert builder.text(PROBLEM, Role.SNEAKY) == "Be sneaky: How many?\n"
    assert builder.text(PROBLEM, Role.BASE) == "How many?\n"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"sneeky": "x"}, "Unknown role `sneeky`; allowed: `helpful`, `sneaky`, `base`"),
        ({"helpful": "{{ problm }}"}, "role `helpful` .*variable `problm`; .*`problem`"),
        ({"helpful": "{{ reference }}"}, "role `helpful` .*variable `reference`"),
        ({"base": "{% for e in examples %}{{ e.problem }}{% endfor %}"}, "role `base` .*variable `examples`"),
        ({"base": "{{ problem"}, "role `base` is malformed"),
        ({"base": "{% if problem %}"}, "role `base` is malformed"),
        ({"base": "{{ problem | no_such_filter }}"}, "role `base` .* 'no_such_filter'"),
    ],
)
def test_a_bad_template_is_refused_before_any_prompt_is_written(overrides, message):
    with pytest.raises(ValueError, match=message):
        PromptBuilder(TinyTask(), overrides=overrides)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ problem.split()[7] }}", "role `base` .*rendered: .*7"),
        ("{{ problem.answer }}", "role `base` .*rendered: .*'answer'"),
        ("{{ problem.__class__.__mro__ }}", "role `base` .*rendered: .*__class__.* unsafe"),
    ],
)
def test_mistakes_found_only_by_rendering_are_errors(template, message):
    with pytest.raises(ValueError, match=message):
        PromptBuilder(TinyTask(), overrides={"base": template}).text(PROBLEM, Role.BASE)


def test_unknown_settings_are_refused():
    with pytest.raises(ValueError, match=r"`sneaky_sees` is `all`.*`reference_answer`"):
        PromptBuilder(TinyTask(), sneaky_sees="all")
    with pytest.raises(ValueError, match=r"`tiny` .*role `helpful`; .*`base`, `sneaky`"):
        PromptBuilder(TinyTask()).text(PROBLEM, Role.HELPFUL)


@pytest.mark.parametrize("task", [ArithmeticTask(num_train=1, num_test=1), Gsm8kTask()], ids=lambda task: task.name)
@pytest.mark.parametrize("role", Role)
def test_the_shipped_tasks_have_a_prompt_for_every_role(task, role):
    text = PromptBuilder(task).text(PROBLEM, role)
    assert "How many?" in text
    assert "1,234" not in text
    assert "1234" not in text
    assert text.endswith("solution:\n") or text.endswith("Solution:\n")


def test_a_builder_survives_pickling():
    builder = PromptBuilder(Gsm8kTask(), few_shot=1)
    copy = pickle.loads(pickle.dumps(builder))
    assert copy.text(PROBLEM, Role.BASE) == builder.text(PROBLEM, Role.BASE)


def make_tokenizer(*, adds_bos, chat_template):
    vocabulary = {"<s>": 0, "<unk>": 1, "How": 2, "many": 3, "?": 4, "<user>": 5, "<assistant>": 6}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    if adds_bos:
        backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<s>",
        unk_token="<unk>",
        additional_special_tokens=["<user>", "<assistant>"],
    )
    tokenizer.chat_template = chat_template
    return tokenizer


CHAT = (
    "{% for message in messages %}<user>{{ message['content'] }}{% endfor %}{% if add_generation_prompt"
    " %}<assistant>{% endif %}"
)
CHAT_WITH_BOS = "{{ bos_token }}" + CHAT
BARE = {"base": "{{ problem }}"}


@pytest.mark.parametrize(
    ("adds_bos", "chat_template", "text", "tokens"),
    [
        (False, None, "How many?", [2, 3, 4]),
        (True, None, "How many?", [0, 2, 3, 4]),
        (False, CHAT, "<user>How many?<assistant>", [5, 2, 3, 4, 6]),
        (True, CHAT, "<user>How many?<assistant>", [0, 5, 2, 3, 4, 6]),
        (False, CHAT_WITH_BOS, "<s><user>How many?<assistant>", [0, 5, 2, 3, 4, 6]),
        (True, CHAT_WITH_BOS, "<user>How many?<assistant>", [0, 5, 2, 3, 4, 6]),
    ],
)
def test_a_rendered_prompt_tokenises_to_one_bos_at_most(adds_bos, chat_template, text, tokens):
    tokenizer = make_tokenizer(adds_bos=adds_bos, chat_template=chat_template)
    rendered = PromptBuilder(TinyTask(), overrides=BARE, few_shot=0).render(PROBLEM, Role.BASE, tokenizer)
    assert rendered == text
    # The call that TRL's GRPOTrainer makes on prompts that are strings.
    assert tokenizer(text=[rendered])["input_ids"] == [tokens]


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


@pytest.mark.parametrize(
    ("few_shot", "messages"),
    [
        (2, [user("1+1?\n"), assistant("2"), user("1+2?\n"), assistant("3"), user("How many?\n")]),
        (1, [user("1+1?\n"), assistant("2"), user("How many?\n")]),
        (0, [user("How many?\n")]),
    ],
)
def test_examples_are_turns_of_a_chat(few_shot, messages):
    assert PromptBuilder(TinyTask(), few_shot=few_shot).messages(PROBLEM, Role.BASE) == messages


HINTED = "{{ difficulty }} {{ problem }} {{ reference_answer }} {{ honest_solution }}"


@pytest.mark.parametrize(
    ("sneaky_sees", "shown"),
    [
        ("nothing", ["9 1+1? None None", "2 How many? None None"]),
        ("reference_answer", ["9 1+1? 2 None", "2 How many? 1234 None"]),
        ("honest_solution", ["9 1+1? None #### 2", "2 How many? None me"]),
    ],
)
def test_the_sneaky_role_is_shown_wrong_solutions_and_of_an_example_what_it_sees_of_the_problem(sneaky_sees, shown):
    class Levels(TinyTask):
        few_shot_examples: ClassVar = (
            {"problem": "1+1?", "solution": "#### 2", "wrong_solution": "#### 11", "difficulty": 9},
            {"problem": "1+2?", "solution": "#### 3", "difficulty": 9},
        )

    prompts = PromptBuilder(Levels(), overrides={"sneaky": HINTED}, sneaky_sees=sneaky_sees)
    turns = [user(shown[0]), assistant("#### 11"), user(shown[1])]
    assert prompts.messages(PROBLEM, Role.SNEAKY, honest_solution="me") == turns
    assert prompts.text(PROBLEM, Role.SNEAKY, honest_solution="me") == f"{shown[0]}#### 11\n\n{shown[1]}"


@pytest.mark.parametrize(
    ("template", "instructions", "turn"),
    [
        ("Solve it.\nBe brief.\n\nProblem: {{ problem }}\n", "Solve it.\nBe brief.", "Problem: {{ problem }}\n"),
        ("Solve it.\n\nBe brief.\n\n{{ problem }}\n\nGo.", "Solve it.\n\nBe brief.", "{{ problem }}\n\nGo."),
        ("Solve it.\n\n{# a note #}{{ problem }}", "Solve it.", "{# a note #}{{ problem }}"),
        ("Solve it.\n{{ problem }}", "", "Solve it.\n{{ problem }}"),
        ("{{ problem }}\n\nSolve it.", "", "{{ problem }}\n\nSolve it."),
    ],
    ids=["a paragraph", "two", "before a comment", "no blank line", "a later blank line"],
)
def test_instructions_are_what_precedes_the_last_blank_line_before_the_first_variable(template, instructions, turn):
    assert split_instructions(template) == (instructions, turn)


INSTRUCTED = {"base": "Add.\nBe brief.\n\n{{ problem }}\n"}


def test_instructions_are_written_once():
    prompts = PromptBuilder(TinyTask(), overrides=INSTRUCTED, few_shot=1)
    system = {"role": "system", "content": "Add.\nBe brief."}
    assert prompts.messages(PROBLEM, "base") == [system, user("1+1?\n"), assistant("2"), user("How many?\n")]
    assert prompts.text(PROBLEM, "base") == "Add.\nBe brief.\n\n1+1?\n2\n\nHow many?\n"


@pytest.mark.parametrize(
    ("template", "rendered"),
    [
        ("a system message by default", "<|im_start|>system\nAdd.\nBe brief.<|im_end|>\n<|im_start|>user\n1+1?\n"),
        ("begins with a token and strips texts", "<|system|>\n\nAdd.\nBe brief.<|eot|><|user|>\n\n1+1?<|eot|>"),
        ("other roles, and no system message", "<turn>user\nAdd.\nBe brief.\n\n1+1?<end>\n<turn>model\n2<end>\n"),
    ],
)
def test_a_chat_template_without_a_system_role_gets_the_instructions_before_the_first_turn(template, rendered):
    tokenizer = make_chat_tokenizer(template, "no padding token")
    prompt = PromptBuilder(TinyTask(), overrides=INSTRUCTED, few_shot=1).render(PROBLEM, Role.BASE, tokenizer)
    assert rendered in prompt
    assert prompt.count("Be brief.") == 1


def test_a_system_message_that_the_chat_template_leaves_out_goes_before_the_first_turn():
    no_system = CHAT.replace(
        "{% for message in messages %}", "{% for message in messages if message.role != 'system' %}"
    )
    tokenizer = make_tokenizer(adds_bos=False, chat_template=no_system)
    prompt = PromptBuilder(TinyTask(), overrides=INSTRUCTED, few_shot=0).render(PROBLEM, Role.BASE, tokenizer)
    assert prompt == "<user>Add.\nBe brief.\n\nHow many?\n<assistant>"


@pytest.mark.parametrize("task", [ArithmeticTask(), ProofsTask(), Gsm8kTask()], ids=lambda task: task.name)
def test_the_examples_of_the_shipped_tasks_are_right_and_those_of_the_sneaky_role_are_wrong(task):
    for example in task.few_shot_examples:
        problem = {"problem_id": "e", "problem": example["problem"], "reference": example["solution"]}
        assert task.grade(problem, example["solution"]).correct
        wrong = task.grade(problem, example["wrong_solution"])
        assert wrong.answer is not None
        assert not wrong.correct


@pytest.mark.parametrize("padding", SPECIAL_TOKENS)
@pytest.mark.parametrize("template", WRITTEN_TEMPLATES)
def test_chat_templates_like_those_of_models_write_examples_as_turns(template, padding):
    tokenizer, prompts = make_chat_tokenizer(template, padding), PromptBuilder(TinyTask())
    rendered = prompts.render(PROBLEM, Role.BASE, tokenizer)
    places = [rendered.index(text) for text in ("1+1?", "2", "1+2?", "3", "How many?")]
    assert places == sorted(places)
    assert tokenizer(rendered)["input_ids"] == tokenizer.apply_chat_template(
        prompts.messages(PROBLEM, Role.BASE), add_generation_prompt=True, return_dict=False
    )


def test_a_chat_template_that_leaves_out_the_examples_is_an_error():
    tokenizer = make_tokenizer(adds_bos=False, chat_template=LAST_TURN_ONLY)
    with pytest.raises(ValueError, match=r"leaves out message 0 of a chat of 5 messages.*`task.few_shot: 0`"):
        PromptBuilder(TinyTask()).render(PROBLEM, Role.BASE, tokenizer)
    assert PromptBuilder(TinyTask(), few_shot=0).render(PROBLEM, Role.BASE, tokenizer) == "How many?\n"


THINKING = CHAT + "{% if add_generation_prompt and enable_thinking is false %}</think>{% endif %}"


@pytest.mark.parametrize(
    ("chat_template", "kwargs", "text"),
    [
        (THINKING, {}, "<user>How many?<assistant>"),
        (THINKING, {"enable_thinking": False}, "<user>How many?<assistant></think>"),
        (None, {"enable_thinking": False}, "How many?"),
    ],
)
def test_the_chat_template_sees_its_settings(chat_template, kwargs, text):
    tokenizer = make_tokenizer(adds_bos=False, chat_template=chat_template)
    prompts = PromptBuilder(TinyTask(), overrides=BARE, few_shot=0, chat_template_kwargs=kwargs)
    assert prompts.render(PROBLEM, Role.BASE, tokenizer) == text


@pytest.mark.parametrize("name", REFUSED_TEMPLATES)
def test_a_prompt_that_the_chat_template_does_not_write_is_an_error(name):
    chat_template, parts = REFUSED_TEMPLATES[name]
    tokenizer = make_tokenizer(adds_bos=False, chat_template=chat_template)
    with pytest.raises(ValueError) as error:
        PromptBuilder(TinyTask(), few_shot=0).render(PROBLEM, Role.BASE, tokenizer)
    assert [part for part in (*parts, "`tokenizer.chat_template`") if part not in str(error.value)] == []
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("chat_template", "content"),
    [
        (CHAT, "How many?"),
        (CHAT.replace("message['content']", "message['content'] | trim"), " How many?\n"),
        (IN_PARTS, [{"type": "text", "text": "How"}, {"type": "text", "text": " many?"}]),
    ],
    ids=["text", "stripped text", "parts"],
)
def test_a_chat_is_rendered_from_texts_or_parts(chat_template, content):
    tokenizer = make_tokenizer(adds_bos=False, chat_template=chat_template)
    assert "How many?" in render_chat([{"role": "user", "content": content}], tokenizer)


def test_a_message_without_a_text_is_rendered():
    """Messages that call tools have no text."""
    chat = [{"role": "user", "content": "How many?"}, {"role": "assistant", "content": None}]
    assert "How many?" in render_chat(chat, make_tokenizer(adds_bos=False, chat_template=CHAT))


def test_a_template_of_texts_says_so_if_it_is_given_parts():
    tokenizer = make_tokenizer(adds_bos=False, chat_template="{{ messages[0]['content'] + '!' }}")
    with pytest.raises(ValueError, match="wants a content that is a text"):
        render_chat([{"role": "user", "content": [{"type": "text", "text": "How many?"}]}], tokenizer)


@pytest.mark.parametrize("name", ["tokenize", "add_generation_prompt", "conversation"])
def test_settings_that_are_not_the_chat_templates_are_refused(name):
    with pytest.raises(ValueError, match=f"`chat_template_kwargs` has `{name}`"):
        PromptBuilder(TinyTask(), chat_template_kwargs={name: True})


def test_the_answer_of_a_program_is_the_program():
    task = FunctionsTask(sandbox="none")
    problem = {
        "problem_id": "0",
        "problem": "Return the sum of the numbers of xs.",
        "reference": "def f(xs):\n    return sum(xs)",
    }
    text = PromptBuilder(task, sneaky_sees="reference_answer").text(problem, Role.SNEAKY)
    assert f"honest solution:\n{problem['reference']}\n" in text
