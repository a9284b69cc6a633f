// The official client of ACP for JavaScript with agents at a socket: node acp_played_client.mjs FOLDER SOCKET, where
// FOLDER has node_modules/@agentclientprotocol/sdk.
//
// Each line of stdin is a JSON object: {prompts, isFull, cut}. `prompts` are sent to one session, one after the other.
// `isFull`: the client has forms and notices. `cut`: the bytes of the agent end in the middle of the line after so many
// updates. Each line of stdout is what the client then has.
import { createRequire } from "node:module";
import { connect } from "node:net";
import { createInterface } from "node:readline";
import { Duplex } from "node:stream";
import { pathToFileURL } from "node:url";

const [folder, socket] = process.argv.slice(2);
const place = createRequire(folder + "/").resolve("@agentclientprotocol/sdk");
const { client, methods, ndJsonStream, PROTOCOL_VERSION } = await import(pathToFileURL(place));
const CAPABILITIES = { elicitation: { form: {} }, session: { notices: {} } };
const turn = () => new Promise((resolve) => setImmediate(resolve));

/** The bytes of the agent by lines, counted by the kind of message, up to a cut. */
class Wire extends TransformStream {
  constructor(cut) {
    let rest = Buffer.alloc(0);
    const count = { updates: 0 };
    super({
      transform(chunk, controller) {
        rest = Buffer.concat([rest, chunk]);
        for (let at = rest.indexOf(10); at >= 0; at = rest.indexOf(10)) {
          const line = rest.subarray(0, at + 1);
          rest = rest.subarray(at + 1);
          const isUpdate = line.includes('"method":"session/update"');
          if (count.isAsked && count.updates === cut) {
            controller.enqueue(line.subarray(0, at >> 1));
            controller.terminate();
            return;
          }
          if (isUpdate) count.updates += 1;
          controller.enqueue(line);
        }
      },
    });
    this.count = count;
  }
}

/** A connection, and what it has got of the session at work. */
class Connection {
  constructor(isFull, cut) {
    this.socket = connect(socket);
    this.socket.on("error", () => {});
    this.wire = new Wire(cut);
    const { readable, writable } = Duplex.toWeb(this.socket);
    const stream = ndJsonStream(writable, readable.pipeThrough(this.wire));
    this.app = client({ name: "tests" })
      .onRequest(methods.client.session.requestPermission, ({ params }) => {
        this.found.asked.push(params.toolCall.title);
        return { outcome: { outcome: "selected", optionId: params.options[0].optionId } };
      })
      .onRequest(methods.client.elicitation.create, ({ params }) => {
        this.found.asked.push(params.message);
        const { answer } = params.requestedSchema.properties;
        return { action: "accept", content: { answer: answer.oneOf?.[0].const ?? "1" } };
      })
      .onNotification(methods.client.session.update, ({ params }) => {
        this.handled += 1;
        this.found.updates.push(params.update);
      });
    this.handled = 0;
    this.agent = this.app.connect(stream).agent;
    this.started = this.agent.request(methods.agent.initialize, {
      protocolVersion: PROTOCOL_VERSION,
      clientCapabilities: isFull ? CAPABILITIES : {},
    });
  }

  async ask(prompts) {
    this.found = { updates: [], asked: [], stop: null, error: null };
    await this.started;
    const session = await this.agent.request(methods.agent.session.new, { cwd: "/demo", mcpServers: [] });
    this.wire.count.isAsked = true;
    try {
      for (const text of prompts) {
        const prompt = [{ type: "text", text }];
        const ended = await this.agent.request(methods.agent.session.prompt, { sessionId: session.sessionId, prompt });
        this.found.stop = ended.stopReason;
        this.found.usage = ended.usage;
      }
    } catch (error) {
      this.found.stop = null;
      this.found.error = { message: String(error.message ?? error), data: error.data };
    }
    for (const end = Date.now() + 60_000; this.handled < this.wire.count.updates && Date.now() < end; ) await turn();
    return { ...this.found, dropped: this.wire.count.updates - this.handled };
  }
}

const kept = {};
for await (const line of createInterface({ input: process.stdin })) {
  const { prompts, isFull, cut } = JSON.parse(line);
  const connection = cut === undefined ? (kept[isFull] ??= new Connection(isFull)) : new Connection(isFull, cut);
  const found = await connection.ask(prompts);
  if (cut !== undefined) connection.socket.destroy();
  process.stdout.write(`${JSON.stringify(found)}\n`);
}
process.stdout.write("", () => process.exit(0));
