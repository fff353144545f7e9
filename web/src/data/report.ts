// What the page knows: the summary, and every rank as columns.
//
// Everything here selects, sorts or adds up columns that `query` answered; no rule of a format is known here.
//
// Time is counted in moments, as in the core: position i (before step i) has an early side, 2i, right after the step
// before it, and a late side, 2i + 1, right before its step. `summary --at i` describes the late side.

import type {
  Extent,
  FragmentedMoment,
  PageHead,
  RankHead,
  RankSummary,
  Summary,
} from "../generated/answers";
import { type Block, unpack } from "./block";
import { Lines } from "./lines";

/** A tensor that is never given back dies here. */
export const NEVER = 0xffffffff;

/** The late side of a position: right before its step. */
export const momentBefore = (step: number): number => step * 2 + 1;
/** The position that a moment is a side of. */
export const positionOf = (moment: number): number => moment >>> 1;

/** What an operation is to the accounts. */
export const Kind = { Compute: 0, Deallocate: 1, GetDevice: 2, LoadCached: 3, Call: 4 } as const;

/** Facts about a step, as bits. */
export const Mark = { Weight: 1, Failed: 2, View: 4, CacheMiss: 8, Retained: 16 } as const;

export class Report {
  readonly name: string;
  readonly generator: string;
  readonly summary: Summary;
  private readonly loaded = new Map<number, Promise<Rank>>();
  private irLines: Promise<Lines | null> | undefined;

  private constructor(
    head: Block<PageHead>,
    readonly texts: Lines,
  ) {
    this.name = head.meta.name;
    this.generator = head.meta.generator;
    this.summary = head.meta.summary;
    // Pools are named by the log: one called `constructor` must not find what every object has.
    for (const { pools, peaks, fragmentation } of this.summary.ranks) {
      for (const record of [pools, peaks, fragmentation]) Object.setPrototypeOf(record, null);
    }
  }

  /** Unpacks what every view needs. */
  static async open(): Promise<Report> {
    const [head, texts] = await Promise.all([unpack<PageHead>("head"), unpack("texts")]);
    if (!head || !texts) throw new Error("there is no data in this page");
    return new Report(head, new Lines(texts, "texts"));
  }

  get rankCount(): number {
    return this.summary.ranks.length;
  }

  /** The rank with that number, unpacked on first use. */
  rank(index: number): Promise<Rank> {
    let rank = this.loaded.get(index);
    if (!rank) {
      rank = unpack<RankHead>(`rank-${index}`).then((block) => {
        if (!block) throw new Error(`there is no rank ${index} in this page`);
        return new Rank(this, index, block);
      });
      this.loaded.set(index, rank);
    }
    return rank;
  }

  /** The lines of all graphs of all ranks; `null` where no text was printed. */
  ir(): Promise<Lines | null> {
    this.irLines ??= unpack("ir").then((block) => block && new Lines(block, "ir"));
    return this.irLines;
  }
}

/** A value over time, held as its changes. */
export class Curve {
  constructor(
    /** When it changed, in order; several changes may share a moment. */
    readonly at: Uint32Array,
    readonly value: Float64Array,
  ) {}

  /** The number of the change that holds at a moment; -1 before the first. */
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

  /** The value at a moment; NaN where it is not known. */
  valueAt(moment: number): number {
    const index = this.indexAt(moment);
    return index < 0 ? Number.NaN : this.value[index];
  }
}

/** A pool of a rank. */
export class Pool {
  readonly name: string;
  /** What its sizes are sizes of. */
  readonly extent: Extent;
  /** The step in which the evidence rounds; 0 where it does not. */
  readonly quantum: number;
  /** When the peak was first reached. */
  readonly peakMoment: number | null;
  /** When free memory was most in pieces, the worst moment first; `null` where the evidence does not state it. */
  readonly fragmented: FragmentedMoment[] | null;
  private readonly curves = new Map<string, Curve>();
  private looks: Uint32Array | undefined;
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
  }

  /** What a bank holds: as measured, or rebuilt where the evidence is silent. */
  get held(): Curve {
    return this.curve("held");
  }

  /** As printed; they hold at observed moments only. */
  get free(): Curve {
    return this.curve("free");
  }

  get largestFree(): Curve {
    return this.curve("largest_free");
  }

  get capacity(): Curve {
    return this.curve("capacity");
  }

  /** Whether it is spoken of what is free: of banks always, known or not; of a pool of one piece where it is known. */
  get tellsFree(): boolean {
    return this.extent !== "device" || this.free.at.length > 0;
  }

  /** The moments at which the pool was looked at. */
  get observed(): Uint32Array {
    this.looks ??= this.block.numbers(`pool.${this.index}.observed`);
    return this.looks;
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

  /** What each step changed in a bank; NaN where nothing tells. */
  get effect(): Float64Array {
    this.effects ??= this.block.signed(`pool.${this.index}.effect`);
    return this.effects;
  }

  /** When each top-level run reaches its peak, and how high it is; -1 and NaN where it was not looked at. */
  get runPeaks(): { at: Int32Array; perBank: Float64Array } {
    const name = `pool.${this.index}.run_peak`;
    this.peaks ??= { at: this.block.maybe(`${name}_at`), perBank: this.block.sizes(name) };
    return this.peaks;
  }

  /** Whether the evidence shows the pool at a moment. */
  isObserved(moment: number): boolean {
    const at = new Curve(this.observed, EMPTY).indexAt(moment);
    return at >= 0 && this.observed[at] === moment;
  }

  /**
   * What a bank holds at a moment; NaN where it is not known. Of several readings at the peak, the highest: that is
   * what the summary calls the peak.
   */
  heldAt(rank: Rank, moment: number): number {
    if (moment === this.peakMoment) return rank.summary.pools[this.name]?.peak_per_bank ?? Number.NaN;
    // Without tensors nothing can be rebuilt: what was not printed is not known.
    const known = rank.hasTensors || this.isObserved(moment) || this.isSeenJustBefore(rank, moment);
    return known ? this.held.valueAt(moment) : Number.NaN;
  }

  /** Nothing happens between the sides of a position at which no program begins. */
  private isSeenJustBefore(rank: Rank, moment: number): boolean {
    if (moment % 2 === 0 || !this.isObserved(moment - 1)) return false;
    const position = positionOf(moment);
    return !rank.isProgramStart(position);
  }

  /** The unexplained bytes at a moment, by who left them behind, the largest first. */
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

/** The changes of the unexplained bytes: when, by how much, which step or else who. */
interface Residue {
  at: Uint32Array;
  change: Float64Array;
  step: Int32Array;
  who: Uint32Array;
}

const EMPTY = new Float64Array();

/** What is alive in a pool at a moment. */
export interface LiveSet {
  /** The tensors, largest first. */
  tensors: Uint32Array;
  /** What they add up to in each bank; NaN where a size is not known. */
  perBank: number;
  /** The same by class, in the order of `Rank.classes`. */
  byClass: Float64Array;
}

export class Rank {
  readonly summary: RankSummary;
  readonly label: string | null;
  /** How many steps there are; also the last position. */
  readonly end: number;
  /** Whether the evidence has tensors; without them nobody's bytes can be named. */
  readonly hasTensors: boolean;
  readonly classes: string[];
  readonly pools: Pool[];
  readonly modules: RankHead["modules"];
  // Tables are decoded when they are first asked for: a page that has just been opened needs few of them.
  private stepTable: ReturnType<typeof stepTable> | undefined;
  private opTable: ReturnType<typeof opTable> | undefined;
  private runTable: ReturnType<typeof runTable> | undefined;
  private typeTable: ReturnType<typeof typeTable> | undefined;
  private tensorTable: ReturnType<typeof tensorTable> | undefined;
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
    this.pools = block.meta.pools.map((_, pool) => new Pool(block, pool));
  }

  /** The steps. */
  get steps() {
    this.stepTable ??= stepTable(this.block);
    return this.stepTable;
  }

  /** Distinct operations: name and location are texts. */
  get ops() {
    this.opTable ??= opTable(this.block);
    return this.opTable;
  }

  /** The program runs. */
  get runs() {
    this.runTable ??= runTable(this.block);
    return this.runTable;
  }

  /** Distinct types. */
  get types() {
    this.typeTable ??= typeTable(this.block);
    return this.typeTable;
  }

  /** Whether the operations come with the types of their results. Their lives may still not be known. */
  get hasResults(): boolean {
    const { name, resultTypes } = this.ops;
    return name.some((_, op) => resultTypes.get(op).length > 0);
  }

  /** The allocations. */
  get tensors() {
    this.tensorTable ??= tensorTable(this.block);
    return this.tensorTable;
  }

  /** Whether a program that runs in no other begins at a position. */
  isProgramStart(position: number): boolean {
    const { first, parent } = this.runs;
    this.starts ??= new Set(first.filter((_, run) => parent[run] < 0));
    return this.starts.has(position);
  }

  /** A text; `null` for none. */
  text(id: number): string | null {
    return id < 0 ? null : this.report.texts.get(id);
  }

  opName(step: number): string {
    return this.report.texts.get(this.ops.name[this.steps.op[step]]);
  }

  /** The location of a step's operation, whole; `null` where it is not known. */
  opLoc(step: number): string | null {
    return this.text(this.ops.loc[this.steps.op[step]]);
  }

  /** The program that a step ran in; `null` where the evidence names none. */
  program(step: number): string | null {
    const run = this.steps.run[step];
    return run < 0 ? null : this.report.texts.get(this.runs.program[run]);
  }

  /** The number of the top-level run that a step is part of, from 1; `null` where there is none. */
  runNumber(step: number): number | null {
    const run = this.steps.run[step];
    return run < 0 ? null : this.runs.number[run];
  }

  /** `1x32x64 bf16` */
  typeText(type: number): string {
    return `${this.shapeText(type)} ${this.dtypeText(type)}`;
  }

  /** `bf16`, `float32`: without the name of the library that has it. */
  dtypeText(type: number): string {
    return this.report.texts.get(this.types.dtype[type]).replace(/^torch\./, "");
  }

  shapeText(type: number): string {
    return this.report.texts.get(this.types.shape[type]) || "scalar";
  }

  /** What people call a tensor, or its name in the program. */
  tensorName(tensor: number): string | null {
    return this.text(this.tensors.name[tensor]) ?? this.text(this.tensors.ssa[tensor]);
  }

  /** The same; what has no name was made in some part of the program. */
  tensorNameOrMaker(tensor: number): string | null {
    const madeIn = this.text(this.tensors.madeIn[tensor]);
    return this.tensorName(tensor) ?? (madeIn === null ? null : `in ${madeIn}`);
  }

  /** Whether there ever was a tensor in a pool. */
  hasTensorsIn(pool: number): boolean {
    this.poolsWithTensors ??= new Set(this.tensors.pool);
    return this.poolsWithTensors.has(pool);
  }

  /** The operation that made a tensor; `null` for what was there before. */
  makerName(tensor: number): string | null {
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

  /** The step that ends a tensor; `null` where none does. */
  diesStep(tensor: number): number | null {
    const dies = this.tensors.dies[tensor];
    return dies !== NEVER && dies % 2 === 0 && dies > 0 ? dies / 2 - 1 : null;
  }

  /** The step before which a tensor is gone that no step ended; `null` for others. */
  goneBeforeStep(tensor: number): number | null {
    const dies = this.tensors.dies[tensor];
    return dies !== NEVER && dies % 2 === 1 ? (dies - 1) / 2 : null;
  }

  /** The bytes of a tensor beyond its elements, on one device; NaN where they are not known. */
  padding(tensor: number): number {
    const type = this.tensors.type[tensor];
    return type < 0 ? Number.NaN : this.types.padded[type] - this.types.logical[type];
  }

  /** What is alive in a pool at a moment: born ≤ moment < dies. */
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

  /** All weights that the graphs declare, the largest first. */
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

  /** Which lines of the graphs belong to which operations; `null` where no text was printed. */
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
    /** The number of the top-level run that it is part of, from 1. */
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
    /** A shape near this one that needs less padding; -1 where there is nothing to save. */
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
    /** The step that made it; -1 for what was there before. */
    step: block.maybe("tensors.step"),
    name: block.maybe("tensors.name"),
    /** The module or operation of the program that it was made in. */
    madeIn: block.maybe("tensors.made_in"),
  };
}

/** Lists of different lengths, one after the other. */
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

/** Which lines of the graphs belong to which operations. */
export class IrLinks {
  /** Lines in which an operation begins that has a location, in order, with the location's text. */
  readonly locLine: Uint32Array;
  readonly loc: Uint32Array;
  /** Lines in which an operation begins that also ran, in order, with its number in `Rank.ops`. */
  readonly opLine: Uint32Array;
  readonly op: Uint32Array;
  /** The program that it ran in: other programs may hold the same operation, on lines of their own. */
  readonly opProgram: Uint32Array;

  constructor(block: Block) {
    this.locLine = block.numbers("loc_line");
    this.loc = block.numbers("loc");
    this.opLine = block.numbers("op_line");
    this.op = block.numbers("op");
    this.opProgram = block.numbers("op_program");
  }
}
