// The content of L1 while a step runs, for all cores: the program's buffers, and the tensors including the step's result.

import { rowFrom } from "../charts/resample";
import { Flag, type L1 } from "../data/l1";
import type { Rank } from "../data/report";
import type { L1Outline } from "../generated/answers";
import { type CoreRange, parseCores } from "./cores";

/** A buffer of the running program. */
export interface Buffer {
  /** See `BUFFER_KINDS`. */
  kind: number;
  start: number;
  bytes: number;
  /** `null` for all cores. */
  cores: CoreRange[] | null;
  /** Whether it uses the memory of a tensor. */
  borrowed: boolean;
}

/** A tensor. The allocator takes the same addresses on all cores, even on those without a shard. */
export interface Placed {
  tensor: number;
  /** NaN if unknown. */
  start: number;
  bytes: number;
  /** The cores with a shard; `null` for all cores. */
  cores: CoreRange[] | null;
  /** Whether it is in the region for small buffers. */
  isSmall: boolean;
}

export interface Contents {
  outline: L1Outline;
  step: number;
  /** See `Flag`. */
  flags: number;
  /** NaN if unknown. */
  headroom: number;
  end: number;
  lowest: number;
  buffers: Buffer[];
  /** The place of a program that did not fit, if its buffers are unknown. */
  region: { start: number; end: number } | null;
  tensors: Placed[];
}

/** The content of L1 while a step runs. */
export function contentsOf(rank: Rank, l1: L1, step: number): Contents {
  const { outline, steps } = l1;
  const [flags, end] = [steps.flags[step], steps.end[step]];
  const buffers = buffersOf(rank, l1, step);
  const isRegion = (flags & Flag.Failed) !== 0 && buffers.length === 0 && end > outline.reserved;
  return {
    outline,
    step,
    flags,
    headroom: steps.headroom[step],
    end,
    lowest: steps.lowest[step],
    buffers,
    region: isRegion ? { start: outline.reserved, end } : null,
    tensors: tensorsOf(rank, l1, step),
  };
}

function buffersOf(rank: Rank, { programs }: L1, step: number): Buffer[] {
  const found: Buffer[] = [];
  for (let row = rowFrom(programs.step, step); programs.step[row] === step; row++) {
    found.push({
      kind: programs.kind[row],
      start: programs.start[row],
      bytes: programs.bytes[row],
      cores: parseCores(rank.text(programs.cores[row])),
      borrowed: programs.borrowed[row] === 1,
    });
  }
  return found;
}

function tensorsOf(rank: Rank, { outline, tensors }: L1, step: number): Placed[] {
  // Right after the step: its result is allocated before its program runs.
  const moment = 2 * (step + 1);
  const inPool = (pool: number | null, isSmall: boolean): Placed[] => {
    if (pool === null) return [];
    return Array.from(rank.live(pool, moment).tensors, (tensor) => ({
      tensor,
      start: tensors.address[tensor],
      bytes: rank.tensors.perBank[tensor],
      cores: parseCores(rank.text(tensors.cores[tensor])),
      isSmall,
    }));
  };
  const [large, small] = [inPool(outline.pool, false), inPool(outline.small_pool, true)];
  if (outline.is_estimate) {
    stack(rank, large, outline.size - outline.small);
    stack(rank, small, outline.size);
  }
  return [...large, ...small];
}

/** Places tensors below each other without gaps, in the order of their allocation. */
function stack(rank: Rank, placed: Placed[], top: number): void {
  const { born } = rank.tensors;
  let next = top;
  for (const tensor of placed.sort((a, b) => born[a.tensor] - born[b.tensor] || a.tensor - b.tensor)) {
    if (Number.isNaN(tensor.bytes)) continue;
    next -= tensor.bytes;
    tensor.start = next;
  }
}
