// The report page of every log in the corpus: it has all sections, with the numbers of `ttmem summary --json`.

import { readFileSync } from "node:fs";
import type { Locator, Page } from "@playwright/test";
import { hasRoom } from "../../src/data/summary";
import { count, percent, size } from "../../src/format";
import type { PoolSummary, RankSummary } from "../../src/generated/answers";
import { stepsText } from "../../src/increases";
import { levelClass } from "../../src/level";
import { stepRange } from "../../src/live/groups";
import {
  choosePool,
  expect,
  NO_NUMBER,
  SECTIONS,
  sectionsOf,
  show,
  showAll,
  test,
  value,
  values,
  wordsOf,
} from "./support/page";
import {
  corpus,
  corpusFile,
  jsonFilesOf,
  logOf,
  phasesText,
  recordingOfPyTorch,
  screenText,
  summary,
  trainingLog,
} from "./support/tool";

for (const name of corpus()) {
  test(`${name}: all sections with the summary's numbers`, async ({ page, open }) => {
    const log = logOf(name);
    const { ranks } = summary(log);
    await open(log);
    const ids = await sectionsOf(page);
    expect(ids.filter((id) => id !== "ranks")).toEqual(SECTIONS);
    expect(ids.includes("ranks")).toBe(ranks.length > 1);
    const sections = await read(page.locator("main section[id]"), { heading: "h2" });
    for (const [at, id] of ids.entries()) {
      expect(sections[at].parts.heading.map(({ text }) => text)).toEqual([expect.stringMatching(/\S/)]);
      expect(sections[at].attributes["aria-labelledby"]).toBe(`${id}-title`);
    }
    for (const [index, rank] of ranks.entries()) {
      if (index > 0) await page.locator("#rank-choice").selectOption(String(index));
      await checkRank(page, rank);
    }
    if (ranks.length > 1) await checkRanks(page, ranks);
  });
}

for (const name of [
  "ttnn_graph/linear-report.json",
  "ttrt_memory/memory_results.json",
  "ttnn_db/db.sqlite",
]) {
  test(`${name}: the same sections, and phases and L1 if there are any`, async ({ page, open }) => {
    const file = corpusFile(name);
    const [rank] = summary(file).ranks;
    await open(file);
    const ids = await sectionsOf(page);
    expect(ids.filter((id) => id !== "phases" && id !== "l1")).toEqual(SECTIONS);
    for (const id of ["phases", "l1"]) expect(ids.includes(id)).toBe(name.startsWith("ttnn_graph"));
    await checkRank(page, rank);
    await show(page, "memory");
    await choosePool(page, "memory", "DRAM");
    await show(page, "fragmentation");
    const pieces = page.locator("#fragmentation .blocks .block");
    await expect(pieces).toHaveCount(rank.fragmentation.DRAM?.blocks?.length ?? 0);
    await showAll(page);
    expect(await wordsOf(page)).not.toMatch(NO_NUMBER);
  });
}

test("a PyTorch recording: no banks, tiles or graphs, and a list of what was not tracked", async ({
  page,
  open,
}) => {
  const file = recordingOfPyTorch();
  const [rank] = summary(file).ranks;
  await open(file, { name: "train" });
  expect(await sectionsOf(page)).toEqual([
    ...["overview", "gantt", "memory", "live", "flame", "tensors", "consumers", "distribution", "operations"],
  ]);
  for (const [name, pool] of Object.entries(rank.pools)) {
    const card = page.locator(`#overview [data-pool="${name}"]`);
    expect(await value(card.locator('[data-fact="peak"]')), name).toBe(pool.peak_per_bank);
    const missing = (pool.not_watched ?? []).map(
      (what) => `The actual peak may be higher. Not tracked: ${what}`,
    );
    await expect(card.locator('[data-fact="not-watched"]')).toHaveText(missing);
  }
  expect(rank.pools.cpu.not_watched?.length).toBeGreaterThan(0);
  await expect(page.locator('#overview [data-pool="host"] [data-fact="cause"]')).toContainText(
    "sampled periodically",
  );
  const sources = rank.peak?.made_in ?? [];
  expect(sources.length).toBeGreaterThan(0);
  const shown = page.locator('#overview [data-fact="makers"] tbody tr');
  await expect(shown).toHaveCount(Math.min(sources.length, 8));
  await expect(shown.first()).toContainText(sources[0].name ?? "outside all modules");
  await expect(page.locator("#overview [data-card]")).toHaveCount(2);
  // The process has more memory than the tensors, but its pool is not selected initially.
  expect(rank.pools.host.peak_per_bank).toBeGreaterThan(rank.pools.cpu.peak_per_bank ?? 0);
  await show(page, "gantt");
  await expect(page.locator(".gantt-pool option:checked")).toHaveText("cpu");
  for (const pool of ["host", "cpu"]) {
    await show(page, "memory");
    await choosePool(page, "memory", pool);
    await showAll(page);
    const words = await wordsOf(page);
    expect(words, pool).not.toMatch(NO_NUMBER);
    expect(words, pool).not.toMatch(/\bbanks?\b|padding|the log\b/i);
  }
  await choosePool(page, "memory", "host");
  const live = await show(page, "live");
  await expect(live).toContainText("No tensors were tracked in host");
  for (const part of [".legend", ".treemap", "[role=treegrid]"])
    await expect(live.locator(part)).toBeHidden();
  await choosePool(page, "memory", "cpu");
  await expect(live.locator("[role=treegrid]")).toBeVisible();
  const heads = await page.locator("#live [role=columnheader]").allTextContents();
  expect(heads.map((text) => text.trim())).toContain("Size");
});

/** The content of an element. */
interface Shown {
  text: string;
  attributes: Record<string, string>;
  /** The values of its `data` elements, in bytes. */
  values: number[];
}

/** Reads elements and named parts of them in one call. The elements must be drawn already. */
function read<Part extends string>(
  elements: Locator,
  parts: Record<Part, string>,
): Promise<(Shown & { parts: Record<Part, Shown[]> })[]> {
  return elements.evaluateAll(
    (all, parts) => {
      const shown = (element: Element) => ({
        text: (element.textContent ?? "")
          .replace(/[\u200b\u00ad]/g, "")
          .replace(/\s+/g, " ")
          .trim(),
        attributes: Object.fromEntries([...element.attributes].map(({ name, value }) => [name, value])),
        values: [...element.querySelectorAll("data")].map(({ value }) => Number(value)),
      });
      return all.map((element) => ({
        ...shown(element),
        parts: Object.fromEntries(
          Object.entries(parts).map(([name, selector]) => [
            name,
            [...element.querySelectorAll(selector)].map(shown),
          ]),
        ),
      })) as never;
    },
    parts as Record<string, string>,
  );
}

/** Normalizes a text like `read` does. */
const plain = (text: string): string =>
  text
    .replace(/[\u200b\u00ad]/g, "")
    .replace(/\s+/g, " ")
    .trim();

/** The first number that an element shows; `null` if it shows "unknown". */
function numberIn({ text, values }: Shown): number | null {
  if (values.length > 0) return values[0];
  expect(text).toContain("unknown");
  return null;
}

/** The only element of a list. */
function only(found: Shown[]): Shown {
  expect(found).toHaveLength(1);
  return found[0];
}

async function checkRank(page: Page, rank: RankSummary): Promise<void> {
  await show(page, "overview");
  await checkPoolCards(page, rank);
  await checkCountCards(page, rank);
  await checkVerdict(page, rank);
  await checkSuggestions(page, rank);
  await checkConsumers(page, rank);
  await checkDistribution(page, rank);
  await checkWeights(page, rank);
  await checkPadding(page, rank);
  await checkPools(page, rank);
}

/** The pools that the page shows. */
function shownPools({ pools }: RankSummary): [string, PoolSummary][] {
  return Object.entries(pools).filter(([, pool]) => hasRoom(pool));
}

/** Suggestions match the summary; failures are in the verdict, and notes change nothing. */
async function checkSuggestions(page: Page, rank: RankSummary): Promise<void> {
  const found = rank.suggestions.filter(({ urgency }) => urgency === "risk" || urgency === "change");
  const rows = page.locator("#overview .changes li");
  await expect(rows).toHaveCount(found.length);
  const shown = await read(rows, {
    headline: "strong",
    tensors: ".tensors",
    tensorCount: ".tensors summary",
    groups: "[data-group]",
    saves: ".saves",
  });
  for (const [index, suggestion] of found.entries()) {
    const { rule, message, headline, saves_per_bank: saves, groups, tensor_count: total } = suggestion;
    const { text, attributes, parts } = shown[index];
    expect(attributes["data-rule"]).toBe(rule);
    expect(text).toContain(plain(message));
    expect(only(parts.headline).text).toBe(plain(headline));
    expect(parts.tensors).toHaveLength(groups.length > 0 ? 1 : 0);
    expect(parts.groups).toHaveLength(groups.length);
    if (groups.length > 0) expect(only(parts.tensorCount).text).toContain(`${count(total!)} tensor`);
    for (const [at, group] of groups.entries()) {
      const { text, values } = parts.groups[at];
      expect(values, rule).toEqual(group.per_bank === null ? [] : [group.per_bank]);
      if (group.count > 1) expect(text, rule).toContain(`${count(group.count)} × `);
      if (group.name !== null) expect(text, rule).toContain(plain(group.name));
      if (group.shape) expect(text, rule).toContain(group.shape.join("x"));
      if (group.first_step !== null)
        expect(text, rule).toContain(stepRange(group.count, group.first_step, group.last_step!));
    }
    expect(
      parts.saves.flatMap(({ values }) => values),
      rule,
    ).toEqual(saves === null ? [] : [saves]);
  }
}

async function checkPoolCards(page: Page, rank: RankSummary): Promise<void> {
  const cards = page.locator("#overview [data-pool]");
  await expect(cards).toHaveCount(shownPools(rank).length);
  const shown = await read(cards, {
    peak: '[data-fact="peak"]',
    total: '[data-fact="total"]',
    final: '[data-fact="final"]',
    cause: '[data-fact="cause"]',
    causeLocation: '[data-fact="cause"] .loc',
    level: ".level",
  });
  for (const [name, pool] of shownPools(rank)) {
    const [card] = shown.filter(({ attributes }) => attributes["data-pool"] === name);
    const { parts } = card;
    expect(numberIn(only(parts.peak)), name).toBe(pool.peak_per_bank);
    if (pool.peak_total === null || pool.peak_per_bank === 0) expect(parts.total).toEqual([]);
    else expect(numberIn(only(parts.total)), name).toBe(pool.peak_total);
    if (pool.peak_per_bank === 0 && !pool.final_per_bank) {
      expect(parts.final).toEqual([]);
    } else {
      expect(numberIn(only(parts.final)), name).toBe(pool.final_per_bank);
      expect(only(parts.final).text.includes("(reconstructed)"), name).toBe(pool.final_source === "rebuilt");
      expect(only(parts.final).text.includes("(measured)"), name).toBe(pool.final_source === "measured");
    }
    const { step, caused_by: cause } = rank.peaks[name];
    if (step === null) {
      expect(parts.cause).toEqual([]);
      expect(card.text).toContain("never used");
    } else if (cause) {
      expect(cause.step).toBe(pool.caused_by_step);
      const { text } = only(parts.cause);
      expect(text).toContain(`caused by step ${count(cause.step)}`);
      if (cause.op !== null) expect(text).toContain(plain(cause.op));
      if (cause.loc !== null) expect(only(parts.causeLocation).attributes.title).toBe(cause.loc);
    } else {
      expect(only(parts.cause).text).toContain(`before step ${count(step)}`);
    }
    if (pool.level === null) {
      expect(parts.level).toEqual([]);
    } else {
      const share = percent(pool.peak_per_bank ?? 0, pool.capacity_per_bank ?? 0);
      expect(only(parts.level).text).toBe(plain(`${share} · ${pool.level}`));
      expect(card.attributes.class).toBe(`card ${levelClass(pool.level)}`);
    }
  }
}

async function checkCountCards(page: Page, rank: RankSummary): Promise<void> {
  const card = (of: string) => page.locator(`#overview [data-card="${of}"]`);
  const { operations, weights, padding, inputs, peak } = rank;
  const { total, reported } = operations;
  expect(await values(card("operations"))).toEqual(total === reported ? [total] : [total, reported]);
  if (total > reported)
    await expect(card("operations")).toContainText(`${count(reported)} excluding deallocations`);
  if (operations.weight === null) await expect(card("operations")).toContainText("unknown");
  else {
    const split = `${count(operations.weight)} for weights, ${count(operations.activation ?? -1)} for activations`;
    await expect(card("operations")).toContainText(split);
  }
  if (weights) {
    const shown = [weights.bytes];
    if (weights.kept_twice_bytes) shown.push(weights.kept_twice_bytes);
    if (inputs) shown.push(inputs.bytes);
    expect(await values(card("weights"))).toEqual(shown);
    await expect(card("weights")).toContainText(`${count(weights.count)} weight`);
  } else {
    await expect(card("weights")).toContainText("the log has no graphs");
    expect(await values(card("weights"))).toEqual([]);
  }
  if (padding) {
    const { padded_bytes: padded, logical_bytes: logical } = padding;
    expect(await values(card("padding"))).toEqual([padded - logical, padded]);
    await expect(card("padding")).toContainText(`(${percent(padded - logical, padded)})`);
    if (padding.overhead_pct !== null)
      await expect(card("padding")).toContainText(`${padding.overhead_pct}%`);
  } else {
    await expect(card("padding")).toContainText("unknown");
    expect(await values(card("padding"))).toEqual([]);
  }
  if (peak) expect(await value(card("unexplained"))).toBe(peak.unexplained_per_bank);
  else await expect(card("unexplained")).toHaveCount(0);
}

async function checkVerdict(page: Page, { oom }: RankSummary): Promise<void> {
  const verdict = page.locator("#overview").getByRole("group", { name: "Verdict" });
  await expect(verdict).toHaveCount(oom ? 1 : 0);
  if (!oom) return;
  await expect(verdict).toContainText(/Out of (memory|L1)/);
  await expect(verdict.locator("strong").first()).toHaveText(oom.headline);
  // Ways out replace general advice.
  const ways = oom.ways_out.map(({ text }) => text);
  const said = [oom.detail, ...(ways.length > 0 ? ways : [oom.advice])];
  for (const text of said) await expect(verdict).toContainText(text!);
  if (oom.pool !== null) await expect(verdict).toContainText(oom.pool);
  if (oom.op !== null) await expect(verdict).toContainText(oom.op);
  if (oom.loc !== null) await expect(verdict).toContainText(oom.loc);
  // A request that never fits is compared with the capacity.
  const room = oom.cause === "never_fits" ? oom.capacity_per_bank : oom.free_per_bank;
  for (const bytes of [oom.requested_per_bank, oom.requested_total, room, oom.overlap_bytes]) {
    if (bytes !== null) await expect(verdict).toContainText(size(bytes));
  }
  if (oom.step !== null) await expect(verdict).toContainText(`before step ${count(oom.step)}`);
}

/** The largest increases in DRAM, with one row for identical steps. */
async function checkConsumers(page: Page, { pools, increases }: RankSummary): Promise<void> {
  if (!("DRAM" in pools)) return;
  const section = await show(page, "consumers");
  await choosePool(page, "consumers", "DRAM");
  const rows = section.locator("tbody tr");
  await expect(rows).toHaveCount(increases.length);
  if (increases.length === 0) await expect(section.locator(".note")).toHaveText(/\S/);
  const shown = await read(rows, { button: "button", added: '[data-fact="added"]', location: ".loc" });
  for (const [at, increase] of increases.entries()) {
    const { count: number, added_per_bank, op, loc, locations } = increase;
    const { text, parts } = shown[at];
    expect(parts.button[0].text).toBe(stepsText(increase));
    expect(numberIn(only(parts.added))).toBe(added_per_bank);
    expect(only(parts.added).text.endsWith(" each")).toBe(number > 1);
    expect(text).toContain(plain(op ?? "unknown operation"));
    if (loc !== null) expect(only(parts.location).attributes.title).toBe(loc);
    if (loc !== null && locations > 1 && !loc.includes("*"))
      expect(text).toContain(`and ${locations - 1} more`);
  }
}

async function checkDistribution(page: Page, { distribution }: RankSummary): Promise<void> {
  const section = await show(page, "distribution");
  const all = section.getByRole("button", { name: /^Show all/ });
  if (await all.isVisible()) await all.click();
  const ops = await section.locator(".bars .mono").allTextContents();
  const counts = await values(section.locator(".bars"));
  expect(ops.map((op, at) => ({ op, count: counts[at] }))).toEqual(distribution);
  if (distribution.length === 0) await expect(section).toContainText("The input does not list operations");
}

async function checkWeights(page: Page, { weights }: RankSummary): Promise<void> {
  const section = await show(page, "weights");
  if (!weights) {
    await expect(section).toContainText("The weights are unknown");
    await expect(section.getByRole("grid")).toBeHidden();
    return;
  }
  const note = section.locator(".section-body > .note");
  if (weights.count === 0) {
    await expect(note).toHaveText("The graphs declare no weights.");
    return;
  }
  await expect(note).toContainText(`${count(weights.count)} declared weight`);
  const shown = [weights.bytes, ...(weights.kept_twice_bytes ? [weights.kept_twice_bytes] : [])];
  expect(await values(note)).toEqual(shown);
  await expect(section.getByRole("grid")).toHaveAttribute("aria-rowcount", String(weights.count + 1));
  const rows = await read(section.locator("[data-position]"), {});
  for (const [at, weight] of weights.largest.entries()) {
    const row = rows[at];
    expect(row.text).toContain(plain(weight.name));
    if (weight.shape)
      expect(row.text).toContain(plain(`${weight.shape.join("x") || "scalar"} ${weight.dtype}`));
    expect(numberIn(row)).toBe(weight.bytes);
    expect(row.text.split("stored twice").length - 1).toBe(weight.kept_twice ? 1 : 0);
  }
}

async function checkPadding(page: Page, { padding }: RankSummary): Promise<void> {
  const section = await show(page, "padding");
  if (!padding) {
    await expect(section.locator(".note").filter({ hasText: /tensors/ })).not.toHaveCount(0);
    await expect(section.locator("canvas, table")).toHaveCount(0);
    return;
  }
  const { padded_bytes: padded, logical_bytes: logical } = padding;
  expect(await values(section.locator(".section-head"))).toEqual([padded - logical, padded]);
}

/** Each pool's fragmentation, and no invalid number on the page. */
async function checkPools(page: Page, rank: RankSummary): Promise<void> {
  const { fragmentation } = rank;
  for (const [at, [pool]] of shownPools(rank).entries()) {
    // The buttons of both sections select the pool for all sections.
    const chooser = at % 2 === 0 ? "memory" : "live";
    await show(page, chooser);
    await choosePool(page, chooser, pool);
    const section = await show(page, "fragmentation");
    const worst = fragmentation[pool];
    if (worst) {
      const { free_per_bank: free, largest_free_per_bank: largest } = worst;
      expect(await values(section.locator("tbody tr").first()), pool).toEqual([
        free,
        largest,
        free - largest,
      ]);
      expect((await values(section.locator(".section-head"))).slice(0, 2), pool).toEqual([free, largest]);
      // The rows of the table are groups of similar tensors.
      const survivors = await values(section.locator('[data-fact="survivors"] [data-row]'));
      const sum = (sizes: (number | null)[]) => sizes.reduce<number>((sum, size) => sum + (size ?? 0), 0);
      expect(sum(survivors), pool).toBe(sum(worst.survivors.map(({ per_bank }) => per_bank)));
      expect(survivors.length, pool).toBeLessThanOrEqual(worst.survivors.length);
    } else {
      await expect(section.locator("canvas, table"), pool).toHaveCount(0);
      await expect(section.locator(".section-body .note"), pool).toHaveText(/\S/);
    }
    await showAll(page);
    expect(await wordsOf(page), pool).not.toMatch(NO_NUMBER);
  }
}

async function checkRanks(page: Page, ranks: RankSummary[]): Promise<void> {
  const section = await show(page, "ranks");
  for (const [pool] of shownPools(ranks[0])) {
    await choosePool(page, "ranks", pool);
    const tiles = section.locator(".rank-tile");
    await expect(tiles).toHaveCount(ranks.length);
    for (const [at, { rank, pools }] of ranks.entries()) {
      await expect(tiles.nth(at)).toContainText(`rank ${rank}`);
      expect(await value(tiles.nth(at))).toBe(pools[pool].peak_per_bank);
    }
  }
}

/** Unknown values are labeled as such with the reason; they are not shown as 0. */
for (const name of ["info-only", "two-ranks-info-only", "memory-snapshot"]) {
  test(`${name}: explanations for missing data`, async ({ page, open }) => {
    await open(logOf(name));
    const live = await show(page, "live");
    await expect(live).toContainText("Memory can't be attributed to tensors");
    await expect(live.locator('[data-fact="explained"], [data-fact="unexplained"]')).toHaveCount(0);
    await expect(live.getByRole("treegrid")).toBeHidden();
    await expect(live.getByRole("button", { name: "Save as CSV" })).toBeHidden();
    for (const [id, why] of [
      ["tensors", /does not list tensors/],
      ["padding", /does not list tensors/],
    ] as const) {
      const section = await show(page, id);
      await expect(section.locator(".section-body .note")).toHaveText(why);
      await expect(section.locator(".section-body canvas, .section-body table")).toHaveCount(0);
    }
    const card = (of: string) => page.locator(`#overview [data-card="${of}"]`);
    await expect(card("padding")).toContainText("unknown");
    await expect(card("unexplained")).toContainText("does not list the live tensors");
    await expect(card("operations")).toContainText("unknown");
    if (name === "memory-snapshot") {
      await expect(await show(page, "operations")).toContainText("no operations");
      await expect(await show(page, "consumers")).toContainText("does not list operations");
      await expect(await show(page, "ir")).toContainText("The input has no graphs");
    }
  });
}

test("a training log: its summaries and phases, and no other sections", async ({ page, open }) => {
  const log = trainingLog();
  const [rank] = summary(log).ranks;
  await open(log);
  expect(await sectionsOf(page)).toEqual(["overview", "phases"]);
  await show(page, "phases");
  expect(rank.sessions.length).toBe(2);
  for (const [index, session] of rank.sessions.entries()) {
    const card = page.locator(`#overview [data-session="${index}"]`);
    expect(await value(card.locator("[data-fact=peak]"))).toBe(session.peak_bytes);
    await expect(card).toHaveClass(`card ${levelClass(session.level)}`);
    await expect(card).toContainText(index === 0 ? "fits" : "does not fit");
    const phases = rank.phases.filter((phase) => phase.session === index);
    const rows = page.locator(`#phases [data-session="${index}"] tbody tr`);
    await expect(rows).toHaveCount(phases.length);
    for (const [at, phase] of phases.entries()) {
      await expect(rows.nth(at).locator("th")).toHaveText(phase.name);
      expect(await values(rows.nth(at))).toEqual([
        phase.segment_peak_bytes,
        phase.allocations_bytes,
        phase.deallocations_bytes,
        phase.change_bytes,
        phase.cumulative_peak_bytes,
        phase.cumulative_current_bytes,
        phase.l1_peak_total_bytes,
      ]);
    }
  }
  expect(await wordsOf(page)).not.toMatch(NO_NUMBER);
});

test("a training session that grows says by how much", async ({ page, open }) => {
  const log = corpusFile("guides/phases-grow.log");
  const [session] = summary(log).ranks[0].sessions;
  await open(log);
  const card = page.locator('#overview [data-session="0"]');
  // The log does not say how much memory the device has, so it is unknown whether the session fits.
  await expect(card.locator(".level")).toHaveCount(0);
  await expect(card.locator("[data-fact=growth]")).toHaveText(
    "grows by 250.0 MiB per iteration (after ITERATION_COMPLETE, over 2 iterations)",
  );
  expect(await values(card.locator("[data-fact=growth]"))).toEqual([session.growth?.per_iteration_bytes]);
  await open(trainingLog());
  await expect(page.locator("#overview [data-fact=growth]")).toHaveCount(0);
});

/** The same number has the same name and unit as in `ttmem FILE --full`. */
for (const name of ["oom-fragmentation", "oom-capacity", "vae-decoder", "llm-decode"]) {
  test(`${name}: names and units of the screen`, async ({ page, open }) => {
    const screen = screenText(logOf(name));
    const found = (pattern: RegExp) => screen.match(pattern)?.[1] ?? `nothing like ${pattern} on the screen`;
    const [rank] = summary(logOf(name)).ranks;
    await open(logOf(name));
    const card = (selector: string) => page.locator(`#overview ${selector}`);
    await show(page, "memory");
    const peak = found(/^ +DRAM +(\S+ of \S+ MiB per bank \(\d+%\))/m);
    const position = found(/^Peak DRAM (before step \d+), caused by/m);
    await expect(page.locator("#memory .memory-facts")).toHaveText(`peak ${peak}, ${position}`);
    await expect(page.locator("#memory .time-flag")).toHaveText(position);
    await show(page, "live");
    await expect(page.locator("#live h2")).toHaveText(`Live in DRAM ${position}`);
    const selected = (await show(page, "operations")).locator("[data-row][aria-selected=true]");
    await expect(selected).toHaveAttribute("data-row", position.replace("before step ", ""));
    await expect(card('[data-pool="DRAM"] [data-fact="final"]')).toHaveText(
      `at the end ${found(/^ +DRAM at the end: (.*)$/m)}`,
    );
    const padding = found(/^ +Padding at the DRAM peak: (.*)$/m);
    await expect(card('[data-card="padding"] .big')).toHaveText(padding.split(" of ")[0]);
    await expect(card('[data-card="padding"] p').first()).toHaveText(`of ${padding.split(" of ")[1]}`);
    await expect((await show(page, "padding")).locator(".section-head")).toContainText(padding);
    const { total, reported } = rank.operations;
    expect(screen).toContain(
      total === reported ? `${total} operations` : `${total} operations (${reported} `,
    );
    // The classes of the live tensors, largest increases and the tensors between freed ones.
    for (const { groups } of screen.matchAll(/^ {2}(?<class>weights|inputs|activations) /gm)) {
      await expect(page.locator("#live .legend")).toContainText(groups?.class ?? "");
    }
    const steps = (await show(page, "consumers")).locator("tbody tr td:first-child");
    const rows = screen
      .split(/^ +largest increases.*$/m)[1]
      .trim()
      .split("\n")
      .slice(0, 3);
    for (const [at, row] of rows.entries()) {
      if (row.trim() === "") break;
      await expect(steps.nth(at)).toHaveText(row.trim().split(/ {2,}/)[0]);
    }
    // Pools that can't hold anything are on neither.
    expect(screen).not.toMatch(/^ +TRACE/m);
    await expect(card('[data-pool="TRACE"]')).toHaveCount(0);
  });
}

for (const name of ["guides/grows.ttmem", "guides/batch256.ttmem"]) {
  test(`${name}: the position of the peak and the checkpoints of the screen`, async ({ page, open }) => {
    const file = corpusFile(name);
    const [rank] = summary(file).ranks;
    const step = Number(
      screenText(file)
        .match(/^Peak cuda:0 before step ([\d,]+)/m)?.[1]
        .replaceAll(",", ""),
    );
    expect(step).toBe(rank.peak?.step);
    await open(file);
    await show(page, "memory");
    await expect(page.locator("#memory .time-flag")).toHaveText(`before step ${count(step)}`);
    const live = await show(page, "live");
    await expect(live.locator("h2")).toHaveText(`Live in cuda:0 before step ${count(step)}`);
    // The field is labelled with what its number means.
    await expect(live.locator(".live-controls")).toContainText("before step");
    await expect(live.getByLabel("Go to step")).toHaveValue(String(step));
    const rows = page.locator('#overview [data-fact="checkpoints"] tbody tr');
    const checkpoints = rank.checkpoints ?? [];
    await expect(rows).toHaveCount(checkpoints.length);
    for (const [at, { name, pools }] of checkpoints.entries()) {
      await expect(rows.nth(at)).toContainText(name);
      const sizes = Object.values(pools).filter((bytes) => bytes !== null);
      expect((await values(rows.nth(at))).sort()).toEqual(sizes.sort());
    }
  });
}

for (const name of ["oom-fragmentation", "oom-capacity"]) {
  test(`${name}: the chart marks the out-of-memory moment`, async ({ page, open }) => {
    await open(logOf(name));
    const section = await show(page, "memory");
    await expect(section.locator(".chart-legend")).toContainText("out of memory");
    // The red line is at the step that failed, and nowhere else.
    const { step } = summary(logOf(name)).ranks[0].oom!;
    const { total } = summary(logOf(name)).ranks[0].operations;
    const columns = await section.locator(".chart canvas").evaluate((canvas: HTMLCanvasElement) => {
      const plot = canvas.parentElement!.querySelector<HTMLElement>(".u-over")!;
      const ratio = canvas.width / canvas.clientWidth;
      const [left, width] = [plot.offsetLeft * ratio, plot.clientWidth * ratio];
      const line = canvas
        .getContext("2d")!
        .getImageData(left, (plot.offsetTop + plot.clientHeight * 0.6) * ratio, width, 1).data;
      const isRed = (at: number) => line[at] > 150 && line[at + 1] < 90 && line[at + 2] < 90;
      return Array.from({ length: Math.floor(width) }, (_, x) => x)
        .filter((x) => isRed(x * 4))
        .map((x) => x / width);
    });
    expect(columns.length).toBeGreaterThan(0);
    for (const at of columns) expect(at).toBeCloseTo(step! / total, 1.5);
  });
}

test("phases have the field names and the numbers of `ttmem phases`", async ({ page, open }) => {
  const log = trainingLog();
  await open(log);
  await show(page, "phases");
  // The command writes the groups `Segment` and `Cumulative` on a line of their own.
  const lines = phasesText(log).split("\n");
  const at = lines.findIndex((line) => /^ *Segment .*Cumulative/.test(line));
  const columns = lines[at + 1].trim().split(/ {2,}/);
  expect(columns).toContain("Allocations");
  const table = page.locator("#phases table").first();
  const heads = await table.locator("thead th").allTextContents();
  expect(heads.map((text) => text.replace(/^(Segment|Cumulative) /, "").toLowerCase())).toEqual(
    columns.map((text) => text.toLowerCase()),
  );
  expect(heads.filter((text) => /^(Segment|Cumulative) /.test(text))).toEqual([
    ...["Segment Peak", "Segment Change", "Cumulative Peak", "Cumulative Current"],
  ]);
  // The log has the same names, except for the peak in L1.
  for (const name of heads.slice(1, -1)) expect(readFileSync(log, "utf8")).toContain(`${name} `);
  const [first] = await table.locator("tbody tr").all();
  const shown = await first.locator("td").allTextContents();
  expect(lines[at + 2].trim().split(/ {2,}/).slice(1)).toEqual(shown);
});

test("JSON files only: explanations for missing data, and the rest is shown", async ({ page, open }) => {
  const folder = jsonFilesOf("small_model");
  const { ranks } = summary(folder);
  await open(folder);
  expect(await sectionsOf(page)).toEqual(SECTIONS);
  await checkRank(page, ranks[0]);
  const card = (of: string) => page.locator(`#overview [data-card="${of}"]`);
  const { total, reported } = ranks[0].operations;
  expect(total).toBe(reported);
  await expect(card("operations")).not.toContainText("deallocations");
  await expect(page.locator("#overview")).toContainText("do not record deallocations");
  for (const [id, why] of [
    ["live", /not when the results were freed/],
    ["tensors", /does not say when the operations' results were freed/],
    ["padding", /tensors live at the peak are unknown/],
  ] as const) {
    const section = await show(page, id);
    await expect(section.locator(".section-body")).toContainText(why);
  }
  await expect(await show(page, "ir")).toContainText("@main_const_eval_0");
});
