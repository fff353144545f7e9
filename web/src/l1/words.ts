// The names and descriptions of the segments of L1.

import { BUFFER_KINDS } from "../data/l1";
import type { Rank } from "../data/report";
import { count, shorten, sizeIn } from "../format";
import { coresText } from "./cores";
import type { Segment } from "./segments";

const NAMES: Record<Segment["part"], string> = {
  reserved: "reserved",
  circular: BUFFER_KINDS[0],
  dataflow: BUFFER_KINDS[1],
  scratchpad: BUFFER_KINDS[2],
  program: "program buffers",
  gap: "gap",
  headroom: "headroom",
  tensor: "tensor",
  hole: "hole",
  small: "L1_SMALL",
  overlap: "overlap",
};

/** A few words for the table, and a sentence for the tooltip. */
const MEANINGS: Partial<Record<Segment["part"], readonly [short: string, long: string]>> = {
  reserved: ["runtime", "reserved by the runtime"],
  program: ["only their end is known", "only the end of the program's buffers is known"],
  gap: ["free", "free, between buffers of the program"],
  headroom: ["free", "free, between the program's buffers and the lowest tensor"],
  hole: ["free", "free, between tensors"],
  small: ["free", "region for small buffers, free"],
  overlap: ["needed twice", "needed twice: the program does not fit"],
};

export function partName({ part, tensor }: Segment): string {
  return part === "tensor" && tensor?.isSmall ? "small tensor" : NAMES[part];
}

/** The name of a segment's tensor, or else the operation that allocated it. */
export function tensorTitle(rank: Rank, tensor: number): string {
  return rank.tensorNameOrOrigin(tensor) ?? rank.allocatedBy(tensor) ?? "unnamed tensor";
}

/** What a segment is, beyond its kind: the name of the tensor, or the meaning of the part. */
export function detailOf(rank: Rank, { part, tensor, isEmpty, isBorrowed }: Segment, isLong = false): string {
  if (isBorrowed) {
    const of = tensor ? tensorTitle(rank, tensor.tensor) : "a tensor";
    return isLong ? `uses the memory of ${of}` : `in ${of}`;
  }
  if (tensor) return `${tensorTitle(rank, tensor.tensor)}${isEmpty ? " (no shard on this core)" : ""}`;
  return MEANINGS[part]?.[isLong ? 1 : 0] ?? "";
}

/** The shape and element type of a tensor's segment; empty for others. */
export function typeOf(rank: Rank, { part, tensor }: Segment): string {
  const type = part === "tensor" && tensor ? rank.tensors.type[tensor.tensor] : -1;
  return type < 0 ? "" : rank.typeText(type);
}

/** The cores of a segment: `all`, or those with a shard or a buffer. Empty for free memory. */
export function coresOf({ part, tensor, buffer }: Segment): string {
  const of = buffer ?? (part === "tensor" ? tensor : undefined);
  if (!of) return "";
  return of.cores === null ? "all" : coresText(of.cores);
}

/** The tooltip of a segment. Sizes are in the unit of `whole`. */
export function describe(rank: Rank, segment: Segment, whole: number): string {
  const { part, start, end, tensor } = segment;
  const allocated = part === "tensor" && tensor ? rank.tensors.step[tensor.tensor] : -1;
  const by = allocated >= 0 ? `allocated by step ${count(allocated)}, ${rank.opName(allocated)}` : "";
  const lines = [
    `${partName(segment)}, ${sizeIn(end - start, whole)}`,
    shorten(detailOf(rank, segment, true), 120),
    typeOf(rank, segment),
    `addresses ${count(start)} to ${count(end)}`,
    shorten(by, 160),
    segment.isEmpty ? "The allocator takes the same addresses on all cores." : "",
    coresLine(segment),
  ];
  return lines.filter(Boolean).join("\n");
}

function coresLine(segment: Segment): string {
  const cores = coresOf(segment);
  if (cores === "") return "";
  return cores === "all" ? "on all cores" : `on cores ${shorten(cores, 120)}`;
}
