// Free memory in pieces: the moments at which most of what is free lies outside of the largest piece.

import { type Curve, NEVER, type Pool } from "../data/report";

export interface Fragmented {
  moment: number;
  free: number;
  largest: number;
}

/** A run is cut into so many stretches; the worst of each may be in the table. */
const STRETCHES = 60;

export const inPieces = (found: Fragmented): number => found.free - found.largest;

/** Whether the evidence prints both what is free and the largest piece of it. */
export function isPrinted(pool: Pool): boolean {
  const any = (curve: Curve) => curve.value.some((value) => !Number.isNaN(value));
  return any(pool.free) && any(pool.largestFree);
}

/** Both curves, at every moment at which one of them changes. */
export function eachReading(
  pool: Pool,
  visit: (moment: number, free: number, largest: number) => void,
): void {
  const { free, largestFree } = pool;
  let [row, other] = [0, 0];
  let [bytes, largest] = [Number.NaN, Number.NaN];
  while (row < free.at.length || other < largestFree.at.length) {
    const moment = Math.min(free.at[row] ?? NEVER, largestFree.at[other] ?? NEVER);
    for (; row < free.at.length && free.at[row] === moment; row++) bytes = free.value[row];
    for (; other < largestFree.at.length && largestFree.at[other] === moment; other++) {
      largest = largestFree.value[other];
    }
    if (!Number.isNaN(bytes - largest)) visit(moment, bytes, largest);
  }
}

/** The largest share of what is free that ever was outside of the largest piece. */
export function worstShare(pool: Pool): number {
  let worst = 0;
  eachReading(pool, (_, free, largest) => {
    if (free > 0) worst = Math.max(worst, (free - largest) / free);
  });
  return worst;
}

/**
 * The moments with most in pieces, the worst first: one of each region, none next to another. `worst` is the worst by
 * the rules of the summary, and leads.
 */
export function worstMoments(pool: Pool, end: number, worst: Fragmented | null, most: number): Fragmented[] {
  const stretch = Math.max(1, Math.ceil((end + 1) / STRETCHES)) * 2;
  const best: (Fragmented | undefined)[] = new Array(Math.floor((end * 2 + 1) / stretch) + 1).fill(undefined);
  eachReading(pool, (moment, free, largest) => {
    if (free - largest <= pool.quantum) return;
    const index = Math.floor(moment / stretch);
    const sofar = best[index];
    if (!sofar || free - largest > inPieces(sofar)) best[index] = { moment, free, largest };
  });
  const pieces = (index: number) => (best[index] ? inPieces(best[index]) : Number.NEGATIVE_INFINITY);
  // Beside a summit its slopes are high as well: only stretches that no neighbour towers over count.
  const summits = best.filter(
    (found, index) => found && pieces(index) > pieces(index - 1) && pieces(index) >= pieces(index + 1),
  ) as Fragmented[];
  summits.sort((a, b) => inPieces(b) - inPieces(a) || a.moment - b.moment);
  const chosen: Fragmented[] = worst ? [worst] : [];
  for (const summit of summits) {
    const isNear = chosen.some((other) => Math.abs(other.moment - summit.moment) <= stretch);
    if (!isNear && chosen.length < most) chosen.push(summit);
  }
  return chosen;
}

/** The reading at a position that shows these sizes: its late side, or its early one. */
export function readingAt(pool: Pool, position: number, free: number, largest: number): Fragmented {
  const shows = (moment: number) =>
    pool.free.valueAt(moment) === free && pool.largestFree.valueAt(moment) === largest;
  const late = position * 2 + 1;
  return { moment: !shows(late) && shows(late - 1) ? late - 1 : late, free, largest };
}
