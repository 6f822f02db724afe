"""A program loaded in another process sends the prompts of the one that was frozen, byte for byte.

For every strategy, and for what each kind of optimizer leaves: demonstrations, instructions, both, a pool to choose
from, several programs.
"""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import get_args

import dspy
import pytest

from programs.artifact import freeze
from programs.artifacts.export import templates
from programs.cascade import Cascade
from programs.catalog import PROGRAMS, build
from programs.ensemble import Ensemble
from programs.lms.adapter import ChatForm, JsonForm
from programs.nearest_demos import NearestDemos, PoolQuestion
from signatures.types import Hop, Passage

ROOT = Path(__file__).parents[3]
FORMS = {"chat": ChatForm, "json": JsonForm}
QUESTION = "Where lies Quillon?"
VALUES = {
    str: "«Text» with [[ ## field ## ]], {braces}, a\nline break and 中文",
    bool: True,
    int: 5,
    float: 0.1 + 0.2,
    list[str]: ["one", "two\nlines"],
    list[float]: [0.25, 1.0],
    list[Passage]: [Passage(id="p1", title="T", text="Text.", score=0.5), Passage(id="p2", text="[1] more")],
    list[Hop]: [Hop(question="h?", answer="x", draft="d", evidence="e", passage_ids=["p1"], verdict="kept")],
}


class Lengths:
    fingerprint = "lengths"

    def __call__(self, left, right):
        return [[1 / (1 + abs(len(one) - len(other))) for other in right] for one in left]


def value_of(annotation):
    if annotation in VALUES:
        return VALUES[annotation]
    (option, *_) = get_args(annotation)  # a Literal, or a text with a check
    return VALUES.get(option, option)


def demos(signature, number):
    """Return a bootstrapped demonstration with all fields and a labelled one that lacks an input."""
    values = {name: value_of(field.annotation) for name, field in signature.fields.items()}
    extra = {"logprobs": {"content": []}}  # as replies carry it; an artifact leaves it out
    labelled = {name: value for name, value in values.items() if name != next(iter(signature.input_fields))}
    return [dspy.Example(augmented=True, number_of_demo=number, **values, **extra), dspy.Example(**labelled)]


def with_demos(program):
    for number, (_, predictor) in enumerate(program.named_predictors()):
        predictor.demos = demos(predictor.signature, number)
    return program


def with_instructions(program):
    for name, predictor in program.named_predictors():
        changed = predictor.signature.with_instructions(f"  Tuned «{name}».\n\n\tThen {{think}}.  \n")
        field = list(changed.fields)[-1]
        predictor.signature = changed.with_updated_fields(field, desc=f'what {name} says: "quoted"', prefix="P:")
    return program


def pool(program):
    names = [name for name, _ in program.named_predictors()]
    signatures = {name: predictor.signature for name, predictor in program.named_predictors()}
    return [
        PoolQuestion(f"{'Why ' * n}?", {name: demos(signatures[name], n) for name in names[: n + 1]}) for n in range(3)
    ]


def results():
    """Yield labels, and functions that make programs as optimizers return them."""
    for name in PROGRAMS:
        made = partial(build, name)
        yield f"{name} as it is", made
        yield f"{name} with demonstrations", lambda made=made: with_demos(made())
        yield f"{name} with instructions", lambda made=made: with_instructions(made())
        yield f"{name} with both", lambda made=made: with_instructions(with_demos(made()))
        yield f"{name} with a pool", lambda made=made: pooled(made, k=2)
    rag, genground = partial(build, "rag", k=3), partial(build, "genground", few_shot=True)
    yield (
        "an ensemble",
        lambda: Ensemble([with_demos(rag()), with_instructions(genground()), build("cot")]),
    )
    yield "a cascade", lambda: Cascade(with_demos(rag()), pooled(genground, k=1), threshold=0.3)


def pooled(made, *, k):
    return NearestDemos(with_instructions(made()), pool(made()), Lengths(), k=k)


def prompts(program):
    """Return all messages with both adapters, and the demonstrations chosen for a question."""
    forms = {
        form.__name__: [prompt.as_dict() for prompt in templates(program, form())] for form in (ChatForm, JsonForm)
    }
    return {**forms, "chosen": chosen(program)}


def chosen(program):
    """Return the messages with the demonstrations for a question in place of the program's own."""
    found = []
    for _, each in program.named_sub_modules(NearestDemos):
        shown = each.demos_for(QUESTION)
        for name, predictor in each.program.named_predictors():
            found.append(ChatForm().format(predictor.signature, shown.get(name, predictor.demos), {}))
    return found


SCRIPT = """
import json, pathlib, sys
from tests.programs.artifacts import test_fresh_process as this
from programs.artifact import load
folders = sorted(pathlib.Path(sys.argv[1]).iterdir(), key=lambda folder: int(folder.name))
loaded = [this.prompts(load(folder, similarity=this.Lengths())) for folder in folders]
sys.stdout.buffer.write(json.dumps(loaded).encode())
"""


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Return label -> the prompts before freezing and those of another process; one process loads all artifacts."""
    folder, labels, before = tmp_path_factory.mktemp("frozen"), [], []
    for number, (label, make) in enumerate(results()):
        program = make()
        labels.append(label)
        before.append(json.loads(json.dumps(prompts(program))))
        freeze(program, folder / str(number))
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(folder)], capture_output=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr.decode()
    return dict(zip(labels, zip(before, json.loads(done.stdout), strict=True), strict=True))


LABELS = [label for label, _ in results()]


@pytest.mark.slow
@pytest.mark.parametrize("label", LABELS)
def test_the_prompts_are_the_same_byte_for_byte(label, compared):
    before, after = compared[label]
    assert after == before


@pytest.mark.slow
def test_what_is_compared_contains_what_optimizers_change(compared):
    for name in PROGRAMS:
        plain, shown, told, both, chosen = (
            json.dumps(compared[f"{name} {how}"][0], ensure_ascii=False)
            for how in ("as it is", "with demonstrations", "with instructions", "with both", "with a pool")
        )
        assert "«Text»" in shown
        assert "Tuned" in told
        assert "«Text»" in both
        assert "Tuned" in both
        assert "«Text»" in chosen
        assert "«Text»" not in plain + told
        assert "logprobs" not in shown
