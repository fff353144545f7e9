// Finds calls by part of their name.

import type { GanttData } from "./data";

export interface Found {
  /** For each scope whether its name contains the text. */
  scopes: Uint8Array;
  /** The number of calls of these scopes. */
  calls: number;
}

/** Finds calls whose names contain a text, ignoring case; `null` if the text is empty. */
export function find(data: GanttData, text: string): Found | null {
  const query = text.trim().toLowerCase();
  if (query === "") return null;
  const scopes = Uint8Array.from(data.scopeName, (name) => (name.toLowerCase().includes(query) ? 1 : 0));
  let calls = 0;
  for (let call = 0; call < data.count; call++) calls += scopes[data.scope[call]];
  return { scopes, calls };
}

/** The next match after a call, or before it, wrapping around; -1 if there is none. */
export function nextFound(data: GanttData, found: Found, from: number, forward: boolean): number {
  if (found.calls === 0) return -1;
  const step = forward ? 1 : -1;
  let call = from < 0 && !forward ? data.count : from;
  for (let tried = 0; tried < data.count; tried++) {
    call = (call + step + data.count) % data.count;
    if (found.scopes[data.scope[call]]) return call;
  }
  return -1;
}
