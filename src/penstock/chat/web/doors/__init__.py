"""Formats of other programs: each module maps entries of a chat to one of them, and nothing else.

`turn_fold` is what they share, and `openai_request` reads what a program asks for.
"""
