// A page with `useChat` of the AI SDK, as somebody may have it: node_modules has @ai-sdk/react, ai, react and react-dom.
//
// The address has the server, its token, the agent and the id of the chat. The page keeps the messages that are complete.
import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import { createElement as h, useEffect, useState } from "react";
import { createRoot } from "react-dom/client";

const { server, token, agent, chat } = Object.fromEntries(new URLSearchParams(location.search));
const headers = { Authorization: `Bearer ${token}` };
const query = "?sdk=7&detail=full";
const transport = new DefaultChatTransport({
  api: `${server}/ai/${agent}${query}`,
  headers,
  prepareReconnectToStreamRequest: ({ id }) => ({ api: `${server}/ai/${id}/stream${query}`, headers }),
});
const kept = JSON.parse(sessionStorage.getItem(chat) ?? "[]");

function Part({ part, allow }) {
  if (part.type === "text") return h("p", null, part.text);
  if (part.state !== "approval-requested") return null;
  return h("button", { className: "allow", onClick: () => allow(part.approval.id) }, "Allow");
}

function App() {
  const [text, setText] = useState("");
  const { messages, sendMessage, status, error, addToolApprovalResponse } = useChat({
    id: chat,
    messages: kept,
    resume: kept.length > 0,
    transport,
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  useEffect(() => {
    if (status !== "streaming") sessionStorage.setItem(chat, JSON.stringify(messages));
  }, [messages, status]);
  const allow = (id) => addToolApprovalResponse({ id, approved: true });
  const send = (event) => {
    event.preventDefault();
    sendMessage({ text });
    setText("");
  };
  const stop = () => fetch(`${server}/ai/${chat}/stop`, { method: "POST", headers });
  return h(
    "main",
    null,
    messages.map(({ id, role, parts }) =>
      h("article", { key: id, className: role }, parts.map((part, at) => h(Part, { key: at, part, allow }))),
    ),
    h("form", { onSubmit: send }, h("input", { value: text, onChange: (event) => setText(event.target.value) })),
    h("button", { id: "stop", onClick: stop }, "Stop"),
    h("output", null, error ? `${status}: ${error.message}` : status),
  );
}

createRoot(document.body).render(h(App));
