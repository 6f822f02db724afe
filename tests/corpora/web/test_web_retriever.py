"""Search, fetch, extract, rank; and all of it again from the recording alone."""

import copy
import json
import os
import threading

import pytest

from corpora.retrievers.embedder import Embedder
from corpora.retrievers.explain import explain
from corpora.web.engines import read_settings
from corpora.web.recording import Recording, is_web
from corpora.web.retriever import WebRetriever, open_web
from signatures.common.errors import UserError, UserNotice
from signatures.types import Retriever
from tests.web_site import KEY, read_at_once

QUERY = "Where was Ilse Varrow born?"


@pytest.fixture(autouse=True)
def quick(request, monkeypatch):
    if request.node.name != "test_hostile_pages_cost_themselves_only":
        monkeypatch.setattr("corpora.web.retriever.run_in_processes", read_at_once)


@pytest.fixture
def live(site, tmp_path):
    def make(folder="recording", **others) -> WebRetriever:
        return open_web(tmp_path / folder, str(site.toml(tmp_path / "own.toml", **others)))

    return make


def filled(site):
    """A page that answers, one about something else, one that is refused, and one that is not there."""
    site.page("/robots.txt", "User-agent: *\nDisallow: /refused", "text/plain")
    site.results.clear()
    site.page("/rivers", "<title>Rivers</title><p>The Ossa ends in Lake Marn.</p><h2>Fish</h2><p>Trout live there.</p>")
    canonical = '<link rel="canonical" href="https://bank.example/">'
    site.page("/varrow", f"<title>Varrow</title>{canonical}<p>Ilse Varrow was born in Tolmen.</p>")
    site.found("/refused")
    site.found("/gone")


def test_passages_of_the_pages_are_ranked_for_the_query(site, live):
    filled(site)
    retrieve = live()
    assert isinstance(retrieve, Retriever)
    found = retrieve(QUERY, 9)
    assert (found[0].title, found[0].text) == ("Varrow", "Ilse Varrow was born in Tolmen.")
    assert dict(found[0].metadata) == {"source": "127.0.0.1", "url": f"{site.base}/varrow"}
    texts = {passage.text for passage in found}
    assert {"The Ossa ends in Lake Marn.", "Trout live there.", "Snippet of /refused.", "Snippet of /gone."} < texts
    scores = [passage.score for passage in found]
    assert scores == sorted(scores, reverse=True)
    assert retrieve.many([QUERY, " ", QUERY], 2) == [found[:2], [], found[:2]]
    assert copy.deepcopy(retrieve) is retrieve
    assert len(site.searched) == 1
    assert "/refused" not in site.asked


def test_the_embedder_ranks_unless_bm25_is_named(site, live, tmp_path):
    filled(site)
    toml = site.toml(tmp_path / "own.toml", rank="dense")
    letters = Embedder("letters", encode=lambda texts: [[text.count(letter) for letter in "vw"] for text in texts])
    retrieve = WebRetriever(Recording(tmp_path / "dense", read_settings(str(toml))), read_settings(str(toml)), letters)
    assert [passage.title for passage in retrieve("w", 1)] == ["Varrow"]
    assert retrieve.fingerprint.endswith(letters.weights_hash[:12] + ":f32")
    assert retrieve.fingerprint.startswith("web:own-")


def test_a_run_is_repeated_without_the_web(site, live, tmp_path):
    filled(site)
    retrieve = live()
    found = [retrieve(query, 9) for query in (QUERY, "trout")]
    explained = explain(retrieve, QUERY, 3)
    site.close()
    again = open_web(tmp_path / "recording", None)
    assert [again(query, 9) for query in (QUERY, "trout")] == found
    assert explain(again, QUERY, 3) == explained
    assert again.fingerprint == retrieve.fingerprint
    assert [place.by for place in explained[0].places] == ["own", "bm25"]
    wanted = found[0][0]
    assert [each.id for each in again.passages([wanted.id, "none"])] == [wanted.id]
    with pytest.raises(UserError, match="contains no search for 'other'.*set the engine"):
        again("other", 1)


def test_what_is_recorded_stays_though_the_web_changes(site, live):
    filled(site)
    found = live()(QUERY, 9)
    site.page("/varrow", "<p>Something else.</p>")
    site.results.reverse()
    assert live()(QUERY, 9) == found
    assert live("other")(QUERY, 9) != found


def test_a_recording_has_hash_and_time_of_every_page_and_no_key(site, live, tmp_path, monkeypatch):
    monkeypatch.setenv("OWN_KEY", KEY)
    filled(site)
    site.page("/echo", f"<p>The server was told {KEY}.</p>")
    retrieve = live(headers={"X-Key": "${OWN_KEY}"})
    retrieve(QUERY, 9)
    assert site.searched[0][0]["X-Key"] == KEY
    files = sorted((tmp_path / "recording").rglob("*.json"))
    assert all(KEY not in file.read_text() for file in files)
    assert KEY not in retrieve.fingerprint
    pages = {page["key"]: page for page in map(json.loads, (file.read_text() for file in files)) if "passages" in page}
    read = pages[f"{site.base}/varrow"]
    assert (len(read["sha256"]), read["error"], read["time"][:2]) == (64, None, "20")
    assert pages[f"{site.base}/refused"]["error"] == "robots.txt refuses it"
    assert pages[f"{site.base}/gone"]["error"] == "status 404"
    assert [file for file in (tmp_path / "recording").rglob("*") if file.name.startswith(".")] == []


def test_snippets_alone(site, live):
    filled(site)
    retrieve = live(fetch=False)
    assert {passage.text for passage in retrieve("snippet", 9)} == {hit["content"] for hit in site.results}
    assert all(path.startswith("/search") for path in site.asked)


def test_hostile_pages_cost_themselves_only(site, live):
    filled(site)
    site.page("/deep", "<div>" * 5000 + "x")
    site.page("/pdf", b"%PDF-1.7 broken", "application/pdf")
    site.page("/binary", bytes(range(256)) * 20, "text/plain")
    site.page("/empty", "")
    site.page("/script", "<title>S</title><script>alert(1)</script><p>Plain words.</p>")
    site.page("/latin", "<p>Caf\xe9 Zo\xeb</p>".encode("latin-1"), "text/html; charset=iso-8859-1")
    site.page("/charset", "<p>Odd charset.</p>", "text/html; charset=zip")
    texts = [passage.text for passage in live(count=20)(QUERY, 50)]
    assert texts[0] == "Ilse Varrow was born in Tolmen."
    assert {"Snippet of /deep.", "Snippet of /pdf.", "Snippet of /empty.", "Plain words.", "Café Zoë"} < set(texts)
    assert "Odd charset." in texts
    assert not any("alert" in text for text in texts)


def test_a_page_gives_a_hundred_passages_at_most(site, live):
    site.page("/long", "".join(f"<p>Sentence {n} is about{' words' * 6}.</p>" for n in range(400)))
    assert len(live(words=10)("sentence", 1000)) == 100


def test_threads_search_once_and_get_the_same(site, live):
    filled(site)
    retrieve, found = live(), []
    threads = [threading.Thread(target=lambda: found.append(retrieve(QUERY, 9))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(site.searched) == 1
    assert found == [found[0]] * 6


def test_two_processes_that_record_one_page_agree_on_the_first(site, tmp_path):
    settings = read_settings(str(site.toml(tmp_path / "own.toml")))
    one, other = Recording(tmp_path / "both", settings), Recording(tmp_path / "both", settings)
    assert one.fingerprint == other.fingerprint
    assert one.put("pages", "u", {"passages": [1]})["passages"] == [1]
    assert other.put("pages", "u", {"passages": [2]})["passages"] == [1]


def test_of_two_processes_that_write_at_once_the_first_stays(site, tmp_path, monkeypatch):
    recording = Recording(tmp_path / "both", read_settings(str(site.toml(tmp_path / "own.toml"))))
    real = os.link

    def link(new, path):
        path.write_text('{"key": "u", "passages": ["of the other"]}')
        real(new, path)

    monkeypatch.setattr("corpora.web.recording.os.link", link)
    assert recording.put("pages", "u", {"passages": ["ours"]})["passages"] == ["of the other"]


def test_ctrl_c_records_nothing_half(site, live, tmp_path, monkeypatch):
    filled(site)

    def interrupted(*rest, **more):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("corpora.web.fetching.Fetcher.fetch_all", interrupted)
        with pytest.raises(KeyboardInterrupt):
            live()(QUERY, 3)
    with pytest.raises(UserError, match="contains no page"):
        open_web(tmp_path / "recording", None)(QUERY, 3)
    assert live()(QUERY, 1)[0].title == "Varrow"
    assert len(site.searched) == 1


def test_a_recording_is_of_one_engine_and_its_settings(site, live, tmp_path):
    filled(site)
    live()(QUERY, 1)
    assert live(timeout=3, width=2)(QUERY, 1)
    with pytest.raises(UserError, match="was recorded with words=100, not 50: name another folder"):
        live(words=50)
    with pytest.raises(UserError, match="is not a recording of the web"):
        open_web(tmp_path / "nothing", "web")
    with pytest.raises(UserError, match="name the folder for it"):
        open_web(None, "serper")
    assert not (tmp_path / "nothing").exists()


def test_a_key_that_is_missing_is_told_before_a_folder_is_made(tmp_path, monkeypatch):
    monkeypatch.delenv("SERPER_API_KEY", raising=False)
    with pytest.raises(UserError, match="needs the variable SERPER_API_KEY"):
        open_web(tmp_path / "new", "serper")
    assert not (tmp_path / "new").exists()


def test_a_replay_sends_nothing_whatever_the_recording_says(site, live, tmp_path, monkeypatch):
    """A recording may come from a stranger, who wishes for a variable of the environment."""
    monkeypatch.setenv("OWN_KEY", KEY)
    filled(site)
    live(headers={"X-Key": "${OWN_KEY}"})(QUERY, 1)
    asked = len(site.asked)
    with pytest.raises(UserError, match="contains no search"):
        open_web(tmp_path / "recording", None)("new", 1)
    assert len(site.asked) == asked


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"key": "other"}', b'{"results": [{}]}', b'{"results": 3}'])
def test_damage_is_one_line(site, live, tmp_path, content):
    filled(site)
    live()(QUERY, 1)
    (file,) = (tmp_path / "recording" / "searches").glob("*.json")
    file.write_bytes(content)
    with pytest.raises(UserError, match="restore it"):
        open_web(tmp_path / "recording", None)(QUERY, 1)
    (tmp_path / "recording" / "web.json").write_bytes(content)
    with pytest.raises(UserError, match=r"web\.json is damaged"):
        open_web(tmp_path / "recording", None)


def test_nothing_is_recorded_through_links(site, live, tmp_path):
    filled(site)
    live()(QUERY, 1)
    (tmp_path / "recording" / "pages" / "x.json").symlink_to(tmp_path / "own.toml")
    with pytest.raises(UserError, match="is a link"):
        live()


def test_what_has_a_key_in_it_is_recorded_without_it(site, live, tmp_path, monkeypatch):
    monkeypatch.setenv("OWN_KEY", KEY)
    filled(site)
    site.found(f"http://user:word@127.0.0.1:{site.port}/x")
    asked = f"{QUERY} {KEY}"
    with pytest.warns(UserNotice, match="3 of 5 pages could not be fetched"):
        found = live(headers={"X-Key": "${OWN_KEY}"})(asked, 9)
    assert open_web(tmp_path / "recording", None)(asked, 9) == found
    assert all(KEY not in file.read_text() for file in (tmp_path / "recording").rglob("*.json"))


def test_a_folder_with_other_files_does_not_become_a_recording(live, tmp_path):
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "index.json").write_text("{}")
    with pytest.raises(UserError, match="index has other files: name a new folder"):
        live("index")
    assert [path.name for path in (tmp_path / "index").iterdir()] == ["index.json"]


def test_a_file_system_without_links_records_too(site, live, monkeypatch):
    def refused(*paths):
        raise PermissionError("no links")

    monkeypatch.setattr("corpora.web.recording.os.link", refused)
    filled(site)
    assert live()(QUERY, 1)[0].title == "Varrow"


def test_a_network_that_is_down_is_not_recorded_as_pages_that_are_gone(site, live):
    good = site.page("/varrow", "<title>Varrow</title><p>Ilse Varrow was born in Tolmen.</p>")
    site.results = [{"url": f"http://127.0.0.1:{port}/", "content": "s"} for port in (1025, 1026, 1027)]
    retrieve = live()
    with pytest.raises(UserError, match="None of 3 pages can be reached"):
        retrieve(QUERY, 1)
    with pytest.raises(UserError, match="None of 3 pages"):  # it is tried again
        retrieve(QUERY, 1)
    site.results.append({"url": good})
    with pytest.warns(UserNotice, match=r"3 of 4 pages .* record into a new folder"):
        found = retrieve("again", 9)
    assert {each.text for each in found} == {"Ilse Varrow was born in Tolmen.", "s"}


def test_addresses_of_results_may_be_anything(site, live):
    site.results = [
        {"url": url, "content": "s"} for url in ("http://[broken", "https://", "http://a b/", "http://x:y/")
    ]
    with pytest.warns(UserNotice, match="could not be fetched"):
        assert {each.text for each in live()(QUERY, 9)} == {"s"}


def test_what_names_the_web(tmp_path):
    assert is_web(None, "serper")
    assert is_web(None, "mine.toml")
    assert is_web(None, "web")
    assert not is_web(tmp_path, None)
    assert not is_web(tmp_path, "bm25")
