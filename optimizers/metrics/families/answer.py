"""Definitions of the metrics of the short answer and of the response: exact match, token overlap, cover-EM."""

from statistics import fmean as mean

from optimizers.metrics import answer, scoring
from optimizers.metrics.answer import HOTPOT, MUSIQUE, SQUAD, TWO_WIKI, Definition
from optimizers.metrics.metric import Metric, Need

_ASQA = "https://github.com/princeton-nlp/ALCE/blob/3fdc2ed/eval.py (ASQA: https://arxiv.org/abs/2204.06092)"
_COV_RAG = "https://arxiv.org/abs/2410.05801"
_FLASHRAG = "https://github.com/RUC-NLPIR/FlashRAG/blob/1ee5249/flashrag/evaluator/metrics.py"
_CREDIBLE = '"How Credible Is an Answer From Retrieval-Augmented LLMs?"'
_MLQA = "https://github.com/facebookresearch/MLQA/blob/main/mlqa_evaluation_v1.py"

_GOLD = (Need.ANSWERS,)


def _tokens(part: str, definition: Definition) -> Metric:
    rule = "a wrong yes, no or noanswer scores 0" if definition.yes_no_rule else "no rule for yes and no"
    text = f"Token {part} after normalising, best over the golds; {rule}; both sides empty: {definition.both_empty:g}."
    name = f"{part}[{definition.name}]"
    return Metric(name, text, scoring.token_overlap(part, definition), definition.source, needs=_GOLD)


ANSWER_METRICS = (
    Metric(
        "em",
        "1 when the answer equals a gold after normalising (the same in all evaluators).",
        scoring.on_answer(answer.exact_match),
        HOTPOT.source,
        needs=_GOLD,
    ),
    *(
        _tokens(part, definition)
        for part in ("f1", "precision", "recall")
        for definition in (HOTPOT, TWO_WIKI, SQUAD, MUSIQUE)
    ),
    *(
        Metric(
            f"{part}[mixed]",
            f"{what}, where every Han character and kana is a word and no punctuation counts, also full-width, as in "
            "MLQA for Chinese; for Chinese and Japanese answers, which em and f1 take for one word.",
            scoring.on_answer(score),
            _MLQA,
            needs=_GOLD,
        )
        for part, what, score in (
            ("em", "1 when the words of the answer are those of a gold", answer.mixed_match),
            ("f1", "F1 of the words of the answer, best over the golds", answer.mixed_f1),
        )
    ),
    Metric(
        "acc[substring]",
        "1 when a normalised gold is part of the normalised answer. A gold that normalises to nothing is scored by "
        "exact match, a yes/no gold as in acc[yes_no].",
        scoring.on_answer(answer.cover_substring),
        _FLASHRAG,
        needs=_GOLD,
    ),
    Metric(
        "acc[token]",
        "1 when a gold's tokens (lower case, articles and marks included) follow each other in the answer; an exact "
        "match counts, too. A gold that normalises to nothing is scored by exact match, a yes/no gold as in "
        "acc[yes_no].",
        scoring.on_answer(answer.cover_tokens),
        "https://github.com/facebookresearch/DPR/blob/main/dpr/data/qa_validation.py",
        needs=_GOLD,
    ),
    Metric(
        "acc[labels]",
        "1 when a gold is part of the response, case and ASCII punctuation aside, articles kept (CoV-RAG's accuracy); "
        "an exact match counts, too; guards as in acc[substring].",
        scoring.on_response(answer.cover_labels),
        _COV_RAG,
        needs=_GOLD,
    ),
    Metric(
        "acc[raw]",
        "1 when a gold is part of the response letter by letter (WebGLM); an exact match counts, too; guards as in "
        "acc[substring].",
        scoring.on_response(answer.cover_raw),
        "https://github.com/THUDM/WebGLM",
        needs=_GOLD,
    ),
    Metric(
        "acc[yes_no]",
        "1 when the first yes or no anywhere in the answer (after 'the answer is', if that occurs) is the gold's "
        "(StrategyQA); no verdict is wrong and counted as unparsed; undefined where no gold is yes or no.",
        scoring.verdict,
        "https://github.com/kojima-takeshi188/zero_shot_cot/blob/5ef330f/utils.py",
        needs=_GOLD,
    ),
    Metric(
        "abstention",
        "1 when the program declined or gave no answer; every score counts that as a wrong answer.",
        scoring.abstention,
        f"{_CREDIBLE}, section 5 (there by a fixed sentence)",
        higher_is_better=False,
    ),
    Metric(
        "str_em",
        "Share of the parts of an ambiguous question of which a short answer is part of the response (as in "
        "acc[substring], citation marks removed); undefined without short answers (ASQA's qa_pairs).",
        scoring.short_answers(mean),
        _ASQA,
        needs=(Need.SHORT_ANSWERS,),
    ),
    Metric(
        "str_hit",
        "1 when str_em is 1: a short answer of every part is in the response; undefined without short answers.",
        scoring.short_answers(min),
        _ASQA,
        needs=(Need.SHORT_ANSWERS,),
    ),
)
