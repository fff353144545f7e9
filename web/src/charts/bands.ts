// Tensors as bands: which of them are drawn singly in a window, what the others add up to, and where each band lies.
// Nothing here draws.

import type { Curve } from "../data/report";
import { highestMoment, xOf } from "./resample";

/** A window cut into columns a pixel wide, each with the moment that it shows. */
export interface Columns {
  from: number;
  to: number;
  /** In order; in each column the moment at which most is allocated. */
  moments: Uint32Array;
  /** What is allocated at these moments; NaN where that is not known. */
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

/** The first column that shows a moment or a later one. */
export function columnFrom(columns: Columns, moment: number): number {
  const { from, to, moments } = columns;
  const guess = Math.floor(((xOf(moment) - from) / (to - from)) * moments.length);
  let column = Math.min(Math.max(0, guess), moments.length);
  // The guess is the column that the moment lies in; its own moment may be an earlier one.
  while (column > 0 && moments[column - 1] >= moment) column--;
  while (column < moments.length && moments[column] < moment) column++;
  return column;
}

/** The columns of `Rank.tensors` that matter here. */
export interface TensorColumns {
  pool: Uint32Array;
  perBank: Float64Array;
  born: Uint32Array;
  dies: Uint32Array;
  class: Uint32Array;
}

/** A tensor in the columns from `first` up to, not including, `end`. */
export interface Band {
  tensor: number;
  first: number;
  end: number;
  bytes: number;
  /** Where it begins above the ground, for each of its columns. */
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
  /** What all of them add up to in each column. */
  top: Float64Array;
  /** How many tensors each column has, small ones included. */
  tensors: Int32Array;
}

export interface Selection {
  pool: number;
  /** For each class whether its small tensors come and go: they lie above the others, which stay where they are. */
  restless: boolean[];
  /** So many are drawn singly because they take most of the picture: bytes times columns. */
  most: number;
  /** And so many more because they are the largest, however short they live. */
  largest: number;
  /** Smaller ones than this are not. */
  least: number;
  /** Nor are those that are there all the time: what comes and goes is looked at. */
  onlyChanging: boolean;
}

type Life = Omit<Band, "base">;

/** Stacks the tensors of a pool: the small ones by class, the others above, the oldest lowest. */
export function stackTensors(tensors: TensorColumns, columns: Columns, selection: Selection): Stack {
  const width = columns.moments.length;
  const small = Array.from(selection.restless, (_, index) => ({
    class: index,
    base: new Float64Array(width),
    bytes: new Float64Array(width + 1),
    tensors: new Int32Array(width + 1),
  }));
  const wide = new Largest(selection.most);
  const high = new Largest(selection.largest);
  const [start, stop] = [columns.moments[0], columns.moments[width - 1]];
  for (let tensor = 0; tensor < tensors.born.length; tensor++) {
    const bytes = tensors.perBank[tensor];
    // Most tensors of a long run are out of view: they must cost next to nothing.
    if (tensors.born[tensor] > stop || tensors.dies[tensor] <= start) continue;
    if (tensors.pool[tensor] !== selection.pool || !(bytes > 0)) continue;
    const first = columnFrom(columns, tensors.born[tensor]);
    const end = columnFrom(columns, tensors.dies[tensor]);
    if (end <= first) continue;
    addTo(small[tensors.class[tensor]], first, end, bytes, 1);
    const isSteady = first === 0 && end === width;
    if (bytes < selection.least || (selection.onlyChanging && isSteady)) continue;
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

/** Adds a tensor to the sums where it begins and takes it away where it ends. */
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
  private least = 0;

  constructor(private readonly most: number) {}

  /** Whether a tensor with that score may be among them. */
  takes(score: number): boolean {
    return score > this.least;
  }

  add(life: Life, score: number): void {
    this.found.push({ life, score });
    // Sorting now and then is cheaper than keeping order all the time.
    if (this.found.length >= this.most * 8) this.prune();
  }

  all(): Life[] {
    this.prune();
    return this.found.map(({ life }) => life);
  }

  private prune(): void {
    this.found.sort((a, b) => b.score - a.score || a.life.tensor - b.life.tensor);
    this.found.length = Math.min(this.found.length, this.most);
    if (this.found.length === this.most) this.least = this.found[this.most - 1].score;
  }
}

/** What is drawn at a place: a tensor, small ones of a class, or bytes that no tensor explains. */
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
