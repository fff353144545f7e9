// The tensors of a rank, and those listed in a summary, as rows of a table.

import type { Rank } from "../data/report";
import type { LiveTensor } from "../generated/answers";
import { layerNames } from "../groups";
import type { Tensors } from "./groups";

export class RankTensors implements Tensors {
  readonly count: number;
  private layersOf: ((name: string) => string) | undefined;
  /** The names without layer numbers, by the text index of the part. */
  private readonly layerTexts = new Map<number, string>();

  constructor(readonly rank: Rank) {
    this.count = rank.tensors.born.length;
  }

  name(row: number): string | null {
    return this.rank.tensorName(row);
  }

  part(row: number): string | null {
    return this.rank.madeIn(row);
  }

  layers(row: number): string | null {
    const id = this.rank.tensors.madeIn[row];
    if (id < 0) return null;
    let text = this.layerTexts.get(id);
    if (text === undefined) {
      const { report, tensors } = this.rank;
      const parts = () => [...new Set(tensors.madeIn)].filter((part) => part >= 0);
      this.layersOf ??= layerNames(parts().map((part) => report.texts.get(part)));
      text = this.layersOf(report.texts.get(id));
      this.layerTexts.set(id, text);
    }
    return text;
  }

  className(row: number): string {
    return this.rank.classes[this.rank.tensors.class[row]];
  }

  type(row: number): number {
    return this.rank.tensors.type[row];
  }

  shape(row: number): string | null {
    return this.type(row) < 0 ? null : this.rank.shapeText(this.type(row));
  }

  dtype(row: number): string | null {
    return this.type(row) < 0 ? null : this.rank.dtypeText(this.type(row));
  }

  perBank(row: number): number {
    return this.rank.tensors.perBank[row];
  }

  op(row: number): string | null {
    return this.rank.allocatedBy(row);
  }

  loc(row: number): string | null {
    const step = this.rank.tensors.step[row];
    return step < 0 ? null : this.rank.opLoc(step);
  }

  step(row: number): number {
    const step = this.rank.tensors.step[row];
    return step < 0 ? Number.NaN : step;
  }

  freedBy(row: number): number | null {
    return this.rank.diesStep(row);
  }

  goneBefore(row: number): number | null {
    return this.rank.goneBeforeStep(row);
  }

  key(row: number): string {
    const { tensors, types, ops, steps } = this.rank;
    const type = tensors.type[row];
    const step = tensors.step[row];
    // The same type of two graphs has two numbers, so types are compared by their content.
    const shape = type < 0 ? "" : `${types.shape[type]},${types.dtype[type]}`;
    const op = step < 0 ? "" : ops.name[steps.op[step]];
    return `${shape};${tensors.class[row]};${tensors.perBank[row]};${op};${this.layers(row) ?? ""}`;
  }
}

export class ListedTensors implements Tensors {
  readonly count: number;
  private readonly layersOf: (name: string) => string;

  constructor(private readonly list: LiveTensor[]) {
    this.count = list.length;
    this.layersOf = layerNames(list.flatMap(({ made_in: part }) => part ?? []));
  }

  name(row: number): string | null {
    return this.list[row].name;
  }

  part(row: number): string | null {
    return this.list[row].made_in ?? null;
  }

  layers(row: number): string | null {
    const part = this.part(row);
    return part === null ? null : this.layersOf(part);
  }

  className(row: number): string {
    return this.list[row].class;
  }

  shape(row: number): string | null {
    const { shape } = this.list[row];
    return shape && (shape.join("x") || "scalar");
  }

  dtype(row: number): string | null {
    return this.list[row].dtype?.replace(/^torch\./, "") ?? null;
  }

  perBank(row: number): number {
    return this.list[row].per_bank ?? Number.NaN;
  }

  op(row: number): string | null {
    return this.list[row].op;
  }

  loc(row: number): string | null {
    return this.list[row].loc;
  }

  step(row: number): number {
    return this.list[row].born_step ?? Number.NaN;
  }

  freedBy(row: number): number | null {
    return this.list[row].dies_step;
  }

  goneBefore(row: number): number | null {
    return this.list[row].gone_before_step;
  }

  key(row: number): string {
    const { shape, dtype, class: kind, per_bank: bytes, op, born_step: step } = this.list[row];
    return JSON.stringify([shape, dtype, kind, bytes, op, this.layers(row), step === null]);
  }
}
