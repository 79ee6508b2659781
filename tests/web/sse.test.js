import assert from "node:assert/strict";
import { test } from "node:test";

import { SseParser } from "../../src/longwatch/server/page/viewer/core/sse.js";

const TEXT =
  "\uFEFFretry: 1000\n\n: comment\nid: 7\nevent: event\ndata: one\ndata:two\r\n\r\nevent: beat\ndata: {}\r\rdata\n\nid: \n\ndata: é\n\nevent: nothing\n\n";
const MESSAGES = [
  { event: "event", data: "one\ntwo", id: "7" },
  { event: "beat", data: "{}", id: "7" },
  { event: "message", data: "", id: "7" },
  { event: "message", data: "é", id: "" },
];

test("messages are parsed as the standard requires", () => {
  assert.deepEqual(new SseParser().push(TEXT), MESSAGES);
});

test("it does not matter where the text is cut", () => {
  for (let size = 1; size < 12; size += 1) {
    const parser = new SseParser();
    const found = [];
    for (let at = 0; at < TEXT.length; at += size)
      found.push(...parser.push(TEXT.slice(at, at + size)));
    assert.deepEqual(found, MESSAGES, `pieces of ${size}`);
  }
});

test("an id with a null character is not an id", () => {
  assert.equal(new SseParser().push("id: a\0b\ndata: x\n\n")[0]?.id, "");
});
