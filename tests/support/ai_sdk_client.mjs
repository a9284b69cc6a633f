// The AI SDK's own chat, without a page: node ai_sdk_client.mjs FOLDER, where FOLDER has node_modules/ai.
//
// Each line of stdin is a JSON object: {body} a stream that a server sent, or {url, token, chat, steps} to speak with a
// real one. Each line of stdout is what the chat then has.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const folder = `${process.argv[2]}/node_modules/ai/`;
const { exports } = JSON.parse(readFileSync(`${folder}package.json`, "utf8"));
const entry = exports["."].import?.default ?? exports["."].import ?? exports["."].default;
const ai = await import(pathToFileURL(folder + entry).href);

class State {
  status = "ready";
  error = undefined;
  constructor(messages) {
    this.messages = messages;
  }
  pushMessage = (message) => {
    this.messages = this.messages.concat(message);
  };
  popMessage = () => {
    this.messages = this.messages.slice(0, -1);
  };
  replaceMessage = (index, message) => {
    this.messages = this.messages.map((one, at) => (at === index ? message : one));
  };
  snapshot = (value) => structuredClone(value);
}

class Chat extends ai.AbstractChat {
  constructor({ messages = [], ...init }) {
    super({ ...init, state: new State(messages) });
  }
}

function report(chat, seen) {
  const { status, error, messages } = chat;
  return { status, error: error === undefined ? null : String(error.message ?? error), messages, ...seen };
}

function make(id, transport, messages) {
  const seen = { transient: [], isAbort: null };
  const chat = new Chat({
    id,
    transport,
    messages,
    sendAutomaticallyWhen: ai.lastAssistantMessageIsCompleteWithApprovalResponses,
    onError: () => {},
    onData: (part) => seen.transient.push(part.type),
    onFinish: (end) => {
      seen.isAbort = end.isAbort;
    },
  });
  return { chat, seen };
}

async function read(body) {
  const headers = { "content-type": "text/event-stream", "x-vercel-ai-ui-message-stream": "v1" };
  const fetch = async () => new Response(body, { status: 200, headers });
  const { chat, seen } = make("c", new ai.DefaultChatTransport({ api: "/ai", fetch }));
  await chat.sendMessage({ text: "Hello" });
  return report(chat, seen);
}

async function speak({ url, token, chat: id, query = "", steps, messages }) {
  const transport = new ai.DefaultChatTransport({
    api: `${url}/ai${query}`,
    headers: { Authorization: `Bearer ${token}` },
    prepareReconnectToStreamRequest: ({ id }) => ({
      api: `${url}/ai/${id}/stream${query.replace(/^[^?]*/, "")}`,
      headers: { Authorization: `Bearer ${token}` },
    }),
  });
  const { chat, seen } = make(id, transport, messages);
  for (const step of steps) {
    if (step.text !== undefined) await chat.sendMessage({ text: step.text });
    if (step.resume) await chat.resumeStream();
    if (step.approve !== undefined) {
      const parts = chat.messages.at(-1).parts.filter((part) => part.state === "approval-requested");
      for (const part of parts) await chat.addToolApprovalResponse({ id: part.approval.id, approved: step.approve });
      await new Promise((resolve) => setTimeout(resolve, 0));
      while (chat.status !== "ready" && chat.status !== "error") await new Promise((done) => setTimeout(done, 5));
    }
  }
  return report(chat, seen);
}

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  const found = asked.url === undefined ? await read(asked.body) : await speak(asked);
  process.stdout.write(`${JSON.stringify(found)}\n`);
}
