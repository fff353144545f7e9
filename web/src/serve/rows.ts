// Filters and sorts the list of reports.

import type { StoredRow } from "../generated/answers";
import { type SortKey, sorted } from "../order";

/** The columns to sort by. */
export type Column = "name" | "written" | "format" | "peak" | "share" | "operations" | "bytes";

export interface Order {
  column: Column;
  descending: boolean;
}

/** The initial order: newest first. */
export const FIRST: Order = { column: "written", descending: true };

/** The peak as a share of the capacity. */
export function shareOf({ shown }: Pick<StoredRow, "shown">): number | null {
  return shown?.capacity ? shown.bytes / shown.capacity : null;
}

/** Whether a report has a summary. A report of tt-memory-profiler 0.x gets its page and summary when it is first opened. */
export function hasAnswers({ format, page }: Pick<StoredRow, "format" | "page">): boolean {
  return format !== null || page !== null;
}

function keyOf(row: StoredRow, column: Column): SortKey {
  switch (column) {
    case "name":
      return row.name.toLowerCase();
    case "written":
      return row.written === null ? null : Date.parse(row.written);
    case "peak":
      return row.shown?.bytes ?? null;
    case "share":
      return shareOf(row);
    default:
      return row[column];
  }
}

/** The reports that match all words of a search, sorted. Unknown values come last. */
export function shownRows(
  rows: readonly StoredRow[],
  search: string,
  { column, descending }: Order,
): StoredRow[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const found = rows.filter((row) => {
    const text = textOf(row);
    return words.every((word) => text.includes(word));
  });
  const places = Uint32Array.from(found.keys());
  return Array.from(
    sorted(places, (at) => keyOf(found[at], column), descending),
    (at) => found[at],
  );
}

/** The text that a search looks at. */
function textOf({ name, kind, format, oom, oom_headline: headline, peak, source }: StoredRow): string {
  const parts = [name, kind, format, oom && `oom ${oom}`, headline, peak?.pool, source?.path];
  return parts.filter(Boolean).join("\n").toLowerCase();
}

/** The order after a click on a column: reversed, or the column's default direction. */
export function reordered(order: Order, column: Column): Order {
  if (order.column === column) return { column, descending: !order.descending };
  return { column, descending: column !== "name" && column !== "format" };
}
