// An editor on npm's y-websocket, as applications use it. Prints its text and who else is there as JSON whenever
// that changes, and inserts what it reads from stdin as lines of JSON, [position, text].
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [, , packages, server, room, name, token] = process.argv;
const protocolsModule = new URL("react/src/socket-protocols.js", pathToFileURL(packages));
const { socketProtocols } = await import(protocolsModule.href);
const require = createRequire(packages);
const Y = require("yjs");
const { WebSocket } = require("ws");
const { WebsocketProvider } = require("y-websocket");

const doc = new Y.Doc();
const text = doc.getText("content");
const provider = new WebsocketProvider(server, room, doc, {
  WebSocketPolyfill: WebSocket,
  protocols: token ? socketProtocols(token) : [],
  disableBc: true, // or two of one machine would find each other without the server
  maxBackoffTime: 500,
});

function report() {
  const people = [...provider.awareness.getStates().values()].map((state) => state.name).filter(Boolean);
  console.log(JSON.stringify({ text: text.toString(), synced: provider.synced, people: people.sort() }));
}

provider.awareness.setLocalStateField("name", name);
provider.on("sync", report);
provider.on("status", report);
provider.awareness.on("change", report);
text.observe(report);

createInterface({ input: process.stdin })
  .on("line", (line) => {
    const [position, inserted] = JSON.parse(line);
    text.insert(position, inserted);
  })
  .on("close", () => {
    provider.destroy();
    process.exit(0);
  });
