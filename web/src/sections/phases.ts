// The phases of a training log: the memory at the start of each phase, its peak and its change.

import "./phases.css";
import { fill, h } from "../dom";
import { changeElement, sizeElement } from "../format";
import type { PhaseSummary, RankSummary, SessionSummary } from "../generated/answers";
import { type Section, section } from "../section";
import type { Store } from "../state";

/** The fields with sizes. */
type SizeKey = Extract<keyof PhaseSummary, `${string}_bytes`>;

/** The columns with sizes. */
const SIZES: { title: string; key: SizeKey; cell(bytes: number | null): HTMLElement }[] = [
  { title: "Phase peak", key: "segment_peak_bytes", cell: sizeElement },
  { title: "Change", key: "change_bytes", cell: changeElement },
  { title: "At end", key: "cumulative_current_bytes", cell: sizeElement },
  { title: "Peak so far", key: "cumulative_peak_bytes", cell: sizeElement },
  { title: "L1 per core", key: "l1_peak_total_bytes", cell: sizeElement },
];

/** The maximum number of rows; the JSON summary has all phases. */
const MAX_ROWS = 200;

export function phasesSection(store: Store): Section {
  return section(store, "phases", "Phases", ["rank"], (body) => {
    const tables = h("div", {});
    body.append(h("p", { class: "note" }, "The grey part of a bar was allocated before the phase."), tables);
    return ({ rank: { summary } }) =>
      fill(
        tables,
        summary.sessions.map((_, index) => sessionTable(summary, index)),
      );
  });
}

function sessionTable(summary: RankSummary, index: number): HTMLElement {
  const session = summary.sessions[index];
  const phases = summary.phases.filter((phase) => phase.session === index);
  // All sessions use the same scale, so that they can be compared.
  const highest = ({ peak_bytes: peak, device_memory_bytes: device }: SessionSummary) =>
    Math.max(peak ?? 0, device ?? 0);
  const scale = Math.max(1, ...summary.sessions.map(highest));
  const limit = session.device_memory_bytes;
  const shown = phases.slice(0, MAX_ROWS);
  const left = phases.length - shown.length;
  // A column without a value is not shown.
  const sizes = SIZES.filter(({ key }) => shown.some((phase) => phase[key] !== null));
  const heads = ["Phase", "Share of device", ...sizes.map(({ title }) => title)];
  return h(
    "div",
    { class: "phases", "data-session": index },
    h("h3", {}, session.name ?? `Summary ${index + 1}`),
    h(
      "table",
      {},
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          heads.map((text) => h("th", { scope: "col" }, text)),
        ),
      ),
      h(
        "tbody",
        {},
        shown.map((phase, at) =>
          row(phase, sizes, at === 0 ? 0 : phases[at - 1].cumulative_current_bytes, scale, limit),
        ),
      ),
    ),
    left > 0 && h("p", { class: "note" }, `… and ${left} more in the JSON summary`),
  );
}

function row(
  phase: PhaseSummary,
  sizes: typeof SIZES,
  before: number | null,
  scale: number,
  limit: number | null,
): HTMLElement {
  return h(
    "tr",
    { "data-phase": phase.name },
    h("th", { scope: "row" }, phase.name),
    h("td", { class: "phase-cell" }, bars(before, phase.segment_peak_bytes, scale, limit)),
    sizes.map(({ key, cell }) => h("td", {}, cell(phase[key]))),
  );
}

function bars(before: number | null, peak: number | null, scale: number, limit: number | null): HTMLElement {
  const share = (bytes: number) => `${Math.max(0, Math.min(100, (bytes / scale) * 100))}%`;
  const known = before !== null && peak !== null;
  return h(
    "div",
    { class: "phase-bar", "aria-hidden": "true" },
    known && h("i", { class: "there", style: `width: ${share(before)}` }),
    known && h("i", { class: "risen", style: `width: ${share(Math.max(0, peak))}` }),
    limit !== null && h("i", { class: "limit", style: `left: ${share(limit)}` }),
  );
}
