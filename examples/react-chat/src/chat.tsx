import { useProjectActions, useSession, type FeedState } from "@longwatch/react";
import { useEffect, useRef, useState, type ReactNode } from "react";

import { Composer } from "./composer";
import { PROJECT } from "./server";
import { TurnView } from "./turn";

const CONNECTIONS: Record<FeedState, string> = {
  live: "Live",
  polling: "Polling",
  connecting: "Connecting …",
  offline: "Offline",
};
const TITLE_LENGTH = 60;

interface ChatProps {
  sessionId: string;
  /** Beside the heading. */
  before: ReactNode;
  after: ReactNode;
}

/** One chat: what was said, what is being said, and a field to say more. */
export function Chat({ sessionId, before, after }: ChatProps) {
  const session = useSession(PROJECT, sessionId);
  const { createProject, createSession } = useProjectActions();
  const { turns, liveTurn, isLoading, connection, error } = session;
  const end = useStickyEnd(turns);
  const [problem, setProblem] = useState<string>();

  const attempt = async (action: () => Promise<unknown>) => {
    setProblem(undefined);
    try {
      await action();
      return true;
    } catch (raised) {
      setProblem((raised as Error).message);
      return false;
    }
  };
  const send = (prompt: string) =>
    attempt(async () => {
      if (turns.length === 0) {
        await createProject({ id: PROJECT, name: "Demo" });
        await createSession(PROJECT, { id: sessionId, title: prompt.slice(0, TITLE_LENGTH) });
      }
      await session.send(prompt);
    });

  return (
    <main className="chat">
      <header>
        {before}
        <h1>{turns[0]?.prompt ?? "New chat"}</h1>
        <span className="connection" data-state={connection} role="status">
          {CONNECTIONS[connection]}
        </span>
        {after}
      </header>
      <div className="turns" role="log" aria-label="Conversation">
        {isLoading && !error && <p className="empty">Loading …</p>}
        {!isLoading && turns.length === 0 && !error && (
          <p className="empty">What should the agent do?</p>
        )}
        {turns.map((turn) => (
          <TurnView key={turn.id} turn={turn} />
        ))}
        <div ref={end} />
      </div>
      {(problem ?? error?.message) && (
        <p className="problem" role="alert">
          {problem ?? error?.message}
        </p>
      )}
      <Composer
        onSend={send}
        onStop={liveTurn && (() => void attempt(() => session.interrupt()))}
      />
    </main>
  );
}

/** Keeps the end in view while something is added, unless the reader has scrolled up. */
function useStickyEnd(content: unknown) {
  const end = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);

  useEffect(() => {
    const observer = new IntersectionObserver(
      ([entry]) => (isAtEnd.current = entry?.isIntersecting ?? true),
      { rootMargin: "120px" },
    );
    if (end.current) observer.observe(end.current);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    if (isAtEnd.current) end.current?.scrollIntoView({ block: "end" });
  }, [content]);

  return end;
}
