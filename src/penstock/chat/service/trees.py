"""Trees of chats: a directory and a branch of its own in which the agent of a chat works, and the landing of its work.

A tree is a clone beside the repository, as `penstock run --worktree` makes it. It need not be below a root: root and
trust of the directory from which it was made hold for it. Each use checks that it is still the directory that was made.
No hook runs here, and repositories whose own settings start programs have no trees of chats.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

import msgspec

from penstock.chat.errors import ChatError, Conflicting, Invalid, LandingConflict, OutsideRoots
from penstock.chat.service.agents.own_tree import record_of
from penstock.chat.service.agents.workspaces import Workspaces
from penstock.chat.service.chats.chat import Chat
from penstock.chat.service.chats.chats import Chats
from penstock.chat.service.shared import Shared
from penstock.chat.store import permits
from penstock.chat.store.protocol import FirstEntry
from penstock.chat.store.rows import ChatRow, ChatTree
from penstock.errors import PenstockError, UsageError

if TYPE_CHECKING:
    from penstock.repo.landing import Landed, NotLanded, Outlook, Way
    from penstock.repo.repository import Repository
    from penstock.repo.result import NextCommit
    from penstock.repo.tree import Tree

ID_CHARS = (8, 16, 32)
"""Characters of a chat's id in the name of its tree: the shortest that is free."""

MAX_FILES = 500
"""Files that a look at a landing lists: more than a person reads."""

MAX_COMMITS = 50
"""Commits that a look at a landing lists."""

Found = TypeVar("Found")


class LandingFile(msgspec.Struct, frozen=True):
    """File that a landing changes."""

    path: str
    added: int
    removed: int


class UncommittedFile(msgspec.Struct, frozen=True):
    """File of a tree that is not committed, and so does not land."""

    path: str
    text: str
    """Reason as a phrase: `may hold a secret`."""


class LandingPlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """What landing the work of a chat would do now."""

    branch: str
    """Branch of the tree."""
    onto: str
    """Branch that gets the work."""
    repository: str
    """Top directory of the checkout with that branch."""
    seen: str
    """Id of the files of the tree: the landing names it, so that nothing lands that was not looked at."""
    subject: str
    """Subject of the commit, unless the landing names another one."""
    files: list[LandingFile]
    more: int = 0
    """Number of further files."""
    is_new: bool = False
    """True if files have changed since the newest commit of the branch, so that another one is made."""
    commits: list[str] = []
    """Subjects of the commits of the branch that have not landed, the newest first."""
    left: list[UncommittedFile] = []
    """Files of the tree that are not committed."""
    way: str | None = None
    """`nothing`, `fast_forward` or `merge`; None if it cannot land."""
    problem: str = ""
    """Why it cannot land."""
    help: str = ""
    paths: list[str] = []
    """Files in conflict or in the way."""


class LandedWork(msgspec.Struct, frozen=True):
    """Work of a chat that has landed."""

    way: str
    """`nothing`: the branch had it already, `fast_forward` or `merge`."""
    branch: str
    """Branch that has the work now."""
    commit: str


class ChatTrees:
    """Trees of the chats of one service."""

    def __init__(self, shared: Shared, chats: Chats, workspaces: Workspaces, data: Path) -> None:
        """`data`: the data directory, which has the records of trees."""
        self._shared = shared
        self._chats = chats
        self._workspaces = workspaces
        self._data = data
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._tasks: set[asyncio.Task[Any]] = set()

    # --- making ---

    async def is_possible(self, directory: str) -> bool:
        """Return whether a chat in this directory, which is trusted, can have a tree of its own."""
        try:
            await asyncio.to_thread(self._source, Path(directory))
        except PenstockError:
            return False
        return True

    async def create(self, row: ChatRow, first: FirstEntry | None = None) -> Chat:
        """Create a chat in a tree of its own, as `Chats.create`.

        Raises:
            Conflicting: the directory is on another machine.
            Invalid, OutsideRoots: the directory cannot have a tree; the error says why.
            StoreFailed: the chat cannot be kept. The tree stays then, for `penstock trees clean`.
        """
        if row.home != self._shared.this_node.home:
            raise Conflicting(f"the directory is on the machine {row.home}", help="begin a chat with a tree there")
        permits.check()  # the files are not in the store
        made = await self._finish(lambda: self._made(row))
        try:
            return await self._chats.create(made, first)
        except BaseException:
            await self.leave(made)
            raise

    def _made(self, row: ChatRow) -> ChatRow:
        from penstock.repo.refs import free_branch
        from penstock.repo.tree import Tree, TreeRecord, place_of
        from penstock.repo.trees import home_of

        try:
            directory = Path(row.source)
            repository, onto = self._source(directory)
            name = self._name(repository, row.id)
            home = home_of(self._data, name)
            record = TreeRecord(
                name=name,
                owner="chat",
                label=row.agent,
                path=str(place_of(repository, name, home)),
                repository=str(repository.root),
                base=repository.head() or "",
                branch=free_branch(repository, name),
                made_at=row.created_at,
                stores=repository.stores(),
            )
            tree = Tree.make(home, record, repository)
            with _locked(tree):
                tree.copy_ignored()
                cwd = tree.hand_over() / directory.relative_to(repository.root.resolve())
        except ChatError:
            raise
        except PenstockError as error:
            raise Invalid(f"this chat cannot have a tree of its own: {error.what}", help=error.help) from error
        except OSError as error:
            raise Invalid(f"this chat cannot have a tree of its own: {error}") from error
        made = ChatTree(name=name, branch=record.branch, directory=row.source, onto=onto)
        return msgspec.structs.replace(row, cwd=os.path.realpath(cwd), tree=made)

    def _name(self, repository: Repository, id: str) -> str:
        """Return a name that no tree of this node has, and whose branch is free; its home is made."""
        from penstock.repo.refs import free_branch
        from penstock.repo.trees import home_of

        for length in ID_CHARS:
            name = f"chat-{id[:length]}"
            try:
                free_branch(repository, name)
                home = home_of(self._data, name)
                home.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                home.mkdir(mode=0o700)  # a tree that is there is never made again
            except (UsageError, FileExistsError):
                continue
            return name
        raise UsageError("there is a branch or a tree of this name already", help="penstock trees lists them")

    def _source(self, directory: Path) -> tuple[Repository, str]:
        """Return the repository of a trusted directory, and the branch that is checked out.

        Raises:
            PenstockError: a chat there cannot have a tree; the error says why.
        """
        from penstock.repo.repository import Repository
        from penstock.repo.tree import place_of, read_record
        from penstock.repo.trees import home_of, homes

        repository = Repository.at(directory)
        root = repository.root.resolve()
        if not directory.is_relative_to(root):
            raise UsageError(f"the repository has its files in {root}, and not in {directory}")
        try:
            self._workspaces.find(root)
        except OutsideRoots as error:
            what = f"the top of the repository, {root}, is not below a root of this Penstock"
            raise UsageError(what, help="start penstock serve with --root there") from error
        records = (read_record(home) for home in homes(self._data))
        if any(record is not None and os.path.realpath(record.path) == str(root) for record in records):
            raise UsageError(f"{root} is itself the tree of an agent")
        repository.check_complete(with_setup=False)
        check_programs(repository)
        repository.author()
        branch = repository.branch()
        if branch is None:
            raise UsageError(f"no branch is checked out in {root}", help="git switch BRANCH")
        below = directory.relative_to(root)
        if str(below) != "." and not repository.git.text("ls-tree", "-d", "HEAD", "--", f"{below}"):
            raise UsageError(f"{below} is not in the last commit, so a tree does not have it", help="commit it first")
        home = home_of(self._data, "chat")
        if place_of(repository, "chat", home).is_relative_to(home):
            above = root.parent
            raise UsageError(f"a tree is a directory beside the repository, and {above} cannot have one")
        return repository, branch

    # --- landing ---

    async def plan(self, id: str) -> LandingPlan:
        """Return what landing the work of a chat would do now. Objects are written into the repository, and no ref.

        Raises:
            NoSuchChat: there is none of this id.
            Conflicting: it has no tree, a turn runs in it, or it is on another machine.
            Invalid: the tree cannot be read.
            StoreFailed: the store cannot be read.
        """
        return await self._alone(self._require(id), self._planned)

    async def land(self, id: str, seen: str, message: str | None = None) -> LandedWork:
        """Commit the files of a chat's tree on its branch, and merge that into the branch from which it was made.

        `seen`: id of the files, as `plan` returned it. `message`: message of the commit. It lands completely, or the
        branch and its checkout stay as they are. A request may be repeated: what has landed does not land again.

        Raises:
            NoSuchChat: there is none of this id.
            Conflicting: it has no tree, a turn runs in it, the files have changed since, or it is on another machine.
            LandingConflict: it cannot land; the error says why, and names files.
            Invalid: the tree cannot be read.
            StoreFailed: the store cannot be read.
        """
        self._shared.require_open()
        return await self._alone(self._require(id), lambda chat: self._landed(chat.row, seen, message))

    def _planned(self, chat: Chat) -> LandingPlan:
        row = chat.row
        with self._opened(row) as (tree, onto):
            from penstock.repo.diffs import lines_between
            from penstock.repo.landing import look

            made = self._commit(tree, row, None)
            found: Outlook = look(tree.repository, made.commit, onto)
            git = tree.repository.git
            lines = lines_between(git, found.old, found.new)
            files = [LandingFile(path, *counts) for path, counts in lines.items()]
            words = f"--max-count={MAX_COMMITS}", "--format=%s", made.commit, f"^{found.old}", "--"
            waiting = git.text("log", "--no-show-signature", *words)
            problem = found.problem
            return LandingPlan(
                branch=tree.record.branch,
                onto=onto,
                repository=str(tree.repository.root),
                seen=made.files,
                subject=_subject(row),
                files=files[:MAX_FILES],
                more=max(0, len(files) - MAX_FILES),
                is_new=made.commit != tree.git.commit_of("HEAD"),
                commits=waiting.splitlines(),
                left=[UncommittedFile(one.path, one.text) for one in made.held],
                way=found.way,
                problem="" if problem is None else problem.reason,
                help="" if problem is None else problem.help or _resolving(tree),
                paths=[] if problem is None else problem.conflicts,
            )

    def _landed(self, row: ChatRow, seen: str, message: str | None) -> LandedWork:
        with self._opened(row) as (tree, onto):
            from penstock.repo.commit import Stamp, subject_of, with_trailers
            from penstock.repo.landing import NotLanded, land
            from penstock.repo.result import save_next

            made = self._commit(tree, row, message)
            if made.files != seen:
                raise Conflicting("files of this chat have changed since you looked", help="look at them again")
            save_next(tree, made)
            stamp = Stamp(tree.repository.author(), self._shared.now() // 1000)
            text = with_trailers(f"{subject_of(message or _subject(row))}\n", _trailers(tree))
            result: Landed | NotLanded = land(tree.repository, made.commit, text, stamp, onto=onto)
            if isinstance(result, NotLanded):
                help = result.help or _resolving(tree)
                raise LandingConflict(f"nothing has landed: {result.reason}", help=help, paths=result.conflicts)
            way: Way = result.way
            return LandedWork(way, result.branch, result.commit)

    def _commit(self, tree: Tree, row: ChatRow, message: str | None) -> NextCommit:
        from penstock.repo.commit import Stamp, subject_of, with_trailers
        from penstock.repo.result import next_commit

        text = message if message is not None and message.strip() else f"{subject_of(_subject(row))}\n"
        stamp = Stamp(tree.repository.author(), self._shared.now() // 1000)
        return next_commit(tree, with_trailers(text, _trailers(tree)), stamp)

    # --- leaving ---

    async def leave(self, row: ChatRow) -> None:
        """Save the work in the tree of a chat that was deleted on its branch, as far as that is possible.

        The directory stays, and its files with it. From now on `penstock trees clean` may remove it, by its rule.
        """
        if row.tree is None or not self._shared.this_node.is_home(row) or self._sharing(row):
            return
        await self._finish(lambda: self._left(row))

    def _left(self, row: ChatRow) -> None:
        from penstock.repo.result import save_next
        from penstock.repo.tree import read_record, write_record
        from penstock.repo.trees import home_of

        assert row.tree is not None
        with contextlib.suppress(PenstockError, OSError), self._opened(row) as (tree, _):
            save_next(tree, self._commit(tree, row, None))
        home = home_of(self._data, row.tree.name)
        record = read_record(home)
        if record is not None and not record.left_at:
            with contextlib.suppress(OSError):
                write_record(home, msgspec.structs.replace(record, left_at=self._shared.now()))

    # --- use of one ---

    def _require(self, id: str) -> Chat:
        chat = self._chats.require(id)
        if chat.row.tree is None:
            raise Conflicting("this chat works in no tree of its own", expected="a chat that was begun with one")
        if not chat.is_home:
            raise Conflicting(f"the tree of this chat is on the machine {chat.row.home}", help="land it there")
        return chat

    def _sharing(self, row: ChatRow) -> list[Chat]:
        """Return the chats of this node that work in the tree of a row."""
        assert row.tree is not None
        name, home = row.tree.name, row.home
        return [it for it in self._chats if it.row.tree is not None and (it.row.tree.name, it.row.home) == (name, home)]

    async def _alone(self, chat: Chat, work: Callable[[Chat], Found]) -> Found:
        """Run `work` while no turn runs in the tree of a chat, and nothing else lands in its repository."""
        assert chat.row.tree is not None
        lock = self._locks.setdefault(chat.row.tree.directory, asyncio.Lock())

        async def run() -> Found:
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(lock)
                for other in sorted(self._sharing(chat.row), key=lambda it: it.row.id):
                    await stack.enter_async_context(other.without_turn())
                permits.check()  # the files are not in the store
                return await asyncio.to_thread(work, chat)

        # A client that leaves meanwhile, or a server that ends, stops nothing halfway.
        return await self._shielded(asyncio.create_task(run()))

    async def _finish(self, work: Callable[[], Found]) -> Found:
        """Run `work` to its end, also if the caller leaves meanwhile."""
        return await self._shielded(asyncio.create_task(asyncio.to_thread(work)))

    async def _shielded(self, task: asyncio.Task[Found]) -> Found:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    @contextlib.contextmanager
    def _opened(self, row: ChatRow) -> Any:
        """Yield the tree of a row, which no other process uses meanwhile, and the branch on which it lands."""
        from penstock.repo.tree import Tree
        from penstock.repo.trees import home_of

        assert row.tree is not None
        try:
            self._workspaces.require(row.tree.directory)
            record_of(self._data, row)
            tree = Tree.open(home_of(self._data, row.tree.name))
            check_programs(tree.repository)
            with _locked(tree):
                tree.remove_stale_lock()
                yield tree, row.tree.onto
        except ChatError:
            raise
        except PenstockError as error:
            raise Invalid(error.what, help=error.help) from error


def check_programs(repository: Repository) -> None:
    """Check that git starts no program of the repository when it reads or merges files.

    Raises:
        UsageError: its settings name one.
    """
    found = repository.programs()
    if found:
        what = f"git would start a program that the settings of {repository.root} name: {found[0]}"
        raise UsageError(what, help="use penstock run --worktree in a terminal")


@contextlib.contextmanager
def _locked(tree: Tree) -> Any:
    lock = tree.lock()
    try:
        yield
    finally:
        os.close(lock)


def _subject(row: ChatRow) -> str:
    return row.title or f"Work of {row.agent}"


def _trailers(tree: Tree) -> dict[str, str]:
    return {"Penstock-Run": tree.record.name, "Penstock-Agent": " ".join(tree.record.label.split())}


def _resolving(tree: Tree) -> str:
    return f"git merge {tree.record.branch} in the checkout lets you resolve it"
