import { useSessionActions, useSessionPolling, type Turn } from "@longwatch/react";
import { useState, type FormEvent } from "react";

import { BlockView } from "./block";

/** What was said so far, the turn that is running, and a line to say more. */
export function Chat({ sessionId }: { sessionId: string }) {
  const [turnIds, setTurnIds] = useState<string[]>([]);
  const [problem, setProblem] = useState<string>();
  const { ensureSession, newTurn } = useSessionActions({ sessionId });

  const send = async (prompt: string) => {
    try {
      await ensureSession();
      const turn = await newTurn(prompt);
      setTurnIds((before) => [...before, turn.id]);
      setProblem(undefined);
    } catch (error) {
      setProblem((error as Error).message);
    }
  };

  return (
    <section aria-label="Chat">
      {turnIds.map((turnId) => (
        <TurnView key={turnId} sessionId={sessionId} turnId={turnId} />
      ))}
      {problem && <p role="alert">{problem}</p>}
      <Prompt onSend={send} />
    </section>
  );
}

function TurnView({ sessionId, turnId }: { sessionId: string; turnId: string }) {
  const { data: turn, isPolling, error } = useSessionPolling({ sessionId, turnId, stream: true });
  const { interrupt } = useSessionActions({ sessionId });

  return (
    <article>
      {turn?.prompt && <h2>{turn.prompt}</h2>}
      {turn?.blocks.map((block) => (
        <BlockView key={block.id} block={block} />
      ))}
      {turn?.streaming && <p aria-busy>{turn.streaming.text}</p>}
      {isPolling && turn && (
        <p role="status">
          {waitingFor(turn)} <button onClick={() => void interrupt(turnId)}>Stop</button>
        </p>
      )}
      {error && <p role="alert">{error.message}</p>}
    </article>
  );
}

function waitingFor({ status, id }: Turn): string {
  return status === "pending" ? `Waiting for an executor of ${id} …` : "Working …";
}

function Prompt({ onSend }: { onSend: (prompt: string) => void }) {
  const [prompt, setPrompt] = useState("");

  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (!prompt.trim()) return;
    onSend(prompt);
    setPrompt("");
  };

  return (
    <form onSubmit={submit}>
      <input
        aria-label="Say something"
        value={prompt}
        onChange={(event) => setPrompt(event.target.value)}
      />
      <button>Send</button>
    </form>
  );
}
