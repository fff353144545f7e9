// The columns of `query::AlignedRank`: the steps of both inputs on one axis, and the memory of both.
//
// A place of the axis is a step of one input, or corresponding steps of both. Moments count places as those of a report
// count positions: `2i + 1` is right before place i, `2i + 2` right after it.

import { rowFrom } from "../charts/resample";
import { type Block, unpack } from "../data/block";
import { Lines } from "../data/lines";
import { Curve } from "../data/report";
import type { AlignedOutline, Diff, DiffPageHead, Extent, RankDiff } from "../generated/answers";
import type { Timed } from "../state";

export const SIDES = ["before", "after"] as const;
export type Side = (typeof SIDES)[number];
/** A value for each input. */
export type Both<Value> = Record<Side, Value>;

/** Which input has a step at a place; the numbers of `axis.kind`. */
export const Kind = { Both: 0, Before: 1, After: 2, MovedBefore: 3, MovedAfter: 4 } as const;

const bothOf = <Value>(make: (side: Side) => Value): Both<Value> => ({
  before: make("before"),
  after: make("after"),
});

export const otherSide = (side: Side): Side => (side === "before" ? "after" : "before");

/** Whether an input has a step at places of a kind. */
export function hasStep(kind: number, side: Side): boolean {
  if (kind === Kind.Both) return true;
  const isBefore = kind === Kind.Before || kind === Kind.MovedBefore;
  return isBefore === (side === "before");
}

/** Consecutive places of one kind, in order. The lists of starts have one more entry, for the end. */
export class Stretches {
  readonly count: number;
  /** The first place of each stretch. */
  readonly start: Uint32Array;
  /** The number of steps of each input before each stretch. */
  readonly steps: Both<Uint32Array>;
  /** The number of places of each kind before each stretch. */
  private readonly places: Uint32Array[];

  constructor(
    readonly kind: Uint32Array,
    len: Uint32Array,
  ) {
    this.count = kind.length;
    const sums = (counts: (stretch: number) => boolean) => {
      const sums = new Uint32Array(kind.length + 1);
      for (let row = 0; row < kind.length; row++) sums[row + 1] = sums[row] + (counts(row) ? len[row] : 0);
      return sums;
    };
    this.start = sums(() => true);
    this.steps = bothOf((side) => sums((row) => hasStep(kind[row], side)));
    this.places = Object.values(Kind).map((wanted) => sums((row) => kind[row] === wanted));
  }

  get end(): number {
    return this.start[this.count];
  }

  /** The stretch of a place, which must be below `end`. */
  at(place: number): number {
    return rowFrom(this.start, place + 1) - 1;
  }

  /** The number of steps of an input before a place. */
  stepsBefore(side: Side, place: number): number {
    if (place >= this.end) return this.steps[side][this.count];
    const row = this.at(place);
    const inside = hasStep(this.kind[row], side) ? place - this.start[row] : 0;
    return this.steps[side][row] + inside;
  }

  /** The number of places of a kind before a place. */
  placesBefore(kind: number, place: number): number {
    const places = this.places[kind];
    if (place >= this.end) return places[this.count];
    const row = this.at(place);
    return places[row] + (this.kind[row] === kind ? place - this.start[row] : 0);
  }
}

/** The steps of one input. */
class Steps {
  private readonly op: Uint32Array;
  private readonly name: Int32Array;
  private readonly loc: Int32Array;

  constructor(
    block: Block,
    side: Side,
    private readonly texts: Lines,
  ) {
    this.op = block.numbers(`${side}.op`);
    this.name = block.maybe(`${side}_ops.name`);
    this.loc = block.maybe(`${side}_ops.loc`);
  }

  get count(): number {
    return this.op.length;
  }

  operation(step: number): { name: string | null; loc: string | null } {
    const op = this.op[step];
    const text = (number: number) => (number < 0 ? null : this.texts.get(number));
    return { name: text(this.name[op]), loc: text(this.loc[op]) };
  }
}

/** A pool of both inputs. */
export class AlignedPool {
  readonly name: string;
  readonly extent: Extent;
  readonly quantum: number;
  /** The moment of each peak. */
  readonly peak: Both<number | null>;
  /** The bytes allocated per bank in each input; `null` if there are none. */
  readonly held: Both<Curve | null>;
  /** The curve of the second input above that of the first; `null` if one of them has none. */
  readonly difference: Curve | null;
  /** The higher one of both. */
  readonly higher: Curve;

  constructor(block: Block<AlignedOutline>, index: number) {
    const { name, extent, quantum, before_peak: before, after_peak: after } = block.meta.pools[index];
    this.name = name;
    this.extent = extent;
    this.quantum = quantum;
    this.peak = { before, after };
    this.held = bothOf((side) => {
      const table = `pool.${index}.${side}`;
      const at = block.numbers(`${table}.at`);
      return at.length > 0 ? new Curve(at, block.sizes(`${table}.held`)) : null;
    });
    const { before: first, after: second } = this.held;
    this.difference = first && second && merged(first, second, (a, b) => b - a);
    const empty = new Curve(new Uint32Array(), new Float64Array());
    this.higher =
      first && second
        ? merged(first, second, (a, b) => (a >= b || Number.isNaN(b) ? a : b))
        : (first ?? second ?? empty);
  }

  /** The value of an input at a moment; NaN if unknown. */
  heldAt(side: Side, moment: number): number {
    return this.held[side]?.valueAt(moment) ?? Number.NaN;
  }
}

/** The values of two curves at each moment that has a change, combined. Of several changes at a moment, all are kept. */
export function merged(first: Curve, second: Curve, combine: (a: number, b: number) => number): Curve {
  const at = new Uint32Array(first.at.length + second.at.length);
  const value = new Float64Array(at.length);
  let [i, j, rows] = [0, 0, 0];
  let [a, b] = [Number.NaN, Number.NaN];
  const put = (moment: number) => {
    at[rows] = moment;
    value[rows] = combine(a, b);
    rows += 1;
  };
  while (i < first.at.length || j < second.at.length) {
    const [next, other] = [first.at[i] ?? Number.POSITIVE_INFINITY, second.at[j] ?? Number.POSITIVE_INFINITY];
    // Changes of both at one moment are one change.
    if (next <= other) a = first.value[i++];
    if (other <= next) b = second.value[j++];
    put(Math.min(next, other));
  }
  return new Curve(at.subarray(0, rows), value.subarray(0, rows));
}

/** A step of an input at a place. */
export interface StepAt {
  step: number;
  name: string | null;
  loc: string | null;
  /** The step of the other input that corresponds, if it is at another place. */
  movedTo: number | null;
}

/** A rank of both inputs. */
export class AlignedRank implements Timed {
  /** The number of places. */
  readonly end: number;
  readonly runs = { parent: new Int32Array(), first: new Uint32Array(), end: new Uint32Array() };
  readonly stretches: Stretches;
  readonly pools: AlignedPool[];
  /** The index of the pool to show first. */
  readonly firstPool: number;
  /** The place where each input ran out of memory. */
  readonly failed: Both<number | null>;
  readonly steps: Both<Steps>;
  private readonly moved: Both<Map<number, number>>;
  private readonly live: Both<Curve[]>;

  constructor(
    readonly diff: RankDiff,
    block: Block<AlignedOutline>,
    texts: Both<Lines>,
  ) {
    const { places, before_failed: before, after_failed: after, pools } = block.meta;
    this.end = places;
    this.failed = { before, after };
    this.firstPool = block.meta.first_pool;
    this.stretches = new Stretches(block.numbers("axis.kind"), block.numbers("axis.len"));
    this.pools = pools.map((_, index) => new AlignedPool(block, index));
    this.steps = bothOf((side) => new Steps(block, side, texts[side]));
    const moved = bothOf((side) => block.numbers(`moved.${side}`));
    this.moved = bothOf((side) => {
      const other = moved[otherSide(side)];
      return new Map(Array.from(moved[side], (step, row) => [step, other[row]]));
    });
    this.live = bothOf((side) => {
      const at = block.numbers(`live_${side}.at`);
      const held = block.sizes(`live_${side}.held`);
      let end = 0;
      return Array.from(block.numbers(`changes.${side}`), (rows) => {
        const start = end;
        end += rows;
        return new Curve(at.subarray(start, end), held.subarray(start, end));
      });
    });
  }

  /** The bytes that the tensors of a change hold in each input. */
  liveOf(change: number): Both<Curve> {
    return bothOf((side) => this.live[side][change]);
  }

  /** The step of each input at a place; `null` if it has none there. */
  stepsAt(place: number): Both<StepAt | null> {
    const kind = this.stretches.kind[this.stretches.at(place)];
    return bothOf((side) => {
      if (!hasStep(kind, side)) return null;
      const step = this.stretches.stepsBefore(side, place);
      const movedTo = kind === Kind.Both ? null : (this.moved[side].get(step) ?? null);
      return { step, ...this.steps[side].operation(step), movedTo };
    });
  }
}

/** A comparison. */
export class Comparison {
  private readonly ranks = new Map<number, Promise<AlignedRank>>();

  private constructor(
    readonly head: DiffPageHead,
    private readonly texts: Both<Lines>,
  ) {}

  static async open(): Promise<Comparison> {
    const blocks = ["head", "texts-before", "texts-after"].map((name) => unpack<DiffPageHead>(name));
    const [head, before, after] = await Promise.all(blocks);
    if (!head || !before || !after) throw new Error("the page contains no data");
    const lines = (block: Block) => new Lines(block, "texts");
    return new Comparison(head.meta, { before: lines(before), after: lines(after) });
  }

  get diff(): Diff {
    return this.head.diff;
  }

  /** The name of each input. */
  get names(): Both<string> {
    const [before, after] = this.head.names;
    return { before, after };
  }

  /** The rank with an index, unpacked on first use. */
  rank(index: number): Promise<AlignedRank> {
    let rank = this.ranks.get(index);
    if (!rank) {
      rank = unpack<AlignedOutline>(`diff-${index}`).then((block) => {
        const diff = this.diff.ranks[index];
        if (!block || !diff) throw new Error(`the page has no rank ${index}`);
        return new AlignedRank(diff, block, this.texts);
      });
      this.ranks.set(index, rank);
    }
    return rank;
  }
}
