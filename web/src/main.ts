// Unpacks the report and creates its sections.

import "./style.css";
import { momentBefore, type Rank, Report } from "./data/report";
import { hasL1, hasPieces, isTenstorrent } from "./data/summary";
import { fill, h } from "./dom";
import type { RankSummary } from "./generated/answers";
import { bringIntoView } from "./jump";
import { isOwnLink, readLink, writeLink } from "./link";
import { preparePrinting } from "./print";
import type { Section } from "./section";
import { allocationsSection, hasAllocations } from "./sections/allocations";
import { consumersSection } from "./sections/consumers";
import { distributionSection } from "./sections/distribution";
import { flameSection } from "./sections/flame";
import { fragmentationSection } from "./sections/fragmentation";
import { ganttSection, hasGantt } from "./sections/gantt";
import { growthSection, hasGrowth } from "./sections/growth";
import { hasHolders, holdersSection } from "./sections/holders";
import { irSection } from "./sections/ir";
import { l1Section } from "./sections/l1";
import { liveSection } from "./sections/live";
import { memorySection } from "./sections/memory";
import { operationsSection } from "./sections/operations";
import { overviewSection } from "./sections/overview";
import { paddingSection } from "./sections/padding";
import { phasesSection } from "./sections/phases";
import { ranksSection } from "./sections/ranks";
import { tensorsSection } from "./sections/tensors";
import { weightsSection } from "./sections/weights";
import { type State, Store, windowOf } from "./state";
import { topbar } from "./topbar";

/** The initial view of a rank: the peak of its most important pool. */
function beginning(rank: Rank): Pick<State, "rank" | "pool" | "moment" | "from" | "to" | "run"> {
  const pool = rank.startPool;
  return {
    rank,
    pool,
    moment: rank.pools[pool]?.peakMoment ?? momentBefore(0),
    ...windowOf(rank, null),
    run: null,
  };
}

/** Follows the link in the address bar. */
async function followLink(report: Report, store: Store): Promise<void> {
  if (isOwnLink(location.hash)) return;
  const link = readLink(location.hash);
  const rank = await report.rank(link.rankIndex(report));
  if (rank !== store.state.rank) store.set(beginning(rank));
  link.apply(store);
}

/** Puts the weights and the section after them into one row if there is room. */
function arranged(sections: Section[]): HTMLElement[] {
  const elements = sections.map((section) => section.element);
  const weights = elements.findIndex((element) => element.id === "weights");
  if (weights < 0) return elements;
  elements.splice(weights, 2, h("div", { class: "pair" }, elements.slice(weights, weights + 2)));
  return elements;
}

/**
 * The sections about steps. A section is omitted if the input format can't have its data; if the data is only missing,
 * the section explains why.
 */
function sectionsOfSteps(store: Store, ranks: RankSummary[], hasStacks: boolean): Section[] {
  const compiled = ranks.some(isTenstorrent);
  const only = (applies: boolean, section: (store: Store) => Section) => (applies ? [section(store)] : []);
  return [
    memorySection(store),
    ...only(ranks.some(hasL1), l1Section),
    ...only(ranks.some(hasGrowth), growthSection),
    ...only(ranks.some(hasHolders), holdersSection),
    liveSection(store),
    ...only(hasStacks, flameSection),
    tensorsSection(store),
    ...only(ranks.some(hasAllocations), allocationsSection),
    ...only(compiled, paddingSection),
    ...only(compiled || ranks.some(hasPieces), fragmentationSection),
    consumersSection(store),
    ...only(compiled, weightsSection),
    distributionSection(store),
    operationsSection(store),
    ...only(compiled, irSection),
  ];
}

async function start(app: HTMLElement): Promise<void> {
  const report = await Report.open();
  const link = readLink(location.hash);
  const rank = await report.rank(link.rankIndex(report));
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const store = new Store({ ...beginning(rank), theme: isDark ? "dark" : "light" });
  link.apply(store);
  let chosen = rank.index;
  const choose = (index: number) => {
    chosen = index;
    // If two ranks are chosen in quick succession, the last choice wins, whichever is unpacked first.
    const show = (rank: Rank) => chosen === index && store.set(beginning(rank));
    void report.rank(index).then(show, reportError);
  };
  const bar = topbar(report, store, choose);
  const { ranks } = report.summary;
  const hasPhases = ranks.some((rank) => rank.sessions.length > 0);
  // A training log only has phases.
  const hasSteps = !hasPhases || ranks.some((rank) => rank.operations.total > 0);
  const sections = [
    overviewSection(store),
    ...(hasPhases ? [phasesSection(store)] : []),
    ...(hasGantt(report) ? [ganttSection(store)] : []),
    ...(report.rankCount > 1 && hasSteps ? [ranksSection(store, choose)] : []),
    ...(hasSteps ? sectionsOfSteps(store, ranks, report.hasStacks) : []),
  ];
  const main = h("main", {}, ...arranged(sections));
  fill(app, bar, main);
  // Sections that are visible initially are drawn immediately.
  for (const section of sections.slice(0, report.rankCount > 1 ? 3 : 2)) section.draw();
  preparePrinting(main, sections, store);
  addEventListener("hashchange", () => void followLink(report, store));
  store.on(["moment", "rank", "pool"], (state) => writeLink(state));
  app.removeAttribute("aria-busy");
  if (link.hasStep) bringIntoView("live");
}

const app = document.getElementById("app");
if (app) {
  start(app).catch((error: unknown) => {
    const message = error instanceof Error ? error.message : String(error);
    const help = "Tested with Chromium 156 and Firefox 153; much older browsers can't unpack it.";
    fill(app, h("p", { role: "alert", class: "note" }, `This report cannot be shown: ${message}. ${help}`));
  });
}
