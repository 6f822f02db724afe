"""Distractors: the other paragraphs of an article first, no documents, and none that its title gives away."""

import random

from optimizers.distill.gold.contexts import Contexts
from signatures.types import Passage
from tests.conftest import ListRetriever

GOLD = Passage(id="gold", title="Tarn", text="The mill of Tarn was built in 1640.")
BESIDE = [Passage(id=f"b{number}", title="Tarn", text=f"Paragraph {number} of the article.") for number in range(14)]
HARD = Passage(id="hard", title="Tarn", text="The mill of Tarn was burnt by Bo Velt.")
FOUND = [Passage(id=f"f{number}", title="Brook", text=f"Brook has {number} bridges.") for number in range(5)]
QUERY = "When was the mill of Tarn built?"


def shown(contexts: Contexts, size: int = 4, gold: tuple[Passage, ...] = (GOLD,)) -> set[str]:
    return {passage.id for passage in contexts.mixed(QUERY, gold, size, random.Random(0))}


def test_the_other_paragraphs_of_the_article_distract_those_with_the_same_words_first():
    retrieve = ListRetriever(FOUND)
    contexts = Contexts(retrieve, {"Tarn": [GOLD, *BESIDE, HARD]})
    assert shown(contexts, 2) == {"gold", "hard"}
    assert len(shown(contexts, 5) & {passage.id for passage in BESIDE}) == 3
    assert not retrieve.queries
    without = contexts.without(QUERY, [GOLD], ["Bo Velt"], 3, random.Random(0))
    assert {passage.title for passage in without} == {"Tarn"}
    assert not {"gold", "hard"} & {passage.id for passage in without}


def test_a_short_article_is_filled_up_with_what_is_retrieved():
    contexts = Contexts(ListRetriever(FOUND), {"Tarn": [GOLD, HARD]})
    assert shown(contexts, 4) == {"gold", "hard", "f0", "f1"}


def test_documents_do_not_distract():
    long = Passage(id="long", title="List", text="word " * 30)
    assert shown(Contexts(ListRetriever([long, *FOUND]), longest=29), 2) == {"gold", "f0"}
    assert shown(Contexts(ListRetriever([long, *FOUND])), 2) == {"gold", "long"}


def test_gold_is_not_to_be_told_by_its_title():
    untitled = Passage(id="plain", text="Brook has a mill, too.")
    contexts = Contexts(ListRetriever([untitled, *FOUND]))
    assert shown(contexts, 2) == {"gold", "f0"}
    assert shown(contexts, 2, (GOLD.model_copy(update={"title": ""}),)) == {"gold", "plain"}


def test_what_lacks_gold_has_neither_a_copy_of_it_nor_another_form_of_the_answer():
    copy = Passage(id="copy", title="Tarn Mill", text="The mill of Tarn , it was built in 1640 .")
    alias = Passage(id="alias", title="Tarn Mill", text="Long ago, in the year sixteen forty, a mill stood.")
    contexts = Contexts(ListRetriever([copy, alias, *FOUND]))
    assert shown(contexts, 3) == {"gold", "alias", "f0"}
    without = contexts.without(QUERY, [GOLD], ["1640", "sixteen forty"], 2, random.Random(0))
    assert {passage.id for passage in without} == {"f0", "f1"}
    assert len(contexts.without(QUERY, [GOLD], ["no"], 2, random.Random(0))) == 2


def test_queries_are_searched_for_once():
    retrieve = ListRetriever(FOUND)
    contexts = Contexts(retrieve)
    contexts.search(["one", "two", "one"])
    assert contexts.ranked("one") == contexts.ranked("two") == FOUND
    assert retrieve.queries == ["one", "two"]
