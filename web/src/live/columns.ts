// The columns of tables with tensors and groups of tensors.

import { h } from "../dom";
import { count, sizeElement, UNKNOWN } from "../format";
import { stepLink } from "../moment";
import type { Store } from "../state";
import type { Column } from "../table";
import { longestOf } from "../text-width";
import type { TensorGroups } from "./groups";

/** The cells of tensors that no operation allocated. */
const EXISTED = "before the first step";
const ARGUMENTS: Record<string, string> = {
  weight: "argument (weight)",
  input: "argument (input)",
  argument: "argument",
};

/** The number of names in a tooltip. */
const MAX_NAMES = 20;

/** The texts and numbers that determine the widths of columns. */
export interface TensorTexts {
  /** The heading of the sizes. */
  heading: string;
  /** The names of tensors and groups. */
  names: readonly string[];
  shapes: readonly string[];
  ops: readonly string[];
  /** The steps that allocated and freed them. */
  steps: readonly string[];
  freed: readonly string[];
  /** The number of steps. */
  end: number;
}

/** The columns that every list of tensors has. */
export function tensorColumns(store: Store, groups: TensorGroups, texts: TensorTexts): Column[] {
  const { tensors } = groups;
  const perBank = (row: number) => groups.sum(row, (tensor) => tensors.perBank(tensor));
  const firstStep = (row: number) => groups.range(row, (tensor) => tensors.step(tensor))?.[0] ?? Number.NaN;
  const shape = (row: number) => tensors.shape(groups.first(row)) ?? "";
  const dtype = (row: number) => tensors.dtype(groups.first(row)) ?? "";
  const op = (row: number) => tensors.op(groups.first(row)) ?? "";
  const kind = (row: number) => tensors.className(groups.first(row));
  return [
    {
      key: "name",
      title: "Name",
      fit: { longest: longestOf(texts.names), min: 230 },
      cell: (row) => nameCell(groups, row),
      sort: (row) => groups.name(row),
      csv: (row) => tensors.name(row),
    },
    {
      key: "class",
      title: "Class",
      width: "104px",
      narrow: 3,
      cell: (row) => classCell(kind(row)),
      sort: (row) => (kind(row) === "unknown" ? "" : kind(row)),
      csv: kind,
    },
    {
      key: "shape",
      title: "Shape",
      fit: { longest: longestOf(texts.shapes), min: 320, max: 480 },
      cell: (row) => shape(row) || UNKNOWN,
      sort: shape,
    },
    {
      key: "dtype",
      title: "Dtype",
      width: "72px",
      narrow: 1,
      cell: dtype,
      sort: dtype,
    },
    {
      key: "per_bank",
      title: texts.heading,
      number: true,
      width: "96px",
      cell: (row) => sizeElement(perBank(row)),
      sort: perBank,
    },
    {
      key: "op",
      title: "Allocated by",
      // Some tensors have other texts instead.
      fit: { longest: longestOf([...Object.values(ARGUMENTS), EXISTED, ...texts.ops]), min: 140 },
      cell: (row) => operationCell(store, groups, row),
      sort: op,
      has: () => true,
    },
    {
      key: "born_step",
      title: "At step",
      number: true,
      fit: { longest: withoutWord(longestSteps(texts.steps, texts.end)), min: 150, max: 150 },
      narrow: 4,
      cell: (row) => stepCell(store, groups, row),
      sort: firstStep,
      csv: (row) => (Number.isNaN(firstStep(row)) ? null : firstStep(row)),
    },
    {
      key: "dies_step",
      title: "Freed by",
      number: true,
      fit: { longest: longestSteps(texts.freed, texts.end), min: 200, max: 200 },
      narrow: 2,
      cell: (row) => freedCell(store, groups, row),
      sort: (row) => freedAt(groups, row),
      has: () => true,
      csv: (row) => tensors.freedBy(row),
    },
  ];
}

function nameCell(groups: TensorGroups, row: number): HTMLElement {
  const { tensors } = groups;
  const title = groups.title(row);
  const names = Array.from(groups.membersOf(row)?.subarray(0, MAX_NAMES) ?? [], (tensor) =>
    tensors.name(tensor),
  ).filter((name) => name !== null);
  const list = names.length > 0 ? `\n${names.join(", ")}` : "";
  return h("span", { title: `${title}${list}`.slice(0, 2000) }, title.slice(0, 300));
}

function classCell(name: string): HTMLElement {
  return h("span", {}, h("span", { class: "swatch", style: `--tile: var(--class-${name})` }), name);
}

function operationCell(store: Store, groups: TensorGroups, row: number): HTMLElement | string {
  const { tensors } = groups;
  const first = groups.first(row);
  const steps = groups.range(row, (tensor) => tensors.step(tensor));
  const op = tensors.op(first);
  if (!steps) {
    const kind = tensors.className(first);
    // The operation is in a part of the log that is not in the file.
    if (op !== null) return `${op}, earlier`;
    return ARGUMENTS[kind] ?? EXISTED;
  }
  const text = groups.steps(row) ?? "";
  const cell = stepLink(store, steps[0], op ?? text);
  const loc = tensors.loc(first) ?? "unknown location";
  cell.title = `${op ?? "unknown operation"}, ${text}\n${loc.slice(0, 2000)}`;
  return cell;
}

/** The longest text of a column of steps. If there are groups, any two steps may be a group. */
function longestSteps(texts: readonly string[], end: number): string {
  const last = count(Math.max(0, end - 1));
  const hasGroups = texts.some((text) => text.startsWith("steps "));
  return longestOf(hasGroups ? [...texts, `steps ${last} and ${last}`] : texts);
}

/** `40–52`, for a column of steps. */
const withoutWord = (steps: string): string => steps.replace(/^steps? /, "");

function stepCell(store: Store, groups: TensorGroups, row: number): HTMLElement | string {
  const steps = groups.range(row, (tensor) => groups.tensors.step(tensor));
  return steps ? stepLink(store, steps[0], withoutWord(groups.steps(row) ?? "")) : "–";
}

function freedCell(store: Store, groups: TensorGroups, row: number): HTMLElement | string {
  const text = groups.freedBy(row);
  const freed = groups.range(row, (tensor) => groups.tensors.freedBy(tensor));
  return freed && text !== null ? stepLink(store, freed[0], text) : (text ?? "–");
}

/** When the first tensor of a row is freed; infinite if none is. */
function freedAt(groups: TensorGroups, row: number): number {
  const { tensors } = groups;
  let first = Number.POSITIVE_INFINITY;
  for (const tensor of groups.membersOf(row) ?? [row]) {
    // A tensor that is freed between steps is gone right before the step.
    const gone = tensors.goneBefore(tensor);
    const at = tensors.freedBy(tensor) ?? (gone === null ? Number.POSITIVE_INFINITY : gone - 0.5);
    first = Math.min(first, at);
  }
  return first;
}
