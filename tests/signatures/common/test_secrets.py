"""Keys and passwords become stars; ordinary words do not."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signatures.common import secrets
from signatures.common.errors import one_line
from signatures.common.secrets import redact, redacted, without_secrets, without_userinfo
from tests.conftest import load_module

KEY = "sk-4f9a8b7c6d5e"


@pytest.fixture(autouse=True)
def no_other_keys(monkeypatch):
    monkeypatch.setattr(secrets, "_registered", set())
    for name in list(secrets.os.environ):
        if name.upper().endswith(secrets._PROVIDER_VARIABLES):
            monkeypatch.delenv(name)


VARIABLES = ("OPENAI_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_BEARER_TOKEN_BEDROCK", "lab_api_key")


@pytest.mark.parametrize("name", VARIABLES)
def test_keys_of_providers_are_known_from_the_environment(name, monkeypatch):
    assert redact(f"key {KEY}.") == f"key {KEY}."
    monkeypatch.setenv(name, KEY)
    assert redact(f"key {KEY}.") == "key ***."


def test_a_registered_key_is_hidden_in_all_its_spellings():
    secrets.register('a"key/with+signs 12345', None, "")
    for text in ('a"key/with+signs 12345', 'a\\"key/with+signs 12345', "a%22key%2Fwith%2Bsigns%2012345"):
        assert redact(f"<{text}>") == "<***>"


FORMS = load_module(Path(__file__).parents[2] / "experiments" / "cli" / "hostile_server.py").FORMS
AWKWARD = "sk-a/b+c&d\"e<f'g\\h=i4f9a8b7c"


@pytest.mark.parametrize("key", [KEY, AWKWARD, "pass%40word&amp;1\\u0041", "gr\u00fc\u00dfe-aus-4-L\u00e4ndern"])
@pytest.mark.parametrize("form", FORMS)
def test_a_key_is_hidden_in_whatever_form_it_is_sent_back(form, key):
    if not key.isascii() and form in ("hexadecimal", "url in lower case"):
        pytest.skip("two digits are a byte")
    secrets.register(key)
    sent = FORMS[form](key)
    hidden = redact(f"<{sent}>, <x{sent[:3]}>")
    assert "***" in hidden
    assert hidden.endswith(f">, <x{sent[:3]}>")
    assert hidden.startswith("<")
    for part in range(0, len(sent) - 12):
        assert sent[part : part + 12] not in hidden
    assert redacted({"a": [sent]}) == {"a": [redact(sent)]}


@given(st.text(alphabet='&#;%\\ux0123456789abcdefALT<>"', max_size=60))
def test_a_text_without_keys_stays_as_it_is_whatever_its_escapes(text):
    secrets.register("sk-no-such-key-4f9a")
    assert redact(text) == text


@pytest.mark.parametrize("key", ["none", "test", "EMPTY", "question", "placeholder", "12345678", "sk-1"])
def test_a_key_that_could_be_a_word_or_a_number_hides_no_answer(key):
    secrets.register(key)
    plain = f"The {key} of the {key}, and the bearer of news."
    assert redact(plain) == plain
    assert redact(f"Authorization: Bearer {key}") == "Authorization: Bearer ***"
    assert redact(f'{{"Authorization": "Bearer {key}"}}') == '{"Authorization": "Bearer ***"}'
    assert redact(f"wrong api key: {key}.") == "wrong api key: ***."


def test_a_header_is_hidden_even_if_its_key_is_unknown():
    assert redact("got authorization: bearer abc.def-ghi, sorry") == "got authorization: bearer ***, sorry"
    assert redact("Authorization: Basic YW5uOnB3") == "Authorization: Basic ***"


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("http://ann:pw@host/v1", "http://***@host/v1"),
        ("at https://ann:p%40w@[::1]:80 and", "at https://***@[::1]:80 and"),
        ("http://ann:p@ss@host/", "http://***@host/"),
        ("https://:token@host", "https://***@host"),
        ("ssh://git@example.org/a:b", "ssh://git@example.org/a:b"),
        ("http://host:8000/v1?mail=a@b", "http://host:8000/v1?mail=a@b"),
    ],
)
def test_a_password_in_an_address_is_hidden(text, hidden):
    assert redact(text) == hidden


@pytest.mark.parametrize("address", ["ftp://ann:pw@host", "ann:pw@host", "http://a/b:pw@host"])
def test_an_invalid_address_is_shown_without_what_may_be_a_password(address):
    assert "pw" not in without_userinfo(address)
    assert without_userinfo("http://host/v1") == "http://host/v1"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://ann:pw@host/v1", "http://***@host/v1"),
        ("http://host/sk-abcdefghijklmnopqrst/v1", "http://host/***/v1"),
        ("http://host/v1?key=swordfish", "http://host/v1?***"),
        ("http://host/v1#swordfish", "http://host/v1#***"),
        ("http://host:8000/task-force-one-and-two/v1", "http://host:8000/task-force-one-and-two/v1"),
    ],
)
def test_an_address_is_shown_without_secrets(address, shown):
    assert without_secrets(address) == shown


def test_a_key_in_an_address_is_hidden_from_then_on():
    secrets.register_address("http://host/sk-abcdefghijklmnopq124/v1")
    assert redact("no model sk-abcdefghijklmnopq124") == "no model ***"


def test_the_password_of_an_address_is_hidden_in_the_header_that_is_made_of_it():
    secrets.register_address("http://ann:Long-pass-1@host/v1")
    assert redact("Basic YW5uOkxvbmctcGFzcy0x and Long-pass-1") == "Basic *** and ***"


def test_values_of_rows_are_redacted_at_every_depth_and_others_are_the_same_object():
    secrets.register(KEY)
    row = {"answer": [{"text": KEY, "n": 1}], KEY: None}
    assert redacted(row) == {"answer": [{"text": "***", "n": 1}], "***": None}
    clean = {"answer": [{"text": "x"}]}
    assert redacted(clean) is clean


def test_the_environment_is_read_once_for_all_texts_of_a_value(monkeypatch):
    """Per text, it took 2 ms of each reply in an environment of 40 variables, and more in larger ones."""
    found, reads = secrets._keys, []
    monkeypatch.setattr(secrets, "_keys", lambda: reads.append(1) or found())
    redacted([{f"name{number}": "text"} for number in range(20)])
    assert len(reads) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        "://",
        "://a:",
        "authorization: bearer ",
        "bearer ",
        "a",
        ":",
        "@",
        "://a:@",
        "&amp;",
        "\\\\",
        "%25",
        "&#38;#38;",
        "\\\\u005c",
        "&",
    ],
)
def test_a_long_text_takes_linear_time(unit):
    """With a quadratic pattern, 600,000 characters would take minutes."""
    assert redact(unit * 150_000)


@given(st.text())
def test_redacting_twice_changes_nothing_more(text):
    assert redact(redact(text)) == redact(text)


@given(st.sampled_from(["Authorization", "AUTHORIZATION", "authorization"]), st.text(max_size=20), st.text(max_size=20))
def test_a_header_is_hidden_in_whatever_text_and_case(name, before, after):
    assert KEY not in redact(f"{before} {name}: Bearer {KEY} {after}")


@given(st.lists(st.sampled_from([KEY, f"x{KEY}y", "plain", f"https://u:{KEY}@host/", "authorization: bearer abcd"])))
def test_a_value_is_cleaned_as_each_of_its_texts(texts):
    secrets.register(KEY)
    value = {"rows": [{"text": text} for text in texts], "pair": tuple(texts)}
    cleaned = redacted(value)
    assert [row["text"] for row in cleaned["rows"]] == [redact(text) for text in texts]
    assert list(cleaned["pair"]) == [redact(text) for text in texts]
    assert (cleaned is value) == all(redact(text) == text for text in texts)


@pytest.mark.parametrize("before", range(280, 300, 5))
def test_a_line_that_is_cut_has_no_part_of_a_key(before, monkeypatch):
    key = "sk-live-7f9a8b7c6d5e4f3f"
    monkeypatch.setenv("LAB_API_KEY", key)
    line = one_line(f"{'x' * before} {key}")
    assert line.startswith("x" * before)
    assert key[:4] not in line
