// Links to a moment: `#op=1517` is the moment before step 1517, `&pool=L1` and `&rank=1,0` say where.

import { momentBefore, positionOf, type Report } from "./data/report";
import type { State, Store } from "./state";

export interface Link {
  readonly hasStep: boolean;
  /** The rank that it names; the first where it names none. */
  rankIndex(report: Report): number;
  /** Shows what it names. */
  apply(store: Store): void;
}

export function readLink(hash: string): Link {
  const parameters = new URLSearchParams(hash.replace(/^#/, ""));
  const text = parameters.get("op");
  const step = text !== null && /^\d{1,9}$/.test(text) ? Number(text) : null;
  return {
    hasStep: step !== null,
    rankIndex(report) {
      const found = report.summary.ranks.findIndex(({ rank }) => rank === parameters.get("rank"));
      return Math.max(0, found);
    },
    apply(store) {
      const { rank } = store.state;
      const pool = rank.pools.findIndex(({ name }) => name === parameters.get("pool"));
      if (pool >= 0) store.set({ pool });
      if (step !== null) store.pinMoment(momentBefore(Math.min(step, rank.end)));
    },
  };
}

let written = "";

/** Whether the page wrote that itself. */
export function isOwnLink(hash: string): boolean {
  return hash === written;
}

/** Keeps the address in step with what is looked at, so that it can be passed on. */
export function writeLink({ rank, pool, moment }: State): void {
  const parts = [`op=${positionOf(moment)}`];
  if (pool !== 0) parts.push(`pool=${encodeURIComponent(rank.pools[pool]?.name ?? "")}`);
  if (rank.index !== 0) parts.push(`rank=${encodeURIComponent(rank.label ?? "")}`);
  written = `#${parts.join("&")}`;
  history.replaceState(null, "", written);
}
