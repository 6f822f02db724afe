"""Every signature of the programs with inputs for it, under any names of its fields."""

import inspect
from collections.abc import Iterable
from types import ModuleType

import dspy
from dspy.utils.exceptions import AdapterParseError

from experiments.world.generate import records
from signatures import conversation, cov_rag, genground, ranking, reading, retro_rag, self_completion, triples
from signatures.agents import a_rag, corag, react, search_o1, search_r1, transcript
from signatures.closed_book import genread
from signatures.multi_step import adaptive_rag, flare, ircot, iter_retgen, meta_rag, multihop, searchain, self_ask
from signatures.single_step import rrr, self_rag, verify_and_edit
from signatures.types import Hop, Passage

# A list of scores, a text that is continued, tools by a server's interface, two values side by side, turns of a
# conversation, notes and titles, an order of passages, triples: the world has no skill, and it is frozen.
UNSPOKEN = {
    *(retro_rag.WeighPieces, search_r1.ContinueWithTags, a_rag.CallTools, reading.CompareTwo),
    *(conversation.RewriteFollowUp, ranking.RankPassages, triples.ExtractTriples, triples.KeepTriples),
    *(multihop.WriteNextQuery, multihop.TakeNotes, multihop.SummarizePassages, multihop.AnswerFromNotes),
}
MODULES: tuple[ModuleType, ...] = (reading, genground, multihop, cov_rag, self_completion, retro_rag)
# Of strategies that were added when the world was frozen: it has never seen their prompts.
LATER_MODULES: tuple[ModuleType, ...] = (
    *(a_rag, conversation, corag, ranking, react, search_o1, search_r1, transcript, triples),
    *(adaptive_rag, flare, ircot, iter_retgen, meta_rag, searchain, self_ask),
    *(genread, rrr, self_rag, verify_and_edit),
)


def _signatures(modules: Iterable[ModuleType]) -> list[type[dspy.Signature]]:
    found = [
        item
        for module in modules
        for item in vars(module).values()
        if inspect.isclass(item) and issubclass(item, dspy.Signature) and item.__module__ == module.__name__
    ]
    return sorted(set(found) - UNSPOKEN, key=lambda item: item.__name__)


EARLIER = _signatures(MODULES)
SIGNATURES = [*EARLIER, *_signatures(LATER_MODULES)]


def renamed(signature: type[dspy.Signature], names: dict[str, str]) -> type[dspy.Signature]:
    """Return a signature with other names for its fields; types, descriptions, order and instruction stay."""
    made = {}
    for name, field in signature.fields.items():
        kind = dspy.InputField if name in signature.input_fields else dspy.OutputField
        desc = (field.json_schema_extra or {}).get("desc", "")
        given = {} if desc in {"", f"${{{name}}}"} else {"desc": desc}
        made[names[name]] = (field.annotation, kind(**given))
    return dspy.Signature(made, signature.instructions)


def cases() -> list[dict]:
    """Inputs for every signature, by the project's names, for questions of every kind."""
    passages, questions = records(60, seed=0)
    texts = [Passage(id=item["id"], title=item["title"], text=item["text"]) for item in passages]
    by_id = {item.id: item for item in texts}
    made = []
    for number, item in enumerate(questions):
        gold = [by_id[name] for name in item["gold_ids"]]
        first, fact = item["sub_questions"][0], item["key_facts"][0]
        made.append(
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
                "transcript": [
                    "Thought 1: It is not known yet.",
                    f"Action 1: search: {first['question']}",
                    f"Result 1: {gold[0].title}: {gold[0].text}",
                ],
                "advice": "Rely on the passages alone.",
            }
        )
    return made


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
