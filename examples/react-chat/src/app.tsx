import { useFeed } from "@longwatch/react";
import { useEffect, useState } from "react";

import { Chat } from "./chat";
import { Files } from "./files";
import { PROJECT } from "./server";
import { Sessions } from "./sessions";

type Panel = "chats" | "files";

/** The list of chats, the one that is open, and the files. Narrow windows show one of them at a time. */
export function App() {
  const [sessionId, openSession] = useSessionInUrl();
  const [panel, setPanel] = useState<Panel>();
  const hasProject = useHasProject();

  const toggle = (name: Panel) => (
    <button
      className="toggle quiet"
      aria-expanded={panel === name}
      onClick={() => setPanel((open) => (open === name ? undefined : name))}
    >
      {name === "chats" ? "Chats" : "Files"}
    </button>
  );

  return (
    <div className="app" data-panel={panel}>
      <Sessions
        hasProject={hasProject}
        current={sessionId}
        onOpen={(id) => {
          openSession(id);
          setPanel(undefined);
        }}
      />
      <Chat
        key={sessionId}
        sessionId={sessionId}
        before={toggle("chats")}
        after={toggle("files")}
      />
      <Files hasProject={hasProject} />
    </div>
  );
}

/** Whether the project exists: the first prompt creates it. */
function useHasProject(): boolean {
  const [hasProject, setHasProject] = useState(false);

  useFeed("projects", {
    onMessage: ({ event, data }) => {
      if (event === "project" && data.project.id === PROJECT) setHasProject(true);
    },
  });
  return hasProject;
}

/** The chat that the URL names after its `#`; a new one if it names none. */
function useSessionInUrl(): [sessionId: string, open: (id?: string) => void] {
  const [sessionId, setSessionId] = useState(() => location.hash.slice(1) || newSessionId());

  useEffect(() => {
    if (location.hash.slice(1) !== sessionId) history.replaceState(null, "", `#${sessionId}`);
    const follow = () => setSessionId(location.hash.slice(1) || newSessionId());
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, [sessionId]);

  return [sessionId, (id = newSessionId()) => (location.hash = id)];
}

function newSessionId(): string {
  return `chat-${Math.random().toString(16).slice(2, 10)}`;
}
