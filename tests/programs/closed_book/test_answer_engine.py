"""A hosted answer engine: its sources over every route, from the cache, and in the prediction."""

import json

import dspy
import pytest

from programs.closed_book.answer_engine import AnswerEngine
from programs.lms.calls.metered import calls_recorded, metered_lm
from programs.lms.calls.reply_cache import ReplyCache, ReplyStore
from programs.lms.connect import ModelTraits, connect
from tests import loopback
from tests.programs.fakes import traced

QUESTION = "Who is the harbour master of Quillon?"
TEXT = "The harbour master is Ansa Merrow [3][1]. Fog is rare [2, 9]."
URLS = ["https://a.example/merrow", "javascript:alert(1)", "https://b.example/港"]
RESULTS = [
    {"title": "Port\nof Quillon", "url": URLS[2], "date": "2026-01-02", "snippet": "Merrow runs the port."},
    {"title": "Never cited", "url": "https://c.example/", "snippet": "Rain."},
]
NAMED = {"citations": URLS, "search_results": RESULTS}


class Engine(loopback.Loopback):
    """Answers chat requests with one text, and what it names beside the choices or in the message."""

    def __init__(self, text=TEXT, named=NAMED, in_message=None):
        self.seen = []
        outer = self

        class Handler(loopback.JsonHandler):
            def get(self):
                self.reply(200, {"data": [{"id": "sonar"}]})

            def post(self):
                body = self.body()
                outer.seen.append(body)
                said = "Ansa Merrow" if "what the passages say" in str(body["messages"]) else text
                message = {"role": "assistant", "content": said, **(in_message or {})}
                choice = {"index": 0, "finish_reason": "stop", "message": message}
                usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10, "num_search_queries": 1}
                usage |= {"search_context_size": "low", "cost": {"total_cost": 0.005}}  # as Perplexity adds them
                reply = {"id": "x", "object": "chat.completion", "created": 1, "model": "sonar", "usage": usage}
                self.reply(200, {**reply, "choices": [choice], **named})

        super().__init__(Handler, "")


@pytest.fixture
def start(monkeypatch, tmp_path):
    """Return a function that starts an engine and returns it with its LM, connected by id or by URL."""
    store = ReplyStore(tmp_path / "replies.sqlite", max_bytes=10_000_000)
    monkeypatch.setattr(dspy, "cache", ReplyCache(store))
    monkeypatch.setattr("programs.lms.connect.use_reply_cache", lambda: None)
    opened = []

    def started(route="server", *, cache=True, **settings):
        engine = Engine(**settings)
        monkeypatch.setenv("PERPLEXITY_API_BASE", engine.base)
        monkeypatch.setenv("PERPLEXITYAI_API_KEY", "pplx-of-the-test")
        if route == "litellm":
            connection = connect("perplexity/sonar")
        else:
            traits = ModelTraits(probability_mode="samples", server="openai")
            connection = connect("sonar", api_base=f"{engine.base}/v1", cache=cache, traits=traits)
        context = connection.use()
        context.__enter__()
        opened.append((engine, connection, context))
        return engine

    yield started
    for engine, connection, context in reversed(opened):
        context.__exit__(None, None, None)
        connection.close()
        engine.close()
    store.close()


def json_of(response):
    return json.dumps({"response": response}, ensure_ascii=False)


@pytest.mark.slow
@pytest.mark.parametrize(("route", "text"), [("server", json_of(TEXT)), ("litellm", f"[[ ## response ## ]]\n{TEXT}")])
def test_what_the_engine_cites_are_passages_and_citations(start, route, text):
    engine = start(route, text=text)
    for _ in range(2):  # the second time from the cache
        result = AnswerEngine(short=False)(QUESTION)
        assert [(page.id, page.title, page.text) for page in result.passages] == [
            (URLS[0], "", ""),
            (URLS[2], "Port of Quillon", "Merrow runs the port."),
        ]
        assert result.citations == [URLS[2], URLS[0]]
        assert result.response == "The harbour master is Ansa Merrow [2][1]. Fog is rare."
        assert result.answer == "The harbour master is Ansa Merrow. Fog is rare."
        assert (result.hops, result.stop_reason, result.details) == ([], "done", {"sources": 3})
    assert len(engine.seen) == 1


def test_the_record_of_a_question_has_the_sources_too(start):
    engine = start(text=json_of(TEXT), cache=False)

    class Record(dict):
        reply = dict.get

        def add(self, key, reply):
            return self.setdefault(key, json.loads(json.dumps(reply)))

    record = Record()
    for _ in range(2):
        with calls_recorded(record):
            assert AnswerEngine(short=False)(QUESTION).citations == [URLS[2], URLS[0]]
    assert (len(engine.seen), len(record)) == (1, 1)


def test_annotations_of_the_message_are_sources(start):
    cites = [{"type": "url_citation", "url_citation": {"url": URLS[n], "title": f"T{n}"}} for n in (2, 0, 2)]
    start(text=json_of("Ansa Merrow is."), named={}, in_message={"annotations": [*cites, {"type": "other"}, 7]})
    result = AnswerEngine(short=False)(QUESTION)
    assert result.citations == [page.id for page in result.passages] == [URLS[2], URLS[0]]  # no mark: all that it names
    assert [page.title for page in result.passages] == ["T2", "T0"]


@pytest.mark.parametrize("named", [{"search_results": RESULTS}, {"search_results": RESULTS, "citations": None}])
def test_results_alone_are_counted_by_the_marks(start, named):
    start(text=json_of("She is [1]."), named=named)
    result = AnswerEngine(short=False)(QUESTION)
    assert ([page.id for page in result.passages], result.citations) == ([URLS[2], "https://c.example/"], [URLS[2]])


@pytest.mark.parametrize(
    "named",
    [{}, {"citations": 7}, {"citations": [None, 3, ["x"], {"url": 1}, "ftp://x", "https://[", "https://x /", "//"]}],
)  # fmt: skip
def test_without_a_web_page_there_are_no_passages(start, named):
    start(text=json_of(TEXT), named=named)
    result = AnswerEngine(short=False)(QUESTION)
    assert (result.passages, result.citations) == ([], [])
    assert result.response == "The harbour master is Ansa Merrow. Fog is rare."


def test_a_streamed_reply_has_its_sources(start):
    engine = start(text=json_of(TEXT))
    lm = dspy.settings.lm
    request = dspy.lm15.Request(model=lm.model, messages=(dspy.lm15.Message.user("?"),))
    response = dspy.lm15.ResponseStream(lm.engine.stream(request), request).response
    assert [source["url"] for source in response.provider_data["sources"]] == URLS
    assert engine.seen[0]["stream"] is True


def test_the_short_answer_is_a_second_call_without_marks(start):
    text = json_of(TEXT)
    engine = start(text=text)
    program = AnswerEngine()
    result = program(QUESTION)
    assert len(engine.seen) == program.max_calls() == 2
    assert "[1] The harbour master is Ansa Merrow. Fog is rare." in engine.seen[1]["messages"][-1]["content"]
    assert result.citations == [URLS[2], URLS[0]]  # the sources of the second reply are not asked for


def test_sources_are_no_part_of_demonstrations(start):
    start(text=json_of(TEXT))
    _, trace = traced(AnswerEngine(short=False), QUESTION)
    ((_, inputs, reply),) = trace
    assert (inputs, dict(reply)) == ({"question": QUESTION}, {"response": TEXT})


@pytest.mark.parametrize(("reply", "stop_reason"), [({"response": "I cannot answer."}, "done"), ("?", "unparseable")])
def test_declining_and_unreadable_replies_give_no_answer(scripted, reply, stop_reason):
    engine = scripted(lambda system, user: reply)
    result, trace = traced(AnswerEngine(), QUESTION)
    assert trace == []
    assert (result.answer, result.citations, result.abstained, result.stop_reason) == ("", [], True, stop_reason)
    assert len(engine.requests) == 1


@pytest.mark.parametrize("passages", [[], None])
def test_any_other_lm_answers_from_memory(scripted, passages):
    scripted(lambda system, user: {"response": "港务长是安莎·梅罗[1]。", "answer": "安莎·梅罗"})
    result = AnswerEngine()("奎隆港的港务长是谁？", passages=passages)
    assert (result.response, result.answer, result.passages) == ("港务长是安莎·梅罗。", "安莎·梅罗", [])


def test_no_program_but_this_listens(start):
    start(text=json_of(TEXT))
    lm = metered_lm("scripted/x", engine=dspy.settings.lm.engine, cache=False)
    (output,) = lm("?")
    assert output == json_of(TEXT)


def test_an_empty_reply_with_sources_is_a_reply_and_not_asked_again(start):
    engine = start(text="")
    result = AnswerEngine()(QUESTION)
    assert (result.answer, result.stop_reason, len(engine.seen)) == ("", "unparseable", 1)
