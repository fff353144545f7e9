// The head of the page: the verdict on an out-of-memory error, the peaks, and facts about the run.

import "./header.css";
import { bankWords, poolText } from "../banks";
import type { Pool, Rank } from "../data/report";
import { formatName, hasL1, isPeakAtLeast, isTenstorrent, rankTitle } from "../data/summary";
import { fill, h } from "../dom";
import { count, counted, mibElement, percent, shorten, size, sizeElement, sizeElementIn } from "../format";
import { duration } from "../gantt/time";
import type {
  Checkpoint,
  Clash,
  Combination,
  Growth,
  LedgerSummary,
  MadeIn,
  PaddingSummary,
  PoolSummary,
  SessionSummary,
  Suggestion,
  SuggestionGroup,
  WayOut,
} from "../generated/answers";
import { bringIntoView } from "../jump";
import { levelClass } from "../level";
import { stepRange } from "../live/groups";
import { operationText, stepLink } from "../moment";
import { type Heading, plainTable } from "../plain-table";
import { type Section, section } from "../section";
import type { State, Store } from "../state";
import { holderTable } from "./holders";

export function overviewSection(store: Store): Section {
  return section(store, "overview", "Overview", ["rank", "run"], (body) => {
    const verdict = h("div", {});
    const facts = h("p", { class: "facts" });
    const pools = h("div", { class: "cards pools" });
    const counts = h("div", { class: "cards" });
    const changes = h("div", {});
    const more = h("div", {});
    const sources = h("div", {});
    body.append(verdict, changes, facts, pools, counts, sources, more);
    return (state) => {
      const { rank } = state;
      fill(verdict, verdictBox(store, rank));
      fill(facts, factsText(rank), ...deviceLine(rank));
      fill(
        pools,
        rank.poolsInOrder.map((pool) => poolCard(store, state, pool)),
      );
      const { operations, sessions } = rank.summary;
      fill(
        counts,
        // With operations, a session only has a card if there is something to say about it.
        sessions
          .map((session, index) => ({ session, index }))
          .filter(({ session }) => operations.total === 0 || session.growth || session.fits === false)
          .map(({ session, index }) => sessionCard(session, index)),
        operations.total > 0 || sessions.length === 0 ? countCards(rank) : [],
      );
      fill(changes, changesBox(store, rank));
      fill(sources, sourcesBox(rank), checkpointsBox(store, rank));
      fill(more, warnings(rank));
    };
  });
}

/**
 * How the program ended: the diagnosis of the out-of-memory error and the exception that Python reported. Both are shown
 * if one caused the other, or if the program continued after a failed allocation.
 */
function verdictBox(store: Store, rank: Rank): HTMLElement | null {
  const { oom, ended_by: exception, l1 } = rank.summary;
  // A program that was only captured did not fail, but may not fit.
  const verdict = oom ?? l1?.verdict ?? null;
  if (!verdict && exception === null) return null;
  const label = verdict ? "Verdict" : "End";
  const step = oom ? oom.step : verdict ? (l1?.lowest_headroom?.step ?? null) : null;
  const isAboutL1 =
    rank.l1 !== null && hasL1(rank.summary) && (!oom || oom.pool === "L1" || oom.pool === "L1_SMALL");
  return h(
    "div",
    { class: "verdict", role: "group", "aria-label": label, style: "margin-bottom: 12px" },
    verdict && h("p", {}, h("strong", {}, verdict.headline), verdict.detail && ` ${verdict.detail}`),
    oom?.clash && clashFacts(oom.clash),
    oom?.ledger && ledgerFacts(oom.ledger),
    oom && oom.ways_out.length > 0 ? waysOut(oom.ways_out) : verdict?.advice && h("p", {}, verdict.advice),
    oom?.no_way_out && h("p", {}, oom.no_way_out),
    oom && rank.summary.holders && holderFacts(rank),
    step !== null &&
      h(
        "p",
        {},
        "See the ",
        stepLink(store, step, `tensors live before step ${count(step)}`),
        isAboutL1 && [" or the ", l1Link(store, step)],
        ".",
      ),
    exception !== null && h("p", { "data-fact": "exception" }, exception),
  );
}

/** What kept the largest tensors alive when memory ran out. */
function holderFacts(rank: Rank): HTMLElement {
  return h("div", { "data-fact": "holders", class: "scroll-x" }, holderTable(rank, MAX_HOLDERS));
}

/** The two sides of a clash between a program's buffers and tensors. */
function clashFacts({ lines, parts_note: note, since_then: since }: Clash): HTMLElement {
  return h(
    "div",
    { "data-fact": "clash" },
    h(
      "dl",
      { class: "clash" },
      lines.flatMap(({ label, text }) => [h("dt", {}, label), h("dd", {}, text)]),
    ),
    note && h("p", {}, note),
    since && h("p", {}, since),
  );
}

/** The parts of the device's memory at the error, what the program reported before, and its settings. */
function ledgerFacts({
  parts,
  capacity_bytes: capacity,
  reported,
  settings,
  notes,
}: LedgerSummary): HTMLElement {
  const share = (bytes: number) => (capacity === null ? "" : ` (${percent(bytes, capacity)})`);
  return h(
    "div",
    { "data-fact": "ledger" },
    h(
      "dl",
      { class: "clash" },
      parts.flatMap(({ kind, label, bytes }) => [
        h("dt", { "data-kind": kind }, label),
        h("dd", {}, `${size(bytes)}${share(bytes)}`),
      ]),
      reported.flatMap(({ label, bytes }) => [
        h("dt", {}, `reported before: ${label}`),
        h("dd", {}, size(bytes)),
      ]),
      settings.flatMap(({ name, value }) => [h("dt", {}, name), h("dd", {}, value)]),
    ),
    notes.map((note) => h("p", {}, note)),
  );
}

/** Changes that avoid the failure. */
function waysOut(ways: WayOut[]): HTMLElement {
  return h(
    "div",
    { "data-fact": "ways-out" },
    h("p", {}, h("strong", {}, ways.length > 1 ? "Ways out (each one is enough)" : "A way out")),
    h(
      "ol",
      {},
      ways.map(({ kind, text }) => h("li", { "data-kind": kind }, text)),
    ),
  );
}

/** A button that shows the map of L1 while a step runs. */
function l1Link(store: Store, step: number): HTMLElement {
  const go = () => {
    store.pin(step);
    bringIntoView("l1");
  };
  return h("button", { class: "link", type: "button", onclick: go }, "map of L1");
}

/** The number of holders in the verdict; a section has more. */
const MAX_HOLDERS = 3;
/** The number of suggestions that are not folded, so that the charts stay near the top. */
const SHOWN = 3;
/** Parts of the program that share a row, by kind. */
const SIMILAR: Record<string, string> = { operation: "operations", optimizer: "optimizers" };
/** The number of rows in the list of modules and operations. */
const MAX_SOURCES = 8;

/** The suggestions and their savings. Failures are shown in the verdict, and notes change nothing. */
function changesBox(store: Store, rank: Rank): HTMLElement | null {
  const found = rank.summary.suggestions.filter(({ urgency }) => urgency === "risk" || urgency === "change");
  if (found.length === 0) return null;
  const perBank = (pool: string) => bankWords(rank.summary.pools[pool]?.extent ?? "bank").suffix;
  const row = (suggestion: Suggestion) => {
    const { rule, docs, pool, headline, detail, advice, saves_per_bank: saves, step } = suggestion;
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
          h("span", { class: "note" }, `${found.indexOf(suggestion) + 1}. `),
          h("strong", {}, headline),
          [detail, advice].map((text) => text && ` ${text}`),
          step !== null && " ",
          step !== null && stepLink(store, step),
          " ",
          h("a", { href: docs, target: "_blank", rel: "noreferrer", title: rule }, "how"),
        ),
        tensorList(store, rank, suggestion),
      ),
    );
  };
  const savings = found.filter(({ saves_per_bank: saves }) => saves !== null).length;
  return h(
    "div",
    {
      class: savings > 0 ? "changes with-savings" : "changes",
      role: "group",
      "aria-label": "What to change",
    },
    h(
      "h3",
      {},
      "What to change ",
      savings > 1 &&
        h("span", { class: "note" }, "each saving assumes that nothing else changes; savings overlap"),
    ),
    h("ol", {}, found.slice(0, SHOWN).map(row)),
    found.length > SHOWN &&
      h(
        "details",
        {},
        h("summary", {}, `${count(found.length - SHOWN)} more`),
        h("ol", {}, found.slice(SHOWN).map(row)),
      ),
    togetherText(rank, found, perBank),
  );
}

/** `1 and 3 together: −2.1 GiB`, with the numbers of the list. */
function togetherText(
  rank: Rank,
  found: Suggestion[],
  perBank: (pool: string) => string,
): HTMLElement | null {
  const { combinations, suggestions } = rank.summary;
  const row = ({ suggestions: indexes, saves_per_bank: saves, pool, rules }: Combination) => {
    const numbers = indexes.map((index) => found.indexOf(suggestions[index]!) + 1);
    const first = numbers.slice(0, -1).join(", ");
    return h(
      "p",
      { class: "together", "data-together": rules.join(" ") },
      `${first} and ${numbers.at(-1)} together: −`,
      sizeElement(saves),
      perBank(pool),
    );
  };
  return combinations.length === 0 ? null : h("div", {}, combinations.map(row));
}

/** The tensors of a suggestion in groups of similar ones, folded. */
function tensorList(
  store: Store,
  rank: Rank,
  { groups, tensor_count: total, pool }: Suggestion,
): HTMLElement | null {
  if (groups.length === 0 || total === null) return null;
  const { suffix } = bankWords(rank.summary.pools[pool]?.extent ?? "bank");
  const left = groups.reduce((left, group) => left - group.count, total);
  return h(
    "details",
    { class: "tensors" },
    h("summary", {}, counted(total, "tensor")),
    groups.map((group) => h("div", { "data-group": group.count }, groupText(store, group, suffix))),
    left > 0 && h("p", { class: "note" }, `… and ${count(left)} more`),
  );
}

/** `27 × layers.*.weight 512x512 f32, 12.0 MiB/bank, allocated by steps 94–106 ttnn.full` */
function groupText(store: Store, group: SuggestionGroup, suffix: string): (Node | string | false)[] {
  const { name, shape, dtype, per_bank: bytes, first_step: first, last_step: last, op, loc } = group;
  const type = [shape && (shape.join("x") || "scalar"), dtype?.replace(/^torch\./, "")].filter(Boolean);
  const isKnown = name !== null || type.length > 0;
  const number = group.count > 1 ? `${count(group.count)} × ` : "";
  return [
    isKnown ? number : counted(group.count, "tensor"),
    name !== null && h("code", {}, shorten(name, 120)),
    name !== null && type.length > 0 && " ",
    `${type.join(" ")}, `,
    sizeElement(bytes),
    bytes === null ? "" : suffix,
    ...(first === null || last === null
      ? []
      : [", allocated by ", stepLink(store, first, stepRange(group.count, first, last))]),
    op !== null && first !== null && h("span", {}, " ", operationText(op, loc, group.locations)),
  ];
}

function factsText(rank: Rank): string {
  const { summary } = rank;
  const source = rank.report.summary.source;
  const parts = [
    summary.file,
    formatName(source.format),
    summary.runs > 0 ? counted(summary.runs, "run") : "",
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
      // The section about L1 also counts the buffers of programs.
      `${pool.name === "L1" && hasL1(rank.summary) ? "L1 tensors" : pool.name} peak`,
      level && h("span", { class: "level" }, `${percent(peak!, capacity!)} · ${level}`),
    ),
    h(
      "div",
      { class: "big", "data-fact": "peak" },
      isPeakAtLeast(summary) && h("small", {}, "at least "),
      sizeElementIn(peak, capacity),
      h("small", {}, bankWords(extent).perBank),
    ),
    capacity ? h("div", { class: "bar" }, h("i", { style: `width: ${Math.min(100, share * 100)}%` })) : null,
    roomText(summary),
    totalText(summary),
    levelsText(summary),
    causeText(store, rank, pool),
    run === null ? null : runPeak(pool, run),
    finalText(summary),
    (summary.not_watched ?? []).map((what) =>
      h(
        "p",
        { class: "aside", "data-fact": "not-watched" },
        `The actual peak may be higher. Not tracked: ${what}`,
      ),
    ),
  );
}

/** The memory that is allocated at the end. A pool that was never used has no such line. */
function finalText(pool: PoolSummary): HTMLElement | null {
  const { final_per_bank: bytes, final_source: source, extent, peak_per_bank: peak } = pool;
  if (!bytes && peak === 0) return null;
  const how = source === "rebuilt" ? "reconstructed" : source;
  return h(
    "p",
    { "data-fact": "final" },
    "at the end ",
    sizeElement(bytes),
    bytes === null ? "" : `${bankWords(extent).perBank}${how === null ? "" : ` (${how})`}`,
  );
}

/** The capacity. */
function roomText({ banks, extent, capacity_per_bank: capacity }: PoolSummary): HTMLElement | null {
  if (capacity === null && extent === "device") return null;
  if (capacity === null)
    return h("p", {}, banks === null ? "of unknown size" : `${counted(banks, "bank")} of unknown size`);
  const each = banks === null ? bankWords(extent).perBank : ` in each of ${counted(banks, "bank")}`;
  return h("p", {}, "of ", sizeElementIn(capacity, capacity), extent === "device" ? "" : each);
}

/** The peak of all banks together, if it differs from the figure above. */
function totalText({ extent, peak_total: total, peak_per_bank: peak }: PoolSummary): HTMLElement | null {
  if (total === null || peak === 0 || (extent === "device" && total === peak)) return null;
  return h("p", { "data-fact": "total" }, sizeElement(total), " on the device");
}

/** The counters of a caching allocator. CPU memory may have such counters as well, but none of it is ever reserved. */
function levelsText({ allocator }: PoolSummary): HTMLElement | null {
  if (!allocator?.reserved_peak_total) return null;
  const levels: [string, number | null][] = [
    ["requested", allocator.requested_at_peak_total],
    ["active", allocator.active_at_peak_total],
    ["reserved", allocator.reserved_at_peak_total],
  ];
  const known = levels.filter(([, bytes]) => bytes !== null);
  return h(
    "p",
    { "data-fact": "levels" },
    known.flatMap(([name, bytes], at) => [at > 0 ? ", " : "", sizeElement(bytes), ` ${name}`]),
    known.length > 0 ? "; reserved peak " : "reserved peak ",
    sizeElement(allocator.reserved_peak_total),
  );
}

/** The modules and operations that allocated the live tensors at the peak, excluding the model itself. */
function sourcesBox(rank: Rank): HTMLElement | null {
  const moment = rank.summary.peak;
  const found = moment?.made_in ?? [];
  // A single row for everything outside all parts is useless.
  if (!moment || found.every(({ name }) => name === null)) return null;
  const areModules = found.some(({ kind }) => kind === "forward");
  const what = areModules ? "module" : "named range";
  const heads: Heading[] = [
    [areModules ? "Module" : "Named range", false],
    ["Size", true],
    ["Share of peak", true],
    ["Tensors", true],
  ];
  const name = ({ name, kind, scopes }: MadeIn) => [
    h("code", {}, name ?? `outside all ${what}s`),
    kind === "backward" && name !== "backward" ? ", backward" : "",
    scopes > 1 ? h("span", { class: "note" }, ` (${count(scopes)} ${SIMILAR[kind ?? ""] ?? "modules"})`) : "",
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
      `Live activations by ${what} at the ${moment.pool} peak `,
      h("span", { class: "note" }, "similar layers share a row"),
    ),
    h("div", { class: "scroll-x" }, plainTable(heads, found.slice(0, MAX_SOURCES).map(row)).table),
    found.length > MAX_SOURCES &&
      h("p", { class: "note" }, `… and ${count(found.length - MAX_SOURCES)} more`),
  );
}

/** The moments that the program named, and the memory allocated at each of them. */
function checkpointsBox(store: Store, rank: Rank): HTMLElement | null {
  const found = rank.summary.checkpoints ?? [];
  if (found.length === 0) return null;
  const pools = rank.poolsInOrder.filter(({ name }) => found.some(({ pools }) => pools[name] != null));
  const heads: Heading[] = [
    ["Checkpoint", false],
    ["After", true],
    ["Position", false],
    ...pools.map(({ name }): Heading => [name, true]),
  ];
  const row = ({ name, time_ns: time, step, pools: sizes }: Checkpoint) => [
    h("td", { class: "op" }, h("code", {}, shorten(name, 80))),
    h("td", { class: "number" }, duration(time)),
    h(
      "td",
      { class: "nowrap" },
      step < rank.end ? stepLink(store, step, `before step ${count(step)}`) : "at the end",
    ),
    ...pools.map(({ name }) => h("td", { class: "number" }, sizeElement(sizes[name] ?? null))),
  ];
  return h(
    "details",
    { class: "changes", open: "", "data-fact": "checkpoints" },
    h("summary", {}, "Memory allocated at checkpoints"),
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
  if (!moment || moment.step === null) return h("p", {}, "never used");
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
    ? "caused by a change between two programs"
    : "allocated before the first step";
  return h("p", { "data-fact": "cause" }, `${why}; peak `, toPeak(`before step ${count(moment.step)}`));
}

function runPeak(pool: Pool, run: number): HTMLElement {
  const bytes = pool.runPeaks.perBank[run - 1] ?? Number.NaN;
  return h("p", { "data-fact": "run-peak" }, `in run ${count(run)}: `, sizeElement(bytes));
}

/** The card of a training session. */
function sessionCard(session: SessionSummary, index: number): HTMLElement {
  const { peak_bytes: peak, device_memory_bytes: device, final_bytes: end, parameters } = session;
  const { fits, level, growth } = session;
  const share = peak === null || device === null ? "" : `${percent(peak, device)} · `;
  return h(
    "article",
    { class: `card ${levelClass(level)}`, "data-session": index },
    h(
      "h3",
      {},
      `${session.name ?? `Summary ${index + 1}`}${session.finished ? "" : " (incomplete)"}`,
      fits !== null && h("span", { class: "level" }, `${share}${fits ? "fits" : "does not fit"}`),
    ),
    h(
      "div",
      { class: "big", "data-fact": "peak" },
      mibElement(peak),
      h("small", {}, peak === null ? " at the peak" : " MiB at the peak"),
    ),
    device === null
      ? h("p", {}, "device memory unknown")
      : h("p", {}, "of ", sizeElement(device), " on the device", session.estimated && ", estimated"),
    growth && growthText(growth),
    h("p", {}, "at the end ", mibElement(end), end === null ? "" : " MiB"),
    parameters !== null && h("p", {}, `${count(parameters)} parameters`),
  );
}

/** `grows by 250.0 MiB per iteration (after backward, over 12 iterations); the device is full after 3 more` */
function growthText({ phase, iterations, per_iteration_bytes: bytes, iterations_left: left }: Growth) {
  const full = left === null ? "" : `; the device is full after ${count(left + 1)} more`;
  return h(
    "p",
    { class: "growth", "data-fact": "growth" },
    h("strong", {}, "grows by ", sizeElement(bytes), " per iteration"),
    ` (after ${shorten(phase, 60)}, over ${counted(iterations, "iteration")})${full}`,
  );
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
      [h("data", { value: operations.total }, count(operations.total))],
      operations.reported === operations.total
        ? null
        : h(
            "span",
            {},
            h("data", { value: operations.reported }, count(operations.reported)),
            " excluding deallocations",
          ),
      !compiled
        ? null
        : operations.weight === null
          ? "weight operations unknown: the log does not list programs"
          : `${count(operations.weight)} for weights, ${count(operations.activation ?? 0)} for activations`,
    ),
  ];
  const twice = weights?.kept_twice_bytes ?? 0;
  const ofGraphs = [
    weights
      ? card(
          "weights",
          "Declared weights",
          [sizeElement(weights.bytes), h("small", {}, " without padding")],
          counted(weights.count, "weight"),
          twice > 0 ? h("span", {}, sizeElement(twice), " stored twice") : null,
          inputs && h("span", {}, `${counted(inputs.count, "input")}, `, sizeElement(inputs.bytes)),
        )
      : card("weights", "Weights", [unknown()], "the log has no graphs"),
    padding
      ? card(
          "padding",
          "Padding at the DRAM peak",
          [sizeElement(padding.padded_bytes - padding.logical_bytes)],
          h(
            "span",
            {},
            "of ",
            sizeElement(padding.padded_bytes),
            ` on the device (${paddingShare(padding)})`,
          ),
          padding.overhead_pct === null ? null : `adds ${padding.overhead_pct}% to the data size`,
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

/** Padding as a share of the padded size, as on the screen. */
function paddingShare({ padded_bytes: padded, logical_bytes: logical }: PaddingSummary): string {
  return percent(padded - logical, padded);
}

function unexplainedText(rest: number | null, all: number | null, pool: PoolSummary | undefined): string {
  const { quantum_per_bank: quantum, not_watched: missing } = pool ?? { quantum_per_bank: 0 };
  if (rest === null) return "the input does not list the live tensors";
  if (rest === 0 && missing?.length)
    return "all tracked memory is explained; the pool lists what is not tracked";
  if (rest === 0 && all) return `all of ${size(all)} is explained by tensors`;
  if (rest !== 0 && Math.abs(rest) <= quantum) return "within the rounding error";
  if (rest < 0) return "the tensors add up to more than the device reports";
  return all ? `${percent(rest, all)} of ${size(all)} is not explained by tensors` : "never used";
}

function unknown(): HTMLElement {
  return h("span", { class: "unknown" }, "unknown");
}

/** `DRAM 12 banks × 1024.0 MiB · L1 64 banks × 1300.5 KiB`: the pools, their banks and the capacity per bank. */
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
