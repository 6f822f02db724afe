"""Definitions of the metrics of checked answers: CoV-RAG's verification and GenGround's revisions."""

from optimizers.metrics import revisions, verification
from optimizers.metrics.metric import Metric

_COV_RAG = "https://arxiv.org/abs/2410.05801"
_GENGROUND = "https://arxiv.org/abs/2406.14891"

_HOP_MATCH = (
    "among the hops whose sub-question is a gold one by its words; exact match decides; undefined without such a hop."
)

VERIFICATION_METRICS = (
    Metric(
        "judgement[cov]",
        "1 when the first verification calls the first response true and it holds a gold answer, or does not and it "
        "does not; an unreadable verification is wrong.",
        verification.judgement,
        _COV_RAG,
    ),
    Metric("form[cov]", "Share of the verifications that could be read.", verification.form, _COV_RAG),
    Metric(
        "references[before]",
        "1 when the first references hold a gold answer (normalised substring); undefined for yes and no.",
        verification.first_references,
        _COV_RAG,
    ),
    Metric(
        "references[after]",
        "1 when the last references hold a gold answer (normalised substring); undefined for yes and no.",
        verification.last_references,
        _COV_RAG,
    ),
    Metric(
        "revision[success]",
        f"Share of drafts that were right and stayed so, or were corrected, {_HOP_MATCH}",
        revisions.share("direct", "revised"),
        _GENGROUND,
    ),
    Metric(
        "revision[failure]",
        f"Share of drafts that were wrong and stayed so, {_HOP_MATCH}",
        revisions.share("failure"),
        _GENGROUND,
        higher_is_better=False,
    ),
    Metric(
        "revision[error]",
        f"Share of drafts that were right and were spoiled, {_HOP_MATCH}",
        revisions.share("error"),
        _GENGROUND,
        higher_is_better=False,
    ),
)
