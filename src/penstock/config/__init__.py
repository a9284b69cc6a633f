"""Configuration: the files and variables that set options, and the rules that a value is checked against.

Also what all layers above do with files: the data directory (`data.py`), and the opening of files that another program
may have replaced (`regular_files.py`). No module here starts an agent, reads a stream or prints.
"""
