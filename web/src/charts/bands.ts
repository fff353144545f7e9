// Computes tensor bands: which tensors are drawn individually, the sums of the others, and the position of each band.
// Nothing is drawn here.

import type { Curve } from "../data/report";
import { highestMoment, xOf } from "./resample";

/** A time range in columns of one pixel, each showing one moment. */
export interface Columns {
  from: number;
  to: number;
  /** For each column the moment with the highest allocation, in order. */
  moments: Uint32Array;
  /** The bytes allocated at these moments; NaN if unknown. */
  held: Float64Array;
}

export function sampleColumns(held: Curve, from: number, to: number, count: number): Columns {
  const moments = new Uint32Array(count);
  const values = new Float64Array(count);
  const step = (to - from) / count;
  for (let column = 0; column < count; column++) {
    moments[column] = highestMoment(held, from + column * step, from + (column + 1) * step);
    values[column] = held.valueAt(moments[column]);
  }
  return { from, to, moments, held: values };
}

/** The first column that shows `moment` or a later one. */
export function columnFrom(columns: Columns, moment: number): number {
  const { from, to, moments } = columns;
  const guess = Math.floor(((xOf(moment) - from) / (to - from)) * moments.length);
  let column = Math.min(Math.max(0, guess), moments.length);
  // The guess is the column that contains the moment; the column may show an earlier one.
  while (column > 0 && moments[column - 1] >= moment) column--;
  while (column < moments.length && moments[column] < moment) column++;
  return column;
}

/** The columns of `Rank.tensors` used here. */
export interface TensorColumns {
  pool: Uint32Array;
  perBank: Float64Array;
  born: Uint32Array;
  dies: Uint32Array;
  class: Uint32Array;
}

/** A tensor in the columns `first..end` (end excluded). */
export interface Band {
  tensor: number;
  first: number;
  end: number;
  bytes: number;
  /** The band's lower edge in each of its columns. */
  base: Float64Array;
}

/** The small tensors of a class. */
export interface SmallOnes {
  class: number;
  base: Float64Array;
  bytes: Float64Array;
  tensors: Int32Array;
}

export interface Stack {
  columns: Columns;
  small: SmallOnes[];
  bands: Band[];
  /** The sum of all tensors in each column. */
  top: Float64Array;
  /** The number of tensors in each column, small ones included. */
  tensors: Int32Array;
}

export interface Selection {
  pool: number;
  /** For each class whether its small tensors come and go; those are stacked on top, so that the others don't move. */
  restless: boolean[];
  /** The number of individual bands chosen by area (bytes times columns). */
  maxByArea: number;
  /** The number of further individual bands chosen by size, however short-lived. */
  maxBySize: number;
  /** Tensors smaller than this never get their own band. */
  minBytes: number;
  /** Whether tensors that are live in all columns get no band, to focus on changes. */
  onlyChanging: boolean;
}

type Life = Omit<Band, "base">;

/** Stacks the tensors of a pool: small ones summed by class, then the individual bands, oldest at the bottom. */
export function stackTensors(tensors: TensorColumns, columns: Columns, selection: Selection): Stack {
  const width = columns.moments.length;
  const small = Array.from(selection.restless, (_, index) => ({
    class: index,
    base: new Float64Array(width),
    bytes: new Float64Array(width + 1),
    tensors: new Int32Array(width + 1),
  }));
  const wide = new Largest(selection.maxByArea);
  const high = new Largest(selection.maxBySize);
  const [start, stop] = [columns.moments[0], columns.moments[width - 1]];
  for (let tensor = 0; tensor < tensors.born.length; tensor++) {
    const bytes = tensors.perBank[tensor];
    // Most tensors of a long run are outside the visible range, so this check comes first.
    if (tensors.born[tensor] > stop || tensors.dies[tensor] <= start) continue;
    if (tensors.pool[tensor] !== selection.pool || !(bytes > 0)) continue;
    const first = columnFrom(columns, tensors.born[tensor]);
    const end = columnFrom(columns, tensors.dies[tensor]);
    if (end <= first) continue;
    addTo(small[tensors.class[tensor]], first, end, bytes, 1);
    const isSteady = first === 0 && end === width;
    if (bytes < selection.minBytes || (selection.onlyChanging && isSteady)) continue;
    const area = bytes * (end - first);
    if (wide.takes(area)) wide.add({ tensor, first, end, bytes }, area);
    if (high.takes(bytes)) high.add({ tensor, first, end, bytes }, bytes);
  }
  const lives = [...new Map([...wide.all(), ...high.all()].map((life) => [life.tensor, life])).values()];
  for (const { tensor, first, end, bytes } of lives)
    addTo(small[tensors.class[tensor]], first, end, bytes, -1);
  const { born, dies } = tensors;
  const byAge = (a: Life, b: Life) =>
    born[a.tensor] - born[b.tensor] || dies[b.tensor] - dies[a.tensor] || a.tensor - b.tensor;
  const used = small.filter((sums) => sums.tensors.some((change) => change !== 0));
  const isRestless = (sums: SmallOnes) => selection.restless[sums.class];
  return pile(
    columns,
    used.filter((sums) => !isRestless(sums)),
    lives.sort(byAge),
    used.filter(isRestless),
  );
}

/** Adds a tensor to the differences where it begins and subtracts it where it ends. */
function addTo(sums: SmallOnes, first: number, end: number, bytes: number, sign: 1 | -1): void {
  sums.bytes[first] += sign * bytes;
  sums.bytes[end] -= sign * bytes;
  sums.tensors[first] += sign;
  sums.tensors[end] -= sign;
}

function pile(columns: Columns, lower: SmallOnes[], lives: Life[], upper: SmallOnes[]): Stack {
  const width = columns.moments.length;
  const top = new Float64Array(width);
  const tensors = new Int32Array(width);
  const lay = (sums: SmallOnes) => {
    for (let column = 0; column < width; column++) {
      if (column > 0) {
        sums.bytes[column] += sums.bytes[column - 1];
        sums.tensors[column] += sums.tensors[column - 1];
      }
      sums.base[column] = top[column];
      top[column] += sums.bytes[column];
      tensors[column] += sums.tensors[column];
    }
  };
  lower.forEach(lay);
  const bands = lives.map((life) => {
    const base = top.slice(life.first, life.end);
    for (let column = life.first; column < life.end; column++) {
      top[column] += life.bytes;
      tensors[column] += 1;
    }
    return { ...life, base };
  });
  upper.forEach(lay);
  return { columns, small: [...lower, ...upper], bands, top, tensors };
}

/** Keeps the tensors with the highest scores. */
class Largest {
  private found: { life: Life; score: number }[] = [];
  private threshold = 0;

  constructor(private readonly max: number) {}

  /** Whether a tensor with this score may be kept. */
  takes(score: number): boolean {
    return score > this.threshold;
  }

  add(life: Life, score: number): void {
    this.found.push({ life, score });
    // Sorting occasionally is cheaper than keeping the list sorted.
    if (this.found.length >= this.max * 8) this.prune();
  }

  all(): Life[] {
    this.prune();
    return this.found.map(({ life }) => life);
  }

  private prune(): void {
    this.found.sort((a, b) => b.score - a.score || a.life.tensor - b.life.tensor);
    this.found.length = Math.min(this.found.length, this.max);
    if (this.found.length === this.max) this.threshold = this.found[this.max - 1].score;
  }
}

/** The object under the cursor: a tensor, the small tensors of a class, or unexplained bytes. */
export type Hit =
  | { kind: "tensor"; band: Band }
  | { kind: "small"; sums: SmallOnes }
  | { kind: "unexplained"; bytes: number }
  | null;

export function hitAt(stack: Stack, column: number, bytes: number): Hit {
  const { held } = stack.columns;
  if (column < 0 || column >= held.length || bytes < 0) return null;
  for (const band of stack.bands) {
    if (column < band.first || column >= band.end) continue;
    const base = band.base[column - band.first];
    if (bytes >= base && bytes < base + band.bytes) return { kind: "tensor", band };
  }
  for (const sums of stack.small) {
    const base = sums.base[column];
    if (bytes >= base && bytes < base + sums.bytes[column]) return { kind: "small", sums };
  }
  const rest = held[column] - stack.top[column];
  return bytes >= stack.top[column] && bytes < held[column] ? { kind: "unexplained", bytes: rest } : null;
}
