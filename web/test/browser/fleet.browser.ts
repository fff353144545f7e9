// The page of `ttmem fleet report` shows the answers of `ttmem fleet`, for real and for made datasets.

import { copyFileSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Locator, Page } from "@playwright/test";
import { colorAt } from "../../src/fleet/colors";
import { gutterOf, MARKS } from "../../src/fleet/heat-painter";
import { HeatLayout, type Rows } from "../../src/fleet/layout";
import { partOf } from "../../src/format";
import { overflow, violations } from "./support/accessibility";
import { expect, frames, test, values, wordsOf } from "./support/page";
import {
  corpusFile,
  exported,
  exportedError,
  fleetPage,
  fleetRows,
  homeWithReport,
  logOf,
  madeFleet,
} from "./support/tool";

const HOSTILE = `</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1> "'& ${"N".repeat(60)}`;
const PARTS = 64;
const files = mkdtempSync(join(tmpdir(), "ttmem-fleet-"));

async function openFleet(page: Page, file: string): Promise<void> {
  await page.goto("about:blank");
  await page.goto(pathToFileURL(file).href);
  await expect(page.locator("#app:not([aria-busy]) main")).toBeVisible();
  await frames(page);
  await frames(page);
}

const canvasOf = (page: Page): Locator => page.locator(".heat-scroll canvas");
const tooltipOf = (page: Page): Locator => page.locator("#heat .time-tooltip");

/** The screen coordinates of a cell. All ranks are in one run. */
async function placeOf(
  page: Page,
  ranks: number,
  row: number,
  part: number,
  rows: Rows,
): Promise<{ x: number; y: number }> {
  const box = (await canvasOf(page).boundingBox())!;
  const layout = new HeatLayout([{ run: "", first: 0, count: ranks }], rows);
  const gutter = gutterOf(box.width, layout);
  const plot = box.width - gutter - MARKS;
  const scrolled = await page.locator(".heat-scroll").evaluate(({ scrollTop }) => scrollTop);
  const y = box.y + layout.topOf(row) + layout.row / 2 - scrolled;
  return { x: box.x + gutter + ((part + 0.5) / PARTS) * plot, y };
}

/** The color of a pixel of the heat map. */
async function colorOf(page: Page, place: { x: number; y: number }): Promise<number[]> {
  return canvasOf(page).evaluate((canvas: HTMLCanvasElement, { x, y }) => {
    const box = canvas.getBoundingClientRect();
    const ratio = canvas.width / box.width;
    const context = canvas.getContext("2d")!;
    return [...context.getImageData((x - box.x) * ratio, (y - box.y) * ratio, 1, 1).data];
  }, place);
}

/** A run of eight recordings, of which rank 5 ran out of memory, and a broken one. Returns their paths. */
function nightly(dataset: string): string[] {
  const paths = Array.from({ length: 8 }, (_, rank) => join(files, `rank${rank}.ttmem`));
  paths.forEach((path, rank) => {
    copyFileSync(corpusFile(`guides/batch${rank === 5 ? 256 : 32}.ttmem`), path);
  });
  const broken = join(files, "rank8.ttmem");
  writeFileSync(broken, readFileSync(paths[0]).subarray(0, 40));
  exported(dataset, "nightly", [...paths, broken], "--label", "commit=1a2b3c", "--label", "model=gpt");
  return paths;
}

test("tooltips, tables and the selected rank show the command's numbers", async ({ page }) => {
  const paths = nightly("nightly");
  await openFleet(page, fleetPage("nightly", homeWithReport(paths[5])));
  const ranks = fleetRows("nightly", "ranks");
  expect(ranks.map(({ file }) => file)).toEqual(paths);
  for (const [row, rank] of ranks.entries()) {
    const place = await placeOf(page, ranks.length, row, PARTS - 1, "named");
    await page.mouse.move(place.x, place.y);
    await frames(page);
    await expect(tooltipOf(page)).toContainText(`rank${row}.ttmem`);
    await expect(tooltipOf(page)).toContainText(partOf(Number(rank.peak_bytes), Number(rank.capacity_bytes)));
    // The cell has the color of its share: the last step is the peak of the rank that failed.
    if (row === 5) {
      const share = Number(rank.peak_bytes) / Number(rank.capacity_bytes);
      expect(await colorOf(page, place)).toEqual([...colorAt("light", Math.round(share * 255) / 255), 255]);
    }
  }
  const table = (question: string) => page.locator(`#${question} .table`);
  const outliers = fleetRows("nightly", "outliers");
  await expect(table("outliers").locator("[data-row]")).toHaveCount(outliers.length);
  const sizes = ["per_bank", "median_per_bank", "difference_per_bank"].map((name) => outliers[0][name]);
  expect(await values(table("outliers").locator('[data-row="0"]'))).toEqual(sizes);
  await expect(table("errors")).toContainText("rank8.ttmem");
  const [waste] = fleetRows("nightly", "waste");
  const wasted = ["padding_bytes", "unexplained_bytes", "unallocated_bytes", "peak_bytes"];
  // The padding of GPUs is unknown, so its cell is empty.
  const known = wasted.map((name) => waste[name]).filter((size) => size !== null);
  expect(known).toHaveLength(3);
  expect(await values(table("waste").locator('[data-row="0"]'))).toEqual(known);

  // A row of a table selects its rank, which has a report.
  await table("failures").locator('[data-row="0"]').getByText("nightly").click();
  const panel = page.locator("#rank");
  await expect(panel.locator("h3")).toHaveText("rank5.ttmem");
  await expect(panel).toContainText("commit=1a2b3c, model=gpt");
  const link = panel.getByRole("link", { name: "Open its report" });
  const target = new URL((await link.getAttribute("href")) ?? "", page.url());
  expect(readFileSync(target, "utf8")).toContain("<title>rank5 · ttmem</title>");
  await expect(table("closest").getByRole("link")).toHaveAttribute(
    "href",
    (await link.getAttribute("href")) ?? "",
  );

  // Another rank has none: the page shows the command.
  const place = await placeOf(page, ranks.length, 2, 10, "named");
  await page.mouse.click(place.x, place.y);
  await expect(panel.locator("code")).toHaveText(`ttmem report ${paths[2]}`);
  await expect(panel.getByRole("link")).toHaveCount(0);
});

test("the keyboard moves over ranks and runs", async ({ page }) => {
  madeFleet("keyboard", 3, 20);
  await openFleet(page, fleetPage("keyboard"));
  const chart = page.locator(".heat-chart");
  await chart.focus();
  for (const key of ["ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight"]) await page.keyboard.press(key);
  await expect(tooltipOf(page)).toContainText("rank 2, cuda:0");
  await expect(tooltipOf(page)).toContainText("nightly-0");
  await expect(page.locator("#heat [aria-live]")).toContainText("rank 2");
  await page.keyboard.press("Enter");
  await expect(page.locator("#rank h3")).toHaveText("rank 2");
  await page.keyboard.press("End");
  await expect(tooltipOf(page)).toContainText("rank 19");
  await expect(tooltipOf(page)).toContainText("nightly-2");
  await page.keyboard.press("Escape");
  await expect(tooltipOf(page)).toBeHidden();
  // The highest peak first: the planted rank is the first one of its run.
  await page.getByLabel("Order in a run").selectOption("highest peak");
  await chart.focus();
  await page.keyboard.press("End");
  for (let press = 0; press < 19; press++) await page.keyboard.press("ArrowUp");
  await expect(tooltipOf(page)).toContainText("rank 5, cuda:0");
  await expect(tooltipOf(page)).toContainText("Out of memory: cuda:0 is full.");

  const trend = page.locator(".trend-chart");
  await trend.focus();
  await page.keyboard.press("End");
  const tooltip = trend.locator(".time-tooltip");
  await expect(tooltip).toContainText("nightly-2");
  await expect(tooltip).toContainText("commit=c0ffee2");
  await expect(tooltip).toContainText("20 ranks, 1 ran out of memory");
  await page.keyboard.press("ArrowLeft");
  await expect(tooltip).toContainText("commit=c0ffee1");
  await page.keyboard.press("Enter");
  await expect(page.locator("#rank")).toContainText("nightly-1");
});

test("4,096 ranks: all are in view, rows scroll, and the planted rank stands out", async ({ page }) => {
  madeFleet("large", 8, 512);
  await openFleet(page, fleetPage("large"));
  const scroller = page.locator(".heat-scroll");
  const heights = () => scroller.evaluate((element) => [element.scrollHeight, element.clientHeight]);
  const [all, view] = await heights();
  expect(all).toBe(view);
  await expect(page.locator("#overview")).toContainText("4,096");
  await expect(page.locator("#overview")).toContainText("8 runs on 64 machines");
  await page.locator("#failures .table [data-row]").getByText("nightly-7").click();
  await expect(page.locator("#rank h3")).toHaveText("rank 5");
  await page.getByRole("button", { name: "Rows with names" }).click();
  await frames(page);
  const [high] = await heights();
  expect(high).toBeGreaterThan(4096 * 18);
  // The selected rank is in view.
  expect(await scroller.evaluate(({ scrollTop }) => scrollTop)).toBeGreaterThan(7 * 512 * 18 - 560);
  await expect(page.locator(".heat-selection")).toBeVisible();
  await scroller.evaluate((element) => {
    element.scrollTop = 0;
  });
  await frames(page);
  await expect(page.locator(".heat-selection")).toBeHidden();
});

test("texts of the dataset run nothing", async ({ page }) => {
  exported(
    "hostile",
    HOSTILE,
    [corpusFile("guides/batch256.ttmem")],
    "--label",
    `<b>=${HOSTILE}`,
    "--label",
    `model=${HOSTILE}`,
  );
  exported("hostile", "<script>window.hacked=1</script>", [
    logOf("two-ranks-info-only"),
    "/missing/<img src=x>",
  ]);
  await openFleet(page, fleetPage("hostile"));
  const chart = page.locator(".heat-chart");
  await chart.focus();
  for (let press = 0; press < 5; press++) {
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await frames(page);
  }
  await page.locator(".trend-chart").focus();
  await page.keyboard.press("End");
  await expect(page.locator("#errors")).toContainText("<img src=x>");
  await expect(page.locator("#heat")).toContainText("<script>window.hacked=1</script>");
  const found = await page.evaluate(() => ({
    hacked: (window as { hacked?: unknown }).hacked,
    made: document.querySelectorAll("#app script, #app img, #app style, #app b").length,
  }));
  expect(found).toEqual({ hacked: undefined, made: 0 });
  for (const width of [700, 1400]) {
    await page.setViewportSize({ width, height: 900 });
    await frames(page);
    expect(await overflow(page), String(width)).toBe(0);
  }
});

test("one rank, an error only, and no ranks", async ({ page }) => {
  exported("one", "r", [corpusFile("guides/batch32.ttmem")]);
  await openFleet(page, fleetPage("one"));
  await expect(page.locator("#overview")).toContainText("1 run on 1 machine");
  await expect(page.locator("#outliers")).toContainText("no run has three ranks");
  await expect(page.locator(".heat-chart")).toHaveAttribute("data-cells", /[1-9]/);

  exportedError("one", "broken", corpusFile("tt_log/malformed/not-a-log.txt"));
  await openFleet(page, fleetPage("one", null, "--run", "broken"));
  await expect(page.locator("#heat")).toContainText("The dataset has no ranks of the run broken.");
  await expect(page.locator("canvas")).toHaveCount(0);

  exportedError("error", "r", corpusFile("tt_log/malformed/not-a-log.txt"));
  await openFleet(page, fleetPage("error"));
  await expect(page.locator("#heat")).toContainText("The dataset has no ranks.");
  await expect(page.locator("#errors .table")).toContainText("not-a-log.txt");
  expect(await wordsOf(page)).not.toMatch(/\b(NaN|undefined|null|Infinity)\b/);
});

test("the page contains no addresses", () => {
  exported("plain", "r", [corpusFile("guides/batch32.ttmem")]);
  const html = readFileSync(fleetPage("plain"), "utf8");
  expect(html).toContain("default-src 'none'");
  expect(html).not.toMatch(/(src|href)="(?!data:)[^"]/);
  expect(html).not.toMatch(/https?:\/\/(?!www\.w3\.org)/);
});

for (const theme of ["light", "dark"] as const) {
  for (const width of [700, 1400]) {
    test(`accessibility: ${theme}, ${width} pixels`, async ({ page }) => {
      await page.emulateMedia({ colorScheme: theme });
      await page.setViewportSize({ width, height: 900 });
      madeFleet("looks", 4, 8);
      await openFleet(page, fleetPage("looks"));
      await page.locator("#failures .table [data-row]").getByText("nightly-3").click();
      expect(await violations(page)).toEqual([]);
      expect(await overflow(page)).toBe(0);
    });
  }
}
