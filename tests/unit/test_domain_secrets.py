"""Secrets do not show in output, however it is cut."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskflow_domain import Redactor, secret_values
from taskflow_domain.secrets import LONGEST_HELD_LINE

SECRETS = st.lists(st.text(alphabet="ab", min_size=1, max_size=9), max_size=4)
OUTPUT = st.text(alphabet="ab \r\n", max_size=60).map(str.encode)
PATTERNS = st.sampled_from([[], ["ab+"], ["b a"], ["a*$"], ["^a", "bb"], ["x*"]])


def shown(redactor: Redactor, *chunks: bytes) -> bytes:
    """All that a stream of these chunks lets through."""
    return b"".join(map(redactor.feed, chunks)) + redactor.flush()


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """`data` in pieces."""
    edges = [0, *sorted(min(place, len(data)) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


@given(SECRETS, PATTERNS, OUTPUT, st.lists(st.integers(0, 60), max_size=12))
def test_the_cuts_make_no_difference(secrets: list[str], patterns: list[str], data: bytes, places: list[int]) -> None:
    """Any split of the output shows the same as the output at once."""
    assert shown(Redactor(secrets, patterns), *cut(data, places)) == shown(Redactor(secrets, patterns), data)


@given(SECRETS, OUTPUT, st.lists(st.integers(0, 60), max_size=12))
def test_a_stream_shows_what_one_replacement_would(secrets: list[str], data: bytes, places: list[int]) -> None:
    """Of the secrets that begin first, the longest is replaced, as in a text that is there as a whole."""
    hidden = sorted({secret for secret in secrets if len(secret) >= 4}, key=len, reverse=True)
    expected = re.sub("|".join(hidden).encode(), b"***", data) if hidden else data

    assert shown(Redactor(secrets), *cut(data, places)) == expected


@given(st.lists(st.integers(0, 3 * LONGEST_HELD_LINE), max_size=8), st.integers(0, 2 * LONGEST_HELD_LINE))
def test_the_cuts_make_no_difference_to_long_lines(places: list[int], blank: int) -> None:
    """Lines longer than what is held back are cut by their own content."""
    data = bytearray(b"key=abcd1234" * (LONGEST_HELD_LINE // 4))
    data[blank] = ord(" ")

    assert shown(Redactor([], ["key=.{8}"]), *cut(bytes(data), places)) == shown(
        Redactor([], ["key=.{8}"]), bytes(data)
    )


def test_a_secret_is_hidden_in_one_chunk_in_two_and_byte_by_byte() -> None:
    """A value split over chunks is still the value."""
    for chunks in ([b"is hunter2!"], [b"is hun", b"ter2!"], [bytes([byte]) for byte in b"is hunter2!"]):
        assert shown(Redactor(["hunter2"]), *chunks) == b"is ***!"


def test_only_what_may_become_a_secret_is_held_back() -> None:
    """The rest is seen at once, and so is a beginning once it goes on otherwise."""
    redactor = Redactor(["hunter2"])

    assert redactor.feed(b"a line\nhun") == b"a line\n"
    assert redactor.feed(b"gry\nnot h") == b"hungry\nnot "
    assert redactor.feed(b"unter2, ") == b"***, "
    assert redactor.feed(b"hunter") == b""
    assert redactor.flush() == b"hunter"
    assert redactor.flush() == b""


def test_without_secrets_the_data_itself_passes() -> None:
    """The common case copies nothing."""
    data = b"x" * 1000

    assert Redactor().feed(data) is data
    assert Redactor(["abc", ""]).feed(data) is data


def test_a_pattern_sees_a_whole_line_and_holds_no_more() -> None:
    """A line is shown when it has ended, by a newline or a carriage return."""
    redactor = Redactor([], [r"token=\S+", re.compile(rb"(?i)bearer \w+")])

    assert redactor.feed(b"first\ntok") == b"first\n"
    assert redactor.feed(b"en=abc") == b""
    assert redactor.feed(b"def and Bearer xyz\r10%") == b"*** and ***\r"
    assert redactor.flush() == b"10%"


def test_a_line_without_an_end_does_not_grow_memory() -> None:
    """At most a bounded tail is held back; it is cut at a blank, so that a word is seen whole."""
    redactor = Redactor([], [r"token=\w+"])
    line = b"x" * (LONGEST_HELD_LINE - 10) + b" token=abcdefghijklmnop and more " + b"y" * LONGEST_HELD_LINE * 3

    first = redactor.feed(line)

    assert len(first) >= len(line) - LONGEST_HELD_LINE - 30
    assert b"token" not in first
    assert b" *** and more " in first


def test_an_added_secret_is_hidden_from_then_on() -> None:
    """A secret that only the running job knows."""
    redactor = Redactor()

    assert redactor.feed(b"s3cr3t ") == b"s3cr3t "
    redactor.add("s3cr3t")
    assert shown(redactor, b"s3c", b"r3t") == b"***"


@pytest.mark.parametrize("secret", ["caf\udce9", "half\ud800"])
def test_a_secret_of_any_characters_is_taken(secret: str) -> None:
    """Environments hold bytes that are no text; those are hidden as they are."""
    assert shown(Redactor([secret]), b"caf\xe9 half\xed\xa0\x80").count(b"***") == 1


def test_each_line_of_a_secret_with_several_is_hidden() -> None:
    """A key is hidden also where it is printed line by line, or without its last newline."""
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\n}\n"

    assert shown(Redactor([key]), b"> kqhkiG9w0BAQEF\n}\n") == b"> ***\n}\n"
    assert shown(Redactor([key]), key.strip().encode()) == b"***"
    assert shown(Redactor([key]), key.encode()) == b"***"


def test_values_are_secret_by_the_names_of_their_variables() -> None:
    """Password, token, key: whatever the case; values too short to hide are left out, and none is there twice."""
    env = {
        "DB_PASSWORD": "hunter2",
        "ApiKey": "k-123",
        "API_KEY": "k-123",
        "HOME": "/root",
        "TOKEN": "abc",
        "secret_x": "éééé",
    }

    assert secret_values(env) == ["hunter2", "k-123", "éééé"]
    assert secret_values(env, "^HOME$") == ["/root"]
    assert secret_values(env, "") == []


@pytest.mark.parametrize(
    "name",
    [
        "PASSWORD", "PGPASSWORD", "DB_PASSWORD_1", "DBPASSWORDS", "HTPASSWD", "SSH_PASSPHRASE", "PASSCODE",
        "PASS", "DBPASS", "DB_PASS", "PASS_2", "DBPASS2", "dbPass", "Db-Pass",
        "MYSQL_PWD", "DBPWD", "PWD_PWD", "db_pwd",
        "SECRET", "CLIENT_SECRETS", "SECRET_KEY_BASE", "SECRETKEY", "AWS_SECRET_ACCESS_KEY",
        "CREDENTIAL", "GOOGLE_CREDENTIALS", "PRIVATE_KEY", "SSHPRIVATEKEY", "API_KEY", "ApiKey", "APIKEYS", "x.api_key",
        "STORAGE_ACCESS_KEY", "ACCESSKEY",
        "TOKEN", "GITHUB_TOKEN", "GITHUBTOKEN", "token_2", "NPM_TOKEN_PROD",
    ],
)  # fmt: skip
def test_a_name_that_speaks_of_a_secret_hides_its_value(name: str) -> None:
    """Whatever its case, and with or without underscores."""
    assert secret_values({name: "hunter2"}) == ["hunter2"]


@pytest.mark.parametrize(
    "name",
    [
        "TOKENIZERS_PARALLELISM", "MAX_TOKENS", "TOKENIZER", "BYPASS_CACHE", "GIT_ASKPASS", "COMPASS", "ENCOMPASS_URL",
        "TRESPASS", "PASSENGER_ENV", "PASSIVE_MODE", "PASSTHROUGH", "PASSPORT_COUNTRY", "PASSWORDLESS_LOGIN",
        "PWD", "OLDPWD", "pwd", "AWS_ACCESS_KEY_ID", "ACCESSKEYID", "PRIVATE_KEY_ID", "PRIVATE_REPO", "MONKEY", "KEY",
        "ACCESS_LOG", "SECRETARY", "API_URL", "HOME", "PATH", "",
    ],
)  # fmt: skip
def test_a_name_that_only_looks_like_one_hides_nothing(name: str) -> None:
    """`TOKENIZERS_PARALLELISM=false` would else make `***` of every false in the output."""
    assert secret_values({name: "false"}) == []


def test_what_is_no_regular_expression_is_refused_with_a_sentence() -> None:
    """A configured pattern that cannot be read is named."""
    with pytest.raises(ValueError, match="is not a regular expression"):
        secret_values({}, "(")
    with pytest.raises(ValueError, match="is not a regular expression"):
        Redactor([], ["("])


def test_a_plain_word_is_no_secret() -> None:
    """Whatever the variable is called: hiding it would hide half of what a job prints."""
    assert secret_values({"A_TOKEN": "true", "B_TOKEN": "None", "C_TOKEN": "truest"}) == ["truest"]
