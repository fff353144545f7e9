// The requests documented in docs/http.md.

import type { Job, ServerInfo, StoredRow } from "../generated/answers";

/** A failed request, with the server's message. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

const SIGNED_OUT =
  "This page is no longer signed in: the server was restarted. Open the address that it printed.";

/** The error for a failed response. */
export function refusalOf(status: number, body: string): Refused {
  if (status === 401) return new Refused(status, SIGNED_OUT);
  return new Refused(status, messageIn(body) ?? `The server returned status ${status}.`);
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
    throw new Refused(0, "The server does not respond. Check that `ttmem serve` is still running.");
  });
  if (!answer.ok) throw refusalOf(answer.status, await answer.text());
  return answer.json();
}

export const about = () => ask<ServerInfo>("/api");
export const reports = () => ask<StoredRow[]>("/api/reports");
export const jobs = () => ask<Job[]>("/api/jobs");
export const job = (id: string) => ask<Job>(`/api/jobs/${encodeURIComponent(id)}`);

/** The address of a report's JSON or Markdown summary. */
export function answerOf(report: string, what: "summary" | "markdown"): string {
  return `/api/reports/${encodeURIComponent(report)}/${what}`;
}

/** Uploads a file; calls `sent` with the number of bytes sent so far. */
export function upload(file: File, sent: (bytes: number) => void, signal: AbortSignal): Promise<Job> {
  // Not `fetch`, which reports no upload progress.
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
      reject(new Refused(0, "Upload failed: the server was stopped, or the file can't be read.")),
    );
    request.addEventListener("abort", () => reject(new Refused(0, "Canceled")));
    signal.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}
