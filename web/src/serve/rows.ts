// Which reports are shown, and in which order.

import { type SortKey, sorted } from "../order";
import type { Extent, Peak, Stored } from "./api";

/** The columns that the list can be sorted by. */
export type Column = "name" | "written" | "format" | "peak" | "share" | "operations" | "bytes";

export interface Order {
  column: Column;
  descending: boolean;
}

/** The newest first. */
export const FIRST: Order = { column: "written", descending: true };

/** A peak as it is shown, with what there is of the same. */
export interface ShownPeak {
  bytes: number;
  capacity: number | null;
  of: Extent;
}

/** The peak of a bank or core where that is known, otherwise of the device. */
export function shownPeak(peak: Peak | null): ShownPeak | null {
  if (!peak) return null;
  // Earlier versions wrote the total of the device into both fields where they knew no banks.
  const of = peak.of ?? (peak.per_bank !== null && peak.per_bank !== peak.total ? "bank" : "device");
  const bytes = of === "device" ? (peak.total ?? peak.per_bank) : peak.per_bank;
  const capacity = of === "device" ? (peak.capacity_total ?? peak.capacity_per_bank) : peak.capacity_per_bank;
  return bytes === null ? null : { bytes, capacity, of };
}

/** The share of what there is that the peak takes. */
export function shareOf({ peak }: Stored): number | null {
  const shown = shownPeak(peak);
  return shown?.capacity ? shown.bytes / shown.capacity : null;
}

/** Whether it can be asked for a summary. What an earlier tool wrote has a page as soon as it is asked for, and then both. */
export function hasAnswers({ format, page }: Pick<Stored, "format" | "page">): boolean {
  return format !== null || page !== null;
}

/** Whether a share is a worry: as the colours of the report and of the terminal say. */
export function levelOf(pool: string, share: number): "good" | "warn" | "bad" {
  const [warn, bad] = pool === "DRAM" ? [0.8, 0.9] : [0.9, 0.95];
  return share >= bad ? "bad" : share >= warn ? "warn" : "good";
}

function keyOf(row: Stored, column: Column): SortKey {
  switch (column) {
    case "name":
      return row.name.toLowerCase();
    case "written":
      return row.written === null ? null : Date.parse(row.written);
    case "peak":
      return shownPeak(row.peak)?.bytes ?? null;
    case "share":
      return shareOf(row);
    default:
      return row[column];
  }
}

/** The reports that have all words of a search, in order. What is not known comes last. */
export function shownRows(rows: readonly Stored[], search: string, { column, descending }: Order): Stored[] {
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

/** What a search looks at. */
function textOf({ name, kind, format, oom, peak, source }: Stored): string {
  const parts = [name, kind, format, oom && `oom out of memory ${oom}`, peak?.pool, source?.path];
  return parts.filter(Boolean).join("\n").toLowerCase();
}

/** The order after a click on a column: the other way around, or the way that tells most first. */
export function reordered(order: Order, column: Column): Order {
  if (order.column === column) return { column, descending: !order.descending };
  return { column, descending: column !== "name" && column !== "format" };
}
