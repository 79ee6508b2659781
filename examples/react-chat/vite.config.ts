import { defineConfig } from "vite";

export default defineConfig({
  // The package is linked from its folder, which may have a React of its own; hooks need there to be one.
  resolve: { dedupe: ["react", "react-dom", "@tanstack/react-query", "yjs"] },
  server: { port: 5173, strictPort: true },
});
