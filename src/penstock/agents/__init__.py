"""Agents, one folder each: facts about the agent, its command line, and the meaning of its lines.

Agents do no input or output and never import each other; code that several of them share is in modules with a leading
underscore.
"""
