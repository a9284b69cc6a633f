"""The packages that the page loads: the locked ones, under the content security policy."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import httpx
from chatpage.device import Device
from chatpage.server import Server
from playwright.sync_api import Route, expect

from penstock.chat.web.static import FOLDER, without_comments

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


SAME_PROGRAM = """
const [typescript, list] = process.argv.slice(2);
const { default: ts } = await import(typescript);
const { readFileSync } = await import("node:fs");
const compilerOptions = { target: ts.ScriptTarget.ESNext, module: ts.ModuleKind.ESNext, removeComments: true };
const program = (text) => ts.transpileModule(text, { compilerOptions }).outputText;
for (const [name, source, served] of JSON.parse(readFileSync(list, "utf8")))
  if (program(source) !== program(served)) console.log(name);
"""
"""Print the names of scripts that are another program as they are served; TypeScript's compiler judges."""


def test_scripts_without_comments_are_the_same(packages: Path, tmp_path: Path) -> None:
    """Each script of the page is the same program without its comments, and far smaller."""
    sources = {path: path.read_bytes() for path in FOLDER.rglob("*.js") if "vendor" not in path.parts}
    served = {path: without_comments(source) for path, source in sources.items()}
    pairs = [(path.name, sources[path].decode(), served[path].decode()) for path in sources]
    assert sum(map(len, served.values())) < 0.9 * sum(map(len, sources.values()))
    (tmp_path / "list.json").write_text(json.dumps(pairs), "utf-8")
    (tmp_path / "same.mjs").write_text(SAME_PROGRAM, "utf-8")
    typescript = (packages / "typescript/lib/typescript.js").as_uri()
    command = ["node", str(tmp_path / "same.mjs"), typescript, str(tmp_path / "list.json")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (run.returncode, run.stdout) == (0, ""), run.stderr[-2000:]


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
