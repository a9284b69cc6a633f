// The official client of ACP for JavaScript, which opens a session while its turn runs: node acp_watching_client.mjs FOLDER
// CWD SESSION COMMAND…
//
// It prints a line once the session is loaded, and then the message that the agent ends the turn with.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { Readable, Writable } from "node:stream";

const [folder, cwd, sessionId, command, ...args] = process.argv.slice(2);
const place = createRequire(folder + "/").resolve("@agentclientprotocol/sdk");
const { client, methods, ndJsonStream, PROTOCOL_VERSION } = await import(pathToFileURL(place));

const agent = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
let end;
const message = new Promise((resolve) => (end = resolve));

await client({ name: "tests" })
  .onNotification(methods.client.session.update, ({ params: { update } }) => {
    if (update.sessionUpdate === "agent_message_chunk") end(update.content.text);
  })
  .connectWith(ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout)), async (connection) => {
    await connection.request(methods.agent.initialize, { protocolVersion: PROTOCOL_VERSION, clientCapabilities: {} });
    await connection.request(methods.agent.session.load, { sessionId, cwd, mcpServers: [] });
    process.stdout.write("loaded\n");
    process.stdout.write(JSON.stringify(await message) + "\n", () => process.exit(0));
  });
