"""A Markdown document that an agent answers: the user writes in it, runs one command, and the reply is inserted.

    lines          differences of two texts             document     parts of a document, place of the reply
    front_matter   fields at the start of a document    submission   changes since the last reply, and the prompt
    components     components, boundaries, comments     reply        patch blocks of a reply, and the rest
                                                        merge        reply into a document that may have changed

The modules above turn texts into texts and do no input or output. `publish` puts a reply into the file, over
`exchange` and `state`; `answers` is the whole way, for programs and for the command line. No module here reads an
agent's wire.
"""

from __future__ import annotations

from penstock.doc.answers import DocumentAnswer, answer, answer_async

__all__ = ["DocumentAnswer", "answer", "answer_async"]
