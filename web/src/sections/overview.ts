// The head of the page: the verdict when memory ran out, the peaks as cards, the facts about the run.

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
        rank.pools.map((pool) => poolCard(store, state, pool)),
      );
      fill(counts, rank.summary.operations.total > 0 ? countCards(rank) : sessionCards(rank, countCards));
      fill(changes, changesBox(store, rank), makersBox(rank));
      fill(more, warnings(rank));
    };
  });
}

/**
 * How the program ended: what the error of memory means, and the exception that Python reported. Both are there where
 * the one led to the other, or where the program went on after an allocation had failed.
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
      h("p", {}, "Look at it: ", stepLink(store, oom.step, `what was alive before step ${count(oom.step)}`)),
    exception !== null && h("p", { "data-fact": "exception" }, exception),
  );
}

/** So many suggestions are seen at once: what the memory did is not to be pushed out of sight. */
const SHOWN = 3;
/** And so many parts of a program that made something. */
const MAKERS = 8;

/** What could be changed, and what that would save. The verdict has said what failed. */
function changesBox(store: Store, rank: Rank): HTMLElement | null {
  const found = rank.summary.suggestions.filter(({ urgency }) => urgency !== "failure");
  if (found.length === 0) return null;
  const perBank = (pool: string) => bankWords(rank.summary.pools[pool]?.extent ?? "bank").aBank;
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
      h("span", { class: "note" }, "each saving is for that change alone; they overlap"),
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

/** The tensors that a suggestion is about, folded away. */
function tensorList(
  store: Store,
  rank: Rank,
  { tensors, tensor_count: total, pool }: Suggestion,
): HTMLElement | null {
  if (!tensors || tensors.length === 0 || total === null) return null;
  const { aBank } = bankWords(rank.summary.pools[pool]?.extent ?? "bank");
  const row = ({ name, shape, dtype, per_bank, born_step: step }: SuggestionTensor) =>
    h(
      "div",
      {},
      h("code", {}, name ?? "unnamed"),
      shape && ` ${shape.join("x")}`,
      dtype && ` ${dtype}`,
      " ",
      sizeElement(per_bank),
      per_bank === null ? "" : aBank,
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
    `made by ${rank.report.generator}`,
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
      summary.final_source === "rebuilt" ? " (rebuilt)" : "",
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

/** What there is room for. */
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

/** The peak of all banks together; of one it has been said. */
function totalText({ extent, peak_total: total, peak_per_bank: peak }: PoolSummary): HTMLElement | null {
  if (total === null || (extent === "device" && total === peak)) return null;
  return h("p", { "data-fact": "total" }, sizeElement(total), " on the device");
}

/** What a caching allocator says besides. */
function levelsText({ allocator }: PoolSummary): HTMLElement | null {
  if (!allocator) return null;
  const { requested_at_peak_total: asked, reserved_at_peak_total: reserved } = allocator;
  return h(
    "p",
    { "data-fact": "levels" },
    sizeElement(asked),
    " asked for, ",
    sizeElement(reserved),
    " reserved",
  );
}

/** Which modules and operations made what is alive at the peak and is not of the model itself. */
function makersBox(rank: Rank): HTMLElement | null {
  const moment = rank.summary.peak;
  const found = moment?.made_in ?? [];
  if (!moment || found.length === 0) return null;
  const heads = ["Made in", "Size", "Of the peak", "Tensors"];
  const name = ({ name, kind, scopes }: MadeIn) => [
    h("code", {}, name ?? "outside of all operations"),
    kind === "backward" && name !== "backward" ? " backward" : "",
    scopes > 1 ? h("span", { class: "note" }, ` ${count(scopes)} alike`) : "",
  ];
  const number = (...content: (Node | string)[]) => h("td", { class: "number" }, ...content);
  const row = (made: MadeIn) =>
    h(
      "tr",
      {},
      h("td", { class: "op" }, ...name(made)),
      number(sizeElement(made.per_bank)),
      number(moment.allocated_per_bank ? percent(made.per_bank, moment.allocated_per_bank) : ""),
      number(count(made.tensors)),
    );
  return h(
    "details",
    { class: "changes", open: "", "data-fact": "makers" },
    h(
      "summary",
      {},
      `What running made, and where, at the ${moment.pool} peak `,
      h("span", { class: "note" }, "layers that are alike together"),
    ),
    h(
      "div",
      { class: "scroll-x" },
      h(
        "table",
        { class: "plain-table" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            heads.map((head, column) =>
              h("th", { scope: "col", class: column === 0 ? null : "number" }, head),
            ),
          ),
        ),
        h("tbody", {}, found.slice(0, MAKERS).map(row)),
      ),
    ),
    found.length > MAKERS && h("p", { class: "note" }, `… and ${count(found.length - MAKERS)} more`),
  );
}

/** Who brought a pool to its peak. */
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
  if (!moment || moment.step === null) return h("p", {}, "nothing was allocated here");
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
      "read now and then, ",
      toPeak(`before step ${count(moment.step)}`),
    );
  }
  const why = moment.caused_outside_programs ? "came between two programs" : "there from the beginning";
  return h("p", { "data-fact": "cause" }, `${why}, `, toPeak(`before step ${count(moment.step)}`));
}

function runPeak(pool: Pool, run: number): HTMLElement {
  const bytes = pool.runPeaks.perBank[run - 1] ?? Number.NaN;
  return h("p", { "data-fact": "run-peak" }, `in run ${count(run)}: `, sizeElement(bytes));
}

/** A card for each summary of a training log; the usual ones where there is none. */
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
        `${session.name ?? `Summary ${index + 1}`}${session.finished ? "" : " (cut off)"}`,
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

/** Operations, weights, padding, and what nobody explains. */
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
        (operations.total > operations.reported ? " with deallocations" : ", none of them a deallocation"),
      !compiled
        ? null
        : operations.weight === null
          ? "which of them make weights is not known: the log names no programs"
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
          twice > 0 ? h("span", {}, sizeElement(twice), " of them kept twice") : null,
          inputs && h("span", {}, `${counted(inputs.count, "input")}, `, sizeElement(inputs.bytes)),
        )
      : card("weights", "Weights", [unknown()], "the log prints no graphs, so nobody knows what is a weight"),
    padding
      ? card(
          "padding",
          "Padding at the DRAM peak",
          [h("span", {}, padding.overhead_pct === null ? "–" : `${padding.overhead_pct} %`)],
          h(
            "span",
            {},
            sizeElement(padding.padded_bytes),
            " for ",
            sizeElement(padding.logical_bytes),
            " of elements",
          ),
        )
      : card("padding", "Padding", [unknown()], "it is not known which tensors are alive, and how they lie"),
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
  if (rest === null) return "what this was read from does not name the tensors that are alive";
  if (rest === 0 && missing?.length) return "of what was tracked; the pool lists what is not tracked";
  if (rest !== 0 && Math.abs(rest) <= quantum) return "no more than what the log rounds to";
  if (rest < 0) return "the tensors add up to more than the device says";
  return all ? `${percent(rest, all)} of ${size(all)} belong to no tensor` : "nothing was allocated here";
}

function unknown(): HTMLElement {
  return h("span", { class: "unknown" }, "unknown");
}

/** `DRAM 12 banks × 1.00 GiB · L1 64 banks × 1.4 MiB`: the pools, their banks and what a bank holds. */
function deviceText(rank: Rank): string {
  const pools = Object.entries(rank.summary.pools)
    .map(([name, { banks, capacity_per_bank: capacity }]) => poolText(name, banks, capacity))
    .filter((text) => text !== null);
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
      `${counted(list.length, "warning")}${skipped > 0 ? `, ${counted(skipped, "line")} not understood` : ""}`,
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
