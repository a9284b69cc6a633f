// AG-UI's own agent over HTTP, without a page: node agui_client.mjs FOLDER, where FOLDER has node_modules/@ag-ui/client.
//
// Each line of stdin is a JSON object: {body, messages} a stream that a server sent, or {url, token, thread, steps} to
// speak with a real one. Each line of stdout is what the agent then has.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const folder = `${process.argv[2]}/node_modules/@ag-ui/client/`;
const { module } = JSON.parse(readFileSync(`${folder}package.json`, "utf8"));
const { HttpAgent } = await import(pathToFileURL(folder + module).href);
process.on("unhandledRejection", () => {}); // of the client itself, besides the error that it reports
console.warn = console.error = console.debug = () => {};

async function run(agent, { text, messageId, ...parameters }) {
  if (text !== undefined) agent.addMessage({ id: messageId ?? crypto.randomUUID(), role: "user", content: text });
  const seen = { end: null, error: null, interrupts: [], usage: null, custom: [], agents: [], pending: null };
  const subscriber = {
    onRunFinishedEvent: ({ event, pendingToolCallIds }) => {
      seen.end = event.outcome?.type ?? "success";
      seen.interrupts = event.outcome?.interrupts ?? [];
      seen.usage = event.usage ?? null;
      seen.pending = pendingToolCallIds ?? null;
    },
    onRunErrorEvent: ({ event }) => {
      seen.end = "error";
      seen.error = event.message;
    },
    onCustomEvent: ({ event }) => {
      seen.custom.push(event.name);
    },
    onEvent: ({ event }) => {
      if (event.type.startsWith("SUBAGENT_")) seen.agents.push(event.type);
    },
  };
  let failed = null;
  try {
    await agent.runAgent(parameters, subscriber);
  } catch (error) {
    failed = String(error.message ?? error);
  }
  return { ...seen, failed };
}

function report(agent, ended) {
  return { ...ended, messages: agent.messages };
}

async function read({ body, messages = [] }) {
  const agent = new HttpAgent({ url: "http://localhost/agui", threadId: "th" });
  agent.messages = messages;
  agent.fetch = globalThis.fetch = async () =>
    new Response(body, { status: 200, headers: { "content-type": "text/event-stream" } });
  return report(agent, await run(agent, { runId: "r1" }));
}

async function speak({ url, token, thread, query = "", messages = [], steps }) {
  const headers = { Authorization: `Bearer ${token}` };
  const agent = new HttpAgent({ url: `${url}/agui${query}`, headers, threadId: thread });
  agent.messages = messages;
  const ends = [];
  for (const { answer, cancel, ...step } of steps) {
    const asked = ends.at(-1)?.interrupts ?? [];
    const status = cancel ? "cancelled" : "resolved";
    const payload = answer === undefined ? {} : { payload: answer };
    const isAnswer = answer !== undefined || cancel;
    const resume = isAnswer ? asked.map(({ id }) => ({ interruptId: id, status, ...payload })) : undefined;
    ends.push(await run(agent, { ...step, ...(resume === undefined ? {} : { resume }) }));
  }
  return { ...report(agent, ends.at(-1)), ends };
}

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  const found = asked.url === undefined ? await read(asked) : await speak(asked);
  process.stdout.write(`${JSON.stringify(found)}\n`);
}
