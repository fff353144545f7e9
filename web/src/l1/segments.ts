// The segments of a core's L1 by address: the reserved part, program buffers, gaps, tensors, and the region for small
// buffers.

import { Flag } from "../data/l1";
import type { Buffer, Contents, Placed } from "./contents";
import { type Core, hasCore } from "./cores";

export type Part =
  | "reserved"
  /** A circular buffer, a dataflow buffer or a scratchpad. */
  | "circular"
  | "dataflow"
  | "scratchpad"
  /** The buffers of a program that did not fit, if only their end is known. */
  | "program"
  /** Free memory between program buffers. */
  | "gap"
  /** Free memory between the program's buffers and the lowest tensor. */
  | "headroom"
  | "tensor"
  /** Free memory between tensors. */
  | "hole"
  /** The free part of the region for small buffers. */
  | "small"
  /** Addresses that the program's buffers and something else need. */
  | "overlap";

const KINDS: readonly Part[] = ["circular", "dataflow", "scratchpad"];

export interface Segment {
  part: Part;
  /** NaN if unknown. */
  start: number;
  end: number;
  tensor?: Placed;
  buffer?: Buffer;
  /** Whether no shard of the tensor is on this core. */
  isEmpty?: boolean;
  /** Whether the buffer uses the memory of a tensor; `tensor` is that tensor, if it is known. */
  isBorrowed?: boolean;
}

/** Whether a segment has a place in the map. */
export const isPlaced = ({ start, end }: Segment): boolean => end > start;

/** Whether a segment takes memory that no other segment has. */
const isSolid = (segment: Segment): boolean => isPlaced(segment) && !segment.isBorrowed;

/** The segments of a core, from the highest address to the lowest; those without a known address last. */
export function segmentsOf(contents: Contents, core: Core): Segment[] {
  const { outline, region } = contents;
  const { size, small, reserved } = outline;
  const program: Segment[] = contents.buffers
    .filter(({ cores }) => hasCore(cores, core))
    .map((buffer) => bufferSegment(contents, buffer));
  if (region) program.push({ part: "program", ...region });
  const tensors = contents.tensors.map((tensor): Segment => {
    const isEmpty = !hasCore(tensor.cores, core);
    return { part: "tensor", start: tensor.start, end: tensor.start + tensor.bytes, tensor, isEmpty };
  });
  const all: Segment[] = [...program, ...tensors];
  if (reserved > 0) all.push({ part: "reserved", start: 0, end: reserved });
  const own = program.filter(isSolid);
  const programEnd = own.reduce((end, segment) => Math.max(end, segment.end), reserved);
  const inUse = tensors.filter((segment) => isPlaced(segment) && !segment.tensor?.isSmall);
  const lowest = inUse.reduce((low, { start }) => Math.min(low, start), size - small);
  const freePart = (start: number, end: number): Part => {
    if (start >= size - small) return "small";
    if (start >= lowest) return "hole";
    return end <= programEnd ? "gap" : "headroom";
  };
  // L1_SMALL is never part of the headroom, even if it is empty.
  for (const free of gapsOf(all.filter(isSolid), [0, size - small], [size - small, size])) {
    all.push({ part: freePart(free.start, free.end), ...free });
  }
  const rest = small > 0 ? [...inUse, { start: size - small, end: Number.POSITIVE_INFINITY }] : inUse;
  all.push(...overlapsOf(own, rest.concat({ start: size, end: Number.POSITIVE_INFINITY })));
  return all.sort(
    (a, b) => Number(isPlaced(b)) - Number(isPlaced(a)) || b.start - a.start || b.end - a.end || 0,
  );
}

function bufferSegment({ tensors }: Contents, buffer: Buffer): Segment {
  const [start, end] = [buffer.start, buffer.start + buffer.bytes];
  const part = KINDS[buffer.kind] ?? "program";
  if (!buffer.borrowed) return { part, start, end, buffer };
  const tensor = tensors.find((tensor) => tensor.start <= start && end <= tensor.start + tensor.bytes);
  // Without its tensor, the place of the buffer is unknown.
  return tensor
    ? { part, start, end, buffer, isBorrowed: true, tensor }
    : { part, start: Number.NaN, end: Number.NaN, buffer, isBorrowed: true };
}

interface Range {
  start: number;
  end: number;
}

/** The parts of regions that no range covers. */
function gapsOf(ranges: readonly Range[], ...regions: [start: number, end: number][]): Range[] {
  const sorted = [...ranges].sort((a, b) => a.start - b.start);
  return regions.flatMap(([start, end]) => {
    const gaps: Range[] = [];
    let next = start;
    for (const range of sorted) {
      if (range.start >= end) break;
      if (range.start > next) gaps.push({ start: next, end: range.start });
      next = Math.max(next, range.end);
    }
    if (next < end) gaps.push({ start: next, end });
    return gaps;
  });
}

/** The addresses that both sides need, merged. */
function overlapsOf(program: readonly Range[], others: readonly Range[]): Segment[] {
  const found: Range[] = [];
  for (const own of program) {
    for (const other of others) {
      const [start, end] = [Math.max(own.start, other.start), Math.min(own.end, other.end)];
      if (start < end) found.push({ start, end });
    }
  }
  const merged: Segment[] = [];
  for (const { start, end } of found.sort((a, b) => a.start - b.start)) {
    const last = merged.at(-1);
    if (last && start <= last.end) last.end = Math.max(last.end, end);
    else merged.push({ part: "overlap", start, end });
  }
  return merged;
}

/** Whether a program runs whose buffers are not in the map. */
export function isProgramUnknown({ flags }: Pick<Contents, "flags">): boolean {
  return (flags & Flag.Unknown) !== 0 && (flags & Flag.Failed) === 0;
}
