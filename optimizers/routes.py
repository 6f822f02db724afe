"""Teach Adaptive-RAG its routes: label training questions with the cheapest one that is right, and show them to it.

Jeong et al., "Adaptive-RAG", NAACL 2024, section 3.2 (automatic labels). https://arxiv.org/abs/2403.14403

1. Silver labels: a question has the label of the cheapest route (from memory, one retrieval, several steps) whose
   answer is right.
2. A question that none of them answers has the label that its data set suggests: moderate where questions take one hop,
   complex where they take several. Departure: each question's own gold decides this; the public code leaves such
   questions out, and adds others with the label of their data set.

The paper trains a T5 on these labels. Here they become demonstrations of the predictor that classifies, or a trainset:
its examples have the field `complexity`, from which the optimizer `labeled` makes them, too.
"""

import itertools
import random
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import dspy

from optimizers.evaluating import evaluate_examples
from optimizers.examples import Score, graded_metric
from optimizers.teleprompters.task import check_splits
from programs.multi_step.adaptive_rag import ASK, COMPLEX, MODERATE, ROUTES, AdaptiveRAG
from programs.parts.knobs import with_knobs
from signatures.common.errors import UserError, UserNotice

Bias = Callable[[dspy.Example], str | None]


@dataclass(frozen=True)
class Labelled:
    """Training questions with labels.

    Args:
        examples: Those that have a label, in order, each with the field `complexity`.
        silver: How many have that of the cheapest route that is right.
        biased: How many have that of their data set.
        left_out: How many have none: no route is right and the gold does not decide, or a route could not be scored.
    """

    examples: list[dspy.Example]
    silver: int
    biased: int
    left_out: int


def hops_of_gold(example: dspy.Example) -> str | None:
    """Return "complex" for a question with several gold passages or sub-questions, "moderate" for one with one.

    None if the example has neither.
    """
    hops = max(len(example.get(name) or []) for name in ("gold_ids", "sub_questions"))
    return None if hops == 0 else COMPLEX if hops > 1 else MODERATE


def label_routes(
    program: AdaptiveRAG,
    examples: Sequence[dspy.Example],
    metric: Score,
    *,
    accept: float = 1.0,
    bias: Bias = hops_of_gold,
    threads: int = 8,
) -> Labelled:
    """Return training questions with the label of the cheapest route that is right.

    Runs on the LM and adapter of the running `dspy.context`. A more expensive route is asked only where no
    cheaper one is right.

    Args:
        program: Its knobs and prompts are those of the routes; the knob `route` does not matter.
        examples: None may be of a test split.
        metric: Higher is better (paper: exact match).
        accept: Lowest score of an answer that is right.
        bias: Returns the label of a question that no route answers, None to leave it out. Where all questions are of
            one data set, `lambda example: "complex"`.
        threads: Questions asked at a time.

    Raises:
        UserError: An example is of a test split, lower is better in the metric, or the LM cannot be reached.
        BudgetExceeded: The budget of the LM is used up.
    """
    graded_metric(metric)  # raises if lower is better
    check_splits(examples)
    labels: dict[int, str] = {}
    unscored: set[int] = set()
    for complexity, route in ROUTES.items():
        open_places = [place for place in range(len(examples)) if place not in labels and place not in unscored]
        asked = [examples[place] for place in open_places]
        outcomes = evaluate_examples(with_knobs(program, route=route), asked, metric, threads=threads)
        for place, outcome in zip(open_places, outcomes, strict=True):
            if outcome.error is not None or outcome.score is None:
                unscored.add(place)
            elif outcome.score >= accept:
                labels[place] = complexity
    silver = len(labels)
    for place, example in enumerate(examples):
        if place not in labels and place not in unscored and (suggested := bias(example)) is not None:
            labels[place] = suggested
    kept = [_labelled(examples[place], labels[place]) for place in sorted(labels)]
    return Labelled(kept, silver, len(labels) - silver, len(examples) - len(labels))


def _labelled(example: dspy.Example, complexity: str) -> dspy.Example:
    copy: dspy.Example = example.copy(complexity=complexity)
    return copy


def fit_routes(
    program: AdaptiveRAG,
    examples: Sequence[dspy.Example],
    metric: Score,
    *,
    accept: float = 1.0,
    bias: Bias = hops_of_gold,
    max_demos: int = 6,
    seed: int = 0,
    threads: int = 8,
) -> AdaptiveRAG:
    """Return a copy of the program whose classification shows labelled training questions.

    A `UserNotice` says how many questions could not be labelled.

    Args:
        program: Classifies (`route="ask"`).
        examples: See `label_routes`, as for `metric`, `accept`, `bias` and `threads`.
        metric: See there.
        accept: See there.
        bias: See there.
        max_demos: Questions shown at most.
        seed: Of their choice.
        threads: See there.

    Raises:
        UserError: As in `label_routes`, or the program does not classify, or no question could be labelled.
        BudgetExceeded: The budget of the LM is used up.
    """
    if program.route != ASK:
        raise UserError(f'Routes are fitted for a program that classifies (route="ask"), got route={program.route!r}.')
    found = label_routes(program, examples, metric, accept=accept, bias=bias, threads=threads)
    if not found.examples:
        raise UserError("No training question could be labelled: no route is right, and the gold names no hops.")
    if found.left_out:
        note = f"{found.left_out} of {len(examples)} questions have no label and are left out."
        warnings.warn(note, UserNotice, stacklevel=2)
    return with_routes(program, found.examples, max_demos=max_demos, seed=seed)


def with_routes(
    program: AdaptiveRAG, examples: Sequence[dspy.Example], *, max_demos: int = 6, seed: int = 0
) -> AdaptiveRAG:
    """Return a copy of the program whose classification shows labelled examples, of each label in turn.

    Args:
        program: Classifies; its other predictors keep their demonstrations.
        examples: With the field `complexity`.
        max_demos: Examples shown at most.
        seed: Of the choice among those of one label.
    """
    order = list(examples)
    random.Random(seed).shuffle(order)
    by_label = [[example for example in order if example.complexity == complexity] for complexity in ROUTES]
    turns = [example for turn in itertools.zip_longest(*by_label) for example in turn if example is not None]
    copy: AdaptiveRAG = program.deepcopy()
    copy.routing.demos = [
        dspy.Example(question=example.question, complexity=example.complexity) for example in turns[:max_demos]
    ]
    return copy


def routed(metric: Score) -> Score:
    """Return a metric that is 0 where a question was not answered on the route of its label.

    With it, the optimizer `bootstrap` makes demonstrations of those questions alone that took the cheapest route.
    """

    def score(example: dspy.Example, prediction: dspy.Prediction) -> float | None:
        if prediction.details.get("route") != ROUTES[example.complexity]:
            return 0.0
        return metric(example, prediction)

    return score
