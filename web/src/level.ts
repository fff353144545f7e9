// How the level of a pool looks. `query` decides what it is.

import type { Level } from "./generated/answers";

const CLASSES: Record<Level, string> = { ok: "good", high: "warn", full: "bad" };

/** The class of an element that shows a level; none where the level is not known. */
export function levelClass(level: Level | null): string {
  return level === null ? "" : CLASSES[level];
}
