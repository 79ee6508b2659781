// npm's own graphql-ws client, as applications use it: follows one subscription, keeps the cursor of each update
// for the next connection, and prints what happens as lines of JSON.
import { createRequire } from "node:module";

const [, , packages, url, operation, token] = process.argv;
const require = createRequire(packages);
const { createClient } = require("graphql-ws");
const { WebSocket } = require("ws");

const { query, variables, field } = JSON.parse(operation);
const print = (event, value) => console.log(JSON.stringify({ event, value }));
const client = createClient({
  url,
  webSocketImpl: WebSocket,
  connectionParams: token ? { token } : undefined,
  retryAttempts: 1_000,
  retryWait: () => new Promise((resolve) => setTimeout(resolve, 50)),
  shouldRetry: (closed) => closed?.code !== 4403,
  on: {
    connected: () => print("connected", null),
    closed: ({ code, reason }) => print("closed", { code, reason }),
  },
});
client.subscribe(
  { query, variables },
  {
    next(result) {
      // The client sends the payload again when it has reconnected.
      const cursor = result.data?.[field]?.cursor;
      if (cursor !== undefined) variables.after = cursor;
      print("next", result);
    },
    error(error) {
      print(
        "error",
        Array.isArray(error) ? error.map(({ message }) => message) : (error.code ?? String(error)),
      );
      client.dispose();
    },
    complete() {
      print("complete", null);
      client.dispose();
    },
  },
);
