// The phases of a training log, with the field names and the unit of tt-train, as in `ttmem phases`.

import "./phases.css";
import { fill, h } from "../dom";
import { count, mibChangeElement, mibElement } from "../format";
import type { PhaseSummary, RankSummary, SessionSummary } from "../generated/answers";
import { type Section, section } from "../section";
import type { Store } from "../state";

/** The fields with sizes. */
type SizeKey = Extract<keyof PhaseSummary, `${string}_bytes`>;

/** The columns with sizes. */
const SIZES: { title: string; key: SizeKey; cell(bytes: number | null): HTMLElement }[] = [
  { title: "Segment Peak", key: "segment_peak_bytes", cell: mibElement },
  { title: "Allocations", key: "allocations_bytes", cell: mibElement },
  { title: "Deallocations", key: "deallocations_bytes", cell: mibElement },
  { title: "Segment Change", key: "change_bytes", cell: mibChangeElement },
  { title: "Cumulative Peak", key: "cumulative_peak_bytes", cell: mibElement },
  { title: "Cumulative Current", key: "cumulative_current_bytes", cell: mibElement },
  { title: "L1 Peak", key: "l1_peak_total_bytes", cell: mibElement },
];

/** The maximum number of rows; the JSON summary has all phases. */
const MAX_ROWS = 200;

export function phasesSection(store: Store): Section {
  return section(store, "phases", "Phases", ["rank"], (body) => {
    const tables = h("div", {});
    const note = h("p", { class: "note" });
    body.append(note, tables);
    return ({ rank: { summary } }) => {
      const hasLimit = summary.sessions.some(({ device_memory_bytes: device }) => device !== null);
      note.textContent =
        "Sizes are in MiB. In the bars, gray is memory allocated before the phase, and blue is its Segment Peak" +
        (hasLimit ? "; the red line is the device memory." : ".");
      fill(
        tables,
        summary.sessions.map((_, index) => sessionTable(summary, index)),
      );
    };
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
  const heads = ["Phase", ...sizes.map(({ title }) => title)];
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
    left > 0 && h("p", { class: "note" }, `… and ${count(left)} more in the JSON summary`),
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
    h("th", { scope: "row" }, breakable(phase.name), bars(before, phase.segment_peak_bytes, scale, limit)),
    sizes.map(({ key, cell }) => h("td", {}, cell(phase[key]))),
  );
}

/** A name that may be broken after its underscores. */
function breakable(name: string): (Node | string)[] {
  return name.split(/(?<=_)/).flatMap((part, at) => (at === 0 ? [part] : [h("wbr"), part]));
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
