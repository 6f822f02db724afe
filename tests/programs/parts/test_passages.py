import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.benchmarks.entailment_contradictions import PASSAGES
from programs.parts.passages import deduplicate, find_quote, passages_named, passages_stating, passages_supporting
from signatures.types import Passage


def test_a_literal_quote_finds_its_passage(passages):
    assert find_quote("harbour master of Quillon is ansa merrow", passages).passage.id == "p4"


def test_a_slightly_changed_quote_still_finds_it(passages):
    assert find_quote("The harbour master of Quillon is named Ansa Merrow", passages).passage.id == "p4"


def test_an_invented_or_empty_quote_finds_nothing(passages):
    assert find_quote("The duke of Vell was crowned in spring", passages).passage is None
    assert find_quote("", passages).passage is None
    assert find_quote("words", []).passage is None


NOTHING = ["Not mentioned.", "None of the passages", "N/A", "is", "of the", "[]", "[5]", "yes", "无", "没有相关证据。"]


@pytest.mark.parametrize("quote", NOTHING)
def test_a_phrase_that_says_there_is_nothing_is_no_quote(quote, passages):
    told = Passage(id="told", title="T", text="It is not mentioned; none of the passages. N/A, yes 5 无 没有相关证据")
    assert find_quote(quote, [*passages, told]).passage is None


@pytest.mark.parametrize(
    "quote",
    [
        "There is no evidence about the harbour master of Quillon",
        "No passage names the harbour master of Quillon",
        "The passages don't say who the harbour master of Quillon is, Ansa Merrow or another",
    ],
)
def test_a_sentence_that_says_there_is_nothing_is_no_inexact_quote(quote, passages):
    assert find_quote(quote, passages).passage is None


@pytest.mark.parametrize(
    "quote",
    [
        "Quillon",
        "Ansa Merrow.",
        "“The harbour master of Quillon is Ansa Merrow.”",
        "[5] The harbour master of Quillon is Ansa Merrow.",
        "[5, 6] The harbour master of Quillon is Ansa Merrow.",
        "[[5]] The harbour master of Quillon is Ansa Merrow [5-6].",
        "Passage 5: harbour master of Quillon [5]",
        "Title 4: The harbour master of Quillon is Ansa Merrow.",
        "The harbour master ... is Ansa Merrow",
        "… master of Quillon […] Ansa Merrow.",
        "The **harbour master** of Quillon",
    ],
)
def test_a_verbatim_quote_of_any_length_with_marks_around_it_finds_its_passage(quote, passages):
    assert find_quote(quote, passages).passage.id == "p4"


def test_the_words_around_an_ellipsis_stand_in_their_order(passages):
    assert find_quote("is Ansa ... The harbour", passages).passage is None


def test_a_title_is_a_quote_where_the_text_contains_it():
    text = "Quillon is an island."
    assert find_quote("Quillon", [Passage(id="a", title="Quillon", text=text)]).passage.id == "a"
    assert find_quote("Isle of Quillon", [Passage(id="a", title="Isle of Quillon", text=text)]).passage is None


def test_the_citation_that_the_paper_prints_names_what_its_passage_does_not():
    """Table 7, first hop; the text is that of HotpotQA's paragraph, which says nothing of a British journal."""
    text = (
        "The London International Documentary Festival (or LIDF) is an annual documentary film festival that takes "
        "place in the months of March and April every year. The event is presented in association with the London "
        "Review of Books."
    )
    cited = (
        "The annual documentary film festival presented by the fortnightly published British journal of literary "
        "essays is called the London International Documentary Festival (LIDF)"
    )
    assert find_quote(cited, [Passage(id="lidf", text=text)]).match == "absent"


CLUB = Passage(
    id="club",
    title="Quillon FC",
    text="The club was founded on 5 May 1990 in Quillon. Its manager is Agneta Blom, who has won 3 titles in 12 years, "
    "and the coach of the youth team is Tomasz Wrona. She did not sign Karl Voss. Agneta Blom beat Lena Dahl in 2001. "
    "It has 1,234 members and an income of 5.5 million crowns. The unhappy owner never returned. Twenty-five players "
    "were nonsmokers.",
)


@pytest.mark.parametrize(
    "quote",
    [
        "Its manager is Tomasz Wrona",
        "The manager is tomasz wrona, who has won 3 titles in 12 years",
        "THE MANAGER IS TOMASZ WRONA",
        "Its manager is Agneta Wrona, who has won 3 titles",
        "Its manager … is Tomasz Wrona",
        "Its manager, Karl Voss, has won 3 titles in 12 years",
        "Agneta Blom is the coach of the youth team",
        "Lena Dahl beat Agneta Blom in 2001.",
        "Its manager is Agneta Blom, who has won 12 titles in 3 years",
        "Its manager is Agneta Blom, who has won 3 titles in 12 months",
        "It has 1,234 members and an income of 55 million crowns",
        "It has 1,234 members and an income of 5.5",
        "Five players were nonsmokers",
        "Twenty-five players were smokers",
        "The club was founded on 5 June 1990 in Quillon",
        "The club was founded on May 6, 1990 in Quillon",
        "Agneta Blom beat Lena Dahl before 2001",
        "She did sign Karl Voss",
        "sign Karl Voss",
        "She did … sign Karl Voss",
        "Agneta Blom didn't beat Lena Dahl in 2001",
        "The happy owner never returned",
        "The unhappy owner returned",
    ],
)
def test_a_changed_name_number_date_or_negation_is_no_quote(quote):
    assert find_quote(quote, [CLUB]) == ("absent", None, "")


def test_contradictions_written_for_entailment_oracles_are_no_quotes():
    cases = [(text, Passage(id="p", text=each.premise)) for each in PASSAGES for _, text in each.contradictions()]
    assert [text for text, passage in cases if find_quote(text, [passage]).passage] == []


FERRY = Passage(
    id="ferry",
    title="Corrant Line",
    text="She opened the small Corrant Line in the early 1950s, which a rival later bought for US$5,200. The line was "
    "probably defeated by Ossa Ferries. Its 5,200 feet of quay were built from Veld to Merrow, but the harbour was "
    "closed in 1961 by Tomasz Wrona. The council liked the old pier, hated the new hall and failed to sell it.",
)


@pytest.mark.parametrize(
    ("quote", "match"),
    [
        ("She established the small Corrant Line in the early 1950s", "near"),
        ("She opened the large Corrant Line in the early 1950s", "absent"),
        ("She closed the small Corrant Line in the early 1950s", "absent"),
        ("She opened the small Corrant Line in the late 1950s", "absent"),
        ("He opened the small Corrant Line in the early 1950s", "absent"),
        ("She refused to open the small Corrant Line in the early 1950s", "absent"),
        ("She opened the small Corrant Line in the early 1950s, which a rival later acquired for US$5,200", "near"),
        ("She opened the small Corrant Line in the early 1950s, which a rival later sold for US$5,200", "absent"),
        ("She opened the small Corrant Line in the early 1950s, which a rival later acquired for A$5,200", "absent"),
        ("in the early 1950s, which a rival later bought for us$5,200", "verbatim"),
        ("in the early 1950s, which a rival later bought for US $5200.", "verbatim"),
        ("The company was probably defeated by Ossa Ferries", "near"),
        ("The line was defeated by Ossa Ferries", "absent"),
        ("The line probably defeated Ossa Ferries", "absent"),
        ("Its 5,200 feet of quay were constructed from Veld to Merrow", "near"),
        ("Its 5,200 metres of quay were built from Veld to Merrow", "absent"),
        ("Its 5,200 feet of quay were built to Veld from Merrow", "absent"),
        ("The 5,200 feet of quay were built from Veld to Merrow in 1961 by Tomasz Wrona", "absent"),
        ("The council liked the new hall", "absent"),
        ("The council managed to sell it", "absent"),
        ("to sell it", "absent"),
    ],
)
def test_an_opposite_word_or_another_unit_direction_or_gender_is_no_paraphrase(quote, match):
    assert find_quote(quote, [FERRY]).match == match


@pytest.mark.parametrize(
    ("quote", "match"),
    [
        ("its manager is agneta blom", "verbatim"),
        ("Its  manager is “Agneta Blom”, who has won 3 ti", "verbatim"),
        ("who has won … in 12 years", "verbatim"),
        ("She didn’t sign Karl Voss", "verbatim"),
        ("It has 1234 members … 5.5 million crowns.", "verbatim"),
        ("The coach of the youth team of Quillon FC is Tomasz Wrona", "near"),
        ("The club was established on May 5, 1990 in Quillon.", "near"),
        ("In Quillon the club was founded in 1990.", "near"),
        ("25 players were nonsmokers", "near"),
        ("Agneta Blom beat Lena Dahl in 2001. The unhappy owner never returned.", "near"),
    ],
)
def test_a_quote_is_verbatim_or_a_paraphrase(quote, match):
    assert find_quote(quote, [CLUB]) == (match, CLUB, quote)


def test_a_name_that_is_cut_at_the_end_is_left_out():
    quote = "the coach of the youth team is Tomasz Wro"
    assert find_quote(quote, [CLUB]) == ("verbatim", CLUB, "the coach of the youth team is Tomasz")
    assert find_quote("the youth team is Tomasz Wro", [CLUB]).match == "absent"
    assert find_quote("The club was founded on 5 May 19", [CLUB]).match == "absent"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("quote", "text"),
    [
        ("The Quick brown cat jumped over 12 lazy dogs of Oslo", "The Quick brown fox jumps over 12 dogs. " * 25_000),
        ("a a a a b", "a " * 300_000),
        ("fox ... " * 12_000, "The Quick brown fox jumps. " * 20_000),
        ("Fox and Cat met in 1991 with the not known dog", "fox Cat 1990 not dog " * 30_000),
        ("quick brown " * 9_000 + "cat", "quick brown " * 60_000),
    ],
)
def test_the_time_to_find_a_quote_grows_with_the_length_of_the_texts(quote, text):
    """Quadratic code would take hours."""
    assert find_quote(quote, [Passage(id="long", text=text)]).match == "absent"


@given(st.data())
def test_every_run_of_words_of_a_text_is_a_quote(data):
    words = data.draw(
        st.lists(st.sampled_from(["Merrow", "(Quillon)", "1888,", "奎隆港", "harbour's", "岛，", "the"]), min_size=1)
    )
    start = data.draw(st.integers(0, len(words) - 1))
    quote = " ".join(words[start : data.draw(st.integers(start + 1, len(words)))])
    found = find_quote(f"“{quote}”", [Passage(id="a", text=" ".join(words))])
    assert (found.passage is None) == (set(quote.split()) == {"the"})


@given(st.text(), st.text(), st.text())
def test_no_quote_is_an_error(quote, title, text):
    passage = Passage(id="a", title=title, text=text)
    assert find_quote(quote, [passage]).passage in (None, passage)


def test_words_are_whole():
    passage = Passage(id="a", text="He knows nobody.")
    assert passages_stating("nobod", [passage]) == []
    assert passages_stating("nobody", [passage]) == ["a"]


def test_yes_and_no_stand_in_no_passage(passages):
    assert passages_stating("No.", [Passage(id="a", text="no")]) == []


ROVERS = Passage(id="club", title="Vell Rovers (football)", text="Vell Rovers play in grey. Dana Orr manages the club.")
MANAGER = Passage(id="manager", title="Dana Orr", text="Dana Orr was born in Quill. She once kept goal.")
TOWN = Passage(id="town", title="Quill", text="Quill is a town. A club plays there, and a manager lives there.")
HOME = Passage(id="home", title="Home", text="Home is a film.")
BORN = "Where was the manager of the club Vell Rovers born?"


def test_citations_begin_with_what_states_the_answer_and_go_on_with_what_leads_there():
    assert passages_supporting(BORN, "Quill", [TOWN, ROVERS, HOME, MANAGER]) == ["manager", "town", "club"]


def test_the_passage_whose_stating_sentence_is_nearest_to_the_question_is_cited_first():
    beside = Passage(id="beside", title="Fair", text="The club Vell Rovers lost its manager. A fair is held at Quill.")
    assert passages_supporting(BORN, "Quill", [beside, MANAGER])[0] == "manager"


def test_of_an_answer_that_no_passage_states_what_the_question_names_is_cited():
    films = [Passage(id=name, title=f"{name} (film)", text=f"{name} opened in 19{n}.") for n, name in enumerate("XYZ")]
    assert passages_supporting("Did X and Z open in the same year?", "no", films) == ["X", "Z"]
    assert passages_supporting("Who wrote the play?", "unknown", films) == []
    assert passages_supporting("Did X and Z open in the same year?", " ", films) == []  # nothing is answered


def test_a_title_is_found_as_it_is_spelled_and_one_passage_of_a_title_leads_to_the_answer():
    goes = Passage(id="goes", title="Dana Orr", text="Dana Orr went home to Quill.")
    assert passages_supporting("Where did she go?", "Quill", [HOME, goes]) == ["goes"]
    again = Passage(id="again", title="Vell Rovers", text="It has a hall.")
    assert passages_supporting(BORN, "Quill", [again, ROVERS, MANAGER]) == ["manager", "club"]


@pytest.mark.parametrize(
    ("question", "titles"),
    [
        ("Who directed the film where Lena Voss was born?", ["The Who", "Where?", "Born", "Film", "Was"]),
        ("Will she be in it?", ["Will", "It (novel)", "She", "In"]),
        ("Is Lena Voss older than Ann Orr?", ["Is", "Than", "Older"]),
    ],
)
def test_a_title_of_a_common_word_is_not_what_a_question_names(question, titles):
    read = [Passage(id=title, title=title, text="Tarn." if title == "Born" else "Nothing.") for title in titles]
    assert passages_supporting(question, "no", read) == []
    assert passages_supporting(question, "Tarn", read) == [title for title in titles if title == "Born"]


def test_a_title_of_several_words_is_named_in_any_case():
    assert passages_supporting("who manages vell rovers?", "no", [ROVERS, HOME]) == ["club"]


@given(st.text(), st.text(), st.lists(st.tuples(st.text(), st.text()), max_size=4))
def test_citations_are_of_the_passages_read_and_hold_all_that_state_the_answer(question, answer, texts):
    read = [Passage(id=str(n), title=title, text=text) for n, (title, text) in enumerate(texts)]
    cited = passages_supporting(question, answer, read)
    stating = passages_stating(answer, read)
    assert len(set(cited)) == len(cited)
    assert set(stating) == set(cited[: len(stating)]) <= {passage.id for passage in read}


def test_repeats_go_and_the_first_order_stays(passages):
    a, b = passages[:2]
    assert deduplicate([b, a, b]) == [b, a]


@pytest.mark.parametrize("mark", ["?", "？", '?"'])
def test_a_question_that_an_lm_repeats_is_no_quote(mark):
    place = Passage(id="s", title="Stanar", text="Stanar is a town that is located in the hills of Veld.")
    assert find_quote("In which hills is Stanar located", [place]).passage == place
    assert find_quote(f"In which hills is Stanar located{mark}", [place]).passage is None
    asked = Passage(id="a", title="", text="In which hills is Stanar located? Nobody knew.")
    assert find_quote("In which hills is Stanar located?", [asked]).passage == asked


def test_of_titles_that_differ_in_brackets_the_named_and_else_the_first_count():
    def named(question, *titles):
        read = [Passage(id=str(place), title=title, text="") for place, title in enumerate(titles)]
        return [passage.title for passage in passages_named(question, read)]

    films = ("The Ferry (1920 film)", "Orn", "The Ferry (1950 film)", "Bo")
    assert named("Is Orn older than The Ferry?", *films) == ["The Ferry (1920 film)", "Orn"]
    assert named("Is The Ferry (1950 Film) older than Orn?", *films[1:], films[0]) == ["Orn", "The Ferry (1950 film)"]
    both = "Which is older, The Ferry (1920 film) or The Ferry (1950 film)?"
    assert named(both, *films) == ["The Ferry (1920 film)", "The Ferry (1950 film)"]
    assert named("Is Orn older than Bo?", "Orn", "Orn", "Bo") == ["Orn", "Orn", "Bo"]  # parts of one article
