"""Git repositories: trees for agents beside a repository, snapshots, commits, landing, and the comparison of states.

Only `git.py` starts git, and nothing here reads a git directory that an agent can write. Which work is done in a tree,
and when, is decided elsewhere; no module here depends on a loop, a document or the command line.
"""
