"""English function words and a light stemmer, shared by retrieval and metrics.

The two lists of words differ by 22. BM25's measured recall depends on one, the entailment features and their
calibrated weights on the other, so neither can change without a new measurement.
"""

import functools

_SHARED = frozenset(
    """
    a about all also an and any are as at be because been being between both but by can could did do does each for
    from had has have he her him his i if in into is it its may me might more most my no nor not of on or other our
    over she should so some such than that the their them then there these they this those to under us was we were
    what when where which while who whom whose will with would you your
    """.split()
)
# Omitted from BM25 queries.
QUERY_STOPWORDS = _SHARED | frozenset(
    "after before during either hers how itself much once only out own same shall through too until up very why".split()
)
# Omitted from the entailment features, where "before" and "only" are content words.
FUNCTION_WORDS = _SHARED | frozenset({"here", "must"})

_SUFFIXES = ("ing", "edly", "ed", "ies", "es", "s", "ly")


@functools.lru_cache(maxsize=100_000)
def strip_suffix(word: str) -> str:
    """Return a lower-case English word without its inflection ("rivers" gives "river"), at least three letters long."""
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            return word[: -len(suffix)]
    return word
