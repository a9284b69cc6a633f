"""Scripts of agents that harm what they reach: in their tree, and in the user's repository by its path.

They find the file that a planted program makes in `$PLANTED`, and the repository in `$USER_REPO`.
"""

from __future__ import annotations

HOSTILE = {
    "resets": "echo 2 > src/a.py; git commit -qam mine; git reset -q --hard HEAD~1",
    "drops the stash": "git stash drop; git stash clear",
    "deletes branches": "git switch -q --detach; git branch -D main other penstock/t1; git tag -d v1",
    "collects garbage": "git reflog expire --expire=now --all; git gc -q --prune=now; git prune --expire=now",
    "plants a monitor": 'git config core.fsmonitor "touch $PLANTED;"; git config core.hooksPath .',
    "plants a filter": 'git config filter.x.clean "touch $PLANTED; cat"; echo "* filter=x" > .gitattributes',
    "plants a hook": 'mkdir -p .git/hooks; printf "#!/bin/sh\\ntouch $PLANTED\\n" > .git/hooks/post-index-change; '
    "cp .git/hooks/post-index-change .git/hooks/pre-commit; chmod +x .git/hooks/*",
    "plants settings for all worktrees": "git config extensions.worktreeConfig true; "
    'git config --worktree core.fsmonitor "touch $PLANTED;"',
    "pushes": "git push origin HEAD; git push --all; git push --mirror",
    "makes a nested repository": 'git init -q sub; git -C sub config core.fsmonitor "touch $PLANTED;"; echo 1 > sub/x',
    "makes a repository of a directory": 'git init -q src; git -C src config core.fsmonitor "touch $PLANTED;"',
    "links out of the tree": 'ln -s "$USER_REPO" out; rm -rf src; ln -s "$USER_REPO/src" src',
    "deletes its git directory": "rm -rf .git",
    "links its git directory to the user's": 'rm -rf .git; echo "gitdir: $USER_REPO/.git" > .git',
    "locks its index": "touch .git/index.lock; git branch -m penstock/t1 evil",
    "damages its objects": "rm -rf .git/objects/* .git/refs; echo x > .git/HEAD",
    "adds a worktree": "git worktree add -q ../app.other; git submodule add -q ./ sub",
}
"""Scripts of an agent that stays in its tree, by what they do."""

REACHED = {
    "a push through the path of the objects": (
        'repo=$(dirname $(cat .git/objects/info/alternates)); git push -q "$repo" HEAD:refs/heads/evil',
        {("ref", "refs/heads/evil", False)},
    ),
    "a branch removed": ('git -C "$USER_REPO" branch -D other', {("ref", "refs/heads/other", True)}),
    "a branch moved back": (
        'git -C "$USER_REPO" update-ref refs/heads/main HEAD~1',
        {("ref", "refs/heads/main", True)},
    ),
    "a tag removed": ('git -C "$USER_REPO" tag -d v1', {("ref", "refs/tags/v1", True)}),
    "a setting": ('git -C "$USER_REPO" config core.fsmonitor evil', {("config", "core.fsmonitor", True)}),
    "a new hook": ('echo x > "$USER_REPO/.git/hooks/post-commit"', {("hook", "post-commit", True)}),
    "a changed hook": ('echo x >> "$USER_REPO/.git/hooks/pre-commit"', {("hook", "pre-commit", True)}),
    "a removed hook": ('rm "$USER_REPO/.git/hooks/pre-commit"', {("hook", "pre-commit", True)}),
    "staged files": ('git -C "$USER_REPO" reset -q', {("index", "index", False)}),
    "another branch": ('git -C "$USER_REPO" switch -q --detach v1', {("head", "HEAD", False)}),
    "a redirect of the objects": (
        'echo /nowhere > "$USER_REPO/.git/objects/info/alternates"',
        {("file", "objects/info/alternates", True)},
    ),
    "files that are ignored": ('echo x >> "$USER_REPO/.git/info/exclude"', {("file", "info/exclude", False)}),
    "filters": ('echo "* filter=evil" > "$USER_REPO/.git/info/attributes"', {("file", "info/attributes", True)}),
    "an old remote": (
        'mkdir -p "$USER_REPO/.git/remotes"; echo "URL: /evil" > "$USER_REPO/.git/remotes/origin"',
        {("file", "remotes/origin", True)},
    ),
    "a broken configuration": ('echo "[x" >> "$USER_REPO/.git/config"', {("config", "config", True)}),
}  # fmt: skip
"""Scripts of an agent that uses the path of the user's repository, and the differences: kind, name, harm."""
