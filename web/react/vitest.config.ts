import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    environment: "jsdom",
    globalSetup: "./tests/support/server.ts",
    include: ["tests/**/*.test.tsx"],
    testTimeout: 60_000,
  },
});
