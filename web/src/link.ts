// Links to a moment: `#op=1517` is the moment before step 1517; `&pool=L1` and `&rank=1,0` select a pool and a rank.
// With `&side=early` it is the moment right after step 1516, before any changes between two programs.

import { momentBefore, positionOf, type Report } from "./data/report";
import type { State, Store } from "./state";

export interface Link {
  readonly hasStep: boolean;
  /** The index of the rank in the link; 0 if it has none. */
  rankIndex(report: Report): number;
  /** Shows the moment, pool and rank of the link. */
  apply(store: Store): void;
}

export function readLink(hash: string): Link {
  const parameters = new URLSearchParams(hash.replace(/^#/, ""));
  const text = parameters.get("op");
  const step = text !== null && /^\d{1,9}$/.test(text) ? Number(text) : null;
  return {
    hasStep: step !== null,
    rankIndex(report) {
      const name = parameters.get("rank");
      const found = report.summary.ranks.findIndex((_, index) => rankName(report, index) === name);
      return Math.max(0, found);
    },
    apply(store) {
      const { rank } = store.state;
      const pool = rank.pools.findIndex(({ name }) => name === parameters.get("pool"));
      if (pool >= 0) store.set({ pool });
      if (step === null) return;
      const late = momentBefore(Math.min(step, rank.end));
      store.pinMoment(parameters.get("side") === "early" ? late - 1 : late);
    },
  };
}

/** The name of a rank in links: its label, or its number if the label is missing or not unique. */
function rankName({ summary }: Report, index: number): string {
  const label = summary.ranks[index].rank;
  const isUnique = summary.ranks.filter(({ rank }) => rank === label).length === 1;
  return label !== null && isUnique ? label : `number ${index}`;
}

let written = "";

/** Whether the page itself wrote this hash. */
export function isOwnLink(hash: string): boolean {
  return hash === written;
}

/** Writes the current view to the address bar, so that it can be shared. */
export function writeLink({ rank, pool, moment }: State): void {
  const parts = [`op=${positionOf(moment)}`];
  // After the end of a program, changes between programs may be larger than those of the preceding step.
  if (moment % 2 === 0) parts.push("side=early");
  if (pool !== rank.startPool) parts.push(`pool=${encodeURIComponent(rank.pools[pool]?.name ?? "")}`);
  if (rank.index !== 0) parts.push(`rank=${encodeURIComponent(rankName(rank.report, rank.index))}`);
  written = `#${parts.join("&")}`;
  history.replaceState(null, "", written);
}
