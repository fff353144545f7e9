// The page of `ttmem diff --page` shows the numbers of `ttmem diff --json`, over the steps of both inputs.

import { copyFileSync, mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Locator, Page } from "@playwright/test";
import { GUTTER, MARGIN_RIGHT } from "../../src/charts/layout";
import { size } from "../../src/format";
import type { Diff } from "../../src/generated/answers";
import { overflow, violations } from "./support/accessibility";
import { expect, frames, test, values, wordsOf } from "./support/page";
import { corpusFile, diffAnswer, diffPage, logOf, writtenLog } from "./support/tool";

const HOSTILE = `<img src=x onerror=window.hacked=1><script>window.hacked=1</script>${"N".repeat(80)}`;
const CAPACITY: [string, string] = [logOf("oom-capacity"), corpusFile("guides/capacity-bf16.log")];
const LEAK: [string, string] = [corpusFile("guides/flat.ttmem"), corpusFile("guides/grows.ttmem")];
const UNRELATED: [string, string] = [logOf("vae-decoder"), logOf("llm-decode")];
const SNAPSHOTS: [string, string] = [
  corpusFile("torch_snapshot/train_gpt2_30m.pickle.gz"),
  corpusFile("torch_snapshot/oom_gpt2_124m.pickle.gz"),
];
/** The places of `CAPACITY`: 28 steps of both, then 27 deallocations of the second input. */
const PLACES = 56;

async function openDiff(page: Page, files: [string, string], ...options: string[]): Promise<void> {
  await page.goto("about:blank");
  await page.goto(pathToFileURL(diffPage(...files, ...options)).href);
  await expect(page.locator("#app:not([aria-busy]) main")).toBeVisible();
  await frames(page);
}

const chartOf = (page: Page): Locator => page.locator("#timeline .chart").first();
const momentOf = (page: Page): Locator => page.locator(".diff-moment");
const changesOf = (page: Page): Locator => page.locator("#changes .table");

/** The screen coordinates of a place in the whole chart. */
async function at(page: Page, place: number, places: number): Promise<{ x: number; y: number }> {
  const box = (await chartOf(page).boundingBox())!;
  const width = box.width - GUTTER - MARGIN_RIGHT;
  return { x: box.x + GUTTER + (place / places) * width, y: box.y + 150 };
}

async function hover(page: Page, place: number, places: number): Promise<Locator> {
  const { x, y } = await at(page, place, places);
  await page.mouse.move(x, y);
  await frames(page);
  return chartOf(page).locator(".time-tooltip");
}

/** The peaks, rows and classes of the first rank, as the page shows them. */
async function expectNumbers(page: Page, answer: Diff): Promise<void> {
  const [rank] = answer.ranks;
  await expect(page.locator("#overview")).toContainText(rank.verdict);
  for (const [name, pool] of Object.entries(rank.pools)) {
    if (pool.before_per_bank === 0 && pool.after_per_bank === 0) continue;
    const row = page.locator("#overview tbody tr").filter({ hasText: name });
    const shown = [pool.before_per_bank, pool.after_per_bank, pool.change_per_bank || null];
    expect(await values(row), name).toEqual(shown.filter((bytes) => bytes !== null));
    await row.getByRole("button").click();
    await expect(page.locator("#timeline h2")).toContainText(`Memory of ${name}`);
    const classes = page.locator("#classes tbody tr");
    await expect(classes).toHaveCount(pool.by_class.length);
    for (const [index, own] of pool.by_class.entries()) {
      const change = own.after_per_bank - own.before_per_bank;
      const sizes = [own.before_per_bank, own.after_per_bank, ...(change === 0 ? [] : [change])];
      expect(await values(classes.nth(index)), own.class).toEqual(sizes);
    }
  }
  await expect(changesOf(page).locator('[role="grid"]')).toHaveAttribute(
    "aria-rowcount",
    String(rank.changes.length + 1),
  );
  for (const [index, change] of rank.changes.slice(0, 8).entries()) {
    const row = changesOf(page).locator(`[data-row="${index}"]`);
    await expect(row).toContainText(change.title);
    const sizes = [change.effect_per_bank || null, change.before_per_bank, change.after_per_bank];
    expect(await values(row), change.title).toEqual(sizes.filter((bytes) => bytes !== null));
  }
}

for (const [name, files] of Object.entries({ CAPACITY, LEAK, UNRELATED })) {
  test(`the numbers of the command: ${name}`, async ({ page }) => {
    await openDiff(page, files);
    await expectNumbers(page, diffAnswer(...files));
    expect(await wordsOf(page)).not.toMatch(/\b(NaN|undefined|null|Infinity)\b/);
  });
}

test("corresponding steps are at the same place, and others at their own", async ({ page }) => {
  await openDiff(page, CAPACITY);
  const both = await hover(page, 5, PLACES);
  await expect(both).toContainText("before step 5");
  await expect(both.locator(".diff-step").nth(0)).toContainText("step 5");
  await expect(both.locator(".diff-step").nth(1)).toContainText("step 5");
  await expect(both.locator(".diff-step").nth(1)).toContainText("ttnn.full");
  const [pool] = Object.values(diffAnswer(...CAPACITY).ranks[0].pools);
  const each = { before: (pool.before_per_bank ?? 0) / 27, after: 18.75 * 1024 ** 2 };
  await expect(both).toContainText(size(5 * each.before));
  await expect(both).toContainText(size(5 * each.after));
  await expect(both).toContainText(size(5 * (each.after - each.before)));
  const one = await hover(page, 40, PLACES);
  await expect(one.locator(".diff-step").nth(0)).toContainText("no such step, after its step 27");
  await expect(one.locator(".diff-step").nth(1)).toContainText("ttnn.deallocate");
  // The first input has ended there.
  await expect(one).toContainText("unknown");
  await expect(page.locator(".chart-legend").first()).toContainText("steps only after");
  await expect(page.locator(".chart-legend").first()).not.toContainText("steps only before");
});

test("a drag zooms, keys move the pinned moment", async ({ page }) => {
  await openDiff(page, CAPACITY);
  const reset = page.locator("#timeline").getByRole("button", { name: "Reset zoom" }).first();
  await expect(reset).toBeDisabled();
  const [from, to] = [await at(page, 10.3, PLACES), await at(page, 19.7, PLACES)];
  await page.mouse.move(from.x, from.y);
  await page.mouse.down();
  await page.mouse.move(to.x, to.y, { steps: 3 });
  await page.mouse.up();
  await expect(reset).toBeEnabled();
  const middle = await hover(page, 5, 10);
  await expect(middle).toContainText("before step 15");
  await reset.click();
  await expect(reset).toBeDisabled();
  await chartOf(page).focus();
  await page.keyboard.press("Home");
  await expect(momentOf(page)).toContainText("before step 0");
  for (let press = 0; press < 3; press++) await page.keyboard.press("ArrowRight");
  await expect(momentOf(page)).toContainText("before step 3");
  await page.keyboard.press("+");
  await expect(reset).toBeEnabled();
  await page.keyboard.press("0");
  await expect(reset).toBeDisabled();
  await page.keyboard.press("End");
  await expect(momentOf(page)).toContainText("at the end");
});

test("a change shows its tensors and where they live", async ({ page }) => {
  await openDiff(page, UNRELATED);
  const legend = page.locator("#timeline .chart-legend").first();
  await expect(legend).not.toContainText("selected change");
  const [{ changes }] = diffAnswer(...UNRELATED).ranks;
  await changesOf(page).locator('[data-row="0"]').click();
  const detail = page.locator(".diff-change");
  await expect(detail.locator("h3")).toHaveText(`${changes[0].title}: ${changes[0].detail}`);
  await expect(detail).toContainText("no such tensor");
  await expect(legend).toContainText("selected change, before");
  await expect(legend).not.toContainText("selected change, after");
  // A tensor of another pool: the chart shows that pool.
  const other = changes.findIndex(({ pool }) => pool === "L1");
  await changesOf(page).locator(`[data-row="${other}"]`).click();
  await expect(page.locator("#timeline h2")).toContainText("Memory of L1");
  await expect(legend).toContainText("selected change, after");
  await detail.getByRole("button", { name: "Clear selection" }).click();
  await expect(detail).toBeHidden();
  await expect(legend).not.toContainText("selected change");
});

test("reordered steps name the other place", async ({ page }) => {
  await openDiff(page, SNAPSHOTS);
  await expect(page.locator("#timeline .chart-legend").first()).toContainText("reordered steps");
  // The peak of the second input is at such a step.
  await expect(momentOf(page)).toContainText(/which is step [\d,]+ before/);
  await expect(momentOf(page)).toContainText("no such step");
});

test("a file and itself have one stretch", async ({ page }) => {
  await openDiff(page, [UNRELATED[0], UNRELATED[0]]);
  await expect(page.locator("#overview")).toContainText("No differences.");
  await expect(page.locator("#changes")).toContainText("No tensor differs.");
  const legend = page.locator("#timeline .chart-legend").first();
  await expect(legend).toHaveText("beforeafter");
});

test("several ranks, and --top", async ({ page }) => {
  const ranks = logOf("two-ranks-info-only");
  await openDiff(page, [ranks, ranks]);
  const choice = page.getByLabel("rank");
  await expect(choice.locator("option")).toHaveCount(diffAnswer(ranks, ranks).ranks.length);
  await choice.selectOption({ index: 1 });
  await expect(page.locator("#overview")).toContainText("No differences.");
  await openDiff(page, UNRELATED, "--top", "2");
  await expect(changesOf(page).locator("[data-row]")).toHaveCount(2);
  await expect(page.locator("#changes")).toContainText("changes with a smaller effect are not listed");
});

test("texts of the inputs run nothing", async ({ page }) => {
  const text = readFileSync(CAPACITY[0], "utf8");
  const before = writtenLog("hostile-diff", text.replaceAll("cache.0", HOSTILE));
  const after = join(mkdtempSync(join(tmpdir(), "ttmem-diff-")), "<img src=x>.log");
  copyFileSync(CAPACITY[1], after);
  await openDiff(page, [before, after]);
  await changesOf(page).locator('[data-row="0"]').click();
  await chartOf(page).focus();
  await page.keyboard.press("Home");
  await expect(page.locator("main")).toContainText("<img src=x");
  const found = await page.evaluate(() => ({
    hacked: (window as { hacked?: unknown }).hacked,
    made: document.querySelectorAll("#app script, #app img, #app style").length,
  }));
  expect(found).toEqual({ hacked: undefined, made: 0 });
  for (const width of [700, 1400]) {
    await page.setViewportSize({ width, height: 900 });
    await frames(page);
    expect(await overflow(page), String(width)).toBe(0);
  }
});

test("the page contains no addresses", () => {
  const html = readFileSync(diffPage(...CAPACITY), "utf8");
  expect(html).toContain("default-src 'none'");
  expect(html).not.toMatch(/(src|href)="(?!data:)[^"]/);
  expect(html).not.toMatch(/https?:\/\/(?!www\.w3\.org)/);
});

for (const theme of ["light", "dark"] as const) {
  for (const width of [700, 1280]) {
    test(`accessibility: ${theme}, ${width} pixels`, async ({ page }) => {
      await page.emulateMedia({ colorScheme: theme });
      await page.setViewportSize({ width, height: 900 });
      await openDiff(page, CAPACITY);
      await changesOf(page).locator('[data-row="0"]').click();
      await frames(page);
      expect(await violations(page)).toEqual([]);
      expect(await overflow(page)).toBe(0);
    });
  }
}
