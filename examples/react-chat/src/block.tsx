import type { Block, ToolResultBlock, ToolUseBlock } from "@longwatch/react";
import { memo } from "react";

const CODE = /```\w*\n([\s\S]*?)(?:```|$)/; // every second part of a split is code
const PREVIEW_LENGTH = 80;

/** One block of an answer, by its kind. */
export const BlockView = memo(function BlockView({ block }: { block: Block }) {
  switch (block.type) {
    case "thinking":
      return (
        <details className="thinking">
          <summary>Thinking</summary>
          <p>{block.content.text}</p>
        </details>
      );
    case "content":
      return <Text text={block.content.text} />;
    case "tool_use":
      return <ToolCall call={block} />;
    case "tool_result":
      return <Output result={block} />;
  }
});

/** Text with paragraphs and blocks of code. */
export function Text({ text }: { text: string }) {
  return text.split(CODE).map((part, at) =>
    at % 2 ? (
      <pre key={at}>{part}</pre>
    ) : (
      part.trim() && (
        <p key={at} className="text">
          {part.trim()}
        </p>
      )
    ),
  );
}

interface ToolCallProps {
  call: ToolUseBlock;
  result?: ToolResultBlock | undefined;
  /** Whether a result may still come. */
  isOpen?: boolean;
}

/** A call of a tool, and its result once there is one. */
export const ToolCall = memo(function ToolCall({ call, result, isOpen = false }: ToolCallProps) {
  const { tool_name: name, parameters } = call.content;
  const state = result
    ? result.content.error
      ? "failed"
      : "done"
    : isOpen
      ? "running"
      : "no result";

  return (
    <details className="tool" data-state={state}>
      <summary>
        <b>{name}</b> <span>{preview(parameters)}</span> <small>{state}</small>
      </summary>
      <pre>{asText(parameters)}</pre>
      {result && <Output result={result} />}
    </details>
  );
});

function Output({ result: { content } }: { result: ToolResultBlock }) {
  return (
    <pre className={content.error ? "failed" : undefined}>
      {content.error ?? asText(content.result)}
    </pre>
  );
}

function preview(parameters: unknown): string {
  const values = Object.values((parameters ?? {}) as object).filter(
    (each) => typeof each === "string",
  );
  const text = (values[0] ?? JSON.stringify(parameters ?? "")).replaceAll("\n", " ");
  return text.length > PREVIEW_LENGTH ? `${text.slice(0, PREVIEW_LENGTH)}…` : text;
}

function asText(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "");
}
