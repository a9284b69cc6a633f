"""Configuration: the files and variables that set options, and the rules that a value is checked against.

No module here starts an agent, reads a stream or prints.
"""
