/** A chat with a coding agent, and the files that it works on. */

import { LongwatchProvider } from "@longwatch/react";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { App } from "./app";
import { SERVER } from "./server";

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <LongwatchProvider baseUrl={SERVER}>
      <App />
    </LongwatchProvider>
  </StrictMode>,
);
