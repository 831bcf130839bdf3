"""Settings: where they come from, who wins, and what is said about a bad one."""

import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field, ValidationError

from taskflow_domain import Redactor
from taskflow_runtime import BadSetting, CommaList, PatternList, Settings, read
from taskflow_runtime.sources import DATABASE_URL, PLAIN_NAMES, PREFIX, foreign_database_url
from taskflow_worker.settings import WorkerSettings


class WorkerLike(Settings):
    """A service's settings, with the kinds of fields that the shared ones do not have."""

    worker_concurrency: int = Field(16, ge=1, le=10_000)
    denylist_cmds: CommaList = ()
    redact_patterns: PatternList = ()
    insecure: bool = False


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty directory, and an environment without a setting in it."""
    for name in list(os.environ):
        if name.startswith(PREFIX) or name in PLAIN_NAMES or name == DATABASE_URL:
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def complaint(cls: type[Settings] = WorkerLike, **overrides: Any) -> str:
    """What `read` says when it refuses."""
    with pytest.raises(BadSetting) as refusal:
        read(cls, **overrides)
    return str(refusal.value)


def test_each_source_beats_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Command line, environment, .env, YAML file, default: in this order."""
    assert read(Settings).namespace == "tf"

    Path("taskflow.yaml").write_text("namespace: from_yaml")
    assert read(Settings).namespace == "from_yaml"

    Path(".env").write_text("TASKFLOW_NAMESPACE=from_dotenv")
    assert read(Settings).namespace == "from_dotenv"

    monkeypatch.setenv("TASKFLOW_NAMESPACE", "from_environment")
    assert read(Settings).namespace == "from_environment"

    assert read(Settings, namespace="from_command_line").namespace == "from_command_line"


def test_an_override_that_was_not_given_overrides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command line option without a value is None, and leaves the setting to the other sources."""
    monkeypatch.setenv("TASKFLOW_NAMESPACE", "mine")

    assert read(Settings, namespace=None).namespace == "mine"


def test_an_empty_variable_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """`TASKFLOW_API_TOKEN=` in a compose file means no token, not an empty one."""
    monkeypatch.setenv("TASKFLOW_API_TOKEN", "")
    monkeypatch.setenv("TASKFLOW_PARTITIONS", "")

    settings = read(Settings)

    assert settings.api_token is None
    assert settings.partitions is None


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("VISIBILITY_TIMEOUT_S", "60", "visibility_timeout_s", 60.0),
        ("LEASE_RENEWAL_S", "2.5", "lease_renewal_s", 2.5),
        ("HEARTBEAT_S", "3", "heartbeat_s", 3.0),
        ("WORKER_CONCURRENCY", "4", "worker_concurrency", 4),
        ("DENYLIST_CMDS", "rm, shutdown ,,dd", "denylist_cmds", ("rm", "shutdown", "dd")),
        ("LOG_LEVEL", "WARN", "log_level", "warning"),
        ("DATABASE_URL", "rediss://broker:6380/1", "redis_url", "rediss://broker:6380/1"),
    ],
)
@pytest.mark.parametrize("place", ["environment", ".env", "yaml"])
def test_plain_names_are_read_as_they_are(
    monkeypatch: pytest.MonkeyPatch, place: str, name: str, text: str, field: str, value: object
) -> None:
    """The names that need no prefix work in all three places."""
    if place == "environment":
        monkeypatch.setenv(name, text)
    elif place == ".env":
        Path(".env").write_text(f"{name}={text}")
    else:
        Path("taskflow.yaml").write_text(f"{name}: {text}")

    assert getattr(read(WorkerLike), field) == value


@pytest.mark.parametrize(
    ("text", "patterns"),
    [
        ("a,b", ("a", "b")),
        (" a , b ,,", ("a", "b")),
        (r"card \d{13,16}", (r"card \d{13,16}",)),
        (r"card \d{13,16},key=\w+", (r"card \d{13,16}", r"key=\w+")),
        ("x{,3},y{2,}", ("x{,3}", "y{2,}")),
        ("(a,b),c", ("(a,b)", "c")),
        ("((a,b),c),d", ("((a,b),c)", "d")),
        ("[,;],c", ("[,;]", "c")),
        ("[(],[^)],c", ("[(]", "[^)]", "c")),
        ("[],],[^],]", ("[],]", "[^],]")),
        (r"[\],],c", (r"[\],]", "c")),
        (r"a\,b,c", (r"a\,b", "c")),
        (r"\(a,b\)", (r"\(a", r"b\)")),
        (r"a\\,b", (r"a\\", "b")),
        ("a{,b", ("a{", "b")),
    ],
)
def test_a_comma_within_a_pattern_belongs_to_it(
    monkeypatch: pytest.MonkeyPatch, text: str, patterns: tuple[str, ...]
) -> None:
    """Only one outside of brackets, and not escaped, ends a pattern."""
    monkeypatch.setenv("TASKFLOW_REDACT_PATTERNS", text)

    assert read(WorkerLike).redact_patterns == patterns


def test_a_list_of_patterns_is_taken_as_it_is() -> None:
    """In the file there is no need to cut."""
    Path("taskflow.yaml").write_text(r"redact_patterns: ['a,b', 'card \d{13,16}']")

    assert read(WorkerLike).redact_patterns == ("a,b", r"card \d{13,16}")


@pytest.mark.parametrize("text", ["(a,b", "[a,b", "a),b", "a,b\\"])
def test_a_pattern_with_a_bracket_too_few_or_too_many_is_told(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Wherever it was cut, something is left that is no regular expression."""
    monkeypatch.setenv("TASKFLOW_REDACT_PATTERNS", text)

    assert "is no regular expression" in complaint(WorkerSettings)


def test_a_pattern_with_a_comma_hides_what_it_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker's setting, as it is used."""
    monkeypatch.setenv("TASKFLOW_REDACT_PATTERNS", r"card \d{13,16}")
    redactor = Redactor([], read(WorkerSettings).redact_patterns)

    assert redactor.feed(b"paid with card 4111111111111111\n") == b"paid with ***\n"


def test_the_prefixed_name_wins_beside_the_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one place the more particular name counts; a stronger place beats both."""
    Path(".env").write_text("TASKFLOW_HEARTBEAT_S=1\nHEARTBEAT_S=2")
    assert read(Settings).heartbeat_s == 1

    monkeypatch.setenv("HEARTBEAT_S", "3")
    assert read(Settings).heartbeat_s == 3


def test_other_settings_have_no_plain_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """`NAMESPACE` in the environment is somebody else's."""
    monkeypatch.setenv("NAMESPACE", "kubernetes")

    assert read(Settings).namespace == "tf"


def test_database_url_names_the_broker_when_nothing_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """TASKFLOW_REDIS_URL wins, wherever it stands."""
    monkeypatch.setenv("DATABASE_URL", "unix:///run/redis.sock")
    assert read(Settings).redis_url == "unix:///run/redis.sock"

    Path(".env").write_text("TASKFLOW_REDIS_URL=redis://mine:6379/0")
    assert read(Settings).redis_url == "redis://mine:6379/0"


@pytest.mark.parametrize("url", ["postgres://app:pw@db/app", "sqlite:///x.db", "http://[", "nonsense"])
def test_a_database_url_of_another_kind_is_ignored(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """An application's own database does not stop TaskFlow, and is told apart."""
    monkeypatch.setenv("DATABASE_URL", url)

    assert read(Settings).redis_url == "redis://127.0.0.1:6379/0"
    assert foreign_database_url() == url.partition("://")[0]


@pytest.mark.parametrize(
    ("variable", "value", "rule"),
    [
        ("TASKFLOW_PARTITIONS", "0", "a whole number from 1 to 1024"),
        ("TASKFLOW_PARTITIONS", "many", "a whole number from 1 to 1024"),
        ("TASKFLOW_NAMESPACE", "a b", "text that matches ^[A-Za-z0-9_.-]{1,32}$"),
        ("TASKFLOW_LOG_LEVEL", "loud", "one of debug, info, warning, error, critical"),
        ("TASKFLOW_LOG_FORMAT", "xml", "one of auto, json, pretty"),
        ("TASKFLOW_HEALTH_PORT", "65536", "a whole number from 0 to 65535"),
        ("TASKFLOW_STOP_GRACE_S", "-1", "a number of at least 0"),
        ("TASKFLOW_INSECURE", "perhaps", "true or false"),
        ("HEARTBEAT_S", "nan", "a number greater than 0"),
        ("WORKER_CONCURRENCY", "0", "a whole number from 1 to 10000"),
        ("TASKFLOW_REDIS_URL", "http://broker", "a redis://host:port/db, rediss://host:port/db or unix:///path URL"),
        ("TASKFLOW_REDIS_URL", "redis://h:port", "a redis://host:port/db, rediss://host:port/db or unix:///path URL"),
        ("TASKFLOW_REDIS_URL", "redis://[::1", "a redis://host:port/db, rediss://host:port/db or unix:///path URL"),
    ],
)
def test_a_bad_value_is_told_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, rule: str
) -> None:
    """The sentence has the name as it was written, the value, and what is allowed."""
    monkeypatch.setenv(variable, value)

    assert complaint() == f"{variable} is {value!r}, but must be {rule}."


def test_the_sentence_says_which_file_is_wrong() -> None:
    """A value in a file is named with its file; one from the command line as such."""
    Path("taskflow.yaml").write_text("log_format: xml")
    assert complaint().startswith("log_format (taskflow.yaml) is 'xml', but must be one of")

    Path(".env").write_text("TASKFLOW_LOG_FORMAT=csv")
    assert complaint().startswith("TASKFLOW_LOG_FORMAT (.env) is 'csv', but")

    assert complaint(log_format="toml").startswith("TASKFLOW_LOG_FORMAT (command line) is 'toml', but")


def test_every_bad_setting_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody mends one only to hear of the next."""
    monkeypatch.setenv("TASKFLOW_PARTITIONS", "0")
    monkeypatch.setenv("LOG_LEVEL", "loud")

    assert "TASKFLOW_PARTITIONS is '0'" in complaint()
    assert "LOG_LEVEL is 'loud'" in complaint()


@pytest.mark.parametrize("url", ["http://me:hunter2@broker/0", "redis://:hunter2@broker:port/0"])
def test_a_complaint_keeps_passwords(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """The sentence may end in a log or a ticket."""
    monkeypatch.setenv("TASKFLOW_REDIS_URL", url)

    assert "TASKFLOW_REDIS_URL is" in complaint()
    assert "hunter2" not in complaint()


def test_settings_do_not_show_their_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Printing them for debugging gives away neither password nor token."""
    monkeypatch.setenv("TASKFLOW_REDIS_URL", "redis://:hunter2@broker/0")
    monkeypatch.setenv("TASKFLOW_API_TOKEN", "s3cret")

    settings = read(Settings)

    assert settings.api_token is not None
    assert settings.api_token.get_secret_value() == "s3cret"
    assert "hunter2" not in repr(settings)
    assert "s3cret" not in repr(settings)


@pytest.mark.parametrize("field", ["heartbeat_s", "lease_renewal_s"])
def test_renewals_come_before_the_lease_is_lost(field: str) -> None:
    """A pause as long as the visibility time-out would lose every lease."""
    told = complaint(Settings, **{field: 15})

    assert told.startswith(f"TASKFLOW_{field.upper()} (15) must be less than TASKFLOW_VISIBILITY_TIMEOUT_S (15)")
    assert getattr(read(Settings, **{field: 14.9}), field) == 14.9


def test_a_variable_nobody_knows_is_nobodys_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version, or another program, may know it."""
    monkeypatch.setenv("TASKFLOW_FROBNICATE", "1")

    assert read(Settings) == Settings()


def test_a_key_nobody_knows_in_the_file_is_an_error() -> None:
    """The file is ours alone, so a strange key is a typing error, and is named."""
    Path("taskflow.yaml").write_text("visibility_timeout: 30")

    assert complaint() == (
        "taskflow.yaml has an unknown key 'visibility_timeout'; did you mean 'visibility_timeout_s'?"
    )


def test_the_file_serves_all_services() -> None:
    """A key that belongs to another service is not unknown."""
    Path("taskflow.yaml").write_text("cron_hold_s: 2\nretry_max_default: 1\nnamespace: shared")

    assert read(Settings).namespace == "shared"


def test_the_file_may_stand_elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """TASKFLOW_CONFIG names it, in the environment or in .env; then it has to be there."""
    elsewhere = tmp_path / "conf" / "tf.yaml"
    Path(".env").write_text(f"TASKFLOW_CONFIG={elsewhere}")
    assert f"TASKFLOW_CONFIG names {elsewhere}, which cannot be read" in complaint()

    elsewhere.parent.mkdir()
    elsewhere.write_text("namespace: ~\nDENYLIST_CMDS: [rm, dd]\nworker_concurrency: 3")
    settings = read(WorkerLike)

    assert (settings.namespace, settings.denylist_cmds, settings.worker_concurrency) == ("tf", ("rm", "dd"), 3)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [", "taskflow.yaml is not valid YAML"),
        ("just words", "taskflow.yaml must hold settings as `name: value` lines."),
        ("1: x", "taskflow.yaml must hold settings as `name: value` lines."),
        ("namespace: [a]", "namespace (taskflow.yaml) is ['a'], but must be text that matches"),
    ],
)
def test_a_broken_file_is_told(text: str, told: str) -> None:
    """What cannot be read as settings is not guessed at."""
    Path("taskflow.yaml").write_text(text)

    assert complaint().startswith(told)


def test_an_empty_file_says_nothing() -> None:
    """A file with comments only is as good as none."""
    Path("taskflow.yaml").write_text("# later\n")

    assert read(Settings) == Settings()


def test_settings_stay_as_they_were_read() -> None:
    """They are read once; nothing changes them afterwards."""
    settings = read(Settings)

    with pytest.raises(ValidationError, match="frozen"):
        settings.namespace = "other"  # type: ignore[misc]


def test_an_option_that_is_no_setting_is_refused() -> None:
    """A service started with a name that nobody reads would do something else than asked."""
    assert complaint(Settings, frobnicate=1) == "There is no setting 'frobnicate'."
