"""Command line: arguments to calls, and events to the file descriptors of a user or a program.

Only this package prints or exits. It has no rules about agents, runs or chats; those are in the packages below it.
"""
