// The words for the figures of a pool. Where it lies in several banks, or in nobody knows how many, they are those of
// one bank; where it is one piece, as the memory of a process or of a GPU, they are all of it, and no bank is spoken of.

import { counted, size } from "./format";

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

const OF_A_BANK: BankWords = {
  perBank: " per bank",
  aBank: " a bank",
  axis: "per bank",
  heading: "Per bank",
  ofABank: " of a bank",
  piece: "A bank",
  each: "each bank",
  inside: (pool) => `each bank of ${pool}`,
};

const OF_ALL: BankWords = {
  perBank: "",
  aBank: "",
  axis: "",
  heading: "Size",
  ofABank: "",
  piece: "The pool",
  each: "the pool",
  inside: (pool) => pool,
};

/** How to speak of a pool with so many banks; `null`: nobody knows how many. */
export function bankWords(banks: number | null | undefined): BankWords {
  return banks === 1 ? OF_ALL : OF_A_BANK;
}

/** `DRAM 12 banks × 1.00 GiB`, `cuda:0 79.1 GiB`; `null` where a pool of one piece has nothing to say. */
export function poolText(name: string, banks: number | null, capacity: number | null): string | null {
  if (banks === 1) return capacity === null ? null : `${name} ${size(capacity)}`;
  const each = capacity === null ? "of unknown size" : size(capacity);
  return banks === null ? `${name} ${each}` : `${name} ${counted(banks, "bank")} × ${each}`;
}
