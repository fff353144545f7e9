// The columns of the table of operations. What the evidence never tells is no column.

import { bankWords } from "../banks";
import type { Rank } from "../data/report";
import { h } from "../dom";
import { changeElement, count, sizeElement } from "../format";
import { jumpTo } from "../jump";
import type { Store } from "../state";
import type { Column } from "../table";
import { heldBefore, marksOf, OperationTexts } from "./facts";

export function operationColumns(store: Store, rank: Rank): Column[] {
  return [...identity(rank), ...(rank.pools.length > 0 ? memory(store, rank) : []), links(store, rank)];
}

/** Which operation it is. */
function identity(rank: Rank): Column[] {
  const { ops, steps } = rank;
  const texts = new OperationTexts(rank);
  const text = (key: string, title: string, width: string, of: (step: number) => string): Column => ({
    key,
    title,
    width,
    cell: of,
    sort: of,
  });
  const has = (types: { get(op: number): Int32Array }) => ops.name.some((_, op) => types.get(op).length > 0);
  const columns: (Column | false)[] = [
    {
      key: "step",
      title: "Step",
      number: true,
      width: "84px",
      cell: (step) => count(step),
      sort: (step) => step,
    },
    text("operation", "Operation", "minmax(150px, 3fr)", (step) => texts.name(step)),
    ops.loc.some((loc) => loc >= 0) &&
      text("location", "Location", "minmax(130px, 4fr)", (step) => texts.loc(step)),
    has(ops.resultTypes) &&
      text("results", "Result", "minmax(150px, 3fr)", (step) => texts.resultTypes(step)),
    has(ops.operandTypes) &&
      text("operands", "Operands", "minmax(110px, 3fr)", (step) => texts.operandShapes(step)),
    rank.runs.program.length > 0 &&
      text("program", "Program", "minmax(84px, 1.5fr)", (step) => rank.program(step) ?? ""),
    rank.runs.program.length > 0 && {
      key: "run",
      title: "Run",
      number: true,
      width: "62px",
      cell: (step) => String(rank.runNumber(step) ?? ""),
      sort: (step) => rank.runNumber(step),
    },
    steps.marks.some((marks) => marks > 0) && {
      key: "marks",
      title: "Marks",
      width: "minmax(84px, 1.2fr)",
      cell: (step) => badges(steps.marks[step]),
      sort: (step) => wordsOf(steps.marks[step]),
    },
  ];
  return columns.filter((column) => column !== false);
}

/** What it did to the pool that is looked at. */
function memory(store: Store, rank: Rank): Column[] {
  const pool = () => rank.pools[store.state.pool] ?? rank.pools[0];
  // The heading is there for all pools: it is spoken of banks where one of them has some.
  const isWhole = rank.pools.every(({ extent }) => extent === "device");
  const where = bankWords(isWhole ? "device" : "bank").each;
  return [
    {
      key: "change_per_bank",
      title: "Change",
      help: `What the operation changed in ${where}`,
      number: true,
      width: "104px",
      cell: (step) => changeCell(pool().effect[step]),
      sort: (step) => pool().effect[step],
    },
    {
      key: "allocated_before_per_bank",
      title: "Before",
      help: `What was allocated in ${where} right before the operation`,
      number: true,
      width: "100px",
      cell: (step) => sizeElement(heldBefore(rank, pool())[step]),
      sort: (step) => heldBefore(rank, pool())[step],
    },
  ];
}

/** Where else the step can be seen. */
function links(store: Store, rank: Rank): Column {
  // Where neither graphs nor locations of steps are known, no step leads to a line.
  const canTell = rank.ops.loc.some((loc) => loc >= 0) || rank.runs.module.some((module) => module >= 0);
  const hasTexts = canTell && rank.modules.some((module) => module.stages.length > 0);
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
    width: hasTexts ? "104px" : "76px",
    cell: (step) =>
      h(
        "span",
        { class: "operation-links" },
        link("memory", "chart", step, `Show step ${count(step)} in the chart`),
        hasTexts && link("ir", "IR", step, `IR: show step ${count(step)} in the text of its graph`),
      ),
  };
}

/** The sign says what happened; the colour says it again. */
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
