"""Settings: precedence, refusals that name what is wrong, and a document that lists them all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from aiosd.settings import (
    HostPort,
    Settings,
    SettingsError,
    describe,
    find_config_file,
    load_settings,
    to_environ,
    to_toml,
)

HOME = {"HOME": "/home/ada"}
DOCUMENT = Path(__file__).parent.parent / "docs" / "settings.md"
TABLE_START = "<!-- settings: this table is checked by tests/test_settings.py -->\n"
TABLE_END = "<!-- end of settings -->\n"

DESIGN_DEFAULTS = {
    "max_concurrent_tasks": 10,
    "max_tasks_per_tool": 3,
    "max_queue_size": 100,
    "default_timeout_ms": 0,
    "sync_wait_ms": 60_000,
    "heartbeat_interval_ms": 5_000,
    "lease_ms": 15_000,
    "reattach_window_ms": 30_000,
    "offer_timeout_ms": 5_000,
    "cancel_grace_ms": 5_000,
    "pause_timeout_ms": 5_000,
    "input_timeout_ms": 0,
    "auth_timeout_ms": 300_000,
    "approval_timeout_ms": 60_000,
    "event_retention": 100_000,
    "task_retention_hours": 720,
    "idempotency_retention_hours": 24,
    "max_message_bytes": 1_048_576,
    "max_batch_size": 100,
    "webhook_allow": (),
    "default_capability": None,
    "retry_safe_attempts": 3,
    "http": HostPort("127.0.0.1", 9527),
    "a2a_grpc": HostPort("127.0.0.1", 9528),
    "log_format": "text",
}


def refusal(
    flags: dict[str, object], environ: dict[str, str] | None = None, config: Path | None = None
) -> str:
    """What is said about these settings; fails the test when they are accepted."""
    with pytest.raises(SettingsError) as refused:
        load_settings(flags, HOME | (environ or {}), config)
    return str(refused.value)


def config_file(folder: Path, text: str) -> Path:
    path = folder / "config.toml"
    path.write_text(text)
    return path


def test_defaults_are_those_of_the_design() -> None:
    settings = load_settings({}, HOME)

    assert {name: getattr(settings, name) for name in DESIGN_DEFAULTS} == DESIGN_DEFAULTS
    assert settings.permissions.model_dump() == {
        "auto_grant": (),
        "always_deny": (),
        "require_confirmation": "low",
        "default_duration": "session",
        "max_level": "critical",
    }


def test_default_paths_follow_xdg() -> None:
    environ = {"XDG_STATE_HOME": "/state", "XDG_RUNTIME_DIR": "/run/user/7"}

    settings = load_settings({}, HOME | environ)

    assert settings.state_dir == Path("/state/aiosd")
    assert settings.socket == Path("/run/user/7/aiosd/aiosd.sock")


def test_relative_xdg_variables_count_as_unset() -> None:
    environ = {"XDG_STATE_HOME": "state", "XDG_RUNTIME_DIR": "run"}

    settings = load_settings({}, HOME | environ)

    assert settings.state_dir == Path("/home/ada/.local/state/aiosd")
    assert settings.socket == Path("/home/ada/.local/state/aiosd/run/aiosd.sock")


def test_without_a_runtime_directory_the_socket_lives_in_the_state_directory() -> None:
    assert load_settings({"state_dir": "/s"}, HOME).socket == Path("/s/run/aiosd.sock")


def test_flags_beat_environment_beats_file_beats_default(tmp_path: Path) -> None:
    config = config_file(
        tmp_path, "max_queue_size = 1\nmax_batch_size = 2\nlease_ms = 16000\nevent_retention = 4\n"
    )
    environ = {"AIOSD_MAX_QUEUE_SIZE": "10", "AIOSD_MAX_BATCH_SIZE": "20"}

    settings = load_settings({"max_queue_size": 100}, HOME | environ, config)

    assert settings.max_queue_size == 100
    assert settings.max_batch_size == 20
    assert settings.lease_ms == 16_000
    assert settings.max_tasks_per_tool == 3


def test_a_flag_that_is_none_was_not_given() -> None:
    environ = HOME | {"AIOSD_LOG_FORMAT": "json"}

    assert load_settings({"log_format": None}, environ).log_format == "json"


def test_tables_are_nested_in_files_variables_and_flags(tmp_path: Path) -> None:
    config = config_file(tmp_path, '[permissions]\nauto_grant = ["a.*"]\nmax_level = "low"\n')
    environ = {"AIOSD_PERMISSIONS__MAX_LEVEL": "medium"}

    settings = load_settings({"permissions.always_deny": "x,y"}, HOME | environ, config)

    assert settings.permissions.auto_grant == ("a.*",)
    assert settings.permissions.max_level == "medium"
    assert settings.permissions.always_deny == ("x", "y")


@pytest.mark.parametrize(
    "text", ['["10.0.0.0/8", "hook.example:443"]', "10.0.0.0/8, hook.example:443,"]
)
def test_a_list_in_a_variable_is_json_or_comma_separated(text: str) -> None:
    settings = load_settings({}, HOME | {"AIOSD_WEBHOOK_ALLOW": text})

    assert settings.webhook_allow == ("10.0.0.0/8", "hook.example:443")


def test_an_empty_variable_unsets_an_optional_setting(tmp_path: Path) -> None:
    config = config_file(tmp_path, 'default_capability = "echo"\n')

    environ = HOME | {"AIOSD_DEFAULT_CAPABILITY": ""}

    assert load_settings({}, environ, config).default_capability is None


def test_an_unknown_key_in_the_file_is_refused_by_name(tmp_path: Path) -> None:
    config = config_file(tmp_path, "max_que_size = 1\n[permissions]\nautogrant = []\n")

    text = refusal({}, config=config)

    assert f"unknown setting 'max_que_size' in {config}; did you mean 'max_queue_size'?" in text
    assert "unknown setting 'permissions.autogrant'" in text


def test_an_unknown_variable_is_refused_by_name() -> None:
    text = refusal({}, {"AIOSD_MAX_QUEUE": "3"})

    assert "unknown setting 'AIOSD_MAX_QUEUE' in the environment" in text
    assert "'AIOSD_MAX_QUEUE_SIZE'" in text


def test_an_unknown_flag_is_refused_by_name() -> None:
    assert "unknown setting --max-que-size" in refusal({"max-que-size": 1})


def test_variables_of_the_client_are_left_alone() -> None:
    environ = {"AIOSD_TOKEN": "x", "AIOSD_TOKEN_FILE": "x", "AIOSD_ADDRESS": "x"}

    assert load_settings({}, HOME | environ) == load_settings({}, HOME)


def test_every_problem_is_reported_at_once() -> None:
    text = refusal({"max_batch_size": "many"}, {"AIOSD_LEASE_MS": "0", "AIOSD_X": ""})

    assert len(text.splitlines()) == 3


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("max_queue_size", "0", "must be greater than or equal to 1, got 0"),
        ("max_queue_size", "ten", "must be a whole number, got 'ten'"),
        ("max_queue_size", "1.5", "must be a whole number, got '1.5'"),
        ("max_batch_size", "10001", "must be less than or equal to 10000, got 10001"),
        ("log_format", "xml", "must be 'text' or 'json', got 'xml'"),
        ("store", "redis", "must be 'sqlite', got 'redis'"),
        ("http", "9527", "must be HOST:PORT, got '9527'"),
        ("http", "127.0.0.1:70000", "must have a port from 0 to 65535"),
        ("http", "[::g]:80", "must have an IPv6 address in the brackets"),
        ("http", "0.0.0.0:9527", "must be a loopback address"),
        ("a2a_grpc", "example.org:9528", "must be a loopback address"),
        ("http_allowed_hosts", "*", "has no wildcard"),
        ("http_allowed_hosts", "a b", "must have a host name"),
        ("http_allowed_origins", "null", "members are origins such as https://app.example"),
        ("http_allowed_origins", "https://a.example/x", "without a path"),
        ("webhook_allow", "10.0.0.0/33", "has a malformed network '10.0.0.0/33'"),
        ("webhook_allow", "intranet", "members are HOST:PORT or a network (CIDR)"),
        ("webhook_allow", "[1]", "must be a list of non-empty strings"),
        ("webhook_allow", "[oops", "must be a JSON array"),
        ("otlp_endpoint", "collector:4317", "must be an http or https URL"),
        ("permissions.max_level", "root", "must be 'public', 'low', 'medium'"),
        ("permissions.default_duration", "timed:0", "persistent or timed:SECONDS"),
        ("state_dir", "", "must be a path, got an empty string"),
    ],
)
def test_a_wrong_value_is_refused_with_its_name_and_its_bound(
    name: str, value: str, said: str
) -> None:
    row = next(row for row in describe() if row.name == name)

    by_flag = refusal({name: value})
    by_variable = refusal({}, {row.environment: value})

    assert by_flag.startswith(f"{name} ({row.flag}) ") and said in by_flag
    assert by_variable.startswith(f"{name} ({row.environment}) ") and said in by_variable


@pytest.mark.parametrize("toml", ["true", '"10"', "1.5", "[1]"])
def test_a_number_in_the_file_must_be_a_toml_integer(tmp_path: Path, toml: str) -> None:
    config = config_file(tmp_path, f"max_queue_size = {toml}\n")

    assert f"max_queue_size in {config} " in refusal({}, config=config)


def test_a_table_where_a_value_belongs_is_refused(tmp_path: Path) -> None:
    assert "http in " in refusal({}, config=config_file(tmp_path, "[http]\nport = 1\n"))
    assert "permissions" in refusal({}, config=config_file(tmp_path, "permissions = 3\n"))


def test_settings_that_do_not_fit_together_are_refused() -> None:
    lease = refusal({"heartbeat_interval_ms": 5000, "lease_ms": 5000})
    webhook = refusal({"webhook_connect_timeout_ms": 20_000})

    assert lease == "heartbeat_interval_ms (5000) must be less than lease_ms (5000)"
    assert "must be at most webhook_timeout_ms (15000)" in webhook


def test_a_missing_or_broken_file_is_named(tmp_path: Path) -> None:
    missing = refusal({}, config=tmp_path / "none.toml")
    broken = refusal({}, config=config_file(tmp_path, "max_queue_size = \n"))

    assert missing.startswith(f"cannot read the configuration file {tmp_path / 'none.toml'}")
    assert "is not valid TOML" in broken and "line 1" in broken


def test_the_file_is_the_one_asked_for_else_the_users_else_the_systems(tmp_path: Path) -> None:
    system = tmp_path / "system.toml"
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    assert find_config_file(environ, system_config=system) is None

    system.touch()
    assert find_config_file(environ, system_config=system) == system

    users = tmp_path / "config" / "aiosd" / "config.toml"
    users.parent.mkdir(parents=True)
    users.touch()
    assert find_config_file(environ, system_config=system) == users

    named = environ | {"AIOSD_CONFIG": "/named.toml"}
    assert find_config_file(named, system_config=system) == Path("/named.toml")
    assert find_config_file(named, Path("/flag.toml"), system_config=system) == Path("/flag.toml")


def test_the_users_file_is_read_without_being_named(tmp_path: Path) -> None:
    (tmp_path / "aiosd").mkdir()
    config_file(tmp_path / "aiosd", "max_queue_size = 7\n")

    assert load_settings({}, HOME | {"XDG_CONFIG_HOME": str(tmp_path)}).max_queue_size == 7


def test_paths_become_absolute_and_the_home_sign_is_expanded() -> None:
    settings = load_settings({"state_dir": "state", "socket": "~/a.sock"}, HOME)

    assert settings.state_dir == Path.cwd() / "state"
    assert settings.socket == Path("~/a.sock").expanduser()


@pytest.mark.parametrize("text", ["127.0.0.1:0", "localhost:80", "[::1]:9527"])
def test_an_address_reads_back_as_it_was_written(text: str) -> None:
    assert str(load_settings({"http": text}, HOME).http) == text


def test_children_get_the_same_settings_through_their_environment(tmp_path: Path) -> None:
    flags: dict[str, object] = {
        "state_dir": tmp_path,
        "http": "[::1]:0",
        "webhook_allow": ["10.0.0.0/8", "hook:8080"],
        "default_capability": "echo",
        "permissions": {"auto_grant": ["a,b", 'c"d'], "default_duration": "timed:60"},
    }
    settings = load_settings(flags, HOME)

    broken_later = {"XDG_CONFIG_HOME": "/nowhere"}
    assert load_settings({}, HOME | broken_later | to_environ(settings)) == settings


def test_a_dumped_file_gives_the_same_settings(tmp_path: Path) -> None:
    flags: dict[str, object] = {"http_allowed_hosts": "a.example", "permissions.max_level": "low"}
    settings = load_settings(flags, HOME)

    assert load_settings({}, HOME, config_file(tmp_path, to_toml(settings))) == settings


def test_the_default_file_changes_nothing(tmp_path: Path) -> None:
    config = config_file(tmp_path, to_toml())

    assert load_settings({}, HOME, config) == load_settings({}, HOME)
    assert "# max_queue_size = 100" in to_toml()


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        load_settings({}, HOME).max_queue_size = 5


def test_every_setting_has_a_meaning() -> None:
    assert all(row.meaning.endswith(".") for row in describe())
    assert set(Settings.model_fields) <= {row.name.partition(".")[0] for row in describe()}


def test_every_setting_is_documented() -> None:
    text = DOCUMENT.read_text()
    before, _, rest = text.partition(TABLE_START)
    _, _, after = rest.partition(TABLE_END)
    expected = "".join((before, TABLE_START, documented_table(), TABLE_END, after))
    if os.environ.get("UPDATE_GOLDEN"):
        DOCUMENT.write_text(expected)

    assert DOCUMENT.read_text() == expected, "run with UPDATE_GOLDEN=1 and read the difference"


def documented_table() -> str:
    lines = ["", "| setting | default | takes | meaning |", "|---|---|---|---|"]
    for row in describe():
        default = row.default if "$" in row.default else f"`{row.default}`"
        takes = row.type.replace(" or ", ", ")
        lines.append(f"| `{row.name}` | {default} | {takes} | {row.meaning} |")
    return "\n".join([*lines, "", ""])
