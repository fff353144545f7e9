// The head of the page: the verdict on an out-of-memory error, the peaks, and facts about the run.

import "./header.css";
import { bankWords, poolText } from "../banks";
import type { Pool, Rank } from "../data/report";
import { isTenstorrent, rankTitle } from "../data/summary";
import { fill, h } from "../dom";
import { count, counted, percent, size, sizeElement } from "../format";
import type { MadeIn, PoolSummary, Suggestion, SuggestionTensor } from "../generated/answers";
import { bringIntoView } from "../jump";
import { levelClass } from "../level";
import { operationText, stepLink } from "../moment";
import { type Heading, plainTable } from "../plain-table";
import { type Section, section } from "../section";
import type { State, Store } from "../state";

export function overviewSection(store: Store): Section {
  return section(store, "overview", "Overview", ["rank", "run"], (body) => {
    const verdict = h("div", {});
    const facts = h("p", { class: "facts" });
    const pools = h("div", { class: "cards" });
    const counts = h("div", { class: "cards" });
    const changes = h("div", {});
    const more = h("div", {});
    body.append(verdict, facts, pools, counts, changes, more);
    return (state) => {
      const { rank } = state;
      fill(verdict, verdictBox(store, rank));
      fill(facts, factsText(rank), ...deviceLine(rank));
      fill(
        pools,
        rank.poolsInOrder.map((pool) => poolCard(store, state, pool)),
      );
      fill(counts, rank.summary.operations.total > 0 ? countCards(rank) : sessionCards(rank, countCards));
      fill(changes, changesBox(store, rank), sourcesBox(rank));
      fill(more, warnings(rank));
    };
  });
}

/**
 * How the program ended: the diagnosis of the out-of-memory error and the exception that Python reported. Both are shown
 * if one caused the other, or if the program continued after a failed allocation.
 */
function verdictBox(store: Store, rank: Rank): HTMLElement | null {
  const { oom, ended_by: exception } = rank.summary;
  if (!oom && exception === null) return null;
  const label = oom ? "Verdict" : "End";
  return h(
    "div",
    { class: "verdict", role: "group", "aria-label": label, style: "margin-bottom: 12px" },
    oom && h("p", {}, h("strong", {}, oom.headline), oom.detail && ` ${oom.detail}`),
    oom?.advice && h("p", {}, oom.advice),
    oom &&
      oom.step !== null &&
      h("p", {}, "See the ", stepLink(store, oom.step, `tensors live before step ${count(oom.step)}`)),
    exception !== null && h("p", { "data-fact": "exception" }, exception),
  );
}

/** The number of suggestions that are not folded, so that the charts stay near the top. */
const SHOWN = 3;
/** The number of rows in the list of modules and operations. */
const MAX_SOURCES = 8;

/** The suggestions and their savings. Failures are shown in the verdict. */
function changesBox(store: Store, rank: Rank): HTMLElement | null {
  const found = rank.summary.suggestions.filter(({ urgency }) => urgency !== "failure");
  if (found.length === 0) return null;
  const perBank = (pool: string) => bankWords(rank.summary.pools[pool]?.extent ?? "bank").suffix;
  const row = (suggestion: Suggestion) => {
    const { rule, pool, headline, detail, advice, saves_per_bank: saves, step } = suggestion;
    return h(
      "li",
      { "data-rule": rule },
      h(
        "div",
        { class: "saves" },
        saves === null ? "" : h("span", {}, "−", sizeElement(saves), perBank(pool)),
      ),
      h(
        "div",
        {},
        h(
          "p",
          {},
          h("strong", {}, headline),
          [detail, advice].map((text) => text && ` ${text}`),
          step !== null && " ",
          step !== null && stepLink(store, step),
        ),
        tensorList(store, rank, suggestion),
      ),
    );
  };
  return h(
    "div",
    { class: "changes", role: "group", "aria-label": "What to change" },
    h(
      "h3",
      {},
      "What to change ",
      h("span", { class: "note" }, "each saving applies to that change alone; savings overlap"),
    ),
    h("ol", {}, found.slice(0, SHOWN).map(row)),
    found.length > SHOWN &&
      h(
        "details",
        {},
        h("summary", {}, `${count(found.length - SHOWN)} more`),
        h("ol", {}, found.slice(SHOWN).map(row)),
      ),
  );
}

/** The tensors of a suggestion, folded. */
function tensorList(
  store: Store,
  rank: Rank,
  { tensors, tensor_count: total, pool }: Suggestion,
): HTMLElement | null {
  if (!tensors || tensors.length === 0 || total === null) return null;
  const { suffix } = bankWords(rank.summary.pools[pool]?.extent ?? "bank");
  const row = ({ name, shape, dtype, per_bank, born_step: step }: SuggestionTensor) =>
    h(
      "div",
      {},
      h("code", {}, name ?? "unnamed"),
      shape && ` ${shape.join("x")}`,
      dtype && ` ${dtype}`,
      " ",
      sizeElement(per_bank),
      per_bank === null ? "" : suffix,
      step !== null && " ",
      step !== null && stepLink(store, step),
    );
  return h(
    "details",
    { class: "tensors" },
    h("summary", {}, counted(total, "tensor")),
    tensors.map(row),
    total > tensors.length && h("p", { class: "note" }, `… and ${count(total - tensors.length)} more`),
  );
}

function factsText(rank: Rank): string {
  const { summary } = rank;
  const source = rank.report.summary.source;
  const parts = [
    summary.file,
    `read as ${source.format}`,
    summary.runs > 0 ? counted(summary.runs, "program run") : "",
    summary.passes > 1 ? counted(summary.passes, "pass", "passes") : "",
    rank.modules.length > 1 ? counted(rank.modules.length, "graph") : "",
    rank.report.rankCount > 1 ? `${rankTitle(summary, rank.index)} of ${rank.report.rankCount}` : "",
    `generated by ${rank.report.generator}`,
  ];
  return parts.filter(Boolean).join(" · ");
}

function poolCard(store: Store, state: State, pool: Pool): HTMLElement {
  const { rank, run } = state;
  const summary = rank.summary.pools[pool.name];
  const { peak_per_bank: peak, capacity_per_bank: capacity, extent, level } = summary;
  const share = peak !== null && capacity ? peak / capacity : 0;
  return h(
    "article",
    { class: `card ${levelClass(level)}`, "data-pool": pool.name },
    h(
      "h3",
      {},
      `${pool.name} peak`,
      level && h("span", { class: "level" }, `${percent(peak!, capacity!)} · ${level}`),
    ),
    h(
      "div",
      { class: "big", "data-fact": "peak" },
      sizeElement(peak),
      h("small", {}, bankWords(extent).perBank),
    ),
    capacity ? h("div", { class: "bar" }, h("i", { style: `width: ${Math.min(100, share * 100)}%` })) : null,
    roomText(summary),
    totalText(summary),
    levelsText(summary),
    causeText(store, rank, pool),
    run === null ? null : runPeak(pool, run),
    h(
      "p",
      { "data-fact": "final" },
      "at the end ",
      sizeElement(summary.final_per_bank),
      summary.final_source === "rebuilt" ? " (reconstructed)" : "",
    ),
    (summary.not_watched ?? []).map((what) =>
      h(
        "p",
        { class: "aside", "data-fact": "not-watched" },
        `not tracked, so the real peak may be higher: ${what}`,
      ),
    ),
  );
}

/** The capacity. */
function roomText({ banks, extent, capacity_per_bank: capacity }: PoolSummary): HTMLElement | null {
  if (extent === "device") return capacity === null ? null : h("p", {}, "of ", sizeElement(capacity));
  return h(
    "p",
    {},
    "of ",
    sizeElement(capacity),
    banks === null ? "" : ` in each of ${counted(banks, "bank")}`,
  );
}

/** The peak of all banks together, if it differs from the figure above. */
function totalText({ extent, peak_total: total, peak_per_bank: peak }: PoolSummary): HTMLElement | null {
  if (total === null || (extent === "device" && total === peak)) return null;
  return h("p", { "data-fact": "total" }, sizeElement(total), " on the device");
}

/** The counters of a caching allocator. CPU memory may have such counters as well, but none of it is ever reserved. */
function levelsText({ allocator }: PoolSummary): HTMLElement | null {
  if (!allocator?.reserved_peak_total) return null;
  const { requested_at_peak_total: requested, reserved_at_peak_total: reserved } = allocator;
  return h(
    "p",
    { "data-fact": "levels" },
    sizeElement(requested),
    " requested, ",
    sizeElement(reserved),
    " reserved",
  );
}

/** The modules and operations that allocated the live tensors at the peak, excluding the model itself. */
function sourcesBox(rank: Rank): HTMLElement | null {
  const moment = rank.summary.peak;
  const found = moment?.made_in ?? [];
  if (!moment || found.length === 0) return null;
  const heads: Heading[] = [
    ["Allocated in", false],
    ["Size", true],
    ["Share of peak", true],
    ["Tensors", true],
  ];
  const name = ({ name, kind, scopes }: MadeIn) => [
    h("code", {}, name ?? "outside all operations"),
    kind === "backward" && name !== "backward" ? " backward" : "",
    scopes > 1 ? h("span", { class: "note" }, ` ${count(scopes)} similar`) : "",
  ];
  const number = (...content: (Node | string)[]) => h("td", { class: "number" }, ...content);
  const row = (source: MadeIn) => [
    h("td", { class: "op" }, ...name(source)),
    number(sizeElement(source.per_bank)),
    number(moment.allocated_per_bank ? percent(source.per_bank, moment.allocated_per_bank) : ""),
    number(count(source.tensors)),
  ];
  return h(
    "details",
    { class: "changes", open: "", "data-fact": "makers" },
    h(
      "summary",
      {},
      `Allocated by modules and operations at the ${moment.pool} peak `,
      h("span", { class: "note" }, "similar layers are grouped"),
    ),
    h("div", { class: "scroll-x" }, plainTable(heads, found.slice(0, MAX_SOURCES).map(row)).table),
    found.length > MAX_SOURCES &&
      h("p", { class: "note" }, `… and ${count(found.length - MAX_SOURCES)} more`),
  );
}

/** The cause of a pool's peak. */
function causeText(store: Store, rank: Rank, pool: Pool): HTMLElement | null {
  const moment = rank.summary.peaks[pool.name];
  const toPeak = (text: string) =>
    h(
      "button",
      {
        class: "link",
        type: "button",
        onclick: () => {
          store.set({ pool: pool.index, run: null });
          store.showAll();
          if (pool.peakMoment !== null) store.pinMoment(pool.peakMoment);
          bringIntoView("live");
        },
      },
      text,
    );
  if (!moment || moment.step === null) return h("p", {}, "no memory was allocated here");
  const cause = moment.caused_by;
  if (cause) {
    return h(
      "p",
      { "data-fact": "cause" },
      "caused by ",
      toPeak(`step ${count(cause.step)}`),
      " ",
      operationText(cause.op, cause.loc),
    );
  }
  if (rank.summary.pools[pool.name].polled) {
    return h(
      "p",
      { "data-fact": "cause" },
      "sampled periodically; peak ",
      toPeak(`before step ${count(moment.step)}`),
    );
  }
  const why = moment.caused_outside_programs
    ? "caused between two programs"
    : "allocated before the first step";
  return h("p", { "data-fact": "cause" }, `${why}; peak `, toPeak(`before step ${count(moment.step)}`));
}

function runPeak(pool: Pool, run: number): HTMLElement {
  const bytes = pool.runPeaks.perBank[run - 1] ?? Number.NaN;
  return h("p", { "data-fact": "run-peak" }, `in run ${count(run)}: `, sizeElement(bytes));
}

/** A card for each summary of a training log; the usual cards if there is none. */
function sessionCards(rank: Rank, usual: (rank: Rank) => HTMLElement[]): HTMLElement[] {
  const { sessions } = rank.summary;
  if (sessions.length === 0) return usual(rank);
  return sessions.map((session, index) => {
    const { peak_bytes: peak, device_memory_bytes: device, final_bytes: end, parameters } = session;
    const { fits, level } = session;
    return h(
      "article",
      { class: `card ${levelClass(level)}`, "data-session": index },
      h(
        "h3",
        {},
        `${session.name ?? `Summary ${index + 1}`}${session.finished ? "" : " (incomplete)"}`,
        level &&
          h(
            "span",
            { class: "level" },
            `${percent(peak!, device!)} · ${level}, ${fits ? "fits" : "does not fit"}`,
          ),
      ),
      h("div", { class: "big", "data-fact": "peak" }, sizeElement(peak), h("small", {}, " at the peak")),
      h("p", {}, "device ", sizeElement(device), session.estimated && ", estimated"),
      h("p", {}, "at the end ", sizeElement(end)),
      parameters !== null && h("p", {}, `${count(parameters)} parameters`),
    );
  });
}

/** The cards about operations, weights, padding and unexplained memory. */
function countCards(rank: Rank): HTMLElement[] {
  const { operations, weights, padding, inputs, peak, pools } = rank.summary;
  const compiled = isTenstorrent(rank.summary);
  const card = (fact: string, title: string, big: (Node | string)[], ...lines: (Node | string | null)[]) =>
    h(
      "article",
      { class: "card", "data-card": fact },
      h("h3", {}, title),
      h("div", { class: "big" }, ...big),
      lines.map((line) => line && h("p", {}, line)),
    );
  const cards = [
    card(
      "operations",
      "Operations",
      [h("data", { value: operations.reported }, count(operations.reported))],
      counted(operations.total, "step") +
        (operations.total > operations.reported
          ? " including deallocations"
          : ", none of them a deallocation"),
      !compiled
        ? null
        : operations.weight === null
          ? "weight operations unknown: the log names no programs"
          : `${count(operations.weight)} for weights, ${count(operations.activation ?? 0)} for activations`,
    ),
  ];
  const twice = weights?.kept_twice_bytes ?? 0;
  const ofGraphs = [
    weights
      ? card(
          "weights",
          "Weights",
          [sizeElement(weights.bytes)],
          counted(weights.count, "weight"),
          twice > 0 ? h("span", {}, sizeElement(twice), " of it kept twice") : null,
          inputs && h("span", {}, `${counted(inputs.count, "input")}, `, sizeElement(inputs.bytes)),
        )
      : card("weights", "Weights", [unknown()], "the log has no graphs, which declare the weights"),
    padding
      ? card(
          "padding",
          "Padding at the DRAM peak",
          [h("span", {}, padding.overhead_pct === null ? "–" : `${padding.overhead_pct}%`)],
          h(
            "span",
            {},
            sizeElement(padding.padded_bytes),
            " for ",
            sizeElement(padding.logical_bytes),
            " of elements",
          ),
        )
      : card("padding", "Padding", [unknown()], "the live tensors and their layouts are unknown"),
  ];
  if (compiled) cards.push(...ofGraphs);
  if (peak) {
    const { unexplained_per_bank: rest, allocated_per_bank: all } = peak;
    cards.push(
      card(
        "unexplained",
        `Unexplained at the ${peak.pool} peak`,
        [
          sizeElement(rest),
          h("small", {}, rest === null ? "" : bankWords(pools[peak.pool]?.extent ?? "bank").perBank),
        ],
        unexplainedText(rest, all, pools[peak.pool]),
      ),
    );
  }
  return cards;
}

function unexplainedText(rest: number | null, all: number | null, pool: PoolSummary | undefined): string {
  const { quantum_per_bank: quantum, not_watched: missing } = pool ?? { quantum_per_bank: 0 };
  if (rest === null) return "the input does not name the live tensors";
  if (rest === 0 && missing?.length)
    return "all tracked memory is explained; untracked memory is listed with the pool";
  if (rest !== 0 && Math.abs(rest) <= quantum) return "within the rounding error";
  if (rest < 0) return "the tensors add up to more than the device reports";
  return all ? `${percent(rest, all)} of ${size(all)} belongs to no tensor` : "no memory was allocated here";
}

function unknown(): HTMLElement {
  return h("span", { class: "unknown" }, "unknown");
}

/** `DRAM 12 banks × 1.00 GiB · L1 64 banks × 1.4 MiB`: the pools, their banks and the capacity per bank. */
function deviceText(rank: Rank): string {
  const textOf = ({ name }: Pool): string | null => {
    const { banks, capacity_per_bank: capacity } = rank.summary.pools[name];
    return poolText(name, banks, capacity);
  };
  const pools = rank.poolsInOrder.map(textOf).filter((text) => text !== null);
  return pools.length > 0 ? `Device: ${pools.join(" · ")}` : "";
}

function deviceLine(rank: Rank): (Node | string)[] {
  const device = deviceText(rank);
  return device === "" ? [] : [h("br"), device];
}

function warnings(rank: Rank): HTMLElement | null {
  const { warnings: list, skipped_lines: skipped } = rank.report.summary.source;
  if (list.length === 0 && skipped === 0) return null;
  return h(
    "details",
    { class: "warnings", open: list.length <= 3 },
    h(
      "summary",
      {},
      `${counted(list.length, "warning")}${skipped > 0 ? `, ${counted(skipped, "line")} skipped` : ""}`,
    ),
    h(
      "ul",
      {},
      list
        .slice(0, 50)
        .map((warning) =>
          h("li", {}, `${warning.line === null ? "" : `line ${count(warning.line)}: `}${warning.message}`),
        ),
      list.length > 50 && h("li", {}, `${count(list.length - 50)} more`),
    ),
  );
}
