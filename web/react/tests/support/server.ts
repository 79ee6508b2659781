/** Starts `longwatch serve` for all tests, on a port and a journal of its own. */

import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { TestProject } from "vitest/node";

import "../../scripts/take-core.js"; // the tests are of the core as it is now

const START_MS = 30_000;

declare module "vitest" {
  export interface ProvidedContext {
    address: string;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const folder = mkdtempSync(join(tmpdir(), "longwatch-react-"));
  const server = spawn(process.env.LONGWATCH_COMMAND ?? "longwatch", ["serve", "--port", "0"], {
    cwd: folder,
    env: { ...process.env, LONGWATCH_DATA: folder, NO_COLOR: "1" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  project.provide("address", await addressOf(server));
  return async () => {
    const gone = new Promise((resolve) => server.once("exit", resolve));
    server.kill("SIGTERM");
    await gone;
    rmSync(folder, { recursive: true, force: true });
  };
}

function addressOf(server: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    const said: string[] = [];
    const fail = (why: string) => reject(new Error(`longwatch serve ${why}:\n${said.join("\n")}`));
    const timer = setTimeout(() => fail("did not say where it is"), START_MS);
    for (const stream of [server.stdout, server.stderr]) {
      if (stream === null) continue;
      createInterface({ input: stream }).on("line", (line) => {
        said.push(line);
        const found = /http:\/\/127\.0\.0\.1:\d+/.exec(line);
        if (found === null) return;
        clearTimeout(timer);
        resolve(found[0]);
      });
    }
    server.once("error", (error) => fail(`could not be started (${error.message})`));
    server.once("exit", (code) => fail(`ended with ${code}`));
  });
}
