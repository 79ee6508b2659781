import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const GUIDE = fileURLToPath(new URL("../../docs/how-to/react.md", import.meta.url));
const SUFFIX = ".guide.tsx";

/** `./Name.guide.tsx` is the block of the guide that exports the component `Name`. */
function guide() {
  return {
    name: "guide",
    resolveId: (id: string) =>
      id.endsWith(SUFFIX) ? fileURLToPath(new URL(`tests/${id}`, import.meta.url)) : undefined,
    load: (id: string) => {
      if (!id.endsWith(SUFFIX)) return;
      const name = basename(id, SUFFIX);
      const blocks = readFileSync(GUIDE, "utf8").matchAll(/^```tsx\n(.*?)^```$/gms);
      const found = [...blocks]
        .map(([, code = ""]) => code)
        .find((code) => code.includes(`export function ${name}(`));
      if (found === undefined) throw new Error(`No block of ${GUIDE} exports ${name}.`);
      return found;
    },
  };
}

export default defineConfig({
  plugins: [guide()],
  resolve: { alias: { "@longwatch/react": fileURLToPath(new URL("index.js", import.meta.url)) } },
  test: {
    environment: "jsdom",
    globalSetup: "./tests/support/server.ts",
    setupFiles: "./tests/support/unmount.ts",
    include: ["tests/**/*.test.tsx"],
    testTimeout: 120_000,
  },
});
