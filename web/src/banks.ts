// The words for the sizes of a pool: of one bank, of one core, or of all of it, as the memory of a process or of a GPU.

import { counted, size } from "./format";
import type { Extent } from "./generated/answers";

export interface BankWords {
  /** After a size: ` per bank`. */
  perBank: string;
  /** The same, where there is little room: ` a bank`. */
  aBank: string;
  /** What an axis counts. */
  axis: string;
  /** The heading of a column of sizes. */
  heading: string;
  /** After what is added up: ` of a bank`. */
  ofABank: string;
  /** What is drawn from its lowest address to its highest. */
  piece: string;
  /** Where something is changed: `each bank`. */
  each: string;
  /** The same by name: `each bank of DRAM`. */
  inside(pool: string): string;
}

const ofEach = (part: "bank" | "core"): BankWords => ({
  perBank: ` per ${part}`,
  aBank: ` a ${part}`,
  axis: `per ${part}`,
  heading: `Per ${part}`,
  ofABank: ` of a ${part}`,
  piece: `A ${part}`,
  each: `each ${part}`,
  inside: (pool) => `each ${part} of ${pool}`,
});

const WORDS: Record<Extent, BankWords> = {
  bank: ofEach("bank"),
  core: ofEach("core"),
  device: {
    perBank: "",
    aBank: "",
    axis: "",
    heading: "Size",
    ofABank: "",
    piece: "The pool",
    each: "the pool",
    inside: (pool) => pool,
  },
};

/** The words for sizes of that extent. */
export function bankWords(extent: Extent): BankWords {
  return WORDS[extent];
}

/** `DRAM 12 banks × 1.00 GiB`, `cuda:0 79.1 GiB`; `null` where a pool of one piece has nothing to say. */
export function poolText(name: string, banks: number | null, capacity: number | null): string | null {
  if (banks === 1) return capacity === null ? null : `${name} ${size(capacity)}`;
  const each = capacity === null ? "of unknown size" : size(capacity);
  return banks === null ? `${name} ${each}` : `${name} ${counted(banks, "bank")} × ${each}`;
}
