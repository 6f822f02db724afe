"""Real metrics on the validation examples, by skill: EM and F1 of greedy replies, and the calibration of P(yes)."""

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import ujson

from optimizers.distill.examples import Example
from optimizers.distill.training.data import EncodedExample, TrainingData
from optimizers.distill.training.lm.student import Student
from optimizers.distill.training.results import NONE_HELD_BACK
from optimizers.metrics.answer import MUSIQUE, exact_match, token_overlap
from programs.lms.tolerant import read_json
from signatures.common.errors import UserError, unknown

_MOST_TOKENS = 256  # of a reply
_YES, _NO = "yes", "no"  # the whole reply to a question in the one-word form
_PADDED_TOKENS = 16_384  # prompts of a batch, with their padding


def replies(student: Student, examples: Sequence[EncodedExample]) -> list[str]:
    """Return the greedy reply to the prompt of each example, in their order.

    Args:
        student: The LM.
        examples: Their gold replies are not shown to the LM; a reply ends after twice the tokens of the longest.
    """
    most_tokens = min(_MOST_TOKENS, 2 * max((len(example.reply) for example in examples), default=0) + 8)
    texts = [""] * len(examples)
    with _inference(student):
        for batch in _batches(examples):
            generated = _generate(student, [examples[place].prompt for place in batch], most_tokens)
            for place, text in zip(batch, generated, strict=True):
                texts[place] = text
    return texts


def _batches(examples: Sequence[EncodedExample]) -> Iterator[list[int]]:
    batch: list[int] = []
    for place in sorted(range(len(examples)), key=lambda place: len(examples[place].prompt)):
        if batch and (len(batch) + 1) * len(examples[place].prompt) > _PADDED_TOKENS:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def _padded(student: Student, prompts: Sequence[tuple[int, ...]]) -> tuple[Any, Any]:
    """Return prompts as one batch of tokens, and its mask."""
    import torch

    longest = max(len(prompt) for prompt in prompts)
    # On the left, so that all replies begin in the same column.
    tokens = torch.tensor([[student.end_token] * (longest - len(prompt)) + list(prompt) for prompt in prompts])
    mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    return tokens.to(student.device.name), mask.to(student.device.name)


def _generate(student: Student, prompts: Sequence[tuple[int, ...]], most_tokens: int) -> list[str]:
    tokens, mask = _padded(student, prompts)
    made = student.model.generate(tokens, attention_mask=mask, max_new_tokens=most_tokens)
    return list(student.base.tokenizer.batch_decode(made[:, tokens.shape[1] :], skip_special_tokens=True))


def yes_probabilities(student: Student, examples: Sequence[EncodedExample]) -> list[float]:
    """Return P(yes) / (P(yes) + P(no)) of the first reply token, for the prompt of each example, in their order."""
    import torch

    tokenizer = student.base.tokenizer
    pair = [tokens[0] for tokens in _verdict_tokens(tokenizer)]
    found = [0.0] * len(examples)
    with _inference(student):
        for batch in _batches(examples):
            tokens, mask = _padded(student, [examples[place].prompt for place in batch])
            positions = (mask.cumsum(-1) - 1).clamp(min=0)  # of the prompt, without its padding
            logits = student.model(
                input_ids=tokens, attention_mask=mask, position_ids=positions, use_cache=False, logits_to_keep=1
            ).logits[:, -1, pair]
            for place, share in zip(batch, torch.softmax(logits.float(), dim=-1)[:, 0].tolist(), strict=True):
                found[place] = share
    return found


def _verdict_tokens(tokenizer: Any) -> list[list[int]]:
    """Return the tokens of yes and of no; a vocabulary of few words may have none."""
    return [tokenizer(word, add_special_tokens=False)["input_ids"] for word in (_YES, _NO)]


def verdict_calibration_error(probabilities: Sequence[float], truths: Sequence[bool], bins: int = 10) -> float:
    """Return the expected calibration error of yes/no judgements, in [0, 1]: 0 where each is as sure as it is right.

    It is the mean over the judgements of the difference between confidence and share of right ones in each of `bins`
    equal parts of the confidence, which is from 0.5 to 1 (Guo et al., ICML 2017, section 2,
    https://arxiv.org/abs/1706.04599); that of the answers of a run has parts from 0 to 1.

    Args:
        probabilities: P(yes) of each judgement; at least one.
        truths: Whether yes is right.
        bins: Number of parts.
    """
    groups: dict[int, list[float]] = defaultdict(list)
    for probability, truth in zip(probabilities, truths, strict=True):
        confidence = max(probability, 1 - probability)
        right = (probability >= 0.5) is truth
        groups[min(int((confidence - 0.5) * 2 * bins), bins - 1)].append(confidence - right)
    return sum(abs(sum(gaps)) for gaps in groups.values()) / len(probabilities)


@contextlib.contextmanager
def _inference(student: Student) -> Iterator[None]:
    """Switch to the attention of transformers, which has a cache, and to no gradients, while the block runs.

    Decoding is plainly greedy, as the LM is served: the settings that the base came with, such as a penalty for
    repetition, would apply to whatever a call leaves open.
    """
    import torch
    from transformers import GenerationConfig

    model: Any = student.model
    own = model.generation_config
    end = student.end_token
    model.generation_config = GenerationConfig(do_sample=False, eos_token_id=end, pad_token_id=end)
    try:
        with torch.no_grad(), student.mixed_precision(), student.ordinary_attention():
            yield
    finally:
        model.generation_config = own


_REASONS = frozenset({"reasoning"})
_REPLY_METRICS = ("em", "f1")


def reply_scores(student: Student, data: TrainingData, per_skill: int) -> Callable[[Path], dict[str, float]]:
    """Return a function that scores greedy replies to the first `per_skill` validation examples of each skill.

    The names of its values are `em[SKILL]` and `f1[SKILL]`, and `em` and `f1`, the means over the skills; besides
    `ece`, the calibration error of all yes/no judgements among them, if there are any.
    """
    places: list[int] = []
    counts: dict[str, int] = defaultdict(int)
    for place, example in enumerate(data.validation_examples):
        if counts[example.skill] < per_skill:
            counts[example.skill] += 1
            places.append(place)

    def scores(_: Path) -> dict[str, float]:
        texts = replies(student, [data.validation[place] for place in places])
        found: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for place, text in zip(places, texts, strict=True):
            example = data.validation_examples[place]
            found[example.skill].append(score_reply(text, example.completion))
        return _means(found) | _calibration(student, data, places)

    return scores


def _calibration(student: Student, data: TrainingData, places: Sequence[int]) -> dict[str, float]:
    judged = [place for place in places if data.validation_examples[place].completion in (_YES, _NO)]
    if not judged or not all(_verdict_tokens(student.base.tokenizer)):
        return {}
    truths = [data.validation_examples[place].completion == _YES for place in judged]
    probabilities = yes_probabilities(student, [data.validation[place] for place in judged])
    return {"ece": verdict_calibration_error(probabilities, truths)}


def check_metric(name: str, held_back: Sequence[Example], per_skill: int, others: Iterable[str] = ()) -> None:
    """Check that the metric to keep the best weights by will be measured; this needs no LM.

    Args:
        name: The metric.
        held_back: The validation examples.
        per_skill: How many of each skill are answered, as for `reply_scores`.
        others: Metrics that something else measures, such as a program.

    Raises:
        UserError: It will not.
    """
    of_replies = {
        *_REPLY_METRICS,
        *(f"{metric}[{example.skill}]" for metric in _REPLY_METRICS for example in held_back),
    }
    measured = {*others, *({"loss"} if held_back else ()), *(of_replies if held_back and per_skill else ())}
    if name in measured:
        return
    if not held_back and (name in {"loss", *_REPLY_METRICS} or not measured):
        raise UserError(f"The best weights cannot be kept by {name!r}: {NONE_HELD_BACK}")
    if held_back and not per_skill and name in of_replies:
        raise UserError(
            f"The best weights cannot be kept by {name!r}: no validation example is answered. Let some of each skill "
            "be answered, or keep them by 'loss'."
        )
    raise unknown("metric", name, measured)


def all_scores(*scores: Callable[[Path], dict[str, float]]) -> Callable[[Path], dict[str, float]]:
    """Return a function of the folder with the weights that returns the values of all these functions."""

    def together(folder: Path) -> dict[str, float]:
        return {name: value for each in scores for name, value in each(folder).items()}

    return together


def _means(found: dict[str, list[tuple[float, float]]]) -> dict[str, float]:
    means: dict[str, float] = {}
    for number, name in enumerate(_REPLY_METRICS):
        by_skill = {skill: sum(pair[number] for pair in pairs) / len(pairs) for skill, pairs in sorted(found.items())}
        means |= {f"{name}[{skill}]": mean for skill, mean in by_skill.items()}
        if by_skill:
            means[name] = sum(by_skill.values()) / len(by_skill)
    return means


def score_reply(reply: str, gold: str) -> tuple[float, float]:
    """Return EM and F1 of a reply, each in [0, 1]; an unparseable reply scores 0.

    Of a JSON object all fields that decide something are compared, and the scores are means over them: texts by EM and
    F1, flags by equality. Left out are reasons, and scores in numbers, unless the gold reply has nothing else. Any
    other reply is compared as a whole.
    """
    expected = _object(gold)
    if not expected:
        return _score(reply, gold)
    answered = _object(reply)
    if answered is None:
        return 0.0, 0.0
    names = [name for name, value in expected.items() if name not in _REASONS and not _is_number(value)]
    names = names or list(expected)
    pairs = [_score(_text(answered.get(name)), _text(expected[name])) for name in names]
    return sum(em for em, _ in pairs) / len(names), sum(f1 for _, f1 in pairs) / len(names)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _score(answer: str, gold: str) -> tuple[float, float]:
    exact, overlap = exact_match(answer, [gold]), token_overlap(answer, [gold], MUSIQUE)  # two empty texts are equal
    return exact or 0.0, overlap.f1 if overlap else 0.0


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = read_json(text)
    except (ValueError, UserError):
        return None
    return value if isinstance(value, dict) else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else ujson.dumps(value, ensure_ascii=False)
