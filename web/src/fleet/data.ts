// The data of the page: the answers of the questions, as `python/ttmem/fleet/_page.py` writes them.

import type { Block } from "../data/block";
import type { Extent, Level } from "../generated/answers";

export type Cell = string | number | boolean | null;

/** The answer of a question. */
export interface Answer {
  title: string;
  columns: string[];
  rows: Cell[][];
  /** Whether there may be more rows. */
  is_cut: boolean;
}

/** The columns of the question `ranks`, and what the page adds to them. */
export interface Ranks {
  run: string[];
  rank: (string | null)[];
  file: string[];
  host: (string | null)[];
  device: (string | null)[];
  pool: (string | null)[];
  extent: (Extent | null)[];
  level: (Level | null)[];
  peak_bytes: (number | null)[];
  capacity_bytes: (number | null)[];
  capacity_per_bank: (number | null)[];
  cause: (string | null)[];
  verdict: (string | null)[];
  growth: (string | null)[];
  source_host: string[];
  /** The address of the rank's report, from the page; null if there is none. */
  link: (string | null)[];
  /** The command that writes the report; null for standard input. */
  command: (string | null)[];
  /** The index of the labels in `FleetHead.labels`. */
  labels: number[];
}

export interface FleetHead {
  name: string;
  generator: string;
  /** The time when the page was written. */
  made: string;
  /** The run that the page is about; null for all. */
  run: string | null;
  /** The number of cells of a rank. */
  parts: number;
  ranks: Ranks;
  /** The different sets of labels. Ranks share them. */
  labels: [key: string, value: string][][];
  answers: Record<"closest" | "outliers" | "failures" | "errors" | "waste" | "trend", Answer>;
}

/** A run: consecutive ranks. */
export interface Group {
  run: string;
  first: number;
  count: number;
}

export class Fleet {
  readonly head: FleetHead;
  readonly ranks: Ranks;
  readonly count: number;
  readonly parts: number;
  /** The memory of each rank over time; NaN if unknown. */
  readonly cells: Float64Array;
  readonly groups: Group[];

  constructor(block: Block<FleetHead>) {
    this.head = block.meta;
    this.ranks = block.meta.ranks;
    this.count = this.ranks.run.length;
    this.parts = block.meta.parts;
    this.cells = block.sizes("cells");
    this.groups = groupsOf(this.ranks.run);
  }

  /** The labels of a rank: `commit=1a2b3c, model=vit`; null without labels. */
  labelsOf(rank: number): string | null {
    return labelsOf(this.head, rank);
  }

  /** The share of the capacity that a cell uses; NaN if unknown. */
  shareOf(rank: number, part: number): number {
    return this.cells[rank * this.parts + part] / (this.ranks.capacity_per_bank[rank] || Number.NaN);
  }

  /** The share of the capacity at the rank's peak; NaN if unknown. */
  peakShareOf(rank: number): number {
    const { peak_bytes, capacity_bytes } = this.ranks;
    return (peak_bytes[rank] ?? Number.NaN) / (capacity_bytes[rank] || Number.NaN);
  }

  /** The short name of a rank: its label, or the name of its file. */
  nameOf(rank: number): string {
    const { file, rank: label } = this.ranks;
    return label[rank] === null ? file[rank].slice(file[rank].lastIndexOf("/") + 1) : `rank ${label[rank]}`;
  }
}

/** The labels of a rank as a text; null without labels. */
export function labelsOf(
  { labels, ranks }: Pick<FleetHead, "labels"> & { ranks: Pick<Ranks, "labels"> },
  rank: number,
) {
  const texts = labels[ranks.labels[rank]]?.map(([key, value]) => `${key}=${value}`);
  return texts?.join(", ") || null;
}

/** Consecutive ranks of the same run. */
export function groupsOf(runs: readonly string[]): Group[] {
  const groups: Group[] = [];
  runs.forEach((run, rank) => {
    const last = groups.at(-1);
    if (last?.run === run) last.count++;
    else groups.push({ run, first: rank, count: 1 });
  });
  return groups;
}

const NAMES = new Intl.Collator("en", { numeric: true });

/** Orders the ranks within each run: by peak, closest to the limit first, or by name, with numbers by value. */
export function orderOf(
  fleet: Pick<Fleet, "groups" | "count" | "peakShareOf" | "nameOf">,
  byPeak: boolean,
): Uint32Array {
  const order = Uint32Array.from({ length: fleet.count }, (_, rank) => rank);
  const names = byPeak ? [] : Array.from(order, (rank) => fleet.nameOf(rank));
  const keys = byPeak ? Array.from(order, (rank) => fleet.peakShareOf(rank)) : [];
  // Unknown peaks are last.
  const key = (rank: number) => (Number.isNaN(keys[rank]) ? -1 : keys[rank]);
  const compare = byPeak
    ? (a: number, b: number) => key(b) - key(a) || a - b
    : (a: number, b: number) => NAMES.compare(names[a], names[b]) || a - b;
  for (const { first, count } of fleet.groups) order.subarray(first, first + count).sort(compare);
  return order;
}
