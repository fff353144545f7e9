// The appearance of a pool's level. The `query` crate determines the level.

import type { Level } from "./generated/answers";

const CLASSES: Record<Level, string> = { ok: "good", high: "warn", full: "bad" };

/** The CSS class for a level; empty if the level is unknown. */
export function levelClass(level: Level | null): string {
  return level === null ? "" : CLASSES[level];
}
