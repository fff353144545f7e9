// What the page knows: the summary, and every rank as columns.
//
// Everything here selects, sorts or adds up columns that `query` answered; no rule of a format is known here.
//
// Time is counted in moments, as in the core: position i (before step i) has an early side, 2i, right after the step
// before it, and a late side, 2i + 1, right before its step. `summary --at i` describes the late side.

import { type Block, unpack } from "./block";
import { Lines } from "./lines";
import type { RankSummary, Summary } from "./summary";

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

interface HeadMeta {
  name: string;
  generator: string;
  summary: Summary;
  /** For each rank, what its fatal error means in sentences. */
  verdicts: ({ verdict: string; advice: string } | null)[];
}

interface RankMeta {
  steps: number;
  has_tensors: boolean;
  classes: string[];
  pools: { name: string; banks: number | null; quantum: number; peak_moment: number | null }[];
  /** The compiled graphs, with the lines of `ir` that their texts are. */
  modules: { name: string | null; stages: { stage: string; first: number; lines: number }[] }[];
}

export class Report {
  readonly name: string;
  readonly generator: string;
  readonly summary: Summary;
  private readonly verdicts: HeadMeta["verdicts"];
  private readonly loaded = new Map<number, Promise<Rank>>();
  private irLines: Promise<Lines | null> | undefined;

  private constructor(
    head: Block<HeadMeta>,
    readonly texts: Lines,
  ) {
    this.name = head.meta.name;
    this.generator = head.meta.generator;
    this.summary = head.meta.summary;
    this.verdicts = head.meta.verdicts;
  }

  /** Unpacks what every view needs. */
  static async open(): Promise<Report> {
    const [head, texts] = await Promise.all([unpack<HeadMeta>("head"), unpack("texts")]);
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
      rank = unpack<RankMeta>(`rank-${index}`).then((block) => {
        if (!block) throw new Error(`there is no rank ${index} in this page`);
        return new Rank(this, index, block, this.verdicts[index] ?? null);
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
  readonly banks: number | null;
  /** The step in which the evidence rounds; 0 where it does not. */
  readonly quantum: number;
  /** When the peak was first reached. */
  readonly peakMoment: number | null;
  /** What a bank holds: as measured, or rebuilt where the evidence is silent. */
  readonly held: Curve;
  /** As printed; they hold at observed moments only. */
  readonly free: Curve;
  readonly largestFree: Curve;
  readonly capacity: Curve;
  /** The moments at which the pool was looked at. */
  readonly observed: Uint32Array;
  private effects: Float64Array | undefined;

  constructor(
    private readonly block: Block<RankMeta>,
    readonly index: number,
  ) {
    const meta = block.meta.pools[index];
    this.name = meta.name;
    this.banks = meta.banks;
    this.quantum = meta.quantum;
    this.peakMoment = meta.peak_moment;
    const curve = (name: string) =>
      new Curve(block.numbers(`pool.${index}.${name}_at`), block.sizes(`pool.${index}.${name}`));
    this.held = curve("held");
    this.free = curve("free");
    this.largestFree = curve("largest_free");
    this.capacity = curve("capacity");
    this.observed = block.numbers(`pool.${index}.observed`);
  }

  /** What each step changed in a bank; NaN where nothing tells. */
  get effect(): Float64Array {
    this.effects ??= this.block.signed(`pool.${this.index}.effect`);
    return this.effects;
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
    return !rank.runs.first.some((first, run) => first === position && rank.runs.parent[run] < 0);
  }

  /** The unexplained bytes at a moment, by who left them behind, the largest first. */
  residueAt(rank: Rank, moment: number): { who: string; perBank: number; steps: number[] }[] {
    const name = `pool.${this.index}.residue`;
    const [at, change, step, who] = [
      this.block.numbers(`${name}_at`),
      this.block.signed(name),
      this.block.maybe(`${name}_step`),
      this.block.numbers(`${name}_who`),
    ];
    const rows = new Map<string, { who: string; perBank: number; steps: number[] }>();
    for (let row = 0; row < at.length && at[row] <= moment; row++) {
      const label = step[row] >= 0 ? rank.opName(step[row]) : rank.report.texts.get(who[row]);
      const found = rows.get(label) ?? { who: label, perBank: 0, steps: [] };
      found.perBank += change[row];
      if (step[row] >= 0) found.steps.push(step[row]);
      rows.set(label, found);
    }
    return [...rows.values()].sort((a, b) => Math.abs(b.perBank) - Math.abs(a.perBank));
  }
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
  readonly modules: RankMeta["modules"];
  readonly steps: { op: Uint32Array; run: Int32Array; marks: Uint32Array };
  /** Distinct operations: name and location are texts; the types of all are in one list, `first` says where. */
  readonly ops: {
    name: Uint32Array;
    loc: Int32Array;
    kind: Uint32Array;
    resultTypes: Lists;
    operandTypes: Lists;
  };
  readonly runs: {
    program: Uint32Array;
    parent: Int32Array;
    module: Int32Array;
    /** The number of the top-level run that it is part of, from 1. */
    number: Uint32Array;
    constEval: Uint32Array;
    first: Uint32Array;
    end: Uint32Array;
    finished: Uint32Array;
  };
  readonly types: {
    shape: Uint32Array;
    dtype: Uint32Array;
    paddedShape: Int32Array;
    /** A shape near this one that needs no padding; -1 where there is nothing to save. */
    friendly: Int32Array;
    layout: Int32Array;
    logical: Float64Array;
    padded: Float64Array;
  };
  readonly tensors: {
    type: Int32Array;
    pool: Uint32Array;
    perBank: Float64Array;
    born: Uint32Array;
    dies: Uint32Array;
    class: Uint32Array;
    run: Int32Array;
    ssa: Int32Array;
    /** The step that made it; -1 for what was there before. */
    step: Int32Array;
    name: Int32Array;
  };
  private aliases: Map<number, string[]> | undefined;
  private lines: Promise<IrLinks | null> | undefined;

  constructor(
    readonly report: Report,
    readonly index: number,
    private readonly block: Block<RankMeta>,
    /** What the error that ended the program means. */
    readonly verdict: { verdict: string; advice: string } | null,
  ) {
    const { numbers, maybe, sizes } = {
      numbers: (name: string) => block.numbers(name),
      maybe: (name: string) => block.maybe(name),
      sizes: (name: string) => block.sizes(name),
    };
    this.summary = report.summary.ranks[index];
    this.label = this.summary.rank;
    this.end = block.meta.steps;
    this.hasTensors = block.meta.has_tensors;
    this.classes = block.meta.classes;
    this.modules = block.meta.modules;
    this.pools = block.meta.pools.map((_, pool) => new Pool(block, pool));
    this.steps = { op: numbers("steps.op"), run: maybe("steps.run"), marks: numbers("steps.marks") };
    this.ops = {
      name: numbers("ops.name"),
      loc: maybe("ops.loc"),
      kind: numbers("ops.kind"),
      resultTypes: new Lists(numbers("ops.results"), maybe("ops.result_types")),
      operandTypes: new Lists(numbers("ops.operands"), maybe("ops.operand_types")),
    };
    this.runs = {
      program: numbers("runs.program"),
      parent: maybe("runs.parent"),
      module: maybe("runs.module"),
      number: numbers("runs.number"),
      constEval: numbers("runs.const_eval"),
      first: numbers("runs.first"),
      end: numbers("runs.end"),
      finished: numbers("runs.finished"),
    };
    this.types = {
      shape: numbers("types.shape"),
      dtype: numbers("types.dtype"),
      paddedShape: maybe("types.padded_shape"),
      friendly: maybe("types.friendly"),
      layout: maybe("types.layout"),
      logical: sizes("types.logical"),
      padded: sizes("types.padded"),
    };
    const [born, life] = [numbers("tensors.born"), numbers("tensors.life")];
    this.tensors = {
      type: maybe("tensors.type"),
      pool: numbers("tensors.pool"),
      perBank: sizes("tensors.per_bank"),
      born,
      dies: born.map((at, tensor) => (life[tensor] === 0 ? NEVER : at + life[tensor] - 1)),
      class: numbers("tensors.class"),
      run: maybe("tensors.run"),
      ssa: maybe("tensors.ssa"),
      step: maybe("tensors.step"),
      name: maybe("tensors.name"),
    };
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
    return `${this.shapeText(type)} ${this.report.texts.get(this.types.dtype[type])}`;
  }

  shapeText(type: number): string {
    return this.report.texts.get(this.types.shape[type]) || "scalar";
  }

  /** What people call a tensor, or its name in the program. */
  tensorName(tensor: number): string | null {
    return this.text(this.tensors.name[tensor]) ?? this.text(this.tensors.ssa[tensor]);
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

  constructor(block: Block) {
    this.locLine = block.numbers("loc_line");
    this.loc = block.numbers("loc");
    this.opLine = block.numbers("op_line");
    this.op = block.numbers("op");
  }
}
