// Server-sent events out of text that may be cut anywhere.

/** @typedef {{ event: string, data: string, id: string | null }} ServerSentEvent */

export class EventParser {
  #rest = "";
  #endedWithCr = false; // an LF at the start of the next text belongs to that line end
  #event = "";
  /** @type {string[]} */
  #data = [];
  /** @type {string | null} */
  #id = null;

  /**
   * The events that are complete now; `id` is null where an event has none.
   *
   * @param {string} text
   * @returns {ServerSentEvent[]}
   */
  feed(text) {
    if (this.#endedWithCr && text) {
      this.#endedWithCr = false;
      if (text[0] === "\n") text = text.slice(1);
    }
    if (text.endsWith("\r")) this.#endedWithCr = true;
    const lines = (this.#rest + text).split(/\r\n|\r|\n/);
    this.#rest = lines.pop() ?? "";
    return lines.flatMap((line) => this.#parse(line));
  }

  /** @param {string} line */
  #parse(line) {
    if (line === "") return this.#dispatch();
    const colon = line.indexOf(":");
    if (colon === 0) return [];
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (name === "data") this.#data.push(value);
    else if (name === "event") this.#event = value;
    else if (name === "id" && !value.includes("\0")) this.#id = value;
    return [];
  }

  #dispatch() {
    const [event, data, id] = [this.#event || "message", this.#data, this.#id];
    [this.#event, this.#data, this.#id] = ["", [], null];
    return data.length ? [{ event, data: data.join("\n"), id }] : [];
  }
}
