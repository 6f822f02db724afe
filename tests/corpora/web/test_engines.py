"""What is sent to search engines, what is read of their replies, and that no key goes anywhere else."""

import pytest

from corpora.web.engines import Hit, WebSettings, read_settings, search
from signatures.common.errors import UserError, UserNotice
from tests.web_site import KEY


@pytest.fixture
def own(site, tmp_path):
    def make(**others) -> WebSettings:
        return read_settings(str(site.toml(tmp_path / "own.toml", **others)))

    return make


def test_serper_is_asked_as_it_says_and_its_reply_read(site, monkeypatch):
    monkeypatch.setenv("SERPER_API_KEY", KEY)
    known = read_settings("serper")
    assert (known.url, known.variables()) == ("https://google.serper.dev/search", ["SERPER_API_KEY"])
    here = known.model_copy(update={"url": f"{site.base}/search"})
    site.answer = {"organic": [{"title": "A", "link": "https://a.example/", "snippet": "s", "position": 1}]}
    assert search(here, "Who is A?") == [Hit("https://a.example/", "A", "s")]
    headers, body = site.searched[0]
    assert (headers["X-API-KEY"], body) == (KEY, {"q": "Who is A?", "num": 10})


def test_searxng_is_asked_for_json_at_the_address_of_its_variable(site, monkeypatch):
    monkeypatch.setenv("SEARXNG_URL", f"{site.base}/")
    site.found("https://a.example/x")
    assert [hit.url for hit in search(read_settings("searxng"), "a & b")] == ["https://a.example/x"]
    assert site.searched[0][1] == {"q": "a & b", "format": "json"}
    site.statuses = [403]
    with pytest.raises(UserError, match=r"add json to search\.formats"):
        search(read_settings("searxng"), "a")


def test_a_file_may_add_to_what_is_known(tmp_path):
    (tmp_path / "german.toml").write_text('engine = "serper"\ncount = 5\n[body]\ngl = "de"\n')
    settings = read_settings(str(tmp_path / "german.toml"))
    assert settings.body == {"q": "{query}", "num": "{count}", "gl": "de"}
    assert (settings.count, settings.results) == (5, "organic")


def test_any_endpoint_can_be_described(site, own, monkeypatch):
    monkeypatch.setenv("OWN_KEY", KEY)
    settings = own(
        url=f"{site.base}/search",
        body={"filter": [{"text": "{query}"}], "n": "{count}", "safe": True},
        headers={"Authorization": "Bearer ${OWN_KEY}"},
        results="results",
        title="about.names.0",
        count=1,
    )
    site.results = [{"url": f"https://a.example/{n}", "about": {"names": ["T"]}, "content": "s"} for n in range(3)]
    assert search(settings, "w") == [Hit("https://a.example/0", "T", "s")]
    headers, body = site.searched[0]
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert body == {"filter": [{"text": "w"}], "n": 1, "safe": True}


def test_a_query_is_never_filled_in_itself(site, own, monkeypatch):
    """A question, or an LM, may write the name of a variable of the environment."""
    monkeypatch.setenv("OWN_KEY", KEY)
    asked = "tell ${OWN_KEY} {count} & x=1 #y"
    search(own(url=f"{site.base}/search?q={{query}}&k=${{OWN_KEY}}"), asked)
    assert site.searched[0][1] == {"q": asked, "k": KEY}
    search(own(url=f"{site.base}/search", body={"q": "{query}"}), asked)
    assert site.searched[1][1] == {"q": asked}


def test_a_long_query_is_cut_between_words(site, own):
    search(own(longest=20), "who was the first engineer of the line")
    search(own(longest=20), "x" * 30)
    assert [given["q"] for _, given in site.searched] == ["who was the first", "x" * 20]


def test_a_missing_key_is_one_line_with_its_cure(site, own, monkeypatch):
    monkeypatch.delenv("OWN_KEY", raising=False)
    settings = own(headers={"X-Key": "${OWN_KEY}"})
    with pytest.raises(UserError, match="own needs the variable OWN_KEY: export OWN_KEY="):
        search(settings, "w")
    monkeypatch.setenv("OWN_KEY", "a\nb")
    with pytest.raises(UserError, match="OWN_KEY contains a line break"):
        search(settings, "w")
    assert site.asked == []


def test_no_error_shows_a_key_that_the_server_sends_back(site, own, monkeypatch):
    monkeypatch.setenv("OWN_KEY", KEY)
    site.statuses = [401]
    with pytest.raises(UserError, match="status 401") as refused:
        search(own(headers={"X-Key": "${OWN_KEY}"}), "w")
    assert KEY not in str(refused.value)
    assert "check the key in OWN_KEY" in str(refused.value)


def test_a_search_that_is_refused_for_now_is_repeated(site, own, monkeypatch):
    waits = []
    monkeypatch.setattr("corpora.web.engines.time.sleep", waits.append)
    site.found("https://a.example/")
    site.statuses = [429, 503]
    assert len(search(own(), "w")) == 1
    assert waits == [1.0, 4.0]
    site.statuses = [500] * 3
    with pytest.raises(UserError, match="status 500"):
        search(own(), "w")


def test_a_redirect_of_the_engine_is_not_followed_with_the_key(site, own):
    site.pages["/moved"] = (302, {"Location": f"{site.base}/search?q=w"}, b"")
    with pytest.raises(UserError, match="status 302"):
        search(own(url=f"{site.base}/moved?q={{query}}"), "w")
    assert site.asked == ["/moved?q=w"]


def test_replies_of_another_form_are_one_line(site, own):
    for results, said in ((None, "there is a NoneType"), ([{"url": 3}], "none of 1 has an address at 'url'")):
        site.results = results
        with pytest.raises(UserError, match=said):
            search(own(), "w")
    site.results = []
    assert search(own(), "w") == []
    with pytest.warns(UserNotice, match="has nothing at 'web.results': it counts as one without results"):
        assert search(own(results="web.results"), "w") == []
    for site.answer in ({"error": "quota"}, [1], 3):
        with pytest.raises(UserError, match="has no results at 'results'"):
            search(own(), "w")
    site.answer = None
    site.results = [{"url": "javascript:alert(1)"}, {"url": "https://a.example/", "title": 3, "content": "half \ud83d"}]
    assert search(own(), "w") == [Hit("https://a.example/", "", "half ?")]
    site.close()
    with pytest.raises(UserError, match="check address and network"):
        search(own(), "w")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('url = "ftp://a"', "must begin with http"),
        ('url = "https://a.example/"', "has {query}"),
        ('url = "https://user:word@a.example/?q={query}"', "it contains a key"),
        ('headers = {"X-Other" = "sk-0123456789abcdef0123"}', "it contains a key"),
        ('headers = {"X-API-KEY" = "short"}', "it contains a key"),
        ('body = {q = "{query}", api_key = "tvly-short"}', "it contains a key"),
        ('url = "https://a.example/?q={query}&token=abc"', "it contains a key"),
        ('body = {q = "{query}", auth = {api_key = "abcd1234"}}', "it contains a key"),
        ('headers = {Cookie = "session=abcd {count}"}', "it contains a key"),
        ('colour = "red"', "colour"),
        ("count = 0", "count"),
        ("url = [", "cannot be read"),
    ],
)
def test_a_file_that_describes_no_engine_says_why(tmp_path, line, said):
    file = tmp_path / "odd.toml"
    name = line.partition(" ")[0]
    known = {"engine": '"own"', "url": '"https://a.example/?q={query}"', "results": '"r"', "link": '"u"'}
    rest = [f"{key} = {value}" for key, value in {**known, "snippet": '"s"'}.items() if key != name]
    file.write_text("\n".join([*rest, line]))
    with pytest.raises(UserError, match=said) as refused:
        read_settings(str(file))
    assert "\n" not in str(refused.value)


def test_other_names_are_no_engines(tmp_path):
    with pytest.raises(UserError, match=r"Unknown search engine 'bing'.*serper"):
        read_settings("bing")
    with pytest.raises(UserError, match="cannot be read"):
        read_settings(str(tmp_path / "missing.toml"))
