// The requests of docs/http.md.

import type { Job, ServerInfo, StoredRow } from "../generated/answers";

/** A refusal, in the words of the server. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

const SIGNED_OUT =
  "This page is not signed in any more: the server was started anew. Open the address that it printed.";

/** The refusal that an answer is. */
export function refusalOf(status: number, body: string): Refused {
  if (status === 401) return new Refused(status, SIGNED_OUT);
  return new Refused(status, messageIn(body) ?? `The server answered with status ${status}.`);
}

function messageIn(body: string): string | null {
  try {
    const message: unknown = JSON.parse(body)?.error?.message;
    return typeof message === "string" ? message : null;
  } catch {
    return null;
  }
}

async function ask<Answer>(path: string): Promise<Answer> {
  const answer = await fetch(path).catch(() => {
    throw new Refused(0, "The server does not answer: was it stopped?");
  });
  if (!answer.ok) throw refusalOf(answer.status, await answer.text());
  return answer.json();
}

export const about = () => ask<ServerInfo>("/api");
export const reports = () => ask<StoredRow[]>("/api/reports");
export const jobs = () => ask<Job[]>("/api/jobs");
export const job = (id: string) => ask<Job>(`/api/jobs/${encodeURIComponent(id)}`);

/** An address below a report: its answers for programs. */
export function answerOf(report: string, what: "summary" | "markdown"): string {
  return `/api/reports/${encodeURIComponent(report)}/${what}`;
}

/** Sends a file; `sent` hears how much of it is there. */
export function upload(file: File, sent: (bytes: number) => void, signal: AbortSignal): Promise<Job> {
  // Not `fetch`: it does not tell how far an upload is.
  const request = new XMLHttpRequest();
  return new Promise((resolve, reject) => {
    request.open("POST", `/api/upload?name=${encodeURIComponent(file.name)}`);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.addEventListener("progress", ({ loaded }) => sent(loaded));
    request.addEventListener("load", () => {
      if (request.status === 202) resolve(JSON.parse(request.responseText));
      else reject(refusalOf(request.status, request.responseText));
    });
    request.addEventListener("error", () =>
      reject(new Refused(0, "The upload broke off: the server was stopped, or the file cannot be read.")),
    );
    request.addEventListener("abort", () => reject(new Refused(0, "Cancelled.")));
    signal.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}
