// What the server answers: the types of docs/http.md, and the requests for them.

/** A stored report: a row of `ttmem list --json`, with the address of its page. */
export interface Stored {
  name: string;
  kind: "report" | "run";
  folder: string;
  /** When it was written, as ISO 8601. */
  written: string | null;
  format: string | null;
  ranks: number | null;
  operations: number | null;
  peak: Peak | null;
  /** Why memory ran out, where it did. */
  oom: string | null;
  /** The same as a sentence; not there in reports of earlier versions. */
  oom_headline: string | null;
  bytes: number;
  source: { path: string; size: number } | null;
  page: string | null;
}

export interface Peak {
  pool: string;
  per_bank: number | null;
  capacity_per_bank: number | null;
  total: number | null;
  /** Not there in reports of earlier versions, as the next. */
  capacity_total?: number | null;
  /** What the peak is a peak of. */
  of?: Extent | null;
}

export type Extent = "bank" | "core" | "device";

/** An upload on its way to a report. */
export interface Job {
  id: string;
  file: string;
  size_bytes: number;
  state: "queued" | "reading" | "writing" | "done" | "failed";
  read_bytes: number;
  report: string | null;
  page: string | null;
  error: Failure | null;
}

export interface Failure {
  kind: "no_memory_data" | "not_there" | "unreadable" | "full" | "bug" | "ended";
  exit_code: number;
  message: string;
}

export interface About {
  version: string;
  max_upload_bytes: number;
}

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

export const about = () => ask<About>("/api");
export const reports = () => ask<Stored[]>("/api/reports");
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
