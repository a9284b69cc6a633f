// Links whose words name another address: node --test tests/page/unit

import assert from "node:assert/strict";
import { test } from "node:test";

import { misleadingHost } from "../../../src/penstock/chat/page/markdown/links.js";
import { exact, harmless } from "../../../src/penstock/chat/page/text/format.js";

test("a link whose words name another host has its own beside it", () => {
  const evil = "https://evil.example:8443/login";
  for (const text of [
    "https://bank.example",
    "see https://bank.example now",
    "www.bank.example",
    "bank.com",
    "BANK.com/",
  ]) {
    assert.equal(misleadingHost(text, evil), "evil.example:8443", text);
  }
  assert.equal(misleadingHost("https://bank.example", "https://bank.example@evil.example/"), "evil.example");
  assert.equal(misleadingHost("https://bank.example.evil.example", "https://bank.example/"), "bank.example");
});

test("a link whose words name its host, or none, has nothing beside it", () => {
  const own = "https://www.shop.example/a?b=c";
  for (const text of ["https://shop.example", "www.shop.example/a", "the shop", "README.md", "main.py", "v1.2.3", ""]) {
    assert.equal(misleadingHost(text, own), "", text);
  }
  assert.equal(misleadingHost("ann@bank.example", "mailto:ann@bank.example"), "");
  assert.equal(misleadingHost("https://bank.example", "no address"), "");
});

test("what has no width is left out, and what joins letters stays", () => {
  assert.equal(harmless("a\u200bb\ufeffc\u2060d\u{e0041}\u{e007f}e\u00ad"), "abcde");
  const england = "\u{1f3f4}\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}";
  const family = "\u{1f469}\u200d\u{1f467}";
  for (const kept of [england, family, "\u0646\u0645\u06cc\u200c\u062e", "e\u0301"]) assert.equal(harmless(kept), kept);
  assert.equal(harmless(`\u{1f3f4}${"\u{e0061}".repeat(50)}\u{e007f}`), "\u{1f3f4}");
  assert.equal(exact("rm\u{e0041} x"), "rm\u27e8U+E0041\u27e9 x");
});
