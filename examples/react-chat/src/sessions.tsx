import { useFeed } from "@longwatch/react";
import { useState } from "react";

import { PROJECT } from "./server";

interface Entry {
  id: string;
  title: string | null;
}

interface SessionsProps {
  hasProject: boolean;
  current: string;
  onOpen: (id?: string) => void;
}

/** The chats of the project, newest first, as they are created. */
export function Sessions({ hasProject, current, onOpen }: SessionsProps) {
  const [sessions, setSessions] = useState<ReadonlyMap<string, Entry>>(new Map());

  useFeed(`sessions:${PROJECT}`, {
    enabled: hasProject, // a topic can be followed once it exists
    onMessage: ({ event, data }) => {
      if (event === "session")
        setSessions((known) => new Map(known).set(data.session.id, data.session));
    },
  });

  return (
    <nav className="chats" aria-label="Chats">
      <button onClick={() => onOpen()}>New chat</button>
      <ul>
        {[...sessions.values()].reverse().map(({ id, title }) => (
          <li key={id}>
            <a
              href={`#${id}`}
              aria-current={id === current ? "page" : undefined}
              onClick={() => onOpen(id)}
            >
              {title ?? id}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}
