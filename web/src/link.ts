// Links to a moment: `#op=1517` is the moment before step 1517, `&pool=L1` and `&rank=1,0` say where; with `&side=early`
// it is the moment right after step 1516, before what happened between two programs.

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
      const wanted = parameters.get("rank");
      const found = report.summary.ranks.findIndex((_, index) => rankName(report, index) === wanted);
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

/** What a rank is called in links: its label, or its number where that does not tell it from the others. */
function rankName({ summary }: Report, index: number): string {
  const label = summary.ranks[index].rank;
  const isUnique = summary.ranks.filter(({ rank }) => rank === label).length === 1;
  return label !== null && isUnique ? label : `number ${index}`;
}

let written = "";

/** Whether the page wrote that itself. */
export function isOwnLink(hash: string): boolean {
  return hash === written;
}

/** Keeps the address in step with what is looked at, so that it can be passed on. */
export function writeLink({ rank, pool, moment }: State): void {
  const parts = [`op=${positionOf(moment)}`];
  // Where a program ended, what followed between programs may have changed more than the step before.
  if (moment % 2 === 0) parts.push("side=early");
  if (pool !== 0) parts.push(`pool=${encodeURIComponent(rank.pools[pool]?.name ?? "")}`);
  if (rank.index !== 0) parts.push(`rank=${encodeURIComponent(rankName(rank.report, rank.index))}`);
  written = `#${parts.join("&")}`;
  history.replaceState(null, "", written);
}
