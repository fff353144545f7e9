// The gantt chart shows the numbers of `ttmem gantt --json`, on its own page and in a report.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import type { Locator, Page } from "@playwright/test";
import { count, size } from "../../src/format";
import { gutterOf, Layout, RIGHT, ROW } from "../../src/gantt/layout";
import { duration } from "../../src/gantt/time";
import type { Gantt } from "../../src/generated/answers";
import { overflow, violations } from "./support/accessibility";
import { expect, frames, open as openReport, show, test } from "./support/page";
import { corpusFile, ganttAnswer, ganttPage, summary, writtenProfile } from "./support/tool";

const MS = 1e6;
const THREADS = corpusFile("memory_profile/threads.json");

async function openGantt(page: Page, file: string): Promise<void> {
  await page.goto("about:blank");
  await page.goto(pathToFileURL(ganttPage(file)).href);
  await expect(page.locator("#app:not([aria-busy]) main")).toBeVisible();
  await frames(page);
}

const chartOf = (page: Page): Locator => page.locator(".gantt-chart");

/** The visible time range. */
async function shown(page: Page): Promise<[from: number, to: number]> {
  await frames(page);
  return chartOf(page).evaluate(({ dataset }) => [Number(dataset.from), Number(dataset.to)]);
}

/** The screen coordinates of a time in a row of the chart. */
async function placeOf(
  page: Page,
  answer: Gantt,
  row: number,
  ns: number,
): Promise<{ x: number; y: number }> {
  const rows = page.locator(".gantt-rows");
  const box = (await rows.boundingBox())!;
  const { width, scrolled } = await rows.evaluate((element) => ({
    width: element.clientWidth,
    scrolled: element.scrollTop,
  }));
  const [from, to] = await shown(page);
  const gutter = gutterOf(width);
  const [rank] = answer.ranks;
  let first = 0;
  const lanes = rank.lanes.map(({ name, rows }) => {
    first += rows;
    return { name, rows, first: first - rows };
  });
  const layout = new Layout({ lanes, rowCount: first } as never);
  const share = (ns - rank.first_ns - from) / (to - from);
  const x = box.x + gutter + share * (width - gutter - RIGHT);
  return { x, y: box.y + layout.topOf(row) - scrolled + ROW / 2 };
}

/** The chart row of a call. */
function rowOf(answer: Gantt, call: number): number {
  const [{ lanes, calls }] = answer.ranks;
  const before = lanes.slice(0, calls.lane[call]).reduce((sum, { rows }) => sum + rows, 0);
  return before + calls.row[call];
}

async function hover(page: Page, answer: Gantt, call: number): Promise<Locator> {
  const { began_ns, ended_ns } = answer.ranks[0].calls;
  const middle = (began_ns[call] + (ended_ns[call] ?? began_ns[call])) / 2;
  const place = await placeOf(page, answer, rowOf(answer, call), middle);
  await page.mouse.move(place.x, place.y);
  await frames(page);
  return page.locator(".time-tooltip");
}

/** A memory profile with the given calls. */
function profileOf(calls: { name: string; began: number; took: number; thread?: string; parent?: string }[]) {
  const operations: Record<string, unknown[]> = Object.create(null);
  for (const { name, began, took, thread = "MainThread", parent = null } of calls) {
    operations[name] ??= [];
    operations[name].push({
      ...{ start_ns: began, duration_ns: took, thread, parent, memory_delta_mb: 1 },
      ...{ allocated_bytes: 3 << 20, freed_bytes: 2 << 20, peak_bytes: 2 << 20, kept_bytes: 1 << 20 },
      ...{ allocations: 3, frees: 2, timestamp: "2025-01-13T10:00:00" },
    });
  }
  return {
    metadata: { operation_tracking_enabled: true, began_unix_ns: 1.7e18 },
    snapshots: [
      { timestamp: "2025-01-13T10:00:00", time_ns: 0, total_bytes: 4096, total_mb: 4096 / 2 ** 20 },
    ],
    operation_allocations: operations,
  };
}

test("tooltips show the command's numbers", async ({ page }) => {
  await openGantt(page, THREADS);
  const answer = ganttAnswer(THREADS);
  const { calls, scopes } = answer.ranks[0];
  for (let call = 0; call < calls.scope.length; call++) {
    const tooltip = await hover(page, answer, call);
    await expect(tooltip.locator(".gantt-name")).toHaveText(scopes.name[calls.scope[call]]);
    const took = (calls.ended_ns[call] ?? 0) - calls.began_ns[call];
    await expect(tooltip.locator('[data-fact="duration"]')).toHaveText(duration(took));
    for (const fact of ["change", "allocated", "freed", "peak", "kept"] as const) {
      await expect(tooltip.locator(`[data-fact="${fact}"] data`)).toHaveAttribute(
        "value",
        String(calls[fact][call]),
      );
    }
    await expect(tooltip.locator('[data-fact="start"]')).toContainText(
      (calls.began_ns[call] / 1e9).toFixed(3).slice(0, 4),
    );
    await expect(tooltip.locator('[data-fact="end"]')).toContainText(" s");
  }
});

test("a call without a known end is a mark with an unknown duration", async ({ page }) => {
  const file = corpusFile("memory_profile/server.json");
  await openGantt(page, file);
  const answer = ganttAnswer(file);
  const tooltip = await hover(page, answer, 0);
  await expect(tooltip.locator(".gantt-name")).toHaveText("model_forward");
  await expect(tooltip.locator('[data-fact="duration"]')).toContainText("unknown");
  await expect(tooltip.locator('[data-fact="end"]')).toHaveCount(0);
  await expect(tooltip.locator('[data-fact="allocated"]')).toContainText("unknown");
  await expect(tooltip.locator('[data-fact="change"] data')).toHaveAttribute(
    "value",
    String(320.5 * 2 ** 20),
  );
  await expect(page.locator(".gantt-summary")).toContainText("known duration");
  // The other device.
  await page.locator(".gantt-pool").selectOption({ label: "cpu" });
  await hover(page, answer, 0);
  await expect(page.locator(".time-tooltip")).toContainText("64.0 MiB in cpu");
});

test("the chart starts at the first call, not at the imports before it", async ({ page }) => {
  const late = [
    { name: "step", began: 5000 * MS, took: 200 * MS },
    { name: "forward", began: 5010 * MS, took: 80 * MS, parent: "step" },
  ];
  await openGantt(page, writtenProfile("late", profileOf(late)));
  const [from, to] = await shown(page);
  expect(from).toBeGreaterThan(4990 * MS);
  expect(from).toBeLessThan(5000 * MS);
  expect(to).toBe(5200 * MS);
  await expect(page.locator(".gantt-summary")).toContainText("The chart starts at the first call, 5.000 s");
  await page.getByRole("button", { name: "Show all", exact: true }).click();
  expect(await shown(page)).toEqual([0, 5200 * MS]);
  // A short wait is shown.
  await openGantt(
    page,
    writtenProfile("soon", profileOf([{ name: "step", began: 10 * MS, took: 200 * MS }])),
  );
  expect(await shown(page)).toEqual([0, 210 * MS]);
  await expect(page.getByRole("button", { name: "Show all", exact: true })).toBeDisabled();
  await expect(page.locator(".gantt-summary")).not.toContainText("starts at");
});

test("the wheel zooms at the cursor, dragging pans, a double click shows all", async ({ page }) => {
  await openGantt(page, THREADS);
  const answer = ganttAnswer(THREADS);
  const all = await shown(page);
  const place = await placeOf(page, answer, 1, 800 * MS);
  await page.mouse.move(place.x, place.y);
  await page.waitForTimeout(300); // until the page scroll gesture has ended
  await page.mouse.wheel(0, -300);
  const [from, to] = await shown(page);
  expect(to - from).toBeLessThan((all[1] - all[0]) * 0.7);
  expect((await placeOf(page, answer, 1, 800 * MS)).x).toBeCloseTo(place.x, 0);

  await page.mouse.down();
  await page.mouse.move(place.x + 100, place.y, { steps: 4 });
  await page.mouse.up();
  expect((await placeOf(page, answer, 1, 800 * MS)).x).toBeCloseTo(place.x + 100, 0);
  await expect(page.locator(".gantt-chosen"), "a drag is not a click").toContainText("No call selected");

  await page.getByRole("button", { name: "Show all", exact: true }).click();
  expect(await shown(page)).toEqual(all);
  const bar = await placeOf(page, answer, 1, 800 * MS);
  await page.mouse.dblclick(bar.x, bar.y);
  const [near, far] = await shown(page);
  expect(far - near).toBeLessThan(all[1]);
  await expect(page.locator(".gantt-chosen .gantt-name")).toHaveText("forward");
});

test("the keyboard works like the mouse", async ({ page }) => {
  await openGantt(page, THREADS);
  const chart = chartOf(page);
  const all = await shown(page);
  await chart.focus();
  await page.keyboard.press("+");
  const [from, to] = await shown(page);
  expect(to - from).toBeCloseTo((all[1] - all[0]) * 0.7, -2);
  await page.keyboard.press("ArrowRight");
  expect((await shown(page))[0]).toBeGreaterThan(from);
  await page.keyboard.press("ArrowLeft");
  expect((await shown(page))[0]).toBeCloseTo(from, -2);
  await page.keyboard.press("-");
  await page.keyboard.press("0");
  expect(await shown(page)).toEqual(all);
  await page.keyboard.press("/");
  await expect(page.getByLabel("Search calls")).toBeFocused();
  await page.keyboard.type("FORWARD");
  await expect(page.locator(".gantt-count")).toHaveText("2 of 9 calls");
  await page.keyboard.press("Enter");
  await expect(page.locator('.gantt-chosen [data-fact="start"]')).toContainText("0.2");
  await page.keyboard.press("Enter");
  await expect(page.locator('.gantt-chosen [data-fact="start"]')).toContainText("0.7");
  await page.keyboard.press("Escape");
  await expect(page.locator(".gantt-count")).toHaveText("");
  await expect(chart).toBeFocused();
});

test("hot paths show what a call retains, not the total of all calls", async ({ page }) => {
  const file = corpusFile("guides/grows.ttmem");
  await openGantt(page, file);
  const table = page.locator('[data-list="hot-paths"]');
  await expect(table.locator("th").last()).toHaveText("Retained per call");
  const cells = await table
    .locator("tbody tr")
    .evaluateAll((rows) =>
      rows.map((row) => [row.firstElementChild?.textContent, row.lastElementChild?.textContent]),
    );
  // The same as in `ttmem summary`: GPT returns 576.47 GiB in 30 calls, but each call only retains 19.21 GiB.
  for (const { name, retained_per_call_bytes: bytes, retaining_calls: calls } of summary(file).ranks[0].ran ??
    []) {
    const [, shown] = cells.find(([path]) => path === name) ?? [];
    expect(shown, name).toBe(bytes === 0 && calls === 1 ? "751.7 MiB once" : size(bytes));
  }
});

test("list entries move the chart", async ({ page }) => {
  await openGantt(page, THREADS);
  const [rank] = ganttAnswer(THREADS).ranks;
  const hot = page.locator('[data-list="hot-paths"] tbody tr');
  await expect(hot).toHaveCount(rank.hot_paths.length);
  await expect(hot.first()).toContainText(rank.hot_paths[0].path);
  await page.getByRole("button", { name: "request › preprocess" }).click();
  await expect(page.locator(".gantt-chosen .gantt-name")).toHaveText("preprocess");
  await expect(chartOf(page)).toBeFocused();
  const chain = page.locator('[data-list="chain"]');
  await expect(chain).toContainText(`${count(rank.chain.calls)} innermost calls`);
  await expect(chain).toContainText(duration(rank.chain.time_ns));
  const before = await pixels(page);
  await chain.getByRole("button", { name: "Highlight in chart" }).click();
  await frames(page);
  expect(await pixels(page)).not.toBe(before);
  const overlaps = page.locator('[data-list="overlaps"]');
  await expect(overlaps).toContainText(duration(rank.overlaps.time_ns));
  await overlaps.getByRole("button").first().click();
  const [from, to] = await shown(page);
  expect(from).toBeLessThan(200 * MS);
  expect(to).toBeGreaterThan(450 * MS);
  expect(to).toBeLessThan(rank.last_ns);
});

const pixels = (page: Page): Promise<string> =>
  page.locator(".gantt-rows canvas").evaluate((canvas) => (canvas as HTMLCanvasElement).toDataURL());

test("a report has the same chart as a section", async ({ page }) => {
  await openReport(page, THREADS);
  const section = await show(page, "gantt");
  await expect(section.locator(".gantt-chart")).toBeVisible();
  await expect(section.locator(".gantt-summary")).toContainText("9 calls in 2 lanes");
  await page.getByRole("button", { name: /theme/ }).click();
  await frames(page);
  const tooltip = await hover(page, ganttAnswer(THREADS), 0);
  await expect(tooltip.locator(".gantt-name")).toHaveText("request");
});

test("a report without calls has no such section", async ({ page }) => {
  await openReport(page, corpusFile("tt_log/vae-decoder.log"));
  await expect(page.locator("section#gantt")).toHaveCount(0);
});

const HOSTILE = [
  "</script><script>window.hacked=1</script>",
  "<img src=x onerror=window.hacked=1>",
  "__proto__",
  "constructor",
  "\u202eright to left",
  "W".repeat(5000),
  "",
];

test("hostile names are shown as text", async ({ page }) => {
  const calls = HOSTILE.map((name, at) => ({
    ...{ name, began: at * 100, took: 90, thread: `${name} ${at}`, parent: name },
  }));
  await openGantt(page, writtenProfile("hostile", profileOf(calls)));
  const answer = ganttAnswer(writtenProfile("hostile", profileOf(calls)));
  for (let call = 0; call < calls.length; call++) {
    const tooltip = await hover(page, answer, call);
    await expect(tooltip.locator(".gantt-name")).toHaveText(HOSTILE[call].trim());
  }
  await page.getByLabel("Search calls").fill("</script>");
  await expect(page.locator(".gantt-count")).toHaveText(`1 of ${HOSTILE.length} calls`);
  const found = await page.evaluate(() => ({
    hacked: (window as { hacked?: unknown }).hacked,
    made: document.querySelectorAll("#app img, #app script, #app svg").length,
    over: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  }));
  expect(found).toEqual({ hacked: undefined, made: 0, over: 0 });
});

// Defects of the previous tool, by their numbers in its list of defects.
test.describe("defects of the previous tool", () => {
  test("24: a bar covers the call's duration, and pauses stay empty", async ({ page }) => {
    const calls = [
      { name: "a", began: 0, took: 0.05 * MS },
      { name: "b", began: 50.05 * MS, took: 0.05 * MS },
    ];
    const file = writtenProfile("defect-24", profileOf(calls));
    await openGantt(page, file);
    const answer = ganttAnswer(file);
    await expect((await hover(page, answer, 0)).locator('[data-fact="duration"]')).toHaveText("50.00 µs");
    await expect((await hover(page, answer, 1)).locator('[data-fact="duration"]')).toHaveText("50.00 µs");
    const pause = await placeOf(page, answer, 0, 25 * MS);
    await page.mouse.move(pause.x, pause.y);
    await frames(page);
    await expect(page.locator(".time-tooltip .gantt-name")).toHaveCount(0);
  });

  test("25: two passes are four calls and a gap", async ({ page }) => {
    const calls = [0, 300].flatMap((at) => [
      { name: "Linear.a", began: at * MS, took: MS },
      { name: "Linear.b", began: (at + 1) * MS, took: MS },
    ]);
    const file = writtenProfile("defect-25", profileOf(calls));
    await openGantt(page, file);
    await expect(page.locator(".gantt-summary")).toContainText("4 calls in 1 lane");
    await expect(page.locator('[data-list="hot-paths"] tbody tr').first()).toContainText("2.000 ms");
    expect(ganttAnswer(file).ranks[0].calls.ended_ns[1]).toBe(2 * MS);
  });

  test("26, 27: rows are reused, and consecutive calls share one", () => {
    const three = [
      { name: "x", began: 0, took: 10 },
      { name: "y", began: 5, took: 10 },
      { name: "z", began: 10, took: 2 },
    ];
    const rows = (file: string) => ganttAnswer(file).ranks[0].calls.row;
    expect(rows(writtenProfile("defect-26", profileOf(three)))).toEqual([0, 1, 0]);
    const many = Array.from({ length: 1000 }, (_, n) => ({ name: "op", began: n * 20_000, took: 20_000 }));
    expect(new Set(rows(writtenProfile("defect-27", profileOf(many))))).toEqual(new Set([0]));
  });

  test("28, 29: many calls need few elements; zoom and memory work offline", async ({ page }) => {
    const many = Array.from({ length: 16_000 }, (_, n) => ({ name: "op", began: n * 40_000, took: 20_000 }));
    const file = writtenProfile("defect-28", profileOf(many));
    await openGantt(page, file);
    const bars = Number(await chartOf(page).getAttribute("data-bars"));
    expect(bars, "no more bars than pixels").toBeLessThan(2600);
    expect(await page.evaluate(() => document.querySelectorAll("*").length)).toBeLessThan(300);
    const answer = ganttAnswer(file);
    const tooltip = await hover(page, answer, 8000);
    await expect(tooltip).toContainText("calls share this pixel");
    await expect(tooltip.locator('[data-fact="change"] data')).toHaveAttribute("value", String(1 << 20));
    await chartOf(page).focus();
    for (let press = 0; press < 30; press++) await page.keyboard.press("+");
    const [from, to] = await shown(page);
    expect(to - from).toBeLessThan(MS);
    const html = readFileSync(ganttPage(file), "utf8");
    expect(html).not.toMatch(/(src|href)="(?!data:)[^"]/);
    expect(html).not.toMatch(/https?:\/\/(?!www\.w3\.org)/);
  });
});

for (const [theme, width] of [
  ["light", 1280],
  ["dark", 1280],
  ["light", 420],
] as const) {
  test(`accessibility: ${theme}, ${width} pixels`, async ({ page }) => {
    await page.emulateMedia({ colorScheme: theme });
    await page.setViewportSize({ width, height: 900 });
    await openGantt(page, THREADS);
    await page.getByRole("button", { name: "request › preprocess" }).click();
    expect(await violations(page)).toEqual([]);
    expect(await overflow(page)).toBe(0);
  });
}
