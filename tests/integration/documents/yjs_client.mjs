// Documents of the real Yjs, driven by a test: one JSON request a line, one answer a line. Bytes are base64.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const Y = createRequire(process.argv[2])("yjs");
const documents = new Map();

const bytes = (text) => new Uint8Array(Buffer.from(text, "base64"));
const base64 = (data) => Buffer.from(data).toString("base64");

function document(name) {
  if (!documents.has(name)) documents.set(name, new Y.Doc());
  return documents.get(name);
}

const actions = {
  apply: (doc, { update }) => Y.applyUpdate(doc, bytes(update)),
  update: (doc, { state }) => base64(Y.encodeStateAsUpdate(doc, state ? bytes(state) : undefined)),
  state: (doc) => base64(Y.encodeStateVector(doc)),
  text: (doc) => doc.getText("content").toString(),
  insert: (doc, { at, text }) => doc.getText("content").insert(at, text),
  remove: (doc, { at, length }) => doc.getText("content").delete(at, length),
  length: (doc) => doc.getText("content").length,
  bytes: (doc) => base64(doc.getMap("file").get("bytes")),
  kind: (doc) => doc.getMap("file").get("bytes").constructor.name,
  setBytes: (doc, { data }) => doc.getMap("file").set("bytes", bytes(data)),
  // A bit of everything that Yjs can hold, but for XML hooks, which its Rust sister does not read.
  fill: (doc) => {
    const text = doc.getText("content");
    text.insert(0, "bold 😀 text", { bold: true });
    text.insertEmbed(2, { image: "x" });
    doc.getMap("m").set("value", { list: [1, -1.5, 2 ** 40, null, undefined, true, "x"], big: 2n ** 60n });
    doc.getMap("m").set("bytes", new Uint8Array([1, 2, 3]));
    doc.getMap("m").set("doc", new Y.Doc());
    doc.getArray("a").push([new Y.Map([["text", new Y.Text("inside")]]), [[]]]);
    const element = new Y.XmlElement("p");
    doc.getXmlFragment("x").insert(0, [element, new Y.XmlText("words")]);
    element.setAttribute("class", "x");
    text.delete(1, 3);
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  try {
    const answer = actions[request.action](document(request.doc), request);
    console.log(JSON.stringify({ answer: answer ?? null }));
  } catch (error) {
    console.log(JSON.stringify({ error: String(error?.stack ?? error) }));
  }
}
