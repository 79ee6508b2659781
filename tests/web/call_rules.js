// Applies the rules for calls to the calls of the Python tests: a line of {calls, until} in, a line with the results out.

import { createInterface } from "node:readline";

import { callTree } from "../../src/longwatch/server/page/viewer/app/call-tree.js";
import { criticalPath } from "../../src/longwatch/server/page/viewer/app/critical-path.js";
import { repeatsOf } from "../../src/longwatch/server/page/viewer/app/repeats.js";
import { retriesOf } from "../../src/longwatch/server/page/viewer/app/retries.js";

for await (const line of createInterface({ input: process.stdin })) {
  const { calls, until } = JSON.parse(line);
  const tree = callTree(calls);
  const id = (at) => tree.calls[at].call_id;
  const groups = new Set(repeatsOf(tree).values());
  const answer = {
    path: Object.fromEntries([...criticalPath(tree, until)].map(([at, ms]) => [id(at), ms])),
    tries: Object.fromEntries([...retriesOf(tree)].map(([at, { number }]) => [id(at), number])),
    repeats: [...groups]
      .map(({ members, failed, medianMs }) => [id(members[0]), members.length, failed, medianMs])
      .sort(),
  };
  console.log(JSON.stringify(answer));
}
