"""Formats of other programs: each module maps entries of a chat to one of them, and nothing else."""
