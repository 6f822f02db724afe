"""Definitions of the metrics of checked answers: CoV-RAG's verification and GenGround's revisions."""

from optimizers.metrics import revisions, verification
from optimizers.metrics.metric import Metric
from optimizers.metrics.needs import Need

_COV_RAG = "https://arxiv.org/abs/2410.05801"
_GENGROUND = "https://arxiv.org/abs/2406.14891"

_HOP_MATCH = (
    "among the hops whose sub-question is a gold one by its words; exact match decides; undefined without such a hop."
)

_REFERENCES = (Need.ANSWERS, Need.HOPS, Need.TEXTS, Need.VERIFICATIONS)
_HOPS = (Need.SUB_QUESTIONS, Need.HOPS)

VERIFICATION_METRICS = (
    Metric(
        "judgement[cov]",
        "1 when the first verification calls the first response true and it holds a gold answer, or does not and it "
        "does not; an unreadable verification is wrong.",
        verification.judgement,
        _COV_RAG,
        needs=(Need.ANSWERS, Need.HOPS, Need.VERIFICATIONS),
    ),
    Metric(
        "form[cov]",
        "Share of the verifications that could be read.",
        verification.form,
        _COV_RAG,
        needs=(Need.VERIFICATIONS,),
    ),
    Metric(
        "references[before]",
        "1 when the first references hold a gold answer (normalised substring); undefined for yes and no.",
        verification.first_references,
        _COV_RAG,
        needs=_REFERENCES,
    ),
    Metric(
        "references[after]",
        "1 when the last references hold a gold answer (normalised substring); undefined for yes and no.",
        verification.last_references,
        _COV_RAG,
        needs=_REFERENCES,
    ),
    Metric(
        "revision[success]",
        f"Share of drafts that were right and stayed so, or were corrected, {_HOP_MATCH}",
        revisions.share("direct", "revised"),
        _GENGROUND,
        needs=_HOPS,
    ),
    Metric(
        "revision[failure]",
        f"Share of drafts that were wrong and stayed so, {_HOP_MATCH}",
        revisions.share("failure"),
        _GENGROUND,
        needs=_HOPS,
        higher_is_better=False,
    ),
    Metric(
        "revision[error]",
        f"Share of drafts that were right and were spoiled, {_HOP_MATCH}",
        revisions.share("error"),
        _GENGROUND,
        needs=_HOPS,
        higher_is_better=False,
    ),
)
