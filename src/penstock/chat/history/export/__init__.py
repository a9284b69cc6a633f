"""A chat as a file for people: what was asked and replied, and, if wanted, the steps of each turn.

`parts` says what a file has, once for all forms; `markdown` and `html` write it. Reading a chat is not its subject.
"""
