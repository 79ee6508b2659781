import type { Block } from "@longwatch/react";

/** One block of a turn, by its kind. */
export function BlockView({ block: { type, content } }: { block: Block }) {
  switch (type) {
    case "thinking":
      return (
        <details>
          <summary>Thinking</summary>
          {content.text}
        </details>
      );
    case "content":
      return <p>{content.text}</p>;
    case "tool_use":
      return (
        <pre>
          {content.tool_name}({JSON.stringify(content.parameters)})
        </pre>
      );
    case "tool_result":
      return (
        <pre className={content.error ? "failed" : undefined}>
          {content.error ?? JSON.stringify(content.result)}
        </pre>
      );
  }
}
