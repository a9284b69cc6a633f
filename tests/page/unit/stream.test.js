// The parser of server-sent events, and how soon to come back.

import assert from "node:assert/strict";
import { test } from "node:test";

import { EventParser } from "../../../src/penstock/chat/page/net/event-parser.js";
import { pause } from "../../../src/penstock/chat/page/net/stream.js";

const TEXT =
  ': ok\n\nretry: 500\n\nid: 1\nevent: prompted\ndata: {"turn":1}\n\n: ping\n\nevent: assistant\ndata: {"a":"ü🌍: \\n"}\nid: 2\n\ndata: a\ndata: b\n\n';
const EVENTS = [
  { event: "prompted", data: '{"turn":1}', id: "1" },
  { event: "assistant", data: '{"a":"ü🌍: \\n"}', id: "2" },
  { event: "message", data: "a\nb", id: null },
];

test("any cutting of the bytes gives the same events, whatever ends the lines", () => {
  for (const end of ["\n", "\r\n", "\r"]) {
    const bytes = new TextEncoder().encode(TEXT.replaceAll("\n", end));
    for (let size = 1; size <= bytes.length; size++) {
      const [parser, decoder, found] = [new EventParser(), new TextDecoder(), []];
      for (let at = 0; at < bytes.length; at += size) {
        found.push(...parser.feed(decoder.decode(bytes.slice(at, at + size), { stream: true })));
      }
      // A last lone CR may still become CRLF, but its line is told at once.
      assert.deepEqual(found, EVENTS, JSON.stringify({ end, size }));
    }
  }
});

test("an event that is not whole is not told", () => {
  const parser = new EventParser();
  assert.deepEqual(parser.feed("id: 9\ndata: half"), []);
  assert.deepEqual(parser.feed("\n"), []);
  assert.deepEqual(parser.feed("\n"), [{ event: "message", data: "half", id: "9" }]);
});

test("one space behind the colon is no part of the value, and a line without a colon is a field", () => {
  assert.deepEqual(new EventParser().feed("data:  x\ndata\n\n"), [{ event: "message", data: " x\n", id: null }]);
});

test("each attempt waits longer, up to a bound, and no two pages in step", () => {
  assert.ok(pause(0, 0) >= 100 && pause(0, 1) <= 500);
  for (let n = 0; n < 40; n++) {
    assert.ok(pause(n, 0) < pause(n, 1));
    assert.ok(pause(n, 1) <= pause(n + 1, 1) && pause(n, 1) <= 15_000);
  }
});
