"""The packages that the page loads: the locked ones, under the content security policy."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import httpx
from chatpage.device import Device
from chatpage.server import Server
from playwright.sync_api import Route, expect

VIOLATIONS = """
window.violations = [];
addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI }) =>
  violations.push(`${violatedDirective} ${blockedURI}`));
"""


def test_the_browser_gets_the_locked_packages(server: Server, vendor: ModuleType, packages: Path) -> None:
    """Each vendored file is served with the very bytes of the package that the lock file names."""
    for name, (package, path) in vendor.FILES.items():
        if name.endswith(".js"):
            served = httpx.get(f"{server.url}/vendor/{name}", trust_env=False).content
            assert served == (packages / package / path).read_bytes(), name
    assert (
        json.loads((packages / "preact/package.json").read_text("utf-8"))["version"]
        == (vendor.locked()["preact"]["version"])
    )


def test_the_page_loads_under_its_policy(server: Server, devices: Callable[..., Device]) -> None:
    """The page loads Preact by the import map, and nothing that it loads violates the policy."""
    device = devices()
    device.context.add_init_script(VIOLATIONS)
    page = device.page()
    loaded: list[str] = []
    page.on("requestfinished", lambda request: loaded.append(request.url.removeprefix(server.url)))
    page.goto(server.link())
    expect(page.locator(".composer textarea")).to_be_visible()
    names = {path.rpartition("/vendor/")[2] for path in loaded}  # below a hash of all files
    assert {"preact.js", "preact-hooks.js", "htm.js"} <= names
    assert page.evaluate("violations") == []


def test_an_inline_script_of_somebody_else_is_no_script(server: Server, devices: Callable[..., Device]) -> None:
    """The hash lets one inline script run, the import map; another one is refused."""
    device = devices()
    device.allow("Content Security Policy", "policy: script-src")
    page = device.page()

    def add(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=answer.text().replace("<body>", "<body><script>window.ran = 1</script>"))

    page.route(lambda url: url.startswith(f"{server.url}/#") or url == f"{server.url}/", add)
    page.goto(server.link())
    expect(page.locator(".composer textarea")).to_be_visible()
    assert "window.ran" in page.content()
    assert page.evaluate("window.ran") is None
