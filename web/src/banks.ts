// The unit of a pool's sizes: per bank, per core, or the whole pool (the memory of a process or a GPU).

import { counted, sizeIn } from "./format";
import type { Extent } from "./generated/answers";

export interface BankWords {
  /** After a size: ` per bank`. */
  perBank: string;
  /** The short form, for tables: `/bank`. */
  suffix: string;
  /** The label of an axis. */
  axis: string;
  /** The heading of a column of sizes. */
  heading: string;
  /** The subject of the map by address: `One bank`. */
  subject: string;
}

const ofEach = (part: "bank" | "core"): BankWords => ({
  perBank: ` per ${part}`,
  suffix: `/${part}`,
  axis: `per ${part}`,
  heading: `Size/${part}`,
  subject: `One ${part}`,
});

const WORDS: Record<Extent, BankWords> = {
  bank: ofEach("bank"),
  core: ofEach("core"),
  device: {
    perBank: "",
    suffix: "",
    axis: "",
    heading: "Size",
    subject: "The pool",
  },
};

/** The words for sizes of an extent. */
export function bankWords(extent: Extent): BankWords {
  return WORDS[extent];
}

/** `DRAM 12 banks × 1024.0 MiB`, `cuda:0 79.1 GiB`; `null` for an undivided pool of unknown capacity. */
export function poolText(name: string, banks: number | null, capacity: number | null): string | null {
  if (banks === 1) return capacity === null ? null : `${name} ${sizeIn(capacity, capacity)}`;
  if (capacity === null)
    return banks === null ? `${name} of unknown size` : `${name} ${counted(banks, "bank")} of unknown size`;
  const each = sizeIn(capacity, capacity);
  return banks === null ? `${name} ${each}` : `${name} ${counted(banks, "bank")} × ${each}`;
}
