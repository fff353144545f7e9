// The largest net increases. The summary has those of the whole run in the main pool; those of another pool or of a
// selected run are computed here by the same rules (crates/ttmem-query/src/analyze/effects.rs).

import type { Pool, Rank } from "./data/report";
import { count } from "./format";
import type { Increase } from "./generated/answers";
import { locationsOf } from "./groups";
import { spanOf } from "./state";

/** The number of rows of the list. */
const MAX_ROWS = 10;

/** A row of the list: steps with the same operation, a first result of the same type, and the same increase. */
export type Repeated = Pick<
  Increase,
  "count" | "first_step" | "last_step" | "added_per_bank" | "loc" | "locations"
>;

/** The data that increases are computed from. */
interface Steps {
  end: number;
  steps: { op: ArrayLike<number> };
  ops: {
    name: ArrayLike<number>;
    loc: ArrayLike<number>;
    resultTypes: { get(op: number): ArrayLike<number> };
  };
  types: { shape: ArrayLike<number>; dtype: ArrayLike<number> };
  text(id: number): string | null;
}

/** The largest increases in a pool, of a run or of all runs. */
export function increasesOf(rank: Rank, pool: Pool, run: number | null): Repeated[] {
  const { pools, peak, increases } = rank.summary;
  const main = "DRAM" in pools ? "DRAM" : peak?.pool;
  if (run === null && pool.name === main) return increases.slice(0, MAX_ROWS);
  return largestIncreases(rank, pool, spanOf(rank, run));
}

/**
 * The largest increases of a range, largest first. Increases within the rounding error are skipped, and those that differ
 * by no more than it are the same.
 */
export function largestIncreases(
  data: Steps,
  { effect, quantum }: Pick<Pool, "effect" | "quantum">,
  span: { from: number; to: number },
): Repeated[] {
  const { end, steps, ops, types } = data;
  interface Found {
    first: number;
    last: number;
    count: number;
    added: number;
    locs: Set<number>;
  }
  const found = new Map<string, Found[]>();
  for (let step = span.from; step < Math.min(span.to, end); step++) {
    const added = effect[step];
    if (!(added > quantum)) continue;
    const op = steps.op[step];
    const type = ops.resultTypes.get(op)[0] ?? -1;
    // The same type of two graphs has two numbers, so types are compared by their content.
    const key = `${ops.name[op]} ${type < 0 ? "" : `${types.shape[type]} ${types.dtype[type]}`}`;
    const known = found.get(key) ?? [];
    found.set(key, known);
    let same = known.find((increase) => Math.abs(increase.added - added) <= quantum);
    if (!same) {
      same = { first: step, last: step, count: 0, added, locs: new Set() };
      known.push(same);
    }
    same.last = step;
    same.count += 1;
    if (ops.loc[op] >= 0) same.locs.add(ops.loc[op]);
  }
  const all = [...found.values()].flat();
  const largest = all.sort((a, b) => b.added - a.added || a.first - b.first).slice(0, MAX_ROWS);
  return largest.map(({ first, last, count, added, locs }) => ({
    count,
    first_step: first,
    last_step: last,
    added_per_bank: added,
    ...locationsOf([...locs].map((loc) => data.text(loc) ?? "")),
  }));
}

/** `step 43`, `steps 103 and 183`, `4 steps, 100–186`: as on the command line. */
export function stepsText({ first_step: first, last_step: last, count: number }: Repeated): string {
  if (number === 1) return `step ${count(first)}`;
  if (number === 2) return `steps ${count(first)} and ${count(last)}`;
  return `${count(number)} steps, ${count(first)}–${count(last)}`;
}
