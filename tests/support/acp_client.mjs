// The official client of ACP for JavaScript, with an agent that is started: node acp_client.mjs FOLDER CWD PICTURE COMMAND…
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { Readable, Writable } from "node:stream";

const [folder, cwd, picture, command, ...args] = process.argv.slice(2);
const place = createRequire(folder + "/").resolve("@agentclientprotocol/sdk");
const { client, methods, ndJsonStream, PROTOCOL_VERSION } = await import(pathToFileURL(place));

const agent = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const found = { text: "", loaded: "", title: null, kinds: [], pictures: [] };
let shown_as = "text";
const settled = () => new Promise((resolve) => setTimeout(resolve, 200)); // updates may be handled after a result

await client({ name: "tests" })
  .onRequest(methods.client.session.requestPermission, ({ params }) => ({
    outcome: { outcome: "selected", optionId: params.options[0].optionId },
  }))
  .onNotification(methods.client.session.update, ({ params: { update } }) => {
    found.kinds.push(update.sessionUpdate);
    if (update.sessionUpdate === "agent_message_chunk") found[shown_as] += update.content.text;
    if (update.content?.type === "image") found.pictures.push(update.content.data);
    if (update.sessionUpdate === "session_info_update") found.title = update.title;
  })
  .connectWith(ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout)), async (connection) => {
    await connection.request(methods.agent.initialize, { protocolVersion: PROTOCOL_VERSION, clientCapabilities: {} });
    const { sessionId } = await connection.request(methods.agent.session.new, { cwd, mcpServers: [] });
    const data = readFileSync(picture).toString("base64");
    const prompt = [
      { type: "text", text: "Hello" },
      { type: "image", data, mimeType: "image/png" },
    ];
    found.result = await connection.request(methods.agent.session.prompt, { sessionId, prompt });
    await settled();
    shown_as = "loaded";
    await connection.request(methods.agent.session.load, { sessionId, cwd, mcpServers: [] });
    await settled();
  });
process.stdout.write(JSON.stringify(found) + "\n", () => process.exit(0));
