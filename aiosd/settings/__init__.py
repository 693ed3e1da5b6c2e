"""Typed, frozen settings: the one place that reads the configuration file and AIOSD_* variables.

`load_settings` is what every entry point calls; `docs/settings.md` lists every setting.
"""

from __future__ import annotations

from aiosd.settings.describe import SettingRow, describe, to_environ, to_toml
from aiosd.settings.load import (
    CLIENT_VARIABLES,
    SettingsError,
    environment_name,
    find_config_file,
    load_settings,
)
from aiosd.settings.model import PermissionSettings, Settings
from aiosd.settings.principals import PrincipalSettings
from aiosd.settings.values import HostPort

__all__ = [
    "CLIENT_VARIABLES",
    "HostPort",
    "PermissionSettings",
    "PrincipalSettings",
    "SettingRow",
    "Settings",
    "SettingsError",
    "describe",
    "environment_name",
    "find_config_file",
    "load_settings",
    "to_environ",
    "to_toml",
]
