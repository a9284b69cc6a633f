"""The chat model of LangChain for OpenAI's interface, which reads answers: langchain_client.py FOLDER, lines on stdin.

Each line is `{"status": …, "body": …, "stream": …}`; each line of the output is what the model makes of it.
"""

import json
import sys
from typing import Any

sys.path.insert(0, sys.argv[1])

import httpx2
import openai
from langchain_openai import ChatOpenAI  # type: ignore[import-not-found]

Found = dict[str, Any]


class Answers:
    """The server: it gives the answer of the line that is read."""

    def __init__(self) -> None:
        self.line: dict[str, Any] = {}

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        """Answer."""
        kind = "text/event-stream" if self.line["stream"] else "application/json"
        headers = {"content-type": kind, "x-should-retry": "false"}
        return httpx2.Response(self.line["status"], headers=headers, content=self.line["body"].encode())


def ask(model: ChatOpenAI, *, stream: bool) -> Found:
    """What the model has after its one question."""
    found: Found = {"content": "", "finish": None, "tools": 0, "input_tokens": None, "error": None}
    try:
        for message in model.stream("Hello") if stream else [model.invoke("Hello")]:
            found["content"] += message.content
            found["tools"] += len(message.tool_calls)
            found["finish"] = message.response_metadata.get("finish_reason") or found["finish"]
            if message.usage_metadata:
                found["input_tokens"] = message.usage_metadata["input_tokens"]
    except openai.APIError as error:
        found["error"] = str(error)
    return found


answers = Answers()
client = httpx2.Client(transport=httpx2.MockTransport(answers))
model = ChatOpenAI(model="claude", api_key="x", base_url="http://x/v1", http_client=client, stream_usage=True)
for line in sys.stdin:
    answers.line = json.loads(line)
    sys.stdout.write(json.dumps(ask(model, stream=answers.line["stream"])) + "\n")
