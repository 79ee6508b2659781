// An editor on npm's yjs: speaks the y-websocket protocol, prints its text as JSON whenever that changes, and
// inserts what it reads from stdin as lines of JSON, [position, text].
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [, , packages, url] = process.argv;
const require = createRequire(packages);
const Y = require("yjs");
const { WebSocket } = require("ws");
const encoding = require("lib0/encoding");
const decoding = require("lib0/decoding");

const SYNC = 0;
const [STEP1, STEP2, UPDATE] = [0, 1, 2];

const doc = new Y.Doc();
const text = doc.getText("content");
const socket = new WebSocket(url);
socket.binaryType = "arraybuffer";

function send(kind, bytes) {
  const encoder = encoding.createEncoder();
  encoding.writeVarUint(encoder, SYNC);
  encoding.writeVarUint(encoder, kind);
  encoding.writeVarUint8Array(encoder, bytes);
  socket.send(encoding.toUint8Array(encoder));
}

doc.on("update", (update, origin) => {
  if (origin !== socket) send(UPDATE, update);
});
text.observe(() => console.log(JSON.stringify(text.toString())));

socket.on("open", () => {
  send(STEP1, Y.encodeStateVector(doc));
  console.log(JSON.stringify(text.toString()));
});
socket.on("message", (data) => {
  const decoder = decoding.createDecoder(new Uint8Array(data));
  if (decoding.readVarUint(decoder) !== SYNC) return;
  const kind = decoding.readVarUint(decoder);
  const bytes = decoding.readVarUint8Array(decoder);
  if (kind === STEP1) send(STEP2, Y.encodeStateAsUpdate(doc, bytes));
  else Y.applyUpdate(doc, bytes, socket);
});

createInterface({ input: process.stdin })
  .on("line", (line) => {
    const [position, inserted] = JSON.parse(line);
    text.insert(position, inserted);
  })
  .on("close", () => socket.close());
