// The phases of a training log: what each had at its beginning, how high it went, what it left.

import "./phases.css";
import { fill, h } from "../dom";
import { changeElement, sizeElement } from "../format";
import type { PhaseSummary, RankSummary, SessionSummary } from "../generated/answers";
import { type Section, section } from "../section";
import type { Store } from "../state";

/** More phases than these are in the JSON: nobody compares them by eye. */
const MOST = 200;

export function phasesSection(store: Store): Section {
  return section(store, "phases", "Phases", ["rank"], (body) => {
    const tables = h("div", {});
    body.append(
      h(
        "p",
        { class: "note" },
        "DRAM of one device; a bar begins with what was there before the phase. L1 is of one core.",
      ),
      tables,
    );
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
  // One scale for all: they are there to be compared.
  const most = ({ peak_bytes: peak, device_memory_bytes: device }: SessionSummary) =>
    Math.max(peak ?? 0, device ?? 0);
  const scale = Math.max(1, ...summary.sessions.map(most));
  const limit = session.device_memory_bytes;
  const shown = phases.slice(0, MOST);
  const left = phases.length - shown.length;
  const heads = ["phase", "", "peak in it", "change", "at its end", "highest so far", "L1"];
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
          heads.map((text) => h("th", { scope: "col" }, text || "of the device")),
        ),
      ),
      h(
        "tbody",
        {},
        shown.map((phase, at) =>
          row(phase, at === 0 ? 0 : phases[at - 1].cumulative_current_bytes, scale, limit),
        ),
      ),
    ),
    left > 0 && h("p", { class: "note" }, `${left} more are in the summary's JSON`),
  );
}

function row(phase: PhaseSummary, before: number | null, scale: number, limit: number | null): HTMLElement {
  const cells = [
    sizeElement(phase.segment_peak_bytes),
    changeElement(phase.change_bytes),
    sizeElement(phase.cumulative_current_bytes),
    sizeElement(phase.cumulative_peak_bytes),
    sizeElement(phase.l1_peak_total_bytes),
  ];
  return h(
    "tr",
    { "data-phase": phase.name },
    h("th", { scope: "row" }, phase.name),
    h("td", { class: "phase-cell" }, bars(before, phase.segment_peak_bytes, scale, limit)),
    cells.map((cell) => h("td", {}, cell)),
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
