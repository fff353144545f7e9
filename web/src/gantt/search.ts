// Finds calls by a part of their names.

import type { GanttData } from "./data";

export interface Found {
  /** For each scope whether its name has the text. */
  scopes: Uint8Array;
  /** How many calls are of those scopes. */
  calls: number;
}

/** The calls whose names have a text, whatever the case; `null` for no text. */
export function find(data: GanttData, text: string): Found | null {
  const wanted = text.trim().toLowerCase();
  if (wanted === "") return null;
  const scopes = Uint8Array.from(data.scopeName, (name) => (name.toLowerCase().includes(wanted) ? 1 : 0));
  let calls = 0;
  for (let call = 0; call < data.count; call++) calls += scopes[data.scope[call]];
  return { scopes, calls };
}

/** The next call that was found after one, or before it; around the end. -1: none. */
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
