// The official client of MCP for JavaScript, with `penstock mcp`: node mcp_client.mjs FOLDER FILE COMMAND…, where
// FILE has the calls of `ask_agent`, as JSON.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, calls, command, ...args] = process.argv.slice(2);
const require = createRequire(folder + "/");
const load = (name) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/${name}`)).href);
const { Client } = await load("client/index.js");
const { StdioClientTransport } = await load("client/stdio.js");

const client = new Client({ name: "tests", version: "1" });
const transport = new StdioClientTransport({ command, args, env: process.env });
await client.connect(transport);
const tools = (await client.listTools()).tools.map(({ name }) => name).sort();
const results = [];
for (const call of JSON.parse(readFileSync(calls))) {
  let progress = 0;
  const onprogress = () => (progress += 1);
  const result = await client.callTool({ name: "ask_agent", arguments: call }, undefined, { onprogress, timeout: 300_000 });
  const text = result.content.map((block) => block.text ?? "").join("");
  results.push({ text, is_error: result.isError ?? false, facts: result.structuredContent ?? {}, progress });
}
await client.close();
process.stdout.write(JSON.stringify({ tools, results }) + "\n");
