"""The command line: words to calls, and events to the file descriptors of a person or a program.

Only this package prints or exits. It holds no rule about agents, runs or chats; those are in the packages below it.
"""
