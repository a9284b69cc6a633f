// The names of the API, and the defaults of the fields that it leaves out.

export const QUESTIONS_PATH = "questions";
export const DETAILS_PATH = "details";

/**
 * @typedef {Omit<Api.TurnView, "question" | "finalized"> & { question?: Api.OpenQuestion | null, finalized?: boolean }} TurnData
 *   A turn as docs/gateway-api.md has it.
 * @typedef {{ turns: TurnData[], earlier?: boolean }} TurnPage
 * @typedef {Omit<Api.Details, "turn"> & { turn: TurnData }} Details
 *   All that the agent did in a turn.
 * @typedef {Omit<Api.Snapshot, "turns"> & TurnPage} SnapshotFrame
 * @typedef {Omit<Api.Streaming, "question"> & { question?: Api.OpenQuestion | null }} StreamingFrame
 * @typedef {Omit<Api.Completed, "question"> & { question?: Api.OpenQuestion | null }} CompletedFrame
 * @typedef {Api.Finalized} FinalizedFrame
 * @typedef {Exclude<Api.Frame, Api.Snapshot | Api.Streaming | Api.Completed> | SnapshotFrame | StreamingFrame
 *   | CompletedFrame | Api.RunChanged} Frame
 *   A frame of a chat, a document or a loop.
 * @typedef {{ type: "list" } | { type: "listed", chat: Api.ChatView } | { type: "unlisted", id: string }} ListFrame
 *   What changes in the list; `list`: it has to be asked for.
 * @typedef {Api.RunFrame | ListFrame | { type: "missing" }} WireFrame
 */

/**
 * A turn of an answer or of a frame.
 *
 * @param {Api.TurnView} turn
 * @returns {TurnData}
 */
export function turnFromWire({ question, finalized, ...turn }) {
  return { ...turn, question: question ?? null, finalized: finalized ?? false };
}

/**
 * @param {Api.TurnPage} page
 * @returns {TurnPage}
 */
export function turnPageFromWire({ turns, earlier }) {
  return { turns: turns.map(turnFromWire), earlier };
}

/**
 * @param {Api.Details} details
 * @returns {Details}
 */
export function detailsFromWire(details) {
  return { ...details, turn: turnFromWire(details.turn) };
}

/**
 * @param {Api.RunFrame} frame
 * @returns {Frame}
 */
export function frameFromWire(frame) {
  switch (frame.type) {
    case "snapshot":
      return { ...frame, turns: frame.turns.map(turnFromWire) };
    case "streaming":
    case "completed":
      return { ...frame, question: frame.question ?? null };
    default:
      return frame;
  }
}
