// A short HTML table without sorting. Columns without a value are not shown.

import { h } from "./dom";
import { UNKNOWN } from "./format";

/** A heading, and whether its column contains numbers. */
export type Heading = readonly [text: string, isNumber: boolean];

/** Creates a table from headings and rows of cells. */
export function plainTable(
  headings: readonly Heading[],
  rows: readonly (readonly HTMLTableCellElement[])[],
  className: string | null = "plain-table",
): { table: HTMLTableElement; body: HTMLTableSectionElement; rows: HTMLTableRowElement[] } {
  const isShown = columnsWithValues(
    headings.length,
    rows.map((cells) => cells.map(({ textContent }) => textContent ?? "")),
  );
  const shown = <Item>(items: readonly Item[]): Item[] => items.filter((_, column) => isShown[column]);
  const head = shown(headings).map(([text, isNumber]) =>
    h("th", { scope: "col", class: isNumber ? "number" : null }, text),
  );
  const bodyRows = rows.map((cells) => h("tr", {}, shown(cells)));
  const body = h("tbody", {}, bodyRows);
  return {
    table: h("table", { class: className }, h("thead", {}, h("tr", {}, head)), body),
    body,
    rows: bodyRows,
  };
}

/** Whether each column has a value in any row. A table without rows keeps all columns. */
export function columnsWithValues(columns: number, rows: readonly (readonly string[])[]): boolean[] {
  return Array.from(
    { length: columns },
    (_, column) => rows.length === 0 || rows.some((texts) => isValue(texts[column])),
  );
}

function isValue(text: string): boolean {
  return !["", "–", "?", UNKNOWN].includes(text.trim());
}
