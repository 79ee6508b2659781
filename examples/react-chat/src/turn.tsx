import type { SessionTurn, ToolResultBlock } from "@longwatch/react";
import { memo } from "react";

import { BlockView, Text, ToolCall } from "./block";
import { PROJECT, SERVER } from "./server";

/** A prompt and its answer. An unchanged turn is the same object, so it is not rendered again. */
export const TurnView = memo(function TurnView({ turn }: { turn: SessionTurn }) {
  const { prompt, blocks, streaming, status, error, isUnconfirmed = false } = turn;
  const results = new Map<string, ToolResultBlock>();
  for (const block of blocks)
    if (block.type === "tool_result") results.set(block.content.tool_use_id, block);
  const calls = new Set(
    blocks.map((block) => (block.type === "tool_use" ? block.content.tool_use_id : null)),
  );

  return (
    <article className="turn">
      {prompt && (
        <p className="prompt" aria-busy={isUnconfirmed}>
          {prompt}
        </p>
      )}
      {blocks.map((block) => {
        if (block.type === "tool_use") {
          const result = results.get(block.content.tool_use_id);
          return (
            <ToolCall key={block.id} call={block} result={result} isOpen={status === "running"} />
          );
        }
        if (block.type === "tool_result" && calls.has(block.content.tool_use_id)) return null;
        return <BlockView key={block.id} block={block} />;
      })}
      {streaming && (
        <div className="streaming" aria-busy>
          <Text text={streaming.text} />
        </div>
      )}
      {status === "running" && !streaming && <p className="working">Working …</p>}
      {status === "pending" && !isUnconfirmed && <Waiting turn={turn} />}
      {error && <p className="problem">{error}</p>}
    </article>
  );
});

/** How an agent executes this turn: a service of yours would do that. */
function Waiting({ turn: { id, session_id: session } }: { turn: SessionTurn }) {
  return (
    <div className="waiting">
      <p>Waiting for an agent. To execute this turn with a command:</p>
      <pre>
        longwatch turn --server {SERVER} --project {PROJECT} --session {session} --turn {id} --
        ./agent.sh
      </pre>
    </div>
  );
}
