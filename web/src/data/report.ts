// The data of the page: the summary, and the columns of every rank.
//
// This code only selects, sorts and sums columns that the `query` crate computed; it contains no rules of any format.
//
// Time is counted in moments, as in the core: position i (before step i) has an early side, 2i, right after the step
// before it, and a late side, 2i + 1, right before its step. `summary --at i` describes the late side.

import type {
  Extent,
  FragmentedMoment,
  PageAllocations,
  PageHead,
  RankHead,
  RankSummary,
  Summary,
} from "../generated/answers";
import { type Block, unpack } from "./block";
import { L1 } from "./l1";
import { Lines } from "./lines";
import { Stacks } from "./stacks";
import { hasRoom } from "./summary";

/** `dies` of a tensor that is never freed. */
export const NEVER = 0xffffffff;

/** The late side of a position: right before its step. */
export const momentBefore = (step: number): number => step * 2 + 1;
/** The position of a moment. */
export const positionOf = (moment: number): number => moment >>> 1;

/** The kind of an operation, as far as memory is concerned. */
export const Kind = { Compute: 0, Deallocate: 1, GetDevice: 2, LoadCached: 3, Call: 4 } as const;

/** The flags of a step. */
export const Mark = { Weight: 1, Failed: 2, View: 4, CacheMiss: 8, Retained: 16 } as const;

export class Report {
  readonly name: string;
  readonly generator: string;
  readonly summary: Summary;
  /** Whether a rank has call stacks. */
  readonly hasStacks: boolean;
  private readonly loaded = new Map<number, Promise<Rank>>();
  private irLines: Promise<Lines | null> | undefined;

  private constructor(
    head: Block<PageHead>,
    readonly texts: Lines,
  ) {
    this.name = head.meta.name;
    this.generator = head.meta.generator;
    this.summary = head.meta.summary;
    this.hasStacks = head.meta.has_stacks;
    // Pool names come from the input: looking up a pool called `constructor` must not find an inherited property.
    for (const { pools, peaks, fragmentation } of this.summary.ranks) {
      for (const record of [pools, peaks, fragmentation]) Object.setPrototypeOf(record, null);
    }
  }

  /** Unpacks the data that every section needs. */
  static async open(): Promise<Report> {
    const [head, texts] = await Promise.all([unpack<PageHead>("head"), unpack("texts")]);
    if (!head || !texts) throw new Error("the page contains no data");
    return new Report(head, new Lines(texts, "texts"));
  }

  get rankCount(): number {
    return this.summary.ranks.length;
  }

  /** The rank with an index, unpacked on first use. */
  rank(index: number): Promise<Rank> {
    let rank = this.loaded.get(index);
    if (!rank) {
      rank = unpack<RankHead>(`rank-${index}`).then((block) => {
        if (!block) throw new Error(`the page has no rank ${index}`);
        return new Rank(this, index, block);
      });
      this.loaded.set(index, rank);
    }
    return rank;
  }

  /** The lines of all graphs of all ranks; `null` if the input has no graph text. */
  ir(): Promise<Lines | null> {
    this.irLines ??= unpack("ir").then((block) => block && new Lines(block, "ir"));
    return this.irLines;
  }
}

/** A value over time, stored as its changes. */
export class Curve {
  constructor(
    /** The moments of the changes, in order; several changes may have the same moment. */
    readonly at: Uint32Array,
    readonly value: Float64Array,
  ) {}

  /** The index of the last change at or before a moment; -1 before the first. */
  indexAt(moment: number): number {
    let low = 0;
    let high = this.at.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.at[middle] <= moment) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  /** The value at a moment; NaN if unknown. */
  valueAt(moment: number): number {
    const index = this.indexAt(moment);
    return index < 0 ? Number.NaN : this.value[index];
  }
}

/** A pool of a rank. */
export class Pool {
  readonly name: string;
  /** The unit that its sizes refer to. */
  readonly extent: Extent;
  /** The rounding step of the reported sizes; 0 if they are exact. */
  readonly quantum: number;
  /** When the peak was first reached. */
  readonly peakMoment: number | null;
  /** The moments with the most fragmentation, worst first; `null` if the input does not report it. */
  readonly fragmented: FragmentedMoment[] | null;
  /** Whether the input has the bytes that the allocator reserved. */
  readonly hasReserved: boolean;
  private readonly curves = new Map<string, Curve>();
  private observedMoments: Uint32Array | undefined;
  private effects: Float64Array | undefined;
  private residue: Residue | undefined;
  private peaks: { at: Int32Array; perBank: Float64Array } | undefined;

  constructor(
    private readonly block: Block<RankHead>,
    readonly index: number,
  ) {
    const meta = block.meta.pools[index];
    this.name = meta.name;
    this.extent = meta.extent;
    this.quantum = meta.quantum;
    this.peakMoment = meta.peak_moment;
    this.fragmented = meta.fragmented;
    this.hasReserved = meta.has_reserved;
  }

  /** The bytes allocated per bank: measured, or reconstructed between measurements. */
  get held(): Curve {
    return this.curve("held");
  }

  /** The free bytes as reported; valid at observed moments only. */
  get free(): Curve {
    return this.curve("free");
  }

  get largestFree(): Curve {
    return this.curve("largest_free");
  }

  get capacity(): Curve {
    return this.curve("capacity");
  }

  /** The bytes that the allocator reserved; `null` if the input does not have them. */
  get reserved(): Curve | null {
    return this.hasReserved ? this.curve("reserved") : null;
  }

  /** Whether free memory is shown: always for banks, even if unknown; for undivided pools only if reported. */
  get reportsFree(): boolean {
    return this.extent !== "device" || this.free.at.length > 0;
  }

  /** The moments when the pool was measured. */
  get observed(): Uint32Array {
    this.observedMoments ??= this.block.numbers(`pool.${this.index}.observed`);
    return this.observedMoments;
  }

  private curve(name: string): Curve {
    let curve = this.curves.get(name);
    if (!curve) {
      const column = `pool.${this.index}.${name}`;
      curve = new Curve(this.block.numbers(`${column}_at`), this.block.sizes(column));
      this.curves.set(name, curve);
    }
    return curve;
  }

  /** The net change by each step, per bank; NaN if unknown. */
  get effect(): Float64Array {
    this.effects ??= this.block.signed(`pool.${this.index}.effect`);
    return this.effects;
  }

  /** The moment and size of each top-level run's peak; -1 and NaN if it was not measured. */
  get runPeaks(): { at: Int32Array; perBank: Float64Array } {
    const name = `pool.${this.index}.run_peak`;
    this.peaks ??= { at: this.block.maybe(`${name}_at`), perBank: this.block.sizes(name) };
    return this.peaks;
  }

  /** Whether the pool was measured at a moment. */
  isObserved(moment: number): boolean {
    const at = new Curve(this.observed, EMPTY).indexAt(moment);
    return at >= 0 && this.observed[at] === moment;
  }

  /**
   * The bytes allocated per bank at a moment; NaN if unknown. At the peak this is the highest of several readings, as in
   * the summary.
   */
  heldAt(rank: Rank, moment: number): number {
    if (moment === this.peakMoment) return rank.summary.pools[this.name]?.peak_per_bank ?? Number.NaN;
    // Without tensors nothing can be reconstructed: values that were not reported are unknown.
    const known = rank.hasTensors || this.isObserved(moment) || this.isObservedJustBefore(rank, moment);
    return known ? this.held.valueAt(moment) : Number.NaN;
  }

  /** Memory changes between the two sides of a position only if a program begins there. */
  private isObservedJustBefore(rank: Rank, moment: number): boolean {
    if (moment % 2 === 0 || !this.isObserved(moment - 1)) return false;
    const position = positionOf(moment);
    return !rank.isProgramStart(position);
  }

  /** The unexplained bytes at a moment, by the operation they are attributed to, largest first. */
  residueAt(rank: Rank, moment: number): { who: string; perBank: number; steps: number[] }[] {
    const name = `pool.${this.index}.residue`;
    this.residue ??= {
      at: this.block.numbers(`${name}_at`),
      change: this.block.signed(name),
      step: this.block.maybe(`${name}_step`),
      who: this.block.numbers(`${name}_who`),
    };
    const { at, change, step, who } = this.residue;
    const rows = new Map<number, { who: string; perBank: number; steps: number[] }>();
    for (let row = 0; row < at.length && at[row] <= moment; row++) {
      const label = step[row] >= 0 ? rank.ops.name[rank.steps.op[step[row]]] : who[row];
      let found = rows.get(label);
      if (!found) {
        found = { who: rank.report.texts.get(label), perBank: 0, steps: [] };
        rows.set(label, found);
      }
      found.perBank += change[row];
      if (step[row] >= 0) found.steps.push(step[row]);
    }
    return [...rows.values()].sort((a, b) => Math.abs(b.perBank) - Math.abs(a.perBank));
  }
}

/** The changes of the unexplained bytes: the moment, the size, and the step or else the source. */
interface Residue {
  at: Uint32Array;
  change: Float64Array;
  step: Int32Array;
  who: Uint32Array;
}

const EMPTY = new Float64Array();

/** The live tensors of a pool at a moment. */
export interface LiveSet {
  /** The tensors, largest first. */
  tensors: Uint32Array;
  /** Their sum per bank; NaN if a size is unknown. */
  perBank: number;
  /** The sums by class, in the order of `Rank.classes`. */
  byClass: Float64Array;
}

export class Rank {
  readonly summary: RankSummary;
  readonly label: string | null;
  /** The number of steps; also the last position. */
  readonly end: number;
  /** Whether the input has tensors; without them memory can't be attributed. */
  readonly hasTensors: boolean;
  readonly classes: string[];
  /** The pools by their number in the columns. */
  readonly pools: Pool[];
  /** The pools of cards, tabs and selectors in the order of the summary, without those that can't hold anything. */
  readonly poolsInOrder: Pool[];
  readonly modules: RankHead["modules"];
  /** The groups of allocations; `null` if the input does not record a caching allocator. */
  readonly allocations: PageAllocations | null;
  /** The L1 of a core; `null` if the input does not have its layout. */
  readonly l1: L1 | null;
  // Tables are decoded on first use: a page that has just been opened needs few of them.
  private stepTable: ReturnType<typeof stepTable> | undefined;
  private opTable: ReturnType<typeof opTable> | undefined;
  private runTable: ReturnType<typeof runTable> | undefined;
  private typeTable: ReturnType<typeof typeTable> | undefined;
  private tensorTable: ReturnType<typeof tensorTable> | undefined;
  private stackTable: Stacks | undefined;
  private aliases: Map<number, string[]> | undefined;
  private poolsWithTensors: Set<number> | undefined;
  private starts: Set<number> | undefined;
  private lines: Promise<IrLinks | null> | undefined;

  constructor(
    readonly report: Report,
    readonly index: number,
    private readonly block: Block<RankHead>,
  ) {
    this.summary = report.summary.ranks[index];
    this.label = this.summary.rank;
    this.end = block.meta.steps;
    this.hasTensors = block.meta.has_tensors;
    this.classes = block.meta.classes;
    this.modules = block.meta.modules;
    this.allocations = block.meta.allocations;
    this.l1 = block.meta.l1 && new L1(block.meta.l1, block);
    this.pools = block.meta.pools.map((_, pool) => new Pool(block, pool));
    const usable = Object.keys(this.summary.pools).filter((name) => hasRoom(this.summary.pools[name]));
    this.poolsInOrder = usable.flatMap((name) => this.pools.find((pool) => pool.name === name) ?? []);
  }

  get steps() {
    this.stepTable ??= stepTable(this.block);
    return this.stepTable;
  }

  /** The distinct operations; name and location are text indices. */
  get ops() {
    this.opTable ??= opTable(this.block);
    return this.opTable;
  }

  get runs() {
    this.runTable ??= runTable(this.block);
    return this.runTable;
  }

  /** The distinct tensor types. */
  get types() {
    this.typeTable ??= typeTable(this.block);
    return this.typeTable;
  }

  /** Whether the operations have result types. The lifetimes of the results may still be unknown. */
  get hasResults(): boolean {
    const { name, resultTypes } = this.ops;
    return name.some((_, op) => resultTypes.get(op).length > 0);
  }

  get tensors() {
    this.tensorTable ??= tensorTable(this.block);
    return this.tensorTable;
  }

  /** The call stacks; `null` if the input has none. */
  get stacks(): Stacks | null {
    if (!this.block.meta.has_stacks) return null;
    this.stackTable ??= new Stacks(this.block, this.report.texts);
    return this.stackTable;
  }

  /** The call stack of a step's operation; -1 if unknown. */
  stackOfStep(step: number): number {
    return this.stacks?.ofOp(this.steps.op[step]) ?? -1;
  }

  /** The call stack that allocated a tensor; -1 if unknown. */
  stackOf(tensor: number): number {
    const { stacks } = this;
    if (!stacks) return -1;
    const step = this.tensors.step[tensor];
    return stacks.ofRestored(tensor) ?? (step < 0 ? -1 : stacks.ofOp(this.steps.op[step]));
  }

  /** Whether a top-level program begins at a position. */
  isProgramStart(position: number): boolean {
    const { first, parent } = this.runs;
    this.starts ??= new Set(first.filter((_, run) => parent[run] < 0));
    return this.starts.has(position);
  }

  /** The text with an index; `null` if the index is negative. */
  text(id: number): string | null {
    return id < 0 ? null : this.report.texts.get(id);
  }

  opName(step: number): string {
    return this.report.texts.get(this.ops.name[this.steps.op[step]]);
  }

  /** The full location of a step's operation; `null` if unknown. */
  opLoc(step: number): string | null {
    return this.text(this.ops.loc[this.steps.op[step]]);
  }

  /** The program of a step; `null` if unknown. */
  program(step: number): string | null {
    const run = this.steps.run[step];
    return run < 0 ? null : this.report.texts.get(this.runs.program[run]);
  }

  /** The number of a step's top-level run, from 1; `null` if there is none. */
  runNumber(step: number): number | null {
    const run = this.steps.run[step];
    return run < 0 ? null : this.runs.number[run];
  }

  /** `1x32x64 bf16` */
  typeText(type: number): string {
    return `${this.shapeText(type)} ${this.dtypeText(type)}`;
  }

  /** `bf16`, `float32`: without the library's prefix. */
  dtypeText(type: number): string {
    return this.report.texts.get(this.types.dtype[type]).replace(/^torch\./, "");
  }

  shapeText(type: number): string {
    return this.report.texts.get(this.types.shape[type]) || "scalar";
  }

  /** A tensor's readable name, or its SSA name. */
  tensorName(tensor: number): string | null {
    return this.text(this.tensors.name[tensor]) ?? this.text(this.tensors.ssa[tensor]);
  }

  /** The part of the program that allocated a tensor; `null` if unknown. */
  madeIn(tensor: number): string | null {
    return this.text(this.tensors.madeIn[tensor]);
  }

  /** A tensor's name, or else the part of the program that allocated it: `(in head)`. */
  tensorNameOrOrigin(tensor: number): string | null {
    const madeIn = this.madeIn(tensor);
    return this.tensorName(tensor) ?? (madeIn === null ? null : `(in ${madeIn})`);
  }

  /** The pool to show initially: the most important one, or the main pool if only that one has tensors. */
  get startPool(): number {
    const [first] = this.poolsInOrder;
    const main = this.pools.find(({ name }) => name === this.summary.peak?.pool);
    const isBare = main !== undefined && main !== first && this.hasTensors && !this.hasTensorsIn(first.index);
    return (isBare ? main : first)?.index ?? 0;
  }

  /** Whether any tensor was ever in a pool. */
  hasTensorsIn(pool: number): boolean {
    this.poolsWithTensors ??= new Set(this.tensors.pool);
    return this.poolsWithTensors.has(pool);
  }

  /** The operation that allocated a tensor; `null` if it existed before the first step. */
  allocatedBy(tensor: number): string | null {
    const step = this.tensors.step[tensor];
    return step < 0 ? null : this.opName(step);
  }

  /** The other names of a tensor. */
  tensorAlso(tensor: number): string[] {
    if (!this.aliases) {
      this.aliases = new Map();
      const [of, ssa] = [this.block.numbers("aliases.tensor"), this.block.numbers("aliases.ssa")];
      for (let row = 0; row < of.length; row++) {
        const names = this.aliases.get(of[row]) ?? [];
        const name = this.report.texts.get(ssa[row]);
        if (!names.includes(name)) names.push(name);
        this.aliases.set(of[row], names);
      }
    }
    return this.aliases.get(tensor) ?? [];
  }

  /** The step that frees a tensor; `null` if none does. */
  diesStep(tensor: number): number | null {
    const dies = this.tensors.dies[tensor];
    return dies !== NEVER && dies % 2 === 0 && dies > 0 ? dies / 2 - 1 : null;
  }

  /** For a tensor that was freed between steps: the step after that. `null` for others. */
  goneBeforeStep(tensor: number): number | null {
    const dies = this.tensors.dies[tensor];
    return dies !== NEVER && dies % 2 === 1 ? (dies - 1) / 2 : null;
  }

  /** The padding of a tensor in bytes, on one device; NaN if unknown. */
  padding(tensor: number): number {
    const type = this.tensors.type[tensor];
    return type < 0 ? Number.NaN : this.types.padded[type] - this.types.logical[type];
  }

  /** The tensors of a pool with born ≤ moment < dies. */
  live(pool: number, moment: number): LiveSet {
    const { born, dies, pool: of, perBank, class: classes } = this.tensors;
    const found: number[] = [];
    for (let tensor = 0; tensor < born.length; tensor++) {
      if (born[tensor] <= moment && moment < dies[tensor] && of[tensor] === pool) found.push(tensor);
    }
    const size = (tensor: number) => perBank[tensor] || 0;
    found.sort((a, b) => size(b) - size(a) || born[a] - born[b] || a - b);
    const byClass = new Float64Array(this.classes.length);
    for (const tensor of found) byClass[classes[tensor]] += perBank[tensor];
    return {
      tensors: Uint32Array.from(found),
      byClass,
      perBank: byClass.reduce((sum, bytes) => sum + bytes, 0),
    };
  }

  /**
   * The tensors of a pool that were allocated between two positions. Tensors that exist at the first position were
   * allocated before.
   */
  allocatedIn(pool: number, from: number, to: number): Uint32Array {
    const { born, pool: of } = this.tensors;
    const [start, end] = [from * 2 + 1, to * 2 + 1];
    const found: number[] = [];
    for (let tensor = 0; tensor < born.length; tensor++) {
      if (born[tensor] > start && born[tensor] <= end && of[tensor] === pool) found.push(tensor);
    }
    return Uint32Array.from(found);
  }

  /** All tensors that were ever in a pool. */
  tensorsIn(pool: number): Uint32Array {
    const { pool: of } = this.tensors;
    return Uint32Array.from(of.keys()).filter((tensor) => of[tensor] === pool);
  }

  /** All weights declared by the graphs, largest first. */
  weights(): { name: string; type: string; bytes: number; keptTwice: boolean }[] {
    const { block, report } = this;
    const [name, type, bytes, twice] = [
      block.numbers("weights.name"),
      block.maybe("weights.type"),
      block.sizes("weights.bytes"),
      block.maybe("weights.kept_twice"),
    ];
    return Array.from(name, (text, row) => ({
      name: report.texts.get(text),
      type: type[row] < 0 ? "" : this.typeText(type[row]),
      bytes: bytes[row],
      keptTwice: twice[row] === 1,
    }));
  }

  /** The mapping between graph lines and operations; `null` if the input has no graph text. */
  irLinks(): Promise<IrLinks | null> {
    this.lines ??= unpack(`ir-${this.index}`).then((block) => block && new IrLinks(block));
    return this.lines;
  }
}

function stepTable(block: Block) {
  return {
    op: block.numbers("steps.op"),
    run: block.maybe("steps.run"),
    /** See `Mark`. */
    marks: block.numbers("steps.marks"),
  };
}

function opTable(block: Block) {
  return {
    name: block.numbers("ops.name"),
    loc: block.maybe("ops.loc"),
    /** See `Kind`. */
    kind: block.numbers("ops.kind"),
    resultTypes: new Lists(block.numbers("ops.results"), block.maybe("ops.result_types")),
    operandTypes: new Lists(block.numbers("ops.operands"), block.maybe("ops.operand_types")),
  };
}

function runTable(block: Block) {
  return {
    program: block.numbers("runs.program"),
    parent: block.maybe("runs.parent"),
    module: block.maybe("runs.module"),
    /** The number of its top-level run, from 1. */
    number: block.numbers("runs.number"),
    constEval: block.numbers("runs.const_eval"),
    first: block.numbers("runs.first"),
    end: block.numbers("runs.end"),
    finished: block.numbers("runs.finished"),
  };
}

function typeTable(block: Block) {
  return {
    shape: block.numbers("types.shape"),
    dtype: block.numbers("types.dtype"),
    paddedShape: block.maybe("types.padded_shape"),
    /** A similar shape that needs less padding; -1 if there is none. */
    friendly: block.maybe("types.friendly"),
    layout: block.maybe("types.layout"),
    logical: block.sizes("types.logical"),
    padded: block.sizes("types.padded"),
  };
}

function tensorTable(block: Block) {
  const [born, life] = [block.numbers("tensors.born"), block.numbers("tensors.life")];
  return {
    type: block.maybe("tensors.type"),
    pool: block.numbers("tensors.pool"),
    perBank: block.sizes("tensors.per_bank"),
    born,
    dies: born.map((at, tensor) => (life[tensor] === 0 ? NEVER : at + life[tensor] - 1)),
    class: block.numbers("tensors.class"),
    run: block.maybe("tensors.run"),
    ssa: block.maybe("tensors.ssa"),
    /** The step that allocated it; -1 if it existed before the first step. */
    step: block.maybe("tensors.step"),
    name: block.maybe("tensors.name"),
    /** The module or operation that allocated it. */
    madeIn: block.maybe("tensors.made_in"),
  };
}

/** Lists of different lengths, stored consecutively. */
export class Lists {
  private readonly first: Uint32Array;

  constructor(
    counts: Uint32Array,
    private readonly values: Int32Array,
  ) {
    this.first = new Uint32Array(counts.length + 1);
    for (let row = 0; row < counts.length; row++) this.first[row + 1] = this.first[row] + counts[row];
  }

  get(row: number): Int32Array {
    return this.values.subarray(this.first[row], this.first[row + 1]);
  }
}

/** The mapping between graph lines and operations. */
export class IrLinks {
  /** The lines where an operation with a location begins, in order, and the location's text index. */
  readonly locLine: Uint32Array;
  readonly loc: Uint32Array;
  /** The lines where an operation that ran begins, in order, and its index in `Rank.ops`. */
  readonly opLine: Uint32Array;
  readonly op: Uint32Array;
  /** The operation's program: other programs may have the same operation on different lines. */
  readonly opProgram: Uint32Array;

  constructor(block: Block) {
    this.locLine = block.numbers("loc_line");
    this.loc = block.numbers("loc");
    this.opLine = block.numbers("op_line");
    this.op = block.numbers("op");
    this.opProgram = block.numbers("op_program");
  }
}
