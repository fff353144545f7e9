// Similar tensors as one row, as in `ttmem summary`: a list of 27 tensors of one shape hides everything below it.

import { count } from "../format";
import { commonLocation, pattern } from "../groups";
import { sorted } from "../order";

/** The tensors of a table, by row number. Unknown numbers are NaN, and unknown texts are `null`. */
export interface Tensors {
  /** The number of tensors. Higher row numbers are groups. */
  readonly count: number;
  /** The name in the model, or the SSA name. */
  name(row: number): string | null;
  /** The part of the program that allocated a tensor. */
  part(row: number): string | null;
  /** That part with `*` in place of layer numbers. */
  layers(row: number): string | null;
  className(row: number): string;
  shape(row: number): string | null;
  dtype(row: number): string | null;
  perBank(row: number): number;
  op(row: number): string | null;
  loc(row: number): string | null;
  /** The step that allocated a tensor; NaN if it existed before the first step. */
  step(row: number): number;
  /** The step that freed a tensor. */
  freedBy(row: number): number | null;
  /** For a tensor that was freed between steps: the step after that. */
  goneBefore(row: number): number | null;
  /** A text that is the same for tensors of the same shape, dtype, class, size and origin. */
  key(row: number): string;
}

/** `step 40`, `steps 40 and 43`, or `steps 40–52` for more than two. */
export function stepRange(number: number, first: number, last: number): string {
  if (first === last) return `step ${count(first)}`;
  return `steps ${count(first)}${number === 2 ? " and " : "–"}${count(last)}`;
}

export class TensorGroups {
  /** The group of each tensor; -1 if it was not needed yet. */
  private readonly groups: Int32Array;
  private readonly numbers = new Map<string, number>();
  /** The shown tensors by group, and the index of each group's first one. */
  private members: Uint32Array = new Uint32Array();
  private starts: Uint32Array = new Uint32Array(1);

  constructor(readonly tensors: Tensors) {
    this.groups = new Int32Array(tensors.count).fill(-1);
  }

  /** Groups tensors; returns the rows of the groups and of single tensors, the largest first. */
  show(tensors: Uint32Array): Uint32Array {
    for (const tensor of tensors) if (this.groups[tensor] < 0) this.groups[tensor] = this.numberOf(tensor);
    this.starts = new Uint32Array(this.numbers.size + 1);
    for (const tensor of tensors) this.starts[this.groups[tensor] + 1]++;
    const rows = new Uint32Array(tensors.length);
    let rowCount = 0;
    const isListed = new Uint8Array(this.numbers.size);
    for (const tensor of tensors) {
      const group = this.groups[tensor];
      if (isListed[group]) continue;
      isListed[group] = 1;
      rows[rowCount++] = this.starts[group + 1] === 1 ? tensor : this.tensors.count + group;
    }
    for (let group = 0; group < this.numbers.size; group++) this.starts[group + 1] += this.starts[group];
    const next = this.starts.slice();
    this.members = new Uint32Array(tensors.length);
    for (const tensor of tensors) this.members[next[this.groups[tensor]]++] = tensor;
    return sorted(
      rows.subarray(0, rowCount),
      (row) => this.sum(row, (tensor) => this.tensors.perBank(tensor)),
      true,
    );
  }

  /** The row of a tensor's group; `null` if the tensor has its own row. */
  groupOf(tensor: number): number | null {
    const group = this.groups[tensor];
    if (group < 0 || !(this.starts[group + 1] - this.starts[group] > 1)) return null;
    return this.tensors.count + group;
  }

  /** The tensors of a group; `null` if the row is a tensor. */
  membersOf(row: number): Uint32Array | null {
    if (row < this.tensors.count) return null;
    const group = row - this.tensors.count;
    return this.members.subarray(this.starts[group], this.starts[group + 1]);
  }

  /** The number of tensors of a row. */
  size(row: number): number {
    return this.membersOf(row)?.length ?? 1;
  }

  /** The first tensor of a row, which has the values that all of them share. */
  first(row: number): number {
    return this.membersOf(row)?.[0] ?? row;
  }

  sum(row: number, of: (tensor: number) => number): number {
    const members = this.membersOf(row);
    if (!members) return of(row);
    let sum = 0;
    for (const tensor of members) sum += of(tensor);
    return sum;
  }

  /** The value that all tensors of a row share; `null` if they differ. */
  common(row: number, of: (tensor: number) => number): number | null {
    const value = of(this.first(row));
    return this.membersOf(row)?.some((tensor) => of(tensor) !== value) ? null : value;
  }

  /** The smallest and the largest value; `null` if one is unknown. */
  range(row: number, of: (tensor: number) => number | null): [first: number, last: number] | null {
    let range: [number, number] | null = null;
    for (const tensor of this.membersOf(row) ?? [row]) {
      const value = of(tensor);
      if (value === null || Number.isNaN(value)) return null;
      range = range ? [Math.min(range[0], value), Math.max(range[1], value)] : [value, value];
    }
    return range;
  }

  /** The name of a tensor, or what the names of a group have in common; `null` if that is nothing. */
  name(row: number): string | null {
    const { tensors } = this;
    const members = this.membersOf(row);
    const names = this.known(row, (tensor) => tensors.name(tensor));
    const name = names && pattern(names);
    if (name) return name;
    const first = this.first(row);
    const part = tensors.part(first);
    const isSame = !members?.some((tensor) => tensors.part(tensor) !== part);
    const shown = isSame ? part : tensors.layers(first);
    if (shown !== null) return `(in ${shown})`;
    const locations = this.known(row, (tensor) => tensors.loc(tensor));
    return locations && commonLocation(locations);
  }

  /** `cache`, `12 × layers.*.weight`, `27 tensors` */
  title(row: number): string {
    const [members, name] = [this.membersOf(row), this.name(row)];
    if (!members) return name ?? "unnamed";
    return name === null ? `${count(members.length)} tensors` : `${count(members.length)} × ${name}`;
  }

  /** The texts of some tensors and their groups, to size columns. `show` has to be called again after this. */
  texts(tensors: Uint32Array): { titles: string[]; steps: string[]; freed: string[] } {
    const rows = this.show(tensors);
    const groups = rows.filter((row) => row >= this.tensors.count);
    const of = (rows: Uint32Array, text: (row: number) => string) => [...new Set(Array.from(rows, text))];
    return {
      titles: of(groups, (row) => this.title(row)),
      steps: of(rows, (row) => this.steps(row) ?? ""),
      freed: of(rows, (row) => this.freedBy(row) ?? ""),
    };
  }

  /** `step 40`, `steps 40 and 43`, `steps 40–52`: the steps that allocated the tensors; `null` if one is unknown. */
  steps(row: number): string | null {
    const steps = this.range(row, (tensor) => this.tensors.step(tensor));
    return steps && stepRange(this.size(row), ...steps);
  }

  /** `step 102`, `never`, `3 of 12 never`; `null` if it is unknown. */
  freedBy(row: number): string | null {
    const { tensors } = this;
    const freed = this.range(row, (tensor) => tensors.freedBy(tensor));
    const members = this.membersOf(row) ?? Uint32Array.of(row);
    if (freed) return stepRange(members.length, ...freed);
    const gone = tensors.goneBefore(members[0]);
    if (members.length === 1 && gone !== null) return `before step ${count(gone)}`;
    const isKept = (tensor: number) =>
      tensors.freedBy(tensor) === null && tensors.goneBefore(tensor) === null;
    const kept = members.reduce((sum, tensor) => sum + Number(isKept(tensor)), 0);
    if (kept === members.length) return "never";
    return kept > 0 ? `${count(kept)} of ${count(members.length)} never` : null;
  }

  /** The texts of all tensors of a row; `null` if one is unknown. */
  private known(row: number, of: (tensor: number) => string | null): string[] | null {
    const texts: string[] = [];
    for (const tensor of this.membersOf(row) ?? [row]) {
      const text = of(tensor);
      if (text === null) return null;
      texts.push(text);
    }
    return texts;
  }

  private numberOf(tensor: number): number {
    const key = this.tensors.key(tensor);
    let number = this.numbers.get(key);
    if (number === undefined) {
      number = this.numbers.size;
      this.numbers.set(key, number);
    }
    return number;
  }
}
