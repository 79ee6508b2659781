/** A chat with a coding agent, and the files it writes. */

import { LongwatchProvider } from "@longwatch/react";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { Chat } from "./chat";
import { Files } from "./files";

const SERVER = "http://127.0.0.1:8321";

createRoot(document.getElementById("app")!).render(
  <StrictMode>
    <LongwatchProvider baseUrl={SERVER} projectId="demo">
      <main>
        <Chat sessionId="chat" />
        <Files />
      </main>
    </LongwatchProvider>
  </StrictMode>,
);
