import { useState, type FormEvent, type KeyboardEvent } from "react";

interface ComposerProps {
  /** Whether the prompt was sent; otherwise it stays in the field. */
  onSend: (prompt: string) => Promise<boolean>;
  /** While there is something to stop. */
  onStop: (() => void) | undefined;
}

/** The field for a prompt. Enter sends it, Shift+Enter begins a line. */
export function Composer({ onSend, onStop }: ComposerProps) {
  const [prompt, setPrompt] = useState("");

  const submit = async (event?: FormEvent) => {
    event?.preventDefault();
    if (!prompt.trim()) return;
    setPrompt("");
    if (!(await onSend(prompt))) setPrompt((typed) => typed || prompt);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    void submit();
  };

  return (
    <form className="composer" onSubmit={submit}>
      <textarea
        aria-label="Prompt"
        placeholder={onStop ? "A new prompt cancels the running turn" : "Enter a prompt"}
        rows={1}
        autoFocus
        value={prompt}
        onChange={(event) => setPrompt(event.target.value)}
        onKeyDown={onKeyDown}
      />
      {onStop && (
        <button type="button" className="quiet" onClick={onStop}>
          Stop
        </button>
      )}
      <button disabled={!prompt.trim()}>Send</button>
    </form>
  );
}
