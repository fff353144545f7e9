// User interaction: zooming, pinning, selecting, searching, sorting, jumping to a graph and back, sharing a link.

import type { Locator, Page } from "@playwright/test";
import { count } from "../../src/format";
import { stepsText } from "../../src/increases";
import { choosePool, csvOf, expect, follow, frames, open, show, test, textOf, values } from "./support/page";
import { logOf, operationsOf, summary } from "./support/tool";

const VAE = logOf("vae-decoder");

/** The plot of a chart, inside its axes. */
const plotOf = (page: Page, section = "memory"): Locator => page.locator(`#${section} .time-area`).first();

/** The screen coordinates of a point in a plot, given as a share of its width. */
async function placeIn(plot: Locator, share: number): Promise<{ x: number; y: number }> {
  const box = (await plot.boundingBox())!;
  return { x: box.x + box.width * share, y: box.y + box.height * 0.5 };
}

async function drag(page: Page, plot: Locator, from: number, to: number): Promise<void> {
  const [start, end] = [await placeIn(plot, from), await placeIn(plot, to)];
  await page.mouse.move(start.x, start.y);
  await page.mouse.down();
  await page.mouse.move((start.x + end.x) / 2, end.y, { steps: 4 });
  await page.mouse.move(end.x, end.y, { steps: 4 });
  await page.mouse.up();
  await frames(page);
}

/** The visible range as shares of the whole run, read from the strip below the chart. */
async function shownPart(page: Page): Promise<[number, number]> {
  const { left, width } = await page.locator("#memory .strip-window").evaluate(({ style }) => ({
    left: Number.parseFloat(style.left),
    width: Number.parseFloat(style.width),
  }));
  return [left / 100, (left + width) / 100];
}

/** The pinned step according to the address. */
const pinned = (page: Page): Promise<number> =>
  page.evaluate(() => Number(new URLSearchParams(location.hash.slice(1)).get("op") ?? Number.NaN));

test.describe("charts", () => {
  test.beforeEach(async ({ page, open }) => {
    await open(VAE);
    await show(page, "memory");
  });

  test("dragging zooms all charts, and the button resets the zoom", async ({ page }) => {
    const reset = page.locator("#memory").getByRole("button", { name: "Reset zoom" });
    await expect(reset).toBeDisabled();
    expect(await shownPart(page)).toEqual([0, 1]);
    await drag(page, plotOf(page), 0.3, 0.6);
    await expect(reset).toBeEnabled();
    const [from, to] = await shownPart(page);
    expect(from).toBeCloseTo(0.3, 1);
    expect(to).toBeCloseTo(0.6, 1);
    const other = await show(page, "tensors");
    await expect(other.getByRole("button", { name: "Reset zoom" })).toBeEnabled();
    await other.getByRole("button", { name: "Reset zoom" }).click();
    await show(page, "memory");
    await expect(reset).toBeDisabled();
    expect(await shownPart(page)).toEqual([0, 1]);
  });

  test("the wheel zooms at the cursor, a double click shows all", async ({ page }) => {
    const place = await placeIn(plotOf(page), 0.5);
    await page.mouse.move(place.x, place.y);
    await page.waitForTimeout(300); // until the page scroll gesture has ended
    await page.mouse.wheel(0, -300);
    await frames(page);
    const [from, to] = await shownPart(page);
    expect(to - from).toBeLessThan(0.9);
    expect((from + to) / 2).toBeCloseTo(0.5, 1);
    await page.mouse.dblclick(place.x, place.y);
    await frames(page);
    expect(await shownPart(page)).toEqual([0, 1]);
  });

  test("dragging with Shift pans", async ({ page }) => {
    await drag(page, plotOf(page), 0.4, 0.6);
    const before = await shownPart(page);
    await page.keyboard.down("Shift");
    await drag(page, plotOf(page), 0.2, 0.7);
    await page.keyboard.up("Shift");
    const after = await shownPart(page);
    expect(after[1] - after[0]).toBeCloseTo(before[1] - before[0], 5);
    expect(after[0]).toBeLessThan(before[0]);
  });

  test("a click pins a moment, for all sections", async ({ page }) => {
    const { total } = summary(VAE).ranks[0].operations;
    const place = await placeIn(plotOf(page), 0.25);
    await page.mouse.click(place.x, place.y);
    await expect(page).toHaveURL(/#op=\d+/);
    expect((await pinned(page)) / total).toBeCloseTo(0.25, 1);
    const flag = page.locator("#memory .time-flag");
    await expect(flag).toHaveText(/step \d+/);
    const live = await show(page, "live");
    await expect(live.locator("h2")).toHaveText(/Live in DRAM (before|right after) step \d+/);
    await expect(live.getByLabel("Go to step")).toHaveValue(String(await pinned(page)));
    const operations = await show(page, "operations");
    await expect(operations.locator(`[data-row="${await pinned(page)}"]`)).toHaveAttribute(
      "aria-selected",
      "true",
    );
  });

  test("hovering shows a tooltip", async ({ page }) => {
    const place = await placeIn(plotOf(page), 0.6);
    await page.mouse.move(place.x, place.y);
    const tooltip = page.locator("#memory").getByRole("tooltip");
    await expect(tooltip).toBeVisible();
    await expect(tooltip).toContainText("Allocated");
    await expect(tooltip).toContainText(/tt(nn|core)\./);
    await page.mouse.move(0, 0);
    await expect(tooltip).toBeHidden();
  });

  test("the arrow keys move the pin", async ({ page }) => {
    await follow(page, "#op=100");
    await page.locator("#memory").getByRole("application").first().focus();
    const press = async (key: string) => {
      await page.keyboard.press(key);
      await frames(page);
      return pinned(page);
    };
    expect(await press("ArrowRight")).toBe(101);
    expect(await press("ArrowLeft")).toBe(100);
    expect(await press("Shift+ArrowRight")).toBe(110);
    expect(await press("Home")).toBe(0);
    expect(await press("ArrowLeft")).toBe(0);
    const { total } = summary(VAE).ranks[0].operations;
    expect(await press("End")).toBe(total);
    await page.keyboard.press("+");
    await expect(page.locator("#memory").getByRole("button", { name: "Reset zoom" })).toBeEnabled();
    await page.keyboard.press("Escape");
    await expect(page.locator("#memory").getByRole("button", { name: "Reset zoom" })).toBeDisabled();
  });

  test("a pool is selected for all sections", async ({ page }) => {
    await choosePool(page, "memory", "L1");
    await expect(page.locator("#memory").getByRole("tab", { name: "L1", exact: true })).toHaveAttribute(
      "aria-selected",
      "true",
    );
    await expect(page).toHaveURL(/pool=L1/);
    await expect((await show(page, "live")).locator("h2")).toContainText("in L1 ");
    await expect(await show(page, "consumers")).toContainText("L1");
    await expect(await show(page, "operations")).toContainText("L1 per bank");
    await choosePool(page, "live", "DRAM");
    await expect(page.locator("#live h2")).toContainText("in DRAM ");
  });

  test("the legend toggles lines", async ({ page }) => {
    const picture = () =>
      page
        .locator("#memory canvas")
        .first()
        .evaluate((canvas: HTMLCanvasElement) => canvas.toDataURL());
    const before = await picture();
    const key = page
      .locator("#memory")
      .getByRole("button", { name: /allocated/ })
      .first();
    await key.click();
    await frames(page);
    expect(await picture()).not.toBe(before);
    await key.click();
    await frames(page);
    expect(await picture()).toBe(before);
  });
});

test("a selected run restricts increases, distribution and operations", async ({ page, open }) => {
  await open(VAE);
  for (const run of [1, 2]) {
    await page.locator("#run-choice").selectOption(String(run));
    const [rank] = summary(VAE, "--run", String(run)).ranks;
    const consumers = await show(page, "consumers");
    await expect(consumers).toContainText(`in run ${run}`);
    const added = rank.increases.map(({ added_per_bank }) => added_per_bank);
    expect(await values(consumers.locator('[data-fact="added"]'))).toEqual(added);
    const steps = await consumers.locator("tbody tr td:first-child").allTextContents();
    const texts = rank.increases.map(stepsText);
    expect(steps).toEqual(texts);
    const distribution = await show(page, "distribution");
    expect(await distribution.locator(".bars .mono").allTextContents()).toEqual(
      rank.distribution.map(({ op }) => op),
    );
    expect(await values(distribution.locator(".bars"))).toEqual(rank.distribution.map(({ count }) => count));
    const operations = await show(page, "operations");
    await expect(operations.locator(".operations-count")).toHaveText(
      `${rank.operations.total} of 196 operations`,
    );
    const overview = await show(page, "overview");
    const peak = overview.locator('[data-pool="DRAM"] [data-fact="run-peak"]');
    expect(await values(peak)).toEqual([rank.pools.DRAM.peak_per_bank]);
  }
  await page.locator("#run-choice").selectOption("");
  await expect((await show(page, "operations")).locator(".operations-count")).toHaveText("196 operations");
});

test.describe("operations", () => {
  test.beforeEach(async ({ page, open }) => {
    await open(VAE);
    await show(page, "operations");
  });

  test("a search finds operations with all words in any column", async ({ page }) => {
    const all = await csvOf(page, "operations");
    expect(all).toHaveLength(196);
    const found = page.locator(".operations-count");
    for (const query of ["conv2d", "CONV2D callsite", "main_const_eval_5", "512x512", "no such thing"]) {
      await page.getByLabel("Search operations").fill(query);
      const words = query.toLowerCase().split(" ");
      const has = (row: Record<string, string>) =>
        words.every((word) =>
          [row.operation, row.location, row.results, row.operands, row.program].some((text) =>
            text.toLowerCase().includes(word),
          ),
        );
      const expected = all.filter(has);
      await expect(found).toHaveText(`${count(expected.length)} of 196 operations`);
      if (expected.length === 0)
        await expect(page.locator("#operations")).toContainText("No matching operations.");
      else expect(await csvOf(page, "operations")).toEqual(expected);
    }
    await page.getByLabel("Search operations").fill("");
    await expect(found).toHaveText("196 operations");
    await page.getByLabel("deallocations").uncheck();
    const { reported } = summary(VAE).ranks[0].operations;
    await expect(found).toHaveText(`${reported} of 196 operations`);
  });

  test("headings sort descending, ascending, then in the original order", async ({ page }) => {
    const heading = page.locator("#operations").getByRole("columnheader", { name: "Change" });
    const changes = async () => (await csvOf(page, "operations")).map((row) => row.change_per_bank);
    const natural = await changes();
    const numbers = natural.filter((text) => text !== "").map(Number);
    const known = (texts: string[]) => texts.filter((text) => text !== "").map(Number);
    await heading.getByRole("button").click();
    await expect(heading).toHaveAttribute("aria-sort", "descending");
    expect(known(await changes())).toEqual([...numbers].sort((a, b) => b - a));
    await heading.getByRole("button").click();
    await expect(heading).toHaveAttribute("aria-sort", "ascending");
    expect(known(await changes())).toEqual([...numbers].sort((a, b) => a - b));
    await heading.getByRole("button").click();
    await expect(heading).toHaveAttribute("aria-sort", "none");
    expect(await changes()).toEqual(natural);
  });

  test("a row pins its step, by mouse and keyboard", async ({ page }) => {
    const rows = page.locator("#operations [data-row]");
    await follow(page, "#op=3");
    await rows.and(page.locator('[data-row="5"]')).getByRole("gridcell").nth(1).click();
    await expect(page).toHaveURL(/#op=5$/);
    await page.locator("#operations").getByRole("grid").focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await expect(page).toHaveURL(/#op=6$/);
  });
});

test("from an operation to its line in the graph, and back", async ({ page, open }) => {
  await open(VAE);
  const operations = operationsOf(VAE).filter(({ result }) => result !== null);
  // Steps of both runs, of const-eval programs and of the main program.
  const steps = [3, 20, 45, 62, operations.length - 2].map((at) => operations[at]);
  for (const { step, mlir_op: op, result } of steps) {
    await follow(page, `#op=${step}`);
    const table = await show(page, "operations");
    await table.getByRole("button", { name: `Show step ${count(step)} in its graph` }).click();
    const ir = page.locator("#ir");
    await expect(ir).toBeInViewport();
    const line = ir.locator('.ir-line[aria-selected="true"]');
    await expect(line, `step ${step}`).toContainText(op);
    await expect(line, `step ${step}`).toContainText(nameOf(result!));
    await expect(line).toHaveClass(/marked/);
    await expect(ir.locator(".ir-where")).toContainText(`Step ${count(step)}`);
    // And back to the step.
    await line.getByRole("button").first().click();
    await expect(page.locator("#memory")).toBeInViewport();
    const label = await line.getByRole("button").first().getAttribute("aria-label");
    const back = Number(label?.match(/step ([\d,]+)/)?.[1].replaceAll(",", ""));
    await expect(page).toHaveURL(new RegExp(`#op=${back}$`));
    expect(back, "the step of the same run").toBe(step);
  }
});

/** `%1#0` is printed as `%1:2`, with the number of results. */
const nameOf = (result: string): string => result.split("#")[0];

test("a line of the graph leads to its step", async ({ page, open }) => {
  await open(VAE, { hash: "#op=190" });
  const ir = await show(page, "ir");
  await ir.getByLabel("Search this graph").fill("ttnn.conv2d");
  await expect(ir.locator(".ir-found")).toHaveText(/^\d+ of \d+$/);
  const line = ir.locator('.ir-line[aria-selected="true"]');
  await expect(line).toContainText("ttnn.conv2d");
  const step = Number(
    (await line.getByRole("button").first().getAttribute("aria-label"))?.match(/step (\d+)/)?.[1],
  );
  const operation = operationsOf(VAE).find((operation) => operation.step === step);
  expect(operation?.mlir_op).toBe("ttnn.conv2d");
  await expect(line).toContainText(nameOf(operation?.result ?? "?"));
  await line.getByRole("button").first().click();
  await expect(page).toHaveURL(new RegExp(`#op=${step}$`));
});

test("a search in a graph", async ({ page, open }) => {
  await open(VAE);
  const ir = await show(page, "ir");
  const field = ir.getByLabel("Search this graph");
  await field.fill("ttnn.conv2d");
  const found = ir.locator(".ir-found");
  await expect(found).toHaveText(/^\d+ of \d+$/);
  const [at, many] = ((await found.textContent()) ?? "").split(" of ").map(Number);
  await expect(ir.locator("mark.now")).toHaveText("ttnn.conv2d");
  const [saved] = await Promise.all([
    page.waitForEvent("download"),
    ir.getByRole("button", { name: "Save text" }).click(),
  ]);
  const text = await textOf(saved);
  expect(text.toLowerCase().split("ttnn.conv2d").length - 1).toBe(many);
  await field.press("Enter");
  await expect(found).toHaveText(`${(at % many) + 1} of ${many}`);
  await field.press("Shift+Enter");
  await expect(found).toHaveText(`${at} of ${many}`);
  for (let back = 0; back < at; back++) await field.press("Shift+Enter");
  await expect(found).toHaveText(`${many} of ${many}`);
  await field.fill("there is no such text");
  await expect(found).toHaveText("no matches");
});

test("the theme follows the system and the button", async ({ page }) => {
  await page.emulateMedia({ colorScheme: "dark" });
  await open(page, VAE);
  const html = page.locator("html");
  const look = async () => ({
    page: await page.evaluate(() => getComputedStyle(document.body).backgroundColor),
    ink: await page.evaluate(() => getComputedStyle(document.body).color),
    chart: await page
      .locator("#memory canvas")
      .first()
      .evaluate((canvas: HTMLCanvasElement) => canvas.toDataURL()),
  });
  await show(page, "memory");
  await expect(html).toHaveAttribute("data-theme", "dark");
  const dark = await look();
  await page.getByRole("button", { name: "Use the light theme" }).click();
  await expect(html).toHaveAttribute("data-theme", "light");
  await frames(page);
  const light = await look();
  for (const part of ["page", "ink", "chart"] as const) expect(light[part]).not.toBe(dark[part]);
  await page.getByRole("button", { name: "Use the dark theme" }).click();
  await frames(page);
  expect(await look()).toEqual(dark);
  // A manual choice is kept; otherwise the theme follows the system.
  await page.emulateMedia({ colorScheme: "light" });
  await frames(page);
  await expect(html).toHaveAttribute("data-theme", "dark");
  await page.reload();
  await expect(html).toHaveAttribute("data-theme", "light");
  await page.emulateMedia({ colorScheme: "dark" });
  await expect(html).toHaveAttribute("data-theme", "dark");
});

test.describe("links", () => {
  const heading = (page: Page) => page.locator("#live h2");

  test("a link opens the page at its moment", async ({ page, open }) => {
    await open(VAE, { hash: "#op=57" });
    await expect(heading(page)).toHaveText("Live in DRAM before step 57");
    await expect(page.locator("#live")).toBeInViewport();
    await open(VAE, { hash: "#op=57&pool=L1" });
    await expect(heading(page)).toHaveText("Live in L1 before step 57");
    await follow(page, "#op=12");
    await expect(heading(page)).toHaveText("Live in L1 before step 12");
    await follow(page, "#op=1517");
    await expect(heading(page)).toHaveText("Live in L1 at the end");
  });

  test("an invalid link shows the peak", async ({ page, open }) => {
    await open(VAE);
    await show(page, "live");
    const peak = await heading(page).textContent();
    for (const hash of [
      "#op=",
      "#op=-1",
      "#op=x",
      "#live",
      "#op=1e3",
      "#pool=HBM",
      "#%",
      "#rank=7",
      "#__proto__=1",
    ]) {
      await open(VAE, { hash });
      await show(page, "live");
      await expect(heading(page), hash).toHaveText(peak ?? "");
    }
  });

  test("the address written by the page restores the view", async ({ page, open }) => {
    await open(VAE, { hash: "#op=57&pool=L1" });
    await page.getByRole("button", { name: "Next step" }).click();
    await expect(page).toHaveURL(/#op=58&pool=L1$/);
    await page.getByRole("button", { name: "Previous step" }).click();
    await page.getByRole("button", { name: "Previous step" }).click();
    await expect(page).toHaveURL(/#op=56&pool=L1$/);
    await page.getByLabel("Go to step").fill("120");
    await page.getByLabel("Go to step").press("Enter");
    await expect(page).toHaveURL(/#op=120&pool=L1$/);
    const { hash } = new URL(page.url());
    await open(VAE, { hash });
    await expect(heading(page)).toHaveText("Live in L1 before step 120");
  });

  test("the cause of a peak links to the peak", async ({ page, open }) => {
    const log = logOf("llm-decode");
    await open(log, { hash: "#op=3" });
    await show(page, "overview");
    const { peaks } = summary(log).ranks[0];
    await page.locator('[data-pool="L1"] [data-fact="cause"]').getByRole("button").click();
    await expect(heading(page)).toContainText("in L1 ");
    await expect(page).toHaveURL(new RegExp(`#op=${peaks.L1.step}&pool=L1$`));
  });
});

test("ranks are selected by list, tile and link", async ({ page, open }) => {
  const log = logOf("two-ranks-info-only");
  const names = summary(log).ranks.map(({ rank }) => rank);
  await open(log);
  const facts = page.locator("#overview .facts");
  await expect(facts).toContainText(`rank ${names[0]} of 2`);
  await page.locator("#rank-choice").selectOption("1");
  await expect(facts).toContainText(`rank ${names[1]} of 2`);
  await expect(page).toHaveURL(new RegExp(`rank=${encodeURIComponent(names[1] ?? "")}`));
  const ranks = await show(page, "ranks");
  await expect(ranks.getByRole("button", { name: `rank ${names[1]}` })).toHaveAttribute(
    "aria-pressed",
    "true",
  );
  await ranks.getByRole("button", { name: `rank ${names[0]}` }).click();
  await expect(page.locator("#rank-choice")).toHaveValue("0");
  await open(log, { hash: `#op=7&rank=${names[1]}` });
  await expect(page.locator("#rank-choice")).toHaveValue("1");
  await expect(page.locator("#live h2")).toHaveText("Live in DRAM before step 7");
  await follow(page, `#op=9&rank=${names[0]}`);
  await expect(page.locator("#rank-choice")).toHaveValue("0");
  await show(page, "live");
  await expect(page.locator("#live h2")).toHaveText("Live in DRAM before step 9");
});
