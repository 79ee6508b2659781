/** What happens on the server while a test looks: the part of agents and of other people. */

import { inject } from "vitest";

export const address = inject("address");

let count = 0;

export interface Place {
  projectId: string;
  sessionId: string;
}

/** A project and a session that no other test uses. */
export async function newSession(): Promise<Place> {
  const projectId = `project-${process.pid}-${(count += 1)}`;
  await ask("POST", "/api/projects", { id: projectId });
  await ask("POST", `/api/projects/${projectId}/sessions`, { id: "session" });
  return { projectId, sessionId: "session" };
}

export async function newTurn({ projectId, sessionId }: Place, prompt = "write"): Promise<string> {
  const turn = await ask("POST", `/api/projects/${projectId}/sessions/${sessionId}/turns`, {
    prompt,
  });
  return turn.id;
}

/** Feed a turn with lines as coding agents print them. */
export async function say(place: Place, turnId: string, ...lines: object[]): Promise<void> {
  const path = `/api/projects/${place.projectId}/sessions/${place.sessionId}/turns/${turnId}/lines`;
  await request(
    "POST",
    path,
    lines.map((line) => JSON.stringify(line)).join("\n"),
    "application/x-ndjson",
  );
}

export const text = (words: string) => ({
  type: "assistant",
  message: { content: [{ type: "text", text: words }] },
});
/** The lines of a message that streams: its start, and a few more words. */
export const streamStart = {
  type: "stream_event",
  event: { type: "content_block_start", content_block: { type: "text", text: "" } },
};
export const streamed = (words: string) => ({
  type: "stream_event",
  event: { type: "content_block_delta", delta: { type: "text_delta", text: words } },
});
export const end = { type: "result", is_error: false, result: "done" };
export const failure = { type: "result", is_error: true, result: "out of memory" };

export async function putFile(projectId: string, path: string, content: string): Promise<void> {
  await request("PUT", `/api/projects/${projectId}/content/${path}`, content, "text/plain");
}

export async function fileText(projectId: string, path: string): Promise<string> {
  return (await request("GET", `/api/projects/${projectId}/content/${path}`)).text();
}

export async function deleteFile(projectId: string, path: string): Promise<void> {
  await request("DELETE", `/api/projects/${projectId}/content/${path}`);
}

/** Store an event of a run; gives its id. */
export async function record(runId: string, event: object): Promise<string[]> {
  return (await ask("POST", `/api/runs/${runId}/events`, { events: [event] })).event_ids;
}

async function ask(method: string, path: string, body?: object): Promise<any> {
  return (await request(method, path, body && JSON.stringify(body), "application/json")).json();
}

async function request(
  method: string,
  path: string,
  body?: string,
  type?: string,
): Promise<Response> {
  const headers: Record<string, string> = type === undefined ? {} : { "Content-Type": type };
  const response = await fetch(address + path, { method, body, headers });
  if (!response.ok)
    throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
  return response;
}
