// The answers as tables. The column `rank_id` has the place of the rank, which a click selects.

import { h } from "../dom";
import { change, changeElement, count, sizeElement } from "../format";
import { type Column, Table } from "../table";
import { lengthsOf, textWidth } from "../text-width";
import type { Answer, Cell, Fleet } from "./data";
import { levelName, reportLink } from "./panel";

/** Headings that are not the name of the column. */
const TITLES: Record<string, string> = {
  free_bytes: "Free at peak",
  lacks_per_bank: "Short by/bank",
  op: "Operation",
  part: "Of",
  per_bank: "Size/bank",
  error_code: "Exit code",
  source_host: "Machine",
  unallocated_bytes: "Unallocated",
  failed: "Out of memory",
  rank_id: "Report",
};
/** Columns that a narrow table leaves out, the last ones first. */
const OPTIONAL = [
  "rank_id",
  "pool",
  "rank",
  "cause",
  "capacity_bytes",
  "step",
  "op",
  "file",
  "detail",
  "labels",
];

/** The padding of a heading and its arrow. */
const HEADING = 34;
/** The padding of a cell. */
const PADDING = 20;

/** Whether the values of a column are sizes. The same rule as in `python/ttmem/fleet/command.py`. */
export function isSize(column: string): boolean {
  return column === "per_bank" || /(_bytes|_per_bank)$/.test(column);
}

export function heading(column: string): string {
  const text = column
    .replace(/(_bytes|_ns)$/, "")
    .replace("_per_bank", "/bank")
    .replaceAll("_", " ");
  return TITLES[column] ?? text[0].toUpperCase() + text.slice(1);
}

/** `2026-11-18 23:52 UTC` */
export function timeText(ns: number): string {
  const date = new Date(ns / 1e6);
  return Number.isNaN(date.getTime())
    ? "unknown"
    : `${date.toISOString().slice(0, 16).replace("T", " ")} UTC`;
}

export function answerTable(
  fleet: Fleet,
  answer: Answer,
  empty: string,
  onSelect: (rank: number) => void,
): HTMLElement {
  const { columns, rows, title } = answer;
  const place = columns.indexOf("rank_id");
  const table = new Table({
    caption: title,
    height: "min(50vh, 380px)",
    empty,
    columns: columns.map((name, at) => columnOf(fleet, name, rows, at)),
    decidedBy: Uint32Array.from(rows.keys()),
    ...(place >= 0 && {
      onActivate: (row: number) => {
        const rank = rows[row][place];
        if (typeof rank === "number") onSelect(rank);
      },
    }),
  });
  table.show(Uint32Array.from(rows.keys()));
  return table.element;
}

function columnOf(fleet: Fleet, name: string, rows: Cell[][], at: number): Column {
  const narrow = OPTIONAL.indexOf(name);
  const common = { key: name, title: heading(name), ...(narrow >= 0 && { narrow }) };
  if (name === "rank_id") return reportColumn(fleet, common, rows, at);
  const isNumber =
    rows.every((row) => row[at] === null || typeof row[at] === "number") &&
    rows.some((row) => row[at] !== null);
  const value = (row: number) => rows[row][at];
  if (!isNumber || name === "time_ns") {
    const text = (row: number) =>
      name === "time_ns" ? timeText(Number(value(row))) : textOf(name, value(row));
    const { longest, typical } = lengthsOf(rows.map((_, row) => text(row)));
    return {
      ...common,
      fit: { longest, typical, min: name === "time_ns" ? 150 : 80, ...(longest.length < 24 && { max: 260 }) },
      cell: (row) =>
        h("span", { title: text(row), class: name === "level" ? levelName(text(row)) : null }, text(row)),
      sort: (row) => (name === "time_ns" ? Number(value(row)) : text(row)),
    };
  }
  const largest = rows.reduce((max, row) => Math.max(max, Math.abs(Number(row[at]))), 0);
  const widest = textWidth(isSize(name) ? change(largest) : count(largest)) + PADDING;
  return {
    ...common,
    number: true,
    width: `${Math.max(widest, textWidth(common.title, "600") + HEADING)}px`,
    cell: (row) => {
      const number = value(row) as number | null;
      if (number === null) return "";
      if (name.startsWith("difference")) return changeElement(number);
      return isSize(name) ? sizeElement(number) : count(number);
    },
    sort: (row) => value(row) as number | null,
  };
}

function textOf(name: string, value: Cell): string {
  // The sum of all runs; see waste.sql.
  if (value === null) return name === "run" ? "all runs" : "";
  return String(value);
}

function reportColumn(
  fleet: Fleet,
  common: { key: string; title: string },
  rows: Cell[][],
  at: number,
): Column {
  const link = (row: number) => {
    const rank = rows[row][at];
    return typeof rank === "number" ? fleet.ranks.link[rank] : null;
  };
  return {
    ...common,
    width: "70px",
    cell: (row) => {
      const address = link(row);
      return address === null ? "" : reportLink(address, "Open");
    },
    csv: link,
    has: (row) => link(row) !== null,
  };
}
