// The columns of the operation table. Columns without any data in the input are omitted.

import { bankWords } from "../banks";
import type { Rank } from "../data/report";
import { h } from "../dom";
import { changeElement, count, sizeElement } from "../format";
import { jumpTo } from "../jump";
import type { Store } from "../state";
import type { Column } from "../table";
import { heldBefore, marksOf, OperationTexts } from "./facts";

export function operationColumns(store: Store, rank: Rank): Column[] {
  return [...identity(rank), ...memory(store, rank), links(store, rank)];
}

/** The columns that identify an operation. */
function identity(rank: Rank): Column[] {
  const { ops, steps } = rank;
  const texts = new OperationTexts(rank);
  type Width = Pick<Column, "width" | "fit">;
  const text = (
    key: string,
    title: string,
    width: Width,
    of: (step: number) => string,
    narrow?: number,
  ): Column => ({
    key,
    title,
    ...width,
    ...(narrow === undefined ? {} : { narrow }),
    cell: of,
    sort: of,
  });
  const fitted = (of: Parameters<OperationTexts["lengths"]>[0], min: number, max?: number): Width => ({
    fit: { ...texts.lengths(of), min, ...(max === undefined ? {} : { max }) },
  });
  const has = (types: { get(op: number): Int32Array }) => ops.name.some((_, op) => types.get(op).length > 0);
  const columns: (Column | false)[] = [
    {
      key: "step",
      title: "Step",
      number: true,
      fit: { longest: count(rank.end), min: 84, max: 84 },
      cell: (step) => count(step),
      sort: (step) => step,
    },
    text("operation", "Operation", fitted("name", 130), (step) => texts.name(step)),
    ops.loc.some((loc) => loc >= 0) &&
      text("location", "Location", fitted("loc", 150), (step) => texts.loc(step), 3),
    has(ops.resultTypes) &&
      text("results", "Result", fitted("results", 200, 240), (step) => texts.resultTypes(step), 2),
    has(ops.operandTypes) &&
      text("operands", "Operands", fitted("operands", 240, 320), (step) => texts.operandShapes(step), 7),
    rank.runs.program.length > 0 &&
      text("program", "Program", fitted("program", 84), (step) => rank.program(step) ?? "", 5),
    rank.runs.program.length > 0 && {
      key: "run",
      title: "Run",
      number: true,
      width: "62px",
      narrow: 6,
      cell: (step) => String(rank.runNumber(step) ?? ""),
      sort: (step) => rank.runNumber(step),
    },
    steps.marks.some((marks) => marks > 0) && {
      key: "marks",
      title: "Marks",
      width: "minmax(84px, 1.2fr)",
      narrow: 4,
      cell: (step) => badges(steps.marks[step]),
      sort: (step) => wordsOf(steps.marks[step]),
    },
  ];
  return columns.filter((column) => column !== false);
}

/** The columns about the operation's effect on the selected pool. */
function memory(store: Store, rank: Rank): Column[] {
  const pool = () => rank.pools[store.state.pool] ?? rank.pools[0];
  // The headings are the same for all pools: they mention banks if any pool has some.
  const isWhole = rank.pools.every(({ extent }) => extent === "device");
  const { perBank } = bankWords(isWhole ? "device" : "bank");
  const isKnown = (value: number) => !Number.isNaN(value);
  const columns: (Column | false)[] = [
    rank.pools.some(({ effect }) => effect.some(isKnown)) && {
      key: "change_per_bank",
      title: "Change",
      help: `Net change by the operation${perBank}`,
      number: true,
      width: "100px",
      cell: (step) => changeCell(pool().effect[step]),
      sort: (step) => pool().effect[step],
    },
    rank.pools.some((pool) => heldBefore(rank, pool).some(isKnown)) && {
      key: "allocated_before_per_bank",
      title: "Before",
      help: `Memory allocated right before the operation${perBank}`,
      number: true,
      narrow: 1,
      width: "96px",
      cell: (step) => sizeElement(heldBefore(rank, pool())[step]),
      sort: (step) => heldBefore(rank, pool())[step],
    },
  ];
  return columns.filter((column) => column !== false);
}

/** The links to the step in other sections. */
function links(store: Store, rank: Rank): Column {
  // Without graphs or locations of steps, no step has a line.
  const hasLines = rank.ops.loc.some((loc) => loc >= 0) || rank.runs.module.some((module) => module >= 0);
  const hasTexts = hasLines && rank.modules.some((module) => module.stages.length > 0);
  const link = (target: "memory" | "ir", word: string, step: number, label: string) =>
    h(
      "button",
      {
        type: "button",
        "aria-label": label,
        title: label,
        onclick: () => {
          store.pin(step);
          jumpTo(target, step);
        },
      },
      word,
    );
  return {
    key: "links",
    title: "Show in",
    width: hasTexts ? "100px" : "76px",
    cell: (step) =>
      h(
        "span",
        { class: "operation-links" },
        link("memory", "chart", step, `Show step ${count(step)} in the chart`),
        hasTexts && link("ir", "IR", step, `IR: show step ${count(step)} in its graph`),
      ),
  };
}

/** A change with its sign; the color only repeats it. */
function changeCell(bytes: number): HTMLElement {
  const element = changeElement(bytes);
  if (bytes > 0) element.classList.add("change-up");
  else if (bytes < 0) element.classList.add("change-down");
  else if (bytes === 0) element.classList.add("change-none");
  return element;
}

function badges(marks: number): Node {
  const badge = ({ word, why }: { word: string; why: string }) =>
    h("span", { class: `step-mark step-mark-${word.replace(" ", "-")}`, title: why }, word);
  return h("span", { class: "step-marks" }, marksOf(marks).map(badge));
}

function wordsOf(marks: number): string {
  return marksOf(marks)
    .map(({ word }) => word)
    .join(", ");
}
