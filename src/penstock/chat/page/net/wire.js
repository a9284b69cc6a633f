// The names of the API that differ from those of the page, each once.

export const QUESTIONS_PATH = "hints";
export const DETAILS_PATH = "record";

/**
 * @typedef {Omit<Api.TurnView, "hint" | "recorded"> & { question?: Api.Question | null, finalized?: boolean }} TurnData
 *   A turn as docs/gateway-api.md has it.
 * @typedef {{ turns: TurnData[], earlier?: boolean }} TurnPage
 * @typedef {Omit<Api.Record, "turn"> & { turn: TurnData }} Details
 *   All that the agent did in a turn.
 * @typedef {Omit<Api.Snapshot, "turns"> & TurnPage} SnapshotFrame
 * @typedef {Omit<Api.Streaming, "hint"> & { question?: Api.Question | null }} StreamingFrame
 * @typedef {Omit<Api.Completed, "hint"> & { question?: Api.Question | null }} CompletedFrame
 * @typedef {Omit<Api.Recorded, "type"> & { type: "finalized" }} FinalizedFrame
 * @typedef {Exclude<Api.Frame, Api.Snapshot | Api.Streaming | Api.Completed | Api.Recorded> | SnapshotFrame
 *   | StreamingFrame | CompletedFrame | FinalizedFrame} Frame
 *   A frame of the stream of a chat.
 */

/**
 * A turn of an answer or of a frame.
 *
 * @param {Api.TurnView} turn
 * @returns {TurnData}
 */
export function turnFromWire({ hint, recorded, ...turn }) {
  return { ...turn, question: hint ?? null, finalized: recorded ?? false };
}

/**
 * @param {Api.TurnPage} page
 * @returns {TurnPage}
 */
export function turnPageFromWire({ turns, earlier }) {
  return { turns: turns.map(turnFromWire), earlier };
}

/**
 * @param {Api.Record} details
 * @returns {Details}
 */
export function detailsFromWire(details) {
  return { ...details, turn: turnFromWire(details.turn) };
}

/**
 * @param {Api.Frame} frame
 * @returns {Frame}
 */
export function frameFromWire(frame) {
  switch (frame.type) {
    case "snapshot":
      return { ...frame, turns: frame.turns.map(turnFromWire) };
    case "recorded":
      return { ...frame, type: "finalized" };
    case "streaming":
    case "completed": {
      const { hint, ...rest } = frame;
      return { ...rest, question: hint ?? null };
    }
    default:
      return frame;
  }
}
