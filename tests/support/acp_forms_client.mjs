// The official client of ACP for JavaScript with two forms at once: node acp_forms_client.mjs FOLDER CWD COMMAND…
//
// It sends a prompt to each of two sessions and answers no form before both have one; then one that asks twice.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { Readable, Writable } from "node:stream";

const [folder, cwd, command, ...args] = process.argv.slice(2);
const place = createRequire(folder + "/").resolve("@agentclientprotocol/sdk");
const { client, methods, ndJsonStream, PROTOCOL_VERSION } = await import(pathToFileURL(place));

const agent = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const texts = {};
const forms = {};
let open = 0;
let resolve;
const bothAreOpen = new Promise((done) => (resolve = done));
const clientCapabilities = {
  elicitation: { form: {} },
  session: { notices: {}, compaction: {} },
  auth: { terminal: true },
};
const found = { logins: [], stops: [], answers: [] };

await client({ name: "tests" })
  .onRequest(methods.client.session.requestPermission, ({ params }) => ({
    outcome: { outcome: "selected", optionId: params.options[0].optionId },
  }))
  .onRequest(methods.client.elicitation.create, async ({ params }) => {
    const asked = (forms[params.sessionId] ??= []);
    asked.push(params.message);
    if (++open === 2) resolve();
    await bothAreOpen;
    const { oneOf } = params.requestedSchema.properties.answer;
    const place = Object.keys(forms).indexOf(params.sessionId) === 1 ? 1 : 0;
    return { action: "accept", content: { answer: oneOf[place].const } };
  })
  .onNotification(methods.client.session.update, ({ params: { sessionId, update } }) => {
    if (update.sessionUpdate === "agent_message_chunk") texts[sessionId] = (texts[sessionId] ?? "") + update.content.text;
  })
  .connectWith(ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout)), async (connection) => {
    const begun = await connection.request(methods.agent.initialize, { protocolVersion: PROTOCOL_VERSION, clientCapabilities });
    found.logins = begun.authMethods;
    const ask = async (text) => {
      const { sessionId } = await connection.request(methods.agent.session.new, { cwd, mcpServers: [] });
      const prompt = [{ type: "text", text }];
      const { stopReason } = await connection.request(methods.agent.session.prompt, { sessionId, prompt });
      found.stops.push(stopReason);
      found.answers.push({ text, reply: () => texts[sessionId], forms: forms[sessionId] });
    };
    await Promise.all([ask("Ask"), ask("Ask")]);
    await ask("both");
    await new Promise((done) => setTimeout(done, 200)); // updates may be handled after a result
    found.answers = found.answers.map((it) => ({ ...it, reply: it.reply() }));
  });
process.stdout.write(JSON.stringify(found) + "\n", () => process.exit(0));
