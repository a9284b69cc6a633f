"""The four ways in which providers are spoken with: how a request is read, and how an answer is streamed.

What a request says comes out as an `Asked`; an answer goes in as calls (`think`, `say`, `call`, …), each of which
gives the bytes of its server-sent events.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any, ClassVar, NamedTuple, Protocol

INPUT_TOKENS, OUTPUT_TOKENS = 1200, 34
"""What every answer says that it used."""


class Item(NamedTuple):
    """One piece of the conversation: `who` is `user`, `assistant`, `call` or `result`."""

    who: str
    text: str


class Tool(NamedTuple):
    """A tool that the model may call. Without a schema it takes one free text."""

    name: str
    schema: dict[str, Any] | None


class Asked(NamedTuple):
    """A request for an answer."""

    model: str
    items: list[Item]
    tools: list[Tool]
    stream: bool


def sse(data: Any, event: str | None = None) -> bytes:
    """One server-sent event."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return (f"event: {event}\n" if event else "").encode() + f"data: {text}\n\n".encode()


def plain(content: Any) -> str:
    """The text of some content, which is a string or a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(filter(None, map(plain, content)))
    return plain(content.get("text") or content.get("content") or "") if isinstance(content, dict) else ""


class Dialect(Protocol):
    """One answer in the words of one provider."""

    @staticmethod
    def read(body: dict[str, Any], path: str) -> Asked:
        """What is asked."""
        ...

    def begin(self) -> bytes: ...
    def think(self, text: str) -> bytes: ...
    def say(self, text: str) -> bytes: ...
    def call(self, tool: Tool, input: Any) -> bytes: ...
    def broken(self, message: str) -> bytes: ...
    def end(self) -> bytes: ...
    def cut(self) -> bytes:
        """The end at the limit of tokens."""
        ...

    def whole(self, text: str) -> Any:
        """An answer that is not streamed."""
        ...

    @staticmethod
    def refusal(status: int, message: str) -> Any:
        """The body of an error."""
        ...


class Anthropic:
    """`/v1/messages`."""

    ids: ClassVar = count(1)

    def __init__(self, model: str) -> None:
        self.model = model
        self.id = f"msg_{next(self.ids):06}"
        self.kind = ""
        self.index = -1
        self.stop = "end_turn"

    @staticmethod
    def read(body: dict[str, Any], path: str) -> Asked:
        items = []
        for message in body.get("messages", []):
            content = message["content"]
            for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
                who = {"tool_use": "call", "tool_result": "result"}.get(part["type"], message["role"])
                if part["type"] in ("text", "tool_use", "tool_result"):
                    items.append(Item(who, part.get("name") or plain(part)))
        tools = [Tool(tool["name"], tool.get("input_schema")) for tool in body.get("tools", [])]
        return Asked(body.get("model", ""), items, tools, bool(body.get("stream")))

    def event(self, type: str, **fields: Any) -> bytes:
        return sse({"type": type, **fields}, type)

    def begin(self) -> bytes:
        message = {**self.whole(""), "content": [], "stop_reason": None}
        return self.event("message_start", message=message)

    def open(self, kind: str, **block: Any) -> bytes:
        if kind == self.kind and kind != "tool_use":
            return b""
        closed = self.close()
        self.kind = kind
        self.index += 1
        return closed + self.event("content_block_start", index=self.index, content_block={"type": kind, **block})

    def close(self) -> bytes:
        if not self.kind:
            return b""
        signed = self.delta(type="signature_delta", signature="c2lnbmVk") if self.kind == "thinking" else b""
        self.kind = ""
        return signed + self.event("content_block_stop", index=self.index)

    def delta(self, **delta: Any) -> bytes:
        return self.event("content_block_delta", index=self.index, delta=delta)

    def think(self, text: str) -> bytes:
        return self.open("thinking", thinking="", signature="") + self.delta(type="thinking_delta", thinking=text)

    def say(self, text: str) -> bytes:
        return self.open("text", text="") + self.delta(type="text_delta", text=text)

    def call(self, tool: Tool, input: Any) -> bytes:
        self.stop = "tool_use"
        opened = self.open("tool_use", id=f"toolu_{next(self.ids):06}", name=tool.name, input={})
        text = json.dumps(input, ensure_ascii=False)
        halves = (text[: len(text) // 2], text[len(text) // 2 :])
        return opened + b"".join(self.delta(type="input_json_delta", partial_json=half) for half in halves)

    def broken(self, message: str) -> bytes:
        return self.event("error", error={"type": "overloaded_error", "message": message})

    def end(self) -> bytes:
        usage = {"output_tokens": OUTPUT_TOKENS}
        ended = self.event("message_delta", delta={"stop_reason": self.stop, "stop_sequence": None}, usage=usage)
        return self.close() + ended + self.event("message_stop")

    def cut(self) -> bytes:
        self.stop = "max_tokens"
        return self.end()

    def whole(self, text: str) -> Any:
        usage = {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS}
        message = {"id": self.id, "type": "message", "role": "assistant", "model": self.model, "usage": usage}
        return {
            **message,
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
        }

    @staticmethod
    def refusal(status: int, message: str) -> Any:
        kind = "authentication_error" if status == 401 else "api_error"
        return {"type": "error", "error": {"type": kind, "message": message}}


class Chat:
    """OpenAI's `/v1/chat/completions`."""

    ids: ClassVar = count(1)
    usage: ClassVar = {
        "prompt_tokens": INPUT_TOKENS,
        "completion_tokens": OUTPUT_TOKENS,
        "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
    }

    def __init__(self, model: str) -> None:
        self.model = model
        self.id = f"chatcmpl-{next(self.ids):06}"
        self.calls = 0

    @staticmethod
    def read(body: dict[str, Any], path: str) -> Asked:
        items = []
        for message in body.get("messages", []):
            who = {"tool": "result", "user": "user", "assistant": "assistant"}.get(message["role"])
            if who and (text := plain(message.get("content") or "")):
                items.append(Item(who, text))
            elif who == "result":
                items.append(Item(who, ""))
            items += [Item("call", call["function"]["name"]) for call in message.get("tool_calls") or []]
        functions = [tool["function"] for tool in body.get("tools") or [] if "function" in tool]
        tools = [Tool(function["name"], function.get("parameters")) for function in functions]
        return Asked(body.get("model", ""), items, tools, bool(body.get("stream")))

    def chunk(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return sse({**self.head("chat.completion.chunk"), "choices": [choice]})

    def head(self, object: str) -> dict[str, Any]:
        return {"id": self.id, "object": object, "created": 1, "model": self.model}

    def begin(self) -> bytes:
        return self.chunk({"role": "assistant", "content": ""})

    def think(self, text: str) -> bytes:
        return self.chunk({"reasoning_content": text})

    def say(self, text: str) -> bytes:
        return self.chunk({"content": text})

    def call(self, tool: Tool, input: Any) -> bytes:
        text = json.dumps(input, ensure_ascii=False)
        first, second = text[: len(text) // 2], text[len(text) // 2 :]
        index, self.calls = self.calls, self.calls + 1
        function = {"name": tool.name, "arguments": first}
        begun = {"index": index, "id": f"call_{next(self.ids):06}", "type": "function", "function": function}
        rest = {"index": index, "function": {"arguments": second}}
        return self.chunk({"tool_calls": [begun]}) + self.chunk({"tool_calls": [rest]})

    def broken(self, message: str) -> bytes:
        return sse(self.refusal(503, message))

    def end(self) -> bytes:
        return self._end("tool_calls" if self.calls else "stop")

    def cut(self) -> bytes:
        return self._end("length")

    def _end(self, finish: str) -> bytes:
        usage = sse({**self.head("chat.completion.chunk"), "choices": [], "usage": self.usage})
        return self.chunk({}, finish) + usage + sse("[DONE]")

    def whole(self, text: str) -> Any:
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return {**self.head("chat.completion"), "choices": [choice], "usage": self.usage}

    @staticmethod
    def refusal(status: int, message: str) -> Any:
        kind = "authentication_error" if status == 401 else "server_error"
        return {"error": {"message": message, "type": kind, "code": kind, "param": None}}


class Responses:
    """OpenAI's `/v1/responses`."""

    ids: ClassVar = count(1)

    def __init__(self, model: str) -> None:
        self.model = model
        self.id = f"resp_{next(self.ids):06}"
        self.items: list[dict[str, Any]] = []
        self.open_kind = ""
        self.text: list[str] = []
        self.sequence = count()

    @staticmethod
    def read(body: dict[str, Any], path: str) -> Asked:
        items = []
        given = body.get("input", [])
        for item in [{"role": "user", "content": given}] if isinstance(given, str) else given:
            kind = item.get("type", "message")
            if kind == "message":
                items.append(Item(item["role"], plain(item["content"])))
            elif kind.endswith("_call"):
                items.append(Item("call", item.get("name", kind)))
            elif kind.endswith("_call_output"):
                items.append(Item("result", plain(item.get("output", ""))))
        tools = [Tool(t["name"], t.get("parameters")) for t in body.get("tools", []) if "name" in t]
        return Asked(body.get("model", ""), items, tools, bool(body.get("stream")))

    def event(self, type: str, **fields: Any) -> bytes:
        return sse({"type": f"response.{type}", "sequence_number": next(self.sequence), **fields}, f"response.{type}")

    def response(self, status: str) -> dict[str, Any]:
        usage = {
            "input_tokens": INPUT_TOKENS,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": OUTPUT_TOKENS,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
        }
        head = {"id": self.id, "object": "response", "created_at": 1, "model": self.model, "status": status}
        return {**head, "output": self.items, "usage": usage if status == "completed" else None}

    def begin(self) -> bytes:
        return self.event("created", response=self.response("in_progress"))

    def start(self, kind: str) -> bytes:
        if kind == self.open_kind:
            return b""
        closed = self.close()
        self.open_kind, self.text = kind, []
        self.item = {"type": kind, "id": f"{kind[:3]}_{next(self.ids):06}"}
        self.place = {"item_id": self.item["id"], "output_index": len(self.items)}
        extra = {"role": "assistant", "content": []} if kind == "message" else {"summary": []}
        added = self.event("output_item.added", output_index=len(self.items), item={**self.item, **extra})
        if kind == "message":
            return closed + added + self.event("content_part.added", **self.place, content_index=0, part=self.part(""))
        part = {"type": "summary_text", "text": ""}
        return closed + added + self.event("reasoning_summary_part.added", **self.place, summary_index=0, part=part)

    def part(self, text: str) -> dict[str, Any]:
        return {"type": "output_text", "text": text, "annotations": []}

    def close(self) -> bytes:
        kind, text = self.open_kind, "".join(self.text)
        if not kind:
            return b""
        self.open_kind = ""
        if kind == "message":
            done = self.event("output_text.done", **self.place, content_index=0, text=text)
            done += self.event("content_part.done", **self.place, content_index=0, part=self.part(text))
            return done + self.done({**self.item, "role": "assistant", "content": [self.part(text)]})
        part = {"type": "summary_text", "text": text}
        done = self.event("reasoning_summary_text.done", **self.place, summary_index=0, text=text)
        done += self.event("reasoning_summary_part.done", **self.place, summary_index=0, part=part)
        return done + self.done({**self.item, "summary": [part]})

    def done(self, item: dict[str, Any]) -> bytes:
        item = {**item, "status": "completed"}
        self.items.append(item)
        return self.event("output_item.done", output_index=len(self.items) - 1, item=item)

    def think(self, text: str) -> bytes:
        started = self.start("reasoning")
        self.text.append(text)
        return started + self.event("reasoning_summary_text.delta", **self.place, summary_index=0, delta=text)

    def say(self, text: str) -> bytes:
        started = self.start("message")
        self.text.append(text)
        return started + self.event("output_text.delta", **self.place, content_index=0, delta=text)

    def call(self, tool: Tool, input: Any) -> bytes:
        closed = self.close()
        number = next(self.ids)
        space, _, name = tool.name.rpartition("/")  # tools of a server have its name before theirs
        head = {"id": f"fc_{number:06}", "call_id": f"call_{number:06}", "name": name}
        head |= {"namespace": space} if space else {}
        if tool.schema is None and isinstance(input, str):
            item = {"type": "custom_tool_call", **head, "input": input}
        else:
            item = {"type": "function_call", **head, "arguments": json.dumps(input, ensure_ascii=False)}
        added = self.event("output_item.added", output_index=len(self.items), item={**item, "status": "in_progress"})
        return closed + added + self.done(item)

    def broken(self, message: str) -> bytes:
        error = {"code": "server_is_overloaded", "message": message}
        return self.event("failed", response={**self.response("failed"), "error": error})

    def end(self) -> bytes:
        return self.close() + self.event("completed", response=self.response("completed"))

    def cut(self) -> bytes:
        why = {"incomplete_details": {"reason": "max_output_tokens"}}
        return self.close() + self.event("incomplete", response={**self.response("incomplete"), **why})

    def whole(self, text: str) -> Any:
        self.done({"type": "message", "id": "msg_0", "role": "assistant", "content": [self.part(text)]})
        return self.response("completed")

    refusal = staticmethod(Chat.refusal)


class Gemini:
    """Google's `/v1beta/models/MODEL:streamGenerateContent`."""

    def __init__(self, model: str) -> None:
        self.model = model

    @staticmethod
    def read(body: dict[str, Any], path: str) -> Asked:
        items = []
        for content in body.get("contents", []):
            who = "user" if content.get("role", "user") == "user" else "assistant"
            for part in content.get("parts", []):
                if "functionCall" in part:
                    items.append(Item("call", part["functionCall"]["name"]))
                elif "functionResponse" in part:
                    items.append(Item("result", json.dumps(part["functionResponse"].get("response"))))
                elif part.get("text") and not part.get("thought"):
                    items.append(Item(who, part["text"]))
        declared = [tool for group in body.get("tools", []) for tool in group.get("functionDeclarations", [])]
        tools = [Tool(t["name"], t.get("parametersJsonSchema") or t.get("parameters") or {}) for t in declared]
        model, _, verb = path.partition("?")[0].rpartition("/")[2].partition(":")
        return Asked(model, items, tools, verb.startswith("stream"))

    def parts(self, *parts: Any, **candidate: Any) -> dict[str, Any]:
        content = {"role": "model", "parts": list(parts)}
        usage = {
            "promptTokenCount": INPUT_TOKENS,
            "candidatesTokenCount": OUTPUT_TOKENS,
            "totalTokenCount": INPUT_TOKENS + OUTPUT_TOKENS,
        }
        candidates = [{"content": content, "index": 0, **candidate}]
        return {"candidates": candidates, "usageMetadata": usage, "modelVersion": self.model}

    def begin(self) -> bytes:
        return b""

    def think(self, text: str) -> bytes:
        return sse(self.parts({"text": text, "thought": True}))

    def say(self, text: str) -> bytes:
        return sse(self.parts({"text": text}))

    def call(self, tool: Tool, input: Any) -> bytes:
        return sse(self.parts({"functionCall": {"name": tool.name, "args": input}}))

    def broken(self, message: str) -> bytes:
        return json.dumps(self.refusal(503, message)).encode() + b"\n\n"

    def end(self) -> bytes:
        return sse(self.parts({"text": ""}, finishReason="STOP"))

    def cut(self) -> bytes:
        return sse(self.parts({"text": ""}, finishReason="MAX_TOKENS"))

    def whole(self, text: str) -> Any:
        return self.parts({"text": text}, finishReason="STOP")

    @staticmethod
    def refusal(status: int, message: str) -> Any:
        word = "UNAUTHENTICATED" if status == 401 else "INTERNAL"
        return {"error": {"code": status, "message": message, "status": word}}


PATHS: dict[str, type[Anthropic | Chat | Responses | Gemini]] = {
    "/messages": Anthropic,
    "/chat/completions": Chat,
    "/responses": Responses,
    "enerateContent": Gemini,
}


def dialect(path: str) -> type[Anthropic | Chat | Responses | Gemini] | None:
    """The dialect that is spoken at a path; None where no answer is asked for."""
    path = path.partition("?")[0]
    return next((found for end, found in PATHS.items() if path.endswith(end)), None)


def pieces(text: str, size: int) -> Iterator[str]:
    """A text in pieces."""
    return (text[at : at + size] for at in range(0, len(text), size))
