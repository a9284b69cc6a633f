// The official clients of MCP for JavaScript and of its tasks: node mcp_tasks_client.mjs FOLDER MODE COMMAND…
//
// MODE is "legacy" for 2025-11-25, or the version 2026-07-28. One line of JSON about a call that ends well, one that fails
// and one that is cancelled.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, mode, command, ...args] = process.argv.slice(2);
const modules = pathToFileURL(`${folder}/node_modules/@modelcontextprotocol/`);
const { Client } = await import(new URL("client/dist/index.mjs", modules));
const { StdioClientTransport } = await import(new URL("client/dist/stdio.mjs", modules));
const { createTaskSessionFromClient } = await import(new URL("ext-tasks/dist/client/index.js", modules));

const clientInfo = { name: "tests", version: "1" };
const isNew = mode !== "legacy";
const extension = { extensions: { "io.modelcontextprotocol/tasks": {} } };
const clientCapabilities = isNew ? extension : { tasks: {} };
const versionNegotiation = { mode: isNew ? { pin: mode } : "legacy" };
const client = new Client(clientInfo, { capabilities: clientCapabilities, versionNegotiation });
const transport = new StdioClientTransport({ command, args, env: process.env });
await client.connect(transport);

const asked = new Map();
const known = transport.onmessage;
transport.onmessage = (message, more) => {
  const answer = asked.get(message.id);
  if (answer === undefined) return known(message, more);
  asked.delete(message.id);
  answer("error" in message ? { kind: "error", error: message.error } : { kind: "result", result: message.result });
};

/** Send a request whose form the client itself does not know. */
function rawDispatch(request) {
  const id = `raw-${(rawDispatch.last = (rawDispatch.last ?? 0) + 1)}`;
  const answer = new Promise((resolve) => asked.set(id, resolve));
  return transport.send({ ...request, jsonrpc: "2.0", id }).then(() => answer);
}

const v2RequestFraming = { protocolVersion: mode, clientInfo, clientCapabilities };
const session = createTaskSessionFromClient(client, {
  endpointId: "penstock",
  ...(isNew ? { rawDispatch, v2RequestFraming } : {}),
});
const found = { version: client.getNegotiatedProtocolVersion(), kinds: [], outcomes: [] };
for (const call of [{ agent: "scripted" }, { agent: "nobody" }, { agent: "held" }]) {
  const execution = await session.callTool("ask_agent", { prompt: "Hello", ...call }, isNew ? {} : { task: { preference: "require" } });
  found.kinds.push(execution.kind);
  if (call.agent === "held") await execution.cancel();
  found.outcomes.push((await execution.settle()).outcome);
}
await session.close();
await client.close();
process.stdout.write(JSON.stringify(found) + "\n", () => process.exit(0));
