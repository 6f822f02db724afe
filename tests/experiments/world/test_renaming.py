"""Roles are recognised under other names: every signature of the programs with synonyms, or with names without meaning.

Types, descriptions and instructions stay. Where a description is missing too, shape and instruction must tell.
"""

import inspect
from types import ModuleType

import dspy
import pytest
from dspy.utils.exceptions import AdapterParseError

from experiments.world.generate import records
from programs.lms.adapter import ChatForm
from signatures import cov_rag, genground, multihop, reading, retro_rag, self_completion
from signatures.types import Hop, Passage

MODULES: tuple[ModuleType, ...] = (reading, genground, multihop, cov_rag, self_completion, retro_rag)

SYNONYMS: dict[str, tuple[str, str, str]] = {
    "question": ("problem", "inquiry", "main_question"),
    "passages": ("documents", "context", "retrieved_texts"),
    "hops": ("solved_steps", "chain_so_far", "history"),
    "sub_question": ("next_step", "follow_up", "sub_problem"),
    "answer": ("result", "solution", "final_output"),
    "finished": ("done", "ready", "all_settled"),
    "draft": ("tentative_answer", "first_guess", "candidate"),
    "evidence": ("snippet", "support", "source_text"),
    "inferences": ("deductions", "findings", "notes"),
    "claim": ("statement", "assertion", "proposition"),
    "entities": ("names", "subjects", "key_topics"),
    "query": ("search_terms", "lookup", "wanted"),
    "queries": ("search_terms", "keywords", "searches"),
    "other_answer": ("other_result", "second_solution", "other_guess"),
    "reply": ("message", "reaction", "what_was_said"),
    "reasoning": ("rationale", "thoughts", "explanation"),
    "response": ("report", "long_text", "essay"),
    "revised_question": ("rewritten", "reworded_problem", "better_question"),
    "sufficient": ("enough", "adequate", "answerable"),
    "missing": ("gaps", "lacking", "what_is_missing"),
    "limit": ("max_items", "at_most", "number"),
    "judgement": ("verdict", "ruling", "decision"),
    "reference_correctness": ("relevance", "context_score", "reference_quality"),
    "correctness": ("rightness", "accuracy", "correct"),
    "citation_accuracy": ("attribution", "citations", "mark_quality"),
    "truthfulness": ("consistency", "truth", "honesty"),
    "bias": ("departure", "bias_score", "slant"),
    "agree": ("same", "match", "equal"),
    "answered": ("committed", "definite", "given"),
    "contributes": ("helps", "useful", "relevant"),
    "relevant": ("pertinent", "helpful", "related"),
    "stated": ("supported", "found", "attributable"),
    "conciseness": ("brevity", "directness", "concise"),
}


def _signatures() -> list[type[dspy.Signature]]:
    found = [
        item
        for module in MODULES
        for item in vars(module).values()
        if inspect.isclass(item) and issubclass(item, dspy.Signature) and item.__module__ == module.__name__
    ]
    return sorted(found, key=lambda item: item.__name__)


SIGNATURES = _signatures()


def renamed(signature: type[dspy.Signature], names: dict[str, str]) -> type[dspy.Signature]:
    """Return a signature with other names for its fields; types, descriptions, order and instruction stay."""
    made = {}
    for name, field in signature.fields.items():
        kind = dspy.InputField if name in signature.input_fields else dspy.OutputField
        desc = (field.json_schema_extra or {}).get("desc", "")
        given = {} if desc in {"", f"${{{name}}}"} else {"desc": desc}
        made[names[name]] = (field.annotation, kind(**given))
    return dspy.Signature(made, signature.instructions)


@pytest.fixture(scope="module")
def asked() -> list[tuple[dict, dict]]:
    """Inputs for every signature, by the project's names, for questions of every kind."""
    passages, questions = records(60, seed=0)
    texts = [Passage(id=item["id"], title=item["title"], text=item["text"]) for item in passages]
    by_id = {item.id: item for item in texts}
    cases = []
    for number, item in enumerate(questions):
        gold = [by_id[name] for name in item["gold_ids"]]
        first, fact = item["sub_questions"][0], item["key_facts"][0]
        cases.append(
            {
                "question": item["question"],
                "sub_question": item["sub_questions"][0]["question"],
                "passages": [*gold[: 1 + number % 2], *texts[5 * number : 5 * number + 4]],
                "hops": [Hop(question=first["question"], answer=first["answer"], evidence=fact)],
                "draft": "Nobody Atall" if number % 2 else first["answer"],
                "evidence": f"{gold[0].title}: {gold[0].text}",
                "inferences": [fact],
                "claim": item["key_facts"][-1],
                "entities": [gold[0].title],
                "query": item["sub_questions"][-1]["question"],
                "answer": item["answers"][0],
                "other_answer": item["answers"][0] if number % 2 else "Nobody Atall",
                "reply": item["answers"][0] if number % 2 else "It is unclear.",
                "reasoning": f"{fact} So the answer is {item['answers'][0]}.",
                "response": f"{fact.removesuffix('.')} [1]. {item['key_facts'][-1].removesuffix('.')} [2].",
                "limit": 5,
            }
        )
    return cases


def values(signature: type[dspy.Signature], names: dict[str, str], asked: list[dict]) -> list[dict]:
    """Return the values of all replies by the project's names."""
    predictor = dspy.Predict(renamed(signature, names))
    found: list[dict] = []
    for case in asked:
        inputs = {names[name]: case[name] for name in signature.input_fields}
        try:
            reply = predictor(**inputs)
            found.append({name: reply[names[name]] for name in signature.output_fields})
        except AdapterParseError:
            found.append({})
    return found


def differing(running, adapter, signature, names, asked) -> float:
    with running(adapter=adapter):
        usual = values(signature, {name: name for name in signature.fields}, asked)
        other = values(signature, names, asked)
    return sum(one != two for one, two in zip(usual, other, strict=True)) / len(asked)


@pytest.mark.parametrize("chosen", [0, 1, 2])
@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda item: item.__name__)
def test_synonyms_give_the_same_values(running, asked, signature, chosen):
    names = {name: SYNONYMS[name][chosen] for name in signature.fields}
    assert differing(running, ChatForm(), signature, names, asked) == 0


@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda item: item.__name__)
def test_dspys_own_layout_gives_the_same_values_under_other_names(running, asked, signature):
    adapter = dspy.ChatAdapter(use_json_adapter_fallback=False)
    names = {name: SYNONYMS[name][0] for name in signature.fields}
    assert differing(running, adapter, signature, names, asked[:20]) == 0


@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda item: item.__name__)
def test_names_that_say_nothing_leave_type_description_and_shape(running, asked, signature):
    names = dict(zip(signature.fields, "abcdefghijklmnopqrst", strict=False))
    assert differing(running, ChatForm(), signature, names, asked) <= 0.1
