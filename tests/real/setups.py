"""How each agent is pointed at the model server: a home of its own, and an environment. No telemetry, no updates."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import Any, NamedTuple, get_args

from install import NODE, NotInstalled, Package, packages, search_path
from model_server import ModelServer

from penstock.agents.registry import AGENTS
from penstock.run.process import output_of
from penstock.run.spec import RouteName

KEPT = ("LANG", "LC_ALL", "TERM", "TMPDIR", "USER", "SHELL", "VIRTUAL_ENV", "COVERAGE_PROCESS_START")
"""What agents may see of the environment of the tests: no key, no setting of the person who runs them."""
PREPARE_SECONDS = 120
MODEL = "mock-model"

Env = dict[str, str]


class Setup(NamedTuple):
    """What an agent needs to be run on the model server."""

    prepare: Callable[[Path, str], Env]
    """From its home and the server's address to its environment; writes its files."""
    model: str
    """A model to ask for."""
    arrives: str = ""
    """What the server then sees, if it is not that."""
    name: str = ""
    """What `penstock.agent` is given, if it is not the agent's name."""
    also: tuple[str, ...] = ()
    """Other programs of the table that it needs."""


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def _claude(home: Path, url: str) -> Env:
    return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "dummy", **_quiet_claude()}


def _quiet_claude() -> Env:
    return {
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "1",
        "IS_SANDBOX": "1",  # or it refuses to work unasked as root
    }


def _ccs(home: Path, url: str) -> Env:
    env = {"HOME": str(home), "PATH": search_path([packages()["ccs"]]), **_quiet_claude()}
    argv = ["ccs", "api", "create", "glm", "--base-url", url, "--api-key", "dummy", "--model", "glm-5", "--yes"]
    _run(argv, env)
    return {**_quiet_claude(), "CCS_CLAUDE_PATH": str(packages()["claude"].bin / "claude")}


def _codex(home: Path, url: str) -> Env:
    folder = home / ".codex"
    config = f"""\
model = "gpt-5.5"
model_provider = "mock"
check_for_update_on_startup = false

[analytics]
enabled = false

[tools.update_plan]
enabled = true

[model_providers.mock]
name = "mock"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "MOCK_KEY"
request_max_retries = 1
stream_max_retries = 1
supports_websockets = false
"""
    _write(folder / "config.toml", config)
    return {"CODEX_HOME": str(folder), "MOCK_KEY": "dummy"}


def _gemini(home: Path, url: str) -> Env:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {"maxAttempts": 1, "disableAutoUpdate": True, "disableUpdateNag": True},
        "model": {"name": "gemini-2.5-pro"},  # else another model is asked first which one to take
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
    }
    _write(home / ".gemini" / "settings.json", json.dumps(settings))
    return {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": "dummy", "GEMINI_CLI_TRUST_WORKSPACE": "true"}


def _opencode(home: Path, url: str) -> Env:
    return _of_opencode("opencode", home, url)


def _kilo(home: Path, url: str) -> Env:
    return {**_of_opencode("kilo", home, url), "KILO_API_URL": url, "KILO_DISABLE_SESSION_INGEST": "1"}


def _of_opencode(name: str, home: Path, url: str) -> Env:
    can = {"attachment": True, "modalities": {"input": ["text", "image"], "output": ["text"]}, "reasoning": True}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "mock",
        "options": {"baseURL": f"{url}/v1", "apiKey": "dummy"},
        "models": {MODEL: {"name": "A model", **can}, "other-model": {"name": "Another", **can}},
    }
    model = f"mock/{MODEL}"
    config = {"provider": {"mock": provider}, "model": model, "small_model": model, "autoupdate": False}
    _write(home / ".config" / name / f"{name}.json", json.dumps(config))
    places = {"CONFIG": ".config", "DATA": ".local/share", "STATE": ".local/state", "CACHE": ".cache"}
    env = {f"XDG_{it}_HOME": str(home / place) for it, place in places.items()}
    off = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "SHARE")
    return env | {f"{name.upper()}_DISABLE_{it}": "1" for it in off}


def _qwen(home: Path, url: str) -> Env:
    settings = {
        "security": {"auth": {"selectedType": "openai"}},
        "general": {"disableAutoUpdate": True},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
    }
    _write(home / ".qwen" / "settings.json", json.dumps(settings))
    return {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "dummy", "OPENAI_MODEL": MODEL}


def _copilot(home: Path, url: str) -> Env:
    return {
        "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
        "COPILOT_PROVIDER_API_KEY": "dummy",
        "COPILOT_PROVIDER_TYPE": "openai",
        "COPILOT_PROVIDER_WIRE_API": "completions",
        "COPILOT_MODEL": MODEL,
        "COPILOT_OFFLINE": "true",
        "COPILOT_HOME": str(home / ".copilot"),
    }


def _pi(home: Path, url: str) -> Env:
    folder = home / ".pi" / "agent"
    can = {"input": ["text", "image"], "reasoning": True}
    models = [{"id": MODEL, **can}, {"id": "other-model", **can}]
    provider = {"baseUrl": f"{url}/v1", "apiKey": "dummy", "api": "openai-completions", "models": models}
    _write(folder / "models.json", json.dumps({"providers": {"mock": provider}}))
    settings = {"defaultProvider": "mock", "defaultModel": MODEL, "retry": {"maxRetries": 1, "baseDelayMs": 100}}
    _write(folder / "settings.json", json.dumps(settings))
    return {"PI_CODING_AGENT_DIR": str(folder), "PI_OFFLINE": "1", "PI_TELEMETRY": "0"}


def _cline(home: Path, url: str) -> Env:
    off = ("CLINE_TELEMETRY_DISABLED", "DO_NOT_TRACK", "CLINE_DISABLE_AUTO_UPDATE", "CLINE_NO_AUTO_UPDATE")
    env = dict.fromkeys(off, "1")
    argv = ["cline", "auth", "-p", "openai-compatible", "-k", "dummy", "-m", MODEL, "-b", f"{url}/v1"]
    _run(argv, {"HOME": str(home), "PATH": search_path([packages()["cline"]]), **env})
    # Its ACP mode takes the key and the model from here alone.
    return env | {"CLINE_API_KEY": "dummy", "CLINE_PROVIDER": "openai-compatible", "CLINE_MODEL": MODEL}


def _droid(home: Path, url: str) -> Env:
    given = {"provider": "generic-chat-completion-api", "baseUrl": f"{url}/v1", "apiKey": "dummy"}
    names = enumerate((MODEL, "other-model"))
    models = [{"model": it, "id": f"custom:{it}", "index": at, "displayName": it, **given} for at, it in names]
    session = {"model": f"custom:{MODEL}"}
    settings = {"customModels": models, "sessionDefaultSettings": session, "cloudSessionSync": False}
    _write(home / ".factory" / "settings.json", json.dumps(settings))
    # It asks its own service about a session before it goes on with it.
    services = dict.fromkeys((f"FACTORY_{it}_BASE_URL" for it in ("API", "APP", "RELAY", "TELEMETRY_INGEST")), url)
    return {"FACTORY_API_KEY": "fk-dummy", "FACTORY_DROID_AUTO_UPDATE_ENABLED": "false", **services}


def _kimi(home: Path, url: str) -> Env:
    models = "".join(
        f'[models.{name}]\nprovider = "mock"\nmodel = "{name}"\nmax_context_size = 200000\n'
        for name in (MODEL, "other-model")
    )
    provider = f'[providers.mock]\ntype = "openai"\nbase_url = "{url}/v1"\napi_key = "dummy"\n'
    _write(home / ".kimi-code" / "config.toml", f'default_model = "{MODEL}"\ntelemetry = false\n{provider}{models}')
    return {"KIMI_CODE_NO_AUTO_UPDATE": "1"}


def _goose(home: Path, url: str) -> Env:
    _write(home / ".config" / "goose" / "config.yaml", f"GOOSE_PROVIDER: openai\nGOOSE_MODEL: {MODEL}\n")
    return {
        "OPENAI_HOST": url,
        "OPENAI_API_KEY": "dummy",
        "GOOSE_DISABLE_KEYRING": "1",
        "GOOSE_TELEMETRY_OFF": "1",
    }


def _vibe(home: Path, url: str) -> Env:
    folder = home / ".vibe"
    provider = f'[[providers]]\nname = "mock"\napi_base = "{url}/v1"\napi_key_env_var = "MOCK_KEY"\n'
    models = "".join(
        f'[[models]]\nname = "{name}"\nprovider = "mock"\nalias = "{name}"\nsupports_images = true\n'
        for name in (MODEL, "other-model")
    )
    off = "".join(f"enable_{it} = false\n" for it in ("telemetry", "update_checks", "auto_update"))
    start = f'active_model = "{MODEL}"\napi_retry_max_elapsed_time = 3.0\n'
    _write(folder / "config.toml", f"{start}{off}{provider}{models}")
    return {"VIBE_HOME": str(folder), "MOCK_KEY": "dummy"}


def _run(argv: list[str], env: Env) -> None:
    program = which(argv[0], path=env["PATH"])
    assert program is not None, argv[0]
    status, said = output_of([program, *argv[1:]], env, env["HOME"], PREPARE_SECONDS)  # cline leaves a server behind
    assert status == 0, f"{argv}: {said}"


SETUPS = {
    "claude": Setup(_claude, "claude-sonnet-4-5"),
    "ccs": Setup(_ccs, "glm-other", name="ccs/glm", also=("claude",)),
    "codex": Setup(_codex, "gpt-5.1-codex"),
    "gemini": Setup(_gemini, "gemini-2.5-flash"),
    "opencode": Setup(_opencode, "mock/other-model", "other-model"),
    "kilo": Setup(_kilo, "mock/other-model", "other-model"),
    "qwen": Setup(_qwen, "other-model"),
    "copilot": Setup(_copilot, "other-model"),
    "pi": Setup(_pi, "other-model"),
    "cline": Setup(_cline, "other-model"),
    "kimi": Setup(_kimi, "other-model"),
    "vibe": Setup(_vibe, "other-model"),
    "goose": Setup(_goose, "other-model"),
    "droid": Setup(_droid, "custom:other-model", "other-model"),
}


class Target(NamedTuple):
    """An agent on one of its routes."""

    agent: str
    route: RouteName

    def __str__(self) -> str:
        return f"{self.agent}-{self.route}"

    @property
    def setup(self) -> Setup:
        """How it is pointed at the server."""
        return SETUPS[self.agent]

    @property
    def name(self) -> str:
        """What `penstock.agent` is given."""
        return self.setup.name or self.agent

    @property
    def packages(self) -> list[Package]:
        """What has to be installed for it."""
        table = packages()
        programs = dict.fromkeys((AGENTS[self.agent].routes[self.route].program, *self.setup.also))
        return [table[program] for program in programs]


ROUTES: tuple[RouteName, ...] = get_args(RouteName)
TARGETS = [Target(agent, route) for agent in SETUPS for route in ROUTES if route in AGENTS[agent].routes]


class Bench(NamedTuple):
    """An agent in its own home, and the server that is its model. It works in `folder`."""

    target: Target
    server: ModelServer
    folder: Path
    env: Env
    """Its whole environment."""


@contextmanager
def bench(target: Target, root: Path) -> Iterator[Bench]:
    """A bench for a target, below the empty folder `root`.

    Raises:
        NotInstalled: a program that it needs is not there.
    """
    for package in (packages()[NODE], *target.packages):
        if not package.is_installed():
            raise NotInstalled(f"{package} is not installed: python tests/real/install.py {package.program}")
    home, folder = root / "home", root / "work"
    home.mkdir()
    folder.mkdir()
    env: dict[str, Any] = {name: os.environ[name] for name in KEPT if name in os.environ}
    env |= {"HOME": str(home), "PATH": search_path(target.packages)}
    with ModelServer(folder) as server:
        env |= target.setup.prepare(home, server.url)
        yield Bench(target, server, folder, env)
