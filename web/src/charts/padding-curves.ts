// Logical and padded bytes of a pool's tensors over time, and the tensors with the most padding.

import { Curve, NEVER, type Rank } from "../data/report";

export interface PaddingCurves {
  logical: Curve;
  padded: Curve;
  /** The number of skipped tensors: their type or its size is unknown. */
  unknown: number;
  /** The number of tensors included. */
  known: number;
}

const cache = new WeakMap<Rank, Map<number, PaddingCurves>>();

/** The curves of a pool, computed on first use. */
export function paddingCurves(rank: Rank, pool: number): PaddingCurves {
  const pools = cache.get(rank) ?? new Map<number, PaddingCurves>();
  cache.set(rank, pools);
  let curves = pools.get(pool);
  if (!curves) {
    curves = sumOverTime(rank, pool);
    pools.set(pool, curves);
  }
  return curves;
}

/** Adds each tensor at its allocation and subtracts it when freed; moments are few, so no sorting is needed. */
function sumOverTime(rank: Rank, pool: number): PaddingCurves {
  const { born, dies, pool: of, type } = rank.tensors;
  const moments = rank.end * 2 + 2;
  const [logical, padded] = [new Float64Array(moments), new Float64Array(moments)];
  const touched = new Uint8Array(moments);
  touched[0] = 1;
  let [known, unknown] = [0, 0];
  for (let tensor = 0; tensor < born.length; tensor++) {
    if (of[tensor] !== pool || born[tensor] >= dies[tensor]) continue;
    const bytes = type[tensor] < 0 ? Number.NaN : rank.types.padded[type[tensor]];
    const elements = type[tensor] < 0 ? Number.NaN : rank.types.logical[type[tensor]];
    if (Number.isNaN(bytes + elements)) {
      unknown += 1;
      continue;
    }
    known += 1;
    const first = Math.min(born[tensor], moments - 1);
    logical[first] += elements;
    padded[first] += bytes;
    touched[first] = 1;
    const end = dies[tensor];
    if (end === NEVER || end >= moments) continue;
    logical[end] -= elements;
    padded[end] -= bytes;
    touched[end] = 1;
  }
  const at: number[] = [];
  for (let moment = 0; moment < moments; moment++) {
    if (moment > 0) {
      logical[moment] += logical[moment - 1];
      padded[moment] += padded[moment - 1];
    }
    if (touched[moment]) at.push(moment);
  }
  const when = Uint32Array.from(at);
  const pick = (sums: Float64Array) =>
    new Curve(
      when,
      Float64Array.from(at, (moment) => sums[moment]),
    );
  return { logical: pick(logical), padded: pick(padded), known, unknown };
}

/** The tensors of one type that one kind of operation allocated. */
export interface Waste {
  /** `null` for arguments. */
  operation: string | null;
  type: number;
  count: number;
  wasted: number;
  logical: number;
  /** The largest of the tensors. */
  example: number;
}

/** The tensors with the most padding at a moment, grouped by operation, shape and element type. */
export function wasteAt(rank: Rank, pool: number, moment: number, max: number): Waste[] {
  const { types, tensors } = rank;
  const groups = new Map<string, Waste>();
  for (const tensor of rank.live(pool, moment).tensors) {
    const [type, step, wasted] = [tensors.type[tensor], tensors.step[tensor], rank.padding(tensor)];
    if (!(wasted > 0)) continue;
    const operation = step < 0 ? null : rank.opName(step);
    const key = [operation, types.shape[type], types.dtype[type], types.paddedShape[type]].join("|");
    const group = groups.get(key) ?? { operation, type, count: 0, wasted: 0, logical: 0, example: tensor };
    group.count += 1;
    group.wasted += wasted;
    group.logical += types.logical[type];
    groups.set(key, group);
  }
  return [...groups.values()].sort((a, b) => b.wasted - a.wasted || a.example - b.example).slice(0, max);
}
