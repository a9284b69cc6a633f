"""The agents, a folder each: what is true of an agent, how it is started, and what its lines mean.

Agents do no input or output and never import each other; what two of them share is a module with a leading underscore.
"""
