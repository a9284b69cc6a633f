"""Chats in trees of their own over the API: a branch beside the checkout, its landing, and what is refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from git_repository import UserRepository, identity
from served import AGENTS, TESTS, Gateway
from waiting import until

from penstock.chat.errors import NotAllowed
from penstock.chat.people import persons
from penstock.chat.people.audit import AUDIT, records
from penstock.chat.store import permits
from penstock.chat.store.search import Reader
from penstock.repo.repository import Repository
from penstock.repo.tree import read_record
from penstock.repo.trees import home_of, remove, status_of

__all__ = ["identity"]

AGENT = TESTS / "support" / "editing_agent.py"
EDITING = "".join(
    f'[agents.{name}]\ncommand = ["{sys.executable}", "-S", "{AGENT}"]\nadapter = "claude"\n'
    for name in ("editing", "other")
)


class Desk:
    """A gateway whose root is a user's repository, with an agent that really edits files."""

    def __init__(self, folder: Path, page: Path, *, linked: bool = False) -> None:
        (folder / "agents.toml").write_text(AGENTS + EDITING)
        self.folder, self.page = folder, page
        self.user = UserRepository(folder / ("origin" if linked else "root"))
        if linked:
            self.user.git("worktree", "add", "-q", "-b", "side", str(folder / "root"))
        self.gateway = Gateway(folder, page)
        self.client = self.gateway.client()

    def restart(self) -> None:
        """End the server, and start it again on the same folder."""
        self.close()
        self.gateway = Gateway(self.folder, self.page)
        self.client = self.gateway.client()

    def close(self) -> None:
        """End the server."""
        self.client.close()
        self.gateway.close()

    def create(self, **chat: Any) -> httpx.Response:
        """Ask for a chat in a tree."""
        return self.client.post("/api/chats", json={"agent": "editing", "tree": True, **chat})

    def begin(self, **chat: Any) -> dict[str, Any]:
        """Begin a chat in a tree."""
        made = self.create(**chat)
        assert made.status_code == 201, made.text
        found: dict[str, Any] = made.json()
        return found

    def refused(self, **chat: Any) -> str:
        """The reason why a chat cannot have a tree; nothing is left of the try."""
        before = self.trees()
        made = self.create(**chat)
        assert made.status_code in (400, 403, 409), made.text
        assert self.trees() == before
        return str(made.json()["detail"])

    def trees(self) -> list[str]:
        """The directories that begin with the name of the checkout."""
        return sorted(name for name in os.listdir(self.folder) if name.startswith("root"))

    def ask(self, chat: str, **asked: Any) -> None:
        """Ask for a turn."""
        answer = self.client.post(f"/api/chats/{chat}/turns", json={"text": json.dumps(asked)})
        assert answer.status_code == 202, answer.text

    def work(self, chat: str, **asked: Any) -> dict[str, Any]:
        """Ask for a turn, and return it when it is over."""
        self.ask(chat, **asked)
        until(lambda: all(it.get("finalized") for it in self.turns(chat)), "the turn ends")
        return self.turns(chat)[-1]

    def turns(self, chat: str) -> list[dict[str, Any]]:
        """The turns of a chat."""
        found: list[dict[str, Any]] = self.client.get(f"/api/chats/{chat}/turns").json()["turns"]
        return found

    def plan(self, chat: str) -> dict[str, Any]:
        """What landing would do."""
        answer = self.client.get(f"/api/chats/{chat}/land")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def land(self, chat: str, seen: str | None = None, **body: Any) -> httpx.Response:
        """Land the work that was looked at; by default, look now."""
        given = {"seen": self.plan(chat)["seen"] if seen is None else seen, **body}
        return self.client.post(f"/api/chats/{chat}/land", json=given)

    @property
    def data(self) -> Path:
        """The data directory of the server."""
        return self.folder


@pytest.fixture
def desk(tmp_path: Path, page: Path) -> Iterator[Desk]:
    """Such a gateway."""
    made = Desk(tmp_path, page)
    yield made
    made.close()


@pytest.mark.slow
def test_the_work_of_a_chat_lands(desk: Desk) -> None:
    """The agent works beside the checkout; the look says what the click does; a repeated one does nothing more."""
    chat = desk.begin(title="Set a to 2")
    tree, id = chat["tree"], chat["id"]
    assert chat["cwd"] == f"{desk.user.root}.{tree['name']}"
    assert tree["branch"] == f"penstock/chat-{id[:8]}"
    assert (tree["directory"], tree["onto"]) == (str(desk.user.root), "main")
    desk.user.write({"mine.txt": "mine\n"})  # uncommitted work of the user, which stays
    base = desk.user.git("rev-parse", "HEAD")
    desk.work(id, write={"src/a.py": "a = 2\n", "new.txt": "new\n", ".env": "KEY=1\n"}, run="git commit -qam mine")
    assert (desk.user.root / "src/a.py").read_text() == "a = 1\n"
    plan = desk.plan(id)
    assert {it["path"]: (it["added"], it["removed"]) for it in plan["files"]} == {
        "new.txt": (1, 0),
        "src/a.py": (1, 1),
    }
    assert (plan["way"], plan["onto"], plan["branch"]) == ("fast_forward", "main", tree["branch"])
    assert (plan["subject"], plan["is_new"]) == ("Set a to 2", True)
    assert [it["path"] for it in plan["left"]] == [".env"]
    assert desk.user.git("branch", "--list", "penstock/*") == ""  # a look makes none
    done = desk.land(id, plan["seen"])
    assert done.status_code == 200, done.text
    assert (done.json()["way"], done.json()["branch"]) == ("fast_forward", "main")
    assert desk.user.git("log", "--format=%s", f"{base}..main") == "Set a to 2"
    assert desk.user.git("rev-parse", "main") == desk.user.git("rev-parse", tree["branch"]) == done.json()["commit"]
    assert (desk.user.root / "src/a.py").read_text() == "a = 2\n"
    assert (desk.user.root / "mine.txt").read_text() == "mine\n"
    assert desk.land(id, plan["seen"]).json()["way"] == "nothing"
    assert desk.plan(id)["way"] == "nothing"


@pytest.mark.slow
def test_two_chats_work_at_once(desk: Desk) -> None:
    """Each has files of its own; the second one to land is merged, and one goes on after it has landed."""
    one, two = desk.begin()["id"], desk.begin()["id"]
    desk.work(one, write={"src/a.py": "a = 2\n"})
    desk.work(two, write={"src/b.py": "b = 2\n"})
    assert desk.land(one).json()["way"] == "fast_forward"
    assert desk.plan(two)["way"] == "merge"
    assert [it["path"] for it in desk.plan(two)["files"]] == ["src/b.py"]
    assert desk.land(two, message="B is two\n\nBecause.").json()["way"] == "merge"
    assert desk.user.git("log", "-1", "--format=%B", "main^2").startswith("B is two\n\nBecause.")
    desk.work(one, write={"src/a.py": "a = 3\n"})
    assert desk.plan(one)["way"] == "merge"
    assert desk.land(one).status_code == 200
    assert (desk.user.root / "src/a.py").read_text() == "a = 3\n"
    assert (desk.user.root / "src/b.py").read_text() == "b = 2\n"
    assert desk.user.git("status", "--porcelain") == ""


@pytest.mark.slow
def test_nothing_lands_over_work_of_the_user(desk: Desk) -> None:
    """Conflicts, changed files in the way and another branch are said with the files; nothing is changed by the try."""
    id = desk.begin()["id"]
    desk.work(id, write={"src/a.py": "a = 2\n", "README": "bye\n"})
    seen = desk.plan(id)["seen"]

    def fails(said: str, paths: list[str]) -> None:
        """Both the look and the click say why, and the checkout stays as it is."""
        before, head = desk.user.git("status", "--porcelain"), desk.user.git("rev-parse", "HEAD")
        plan = desk.plan(id)
        assert said in plan["problem"]
        assert (plan.get("way"), plan.get("paths", [])) == (None, paths)
        answer = desk.land(id, seen)
        assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
        assert said in answer.json()["detail"]
        assert answer.json().get("paths", []) == paths
        assert (desk.user.git("status", "--porcelain"), desk.user.git("rev-parse", "HEAD")) == (before, head)

    desk.user.write({"src/a.py": "a = 7\n"})
    fails("files of yours", ["src/a.py"])
    desk.user.git("commit", "-qam", "Seven")
    fails("the same lines", ["src/a.py"])
    desk.user.git("switch", "-q", "-c", "elsewhere", "HEAD~1")
    fails("has the branch elsewhere checked out, not main", [])
    desk.user.git("branch", "-q", "-f", "main", "HEAD")
    fails("has the branch elsewhere checked out, not main", [])
    desk.user.git("switch", "-q", "--detach")
    fails("no branch is checked out", [])
    desk.user.git("branch", "-q", "-D", "main")
    fails("no branch is checked out", [])
    desk.user.git("switch", "-q", "-c", "main")
    assert desk.land(id, seen).status_code == 200
    assert (desk.user.root / "src/a.py").read_text() == "a = 2\n"


@pytest.mark.slow
def test_only_what_was_seen_lands(desk: Desk) -> None:
    """Files that change between the look and the click stop it; so does a turn that runs."""
    id = desk.begin()["id"]
    desk.work(id, write={"src/a.py": "a = 2\n"})
    seen = desk.plan(id)["seen"]
    desk.work(id, write={"evil.py": "evil\n"})
    refused = desk.land(id, seen)
    assert (refused.status_code, "have changed since you looked" in refused.json()["detail"]) == (409, True)
    assert desk.user.git("branch", "--list", "penstock/*") == ""
    gate = desk.folder / "go"
    desk.ask(id, write={"src/b.py": "b = 2\n"}, hold=str(gate))
    until(lambda: desk.turns(id)[-1]["state"] == "running", "the turn runs")
    assert desk.client.get(f"/api/chats/{id}/land").status_code == 409
    assert desk.land(id, seen).status_code == 409
    gate.touch()
    until(lambda: bool(desk.turns(id)[-1].get("finalized")), "the turn ends")
    assert desk.land(id).status_code == 200


@pytest.mark.slow
def test_two_landings_at_once(desk: Desk) -> None:
    """All of them end, the work lands once, and the checkout is whole."""
    ids = [desk.begin(title=f"Chat {number}")["id"] for number in range(3)]
    for number, id in enumerate(ids):
        desk.work(id, write={f"new{number}.txt": "new\n"})
    looks = [(id, desk.plan(id)["seen"]) for id in ids for _ in range(2)]
    found: list[httpx.Response] = []
    threads = [threading.Thread(target=lambda look=look: found.append(desk.land(*look))) for look in looks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [it.status_code for it in found] == [200] * 6
    assert sorted(it.json()["way"] for it in found) == [
        "fast_forward",
        "merge",
        "merge",
        "nothing",
        "nothing",
        "nothing",
    ]
    assert desk.user.git("status", "--porcelain") == ""
    assert {f"new{number}.txt" for number in range(3)} <= set(os.listdir(desk.user.root))


@pytest.mark.slow
def test_a_deleted_chat_leaves_its_work(desk: Desk) -> None:
    """What had not landed is on the branch, and the directory stays. Until then, no cleaning removes it."""
    chat = desk.begin(title="Unlanded")
    id, name = chat["id"], chat["tree"]["name"]
    desk.work(id, write={"src/a.py": "a = 2\n", ".env": "KEY=1\n"})
    home = home_of(desk.data, name)
    assert status_of(home).state == "unsaved"
    (Path(chat["cwd"]) / ".env").unlink()
    assert desk.land(id).status_code == 200
    assert remove(home).state == "kept"
    desk.work(id, write={"src/b.py": "b = 5\n"})
    assert desk.client.delete(f"/api/chats/{id}").status_code == 204
    assert desk.user.git("show", f"{chat['tree']['branch']}:src/b.py") == "b = 5"
    assert (Path(chat["cwd"]) / "src/b.py").read_text() == "b = 5\n"
    record = read_record(home)
    assert record is not None
    assert record.left_at > 0
    assert remove(home).state == "saved"
    assert not os.path.lexists(chat["cwd"])
    assert desk.user.git("show", f"{chat['tree']['branch']}:src/b.py") == "b = 5"


@pytest.mark.slow
def test_after_a_restart(desk: Desk) -> None:
    """The server finds the tree again: the chat goes on in it, and lands."""
    id = desk.begin()["id"]
    desk.work(id, write={"src/a.py": "a = 2\n"})
    desk.restart()
    turn = desk.work(id, write={"src/b.py": "b = 2\n"})
    assert turn["outcome"] == "ok", turn
    assert desk.land(id).json()["way"] == "fast_forward"
    assert desk.user.git("show", "--format=", "--name-only", "main").split() == ["src/a.py", "src/b.py"]


@pytest.mark.slow
def test_directories_that_can_have_no_tree(desk: Desk, tmp_path: Path) -> None:
    """Each says why; the state of the directory says it before."""
    user, root = desk.user, desk.user.root

    def state(path: Path = root) -> bool:
        found = desk.client.get("/api/directory", params={"path": str(path)}).json()
        return bool(found.get("tree"))

    def trust(path: Path) -> str:
        path.mkdir(parents=True, exist_ok=True)
        assert desk.client.post("/api/workspaces", json={"path": str(path)}).status_code == 200
        return str(path)

    assert state()
    below = root / "not" / "committed"
    assert "is not in the last commit" in desk.refused(cwd=trust(below))
    assert desk.begin(cwd=trust(root / "src"))["cwd"].endswith("/src")
    user.git("switch", "-q", "--detach")
    assert "no branch is checked out" in desk.refused()
    assert not state()
    user.git("switch", "-q", "main")
    user.git("config", "filter.evil.clean", f"touch {tmp_path}/ran")
    assert "would start a program" in desk.refused()
    user.git("config", "--unset", "filter.evil.clean")
    fresh = root / "fresh"
    trust(fresh)
    user.git("init", "-q", cwd=fresh)
    assert "no commit yet" in desk.refused(cwd=str(fresh))
    bare = root / "bare.git"
    trust(bare)
    user.git("init", "-q", "--bare", cwd=bare)
    assert "without a checkout" in desk.refused(cwd=str(bare))
    user.git("config", "core.worktree", str(tmp_path))
    assert desk.create().status_code in (400, 403)
    user.git("config", "--unset", "core.worktree")
    shutil.rmtree(root / ".git")
    assert "is not in a git repository" in desk.refused()
    assert not state()


@pytest.mark.slow
def test_a_linked_worktree(tmp_path: Path, page: Path) -> None:
    """The work lands in its own checkout; the main one stays as it is."""
    desk = Desk(tmp_path, page, linked=True)
    try:
        chat = desk.begin()
        assert chat["tree"]["onto"] == "side"
        desk.work(chat["id"], write={"src/a.py": "a = 2\n"})
        assert desk.land(chat["id"]).status_code == 200
        assert (tmp_path / "root/src/a.py").read_text() == "a = 2\n"
        assert (tmp_path / "origin/src/a.py").read_text() == "a = 1\n"
        assert desk.user.git("rev-parse", "side~1") == desk.user.git("rev-parse", "main")
    finally:
        desk.close()


@pytest.mark.slow
def test_a_submodule(desk: Desk) -> None:
    """Neither it nor the repository around it can have a tree."""
    library = UserRepository(desk.folder / "library")
    desk.user.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library.root), "sub")
    desk.user.git("commit", "-qm", "Library")
    sub = str(desk.user.root / "sub")
    assert desk.client.post("/api/workspaces", json={"path": sub}).status_code == 200
    assert "cannot have one" in desk.refused(cwd=sub)
    assert "has submodules" in desk.refused()


@pytest.mark.slow
def test_a_name_that_is_taken(desk: Desk) -> None:
    """A branch or a tree of the name stays, and the chat gets a longer one."""
    id = "0123456789abcdef0123456789abcdef"
    desk.user.git("branch", f"penstock/chat-{id[:8]}")
    first = desk.begin(id=id)
    assert first["tree"]["branch"] == f"penstock/chat-{id[:16]}"
    second = desk.begin(id=id[:31] + "0")
    assert second["tree"]["name"] == f"chat-{id[:31]}0"
    assert first["cwd"] != second["cwd"]
    assert desk.user.git("rev-parse", f"penstock/chat-{id[:8]}") == desk.user.git("rev-parse", "main")


@pytest.mark.slow
def test_nothing_of_the_repository_is_started(desk: Desk, tmp_path: Path) -> None:
    """Neither hooks, a file system monitor, a filter nor a merge driver run, wherever an agent or a user puts them."""
    chat = desk.begin()
    id = chat["id"]
    ran = tmp_path / "ran"
    program = f"sh -c 'echo $0 >> {ran}; cat'"
    plants = "; ".join(
        [
            "mkdir -p .git/hooks",
            *(
                f"printf '#!/bin/sh\\necho hook >> {ran}\\n' > .git/hooks/{name}; chmod +x .git/hooks/{name}"
                for name in ("pre-commit", "post-merge", "post-checkout", "reference-transaction")
            ),
            f'git config filter.evil.clean "{program}"',
            f'git config merge.evil.driver "{program}"',
            f'git config core.fsmonitor "{program}"',
            "printf '* filter=evil merge=evil diff=evil\\n' > .gitattributes",
            f"rm -f {ran}",
        ]
    )
    desk.work(id, run=plants, write={"src/a.py": "a = 2\n"})
    hooks = desk.user.root / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("pre-commit", "post-merge", "commit-msg", "reference-transaction", "post-index-change"):
        (hooks / name).write_text(f"#!/bin/sh\necho {name} >> {ran}\n")
        (hooks / name).chmod(0o755)
    assert desk.land(id).status_code == 200
    assert not ran.exists()
    assert (desk.user.root / "src/a.py").read_text() == "a = 2\n"
    for hook in hooks.iterdir():
        hook.unlink()
    desk.user.git("config", "merge.evil.driver", program)
    desk.work(id, write={"src/a.py": "a = 3\n"})
    assert "would start a program" in desk.client.get(f"/api/chats/{id}/land").json()["detail"]
    assert desk.land(id, "any").status_code == 400
    assert not ran.exists()


def _remove(tree: Path, _: Path) -> None:
    shutil.rmtree(tree)


def _replace(tree: Path, _: Path) -> None:
    other = tree.with_name("other")  # made while the tree is there, so that it cannot get the tree's inode
    subprocess.run(["git", "init", "-q", str(other)], check=True)
    shutil.rmtree(tree)
    other.rename(tree)


def _link(tree: Path, checkout: Path) -> None:
    shutil.rmtree(tree)
    tree.symlink_to(checkout)


@pytest.mark.slow
@pytest.mark.parametrize("harm", [_remove, _replace, _link])
def test_a_tree_that_is_gone(desk: Desk, harm: Callable[[Path, Path], None]) -> None:
    """Neither a run nor a landing uses what is in its place, and both say so; deleting the chat goes on."""
    chat = desk.begin()
    id = chat["id"]
    desk.work(id, write={"src/a.py": "a = 2\n"})
    seen = desk.plan(id)["seen"]
    harm(Path(chat["cwd"]), desk.user.root)
    state = desk.user.git("status", "--porcelain"), desk.user.git("rev-parse", "HEAD")
    for answer in (desk.client.get(f"/api/chats/{id}/land"), desk.land(id, seen)):
        assert answer.status_code == 400
        assert "the tree of this chat" in answer.json()["detail"]
    turn = desk.work(id, write={"src/b.py": "b = 2\n"})
    assert "the tree of this chat" in turn["reason"]
    assert (desk.user.git("status", "--porcelain"), desk.user.git("rev-parse", "HEAD")) == state
    assert desk.client.delete(f"/api/chats/{id}").status_code == 204


@pytest.mark.slow
def test_a_git_directory_that_the_agent_replaces(desk: Desk) -> None:
    """One that leads to the user's repository, or is missing, is not used: the files land nevertheless."""
    for harm in ("rm -rf .git", f"rm -rf .git; echo 'gitdir: {desk.user.root}/.git' > .git"):
        id = desk.begin()["id"]
        name = f"new{len(harm)}.txt"
        desk.work(id, run=f"{harm}", write={name: "new\n"})
        assert desk.land(id).status_code == 200
        assert (desk.user.root / name).read_text() == "new\n"
    assert desk.user.git("status", "--porcelain") == ""
    assert desk.user.git("log", "--format=%B", "main").count("Penstock-Agent: editing") >= 2


@pytest.mark.slow
def test_links_lead_nowhere(desk: Desk, tmp_path: Path) -> None:
    """A link in the tree lands as a link, and none in place of a directory is written through."""
    outside = tmp_path / "outside"
    outside.mkdir()
    id = desk.begin()["id"]
    desk.work(id, run=f"ln -s {outside} out; ln -s /etc/passwd secret", write={"x.txt": "x\n"})
    assert desk.land(id).status_code == 200
    assert os.readlink(desk.user.root / "secret") == "/etc/passwd"
    assert os.readlink(desk.user.root / "out") == str(outside)
    assert os.listdir(outside) == []
    below = desk.user.root / "src"
    assert desk.client.post("/api/workspaces", json={"path": str(below)}).status_code == 200
    chat = desk.begin(cwd=str(below))
    desk.work(chat["id"], run=f"cd ..; rm -rf src; ln -s {outside} src", write={"a.py": "a = 2\n"})
    turn = desk.work(chat["id"], write={"through.txt": "through\n"})
    assert "a link is in its place" in turn["reason"]
    assert "through.txt" not in os.listdir(outside)


@pytest.mark.slow
def test_a_branch_that_the_user_moves(desk: Desk) -> None:
    """It is never moved by force; one that was deleted is made again."""
    chat = desk.begin()
    id, branch = chat["id"], chat["tree"]["branch"]
    desk.work(id, write={"src/a.py": "a = 2\n"})
    assert desk.land(id).status_code == 200
    other = desk.user.git("commit-tree", "-m", "Mine", "HEAD^{tree}")
    desk.user.git("branch", "-f", branch, other)
    desk.work(id, write={"src/a.py": "a = 3\n"})
    assert "was moved by somebody else" in desk.land(id).json()["detail"]
    assert desk.user.git("rev-parse", branch) == other
    desk.user.git("branch", "-q", "-D", branch)
    assert desk.land(id).status_code == 200
    desk.work(id, write={"src/a.py": "a = 4\n"})
    desk.user.git("switch", "-q", branch)
    assert "is checked out at" in desk.land(id).json()["detail"]


@pytest.mark.slow
def test_branches_of_a_chat(desk: Desk) -> None:
    """A new chat works in the tree of the old one, or in one of its own; the tree is left with the last of them."""
    old = desk.begin()
    desk.work(old["id"], write={"src/a.py": "a = 2\n"})
    path = f"/api/chats/{old['id']}/turns/1/branch"
    same = desk.client.post(path, json={"agent": "other"}).json()["chat"]
    assert (same["cwd"], same["tree"]) == (old["cwd"], old["tree"])
    key = {"Idempotency-Key": "k"}
    own = desk.client.post(path, json={"agent": "other", "tree": True}, headers=key).json()["chat"]
    assert own["tree"]["directory"] == old["tree"]["directory"]
    assert own["cwd"] != old["cwd"]
    assert (Path(own["cwd"]) / "src/a.py").read_text() == "a = 1\n"
    again = desk.client.post(path, json={"agent": "other", "tree": True}, headers=key).json()["chat"]
    assert again["tree"] == own["tree"]
    gate = desk.folder / "go"
    desk.ask(same["id"], hold=str(gate))
    until(lambda: desk.turns(same["id"])[-1]["state"] == "running", "the turn runs")
    assert desk.client.get(f"/api/chats/{old['id']}/land").status_code == 409  # another chat works in the tree
    gate.touch()
    until(lambda: bool(desk.turns(same["id"])[-1].get("finalized")), "the turn ends")
    home = home_of(desk.data, old["tree"]["name"])
    assert desk.client.delete(f"/api/chats/{old['id']}").status_code == 204
    assert read_record(home).left_at == 0  # type: ignore[union-attr]
    assert desk.land(same["id"]).status_code == 200
    assert desk.client.delete(f"/api/chats/{same['id']}").status_code == 204
    assert read_record(home).left_at > 0  # type: ignore[union-attr]


@pytest.mark.slow
def test_who_may(desk: Desk) -> None:
    """A member begins a chat in a tree; only its person and owners look and land. Each try is recorded."""
    tokens = {name: persons.add(desk.folder, name, "member", 0) for name in ("mia", "max")}
    mia, max_ = (desk.gateway.client(Authorization=f"Bearer {token}") for token in tokens.values())
    with mia, max_:
        made = mia.post("/api/chats", json={"agent": "editing", "tree": True, "visibility": "team"})
        assert made.status_code == 201, made.text
        id = made.json()["id"]
        desk.work(id, write={"src/a.py": "a = 2\n"})
        seen = desk.plan(id)["seen"]
        assert max_.get(f"/api/chats/{id}/land").status_code == 403
        assert max_.post(f"/api/chats/{id}/land", json={"seen": seen}).status_code == 403
        assert desk.user.git("branch", "--list", "penstock/*") == ""
        assert mia.post(f"/api/chats/{id}/land", json={"seen": seen}).status_code == 200
    tried = [(it.person, it.status) for it in records(desk.folder / AUDIT) if it.what == "land"]
    assert tried == [("max", 403), ("mia", 200)]


@pytest.mark.slow
def test_a_right_that_ends(desk: Desk) -> None:
    """A request whose person lost the right after it was let in makes no tree, and lands nothing."""
    id = desk.begin()["id"]
    desk.work(id, write={"src/a.py": "a = 2\n"})
    seen = desk.plan(id)["seen"]
    before = desk.trees()

    def permit() -> Reader:
        raise NotAllowed("not any more")

    async def attempt(make: bool) -> None:
        with permits.acting(permit):
            if make:
                await desk.gateway.service.create(agent="editing", tree=True)
            else:
                await desk.gateway.service.trees.land(id, seen)

    for make in (True, False):
        with pytest.raises(NotAllowed):
            desk.gateway.call(attempt(make))
    assert desk.trees() == before
    assert desk.user.git("branch", "--list", "penstock/*") == ""


def test_a_chat_without_a_tree(desk: Desk) -> None:
    """It has nothing to land, and no chat has a tree that was not asked for."""
    chat = desk.client.post("/api/chats", json={"agent": "editing"}).json()
    assert (chat["tree"], chat["cwd"]) == (None, str(desk.user.root))
    assert desk.client.get(f"/api/chats/{chat['id']}/land").status_code == 409
    assert desk.land(chat["id"], "any").status_code == 409
    assert Repository.at(desk.user.root).programs() == []
