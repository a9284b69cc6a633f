"""Formats of other programs: each module maps entries of a chat to one of them, and nothing else.

`turn_fold` is the part that they share, `bodies` has the bodies of requests and responses, and `openai_request` reads
the requests of a program.
"""
