// The flame graph and the call stacks match `ttmem FILE --flamegraph FILE.folded`.

import type { Locator } from "@playwright/test";
import { count } from "../../src/format";
import { overflow, violations } from "./support/accessibility";
import {
  choosePool,
  csvOf,
  expect,
  follow,
  frames,
  NO_NUMBER,
  show,
  test,
  value,
  wordsOf,
} from "./support/page";
import { corpusFile, foldedStacks, logOf, summary } from "./support/tool";

const RECORDING = corpusFile("guides/batch32.ttmem");

interface Shown {
  level: number;
  name: string;
  bytes: number;
}

/** The boxes on the page. */
function boxes(flame: Locator): Promise<Shown[]> {
  return flame.locator("[data-node]").evaluateAll((all) =>
    all.map((box) => ({
      level: Number(box.getAttribute("aria-level")),
      name: (box.getAttribute("title") ?? "").replace(/: [^:]*$/, ""),
      bytes: Number((box as HTMLElement).dataset.bytes),
    })),
  );
}

/** The sum of each path in folded stacks, and the total. */
function sumsOf(folded: string): { total: number; sums: Set<string> } {
  const bytes = new Map<string, number>();
  let total = 0;
  for (const line of folded.trimEnd().split("\n").slice(1)) {
    const [, path, number] = line.match(/^(.*) (\d+)$/) ?? [];
    const names = path.split(";");
    total += Number(number);
    for (let level = 1; level <= names.length; level++) {
      const key = names.slice(0, level).join(";");
      bytes.set(key, (bytes.get(key) ?? 0) + Number(number));
    }
  }
  const key = ([path, sum]: [string, number]) =>
    `${path.split(";").length + 1} ${path.split(";").at(-1)} ${sum}`;
  return { total, sums: new Set([...bytes].map(key)) };
}

async function compare(flame: Locator, folded: string): Promise<void> {
  const { total, sums } = sumsOf(folded);
  const shown = await boxes(flame);
  expect(shown[0]).toEqual({ level: 1, name: "all", bytes: total });
  for (const { level, name, bytes } of shown.slice(1)) expect(sums).toContain(`${level} ${name} ${bytes}`);
  expect(await value(flame.locator(".note").first())).toBe(total);
}

test("the flame graph has the bytes of the command at any moment", async ({ page, open }) => {
  await open(RECORDING);
  const flame = await show(page, "flame");
  expect((await boxes(flame)).length).toBeGreaterThan(60);
  await compare(flame, foldedStacks(RECORDING));
  for (const at of [1000, 2600, 6000]) {
    await follow(page, `#op=${at}`);
    await expect(flame).toContainText(`before step ${count(at)}`);
    await compare(flame, foldedStacks(RECORDING, "--at", String(at)));
  }
  expect(await wordsOf(page)).not.toMatch(NO_NUMBER);
});

test("the flame graph of allocated memory follows the visible range", async ({ page, open }) => {
  await open(RECORDING);
  const flame = await show(page, "flame");
  await flame.getByRole("button", { name: "Allocated in the range" }).click();
  await compare(flame, foldedStacks(RECORDING, "--flamegraph-of", "allocated"));
  const all = (await boxes(flame))[0].bytes;
  const end = summary(RECORDING).ranks[0].operations.total;
  await expect(flame).toContainText(`in steps 0 to ${count(end - 1)}`);
  // Zooming into a chart selects a smaller range.
  const memory = await show(page, "memory");
  await memory.locator(".chart").first().focus();
  await page.keyboard.press("+");
  await frames(page);
  await show(page, "flame");
  await expect(flame).not.toContainText("in steps 0 to");
  const part = (await boxes(flame))[0].bytes;
  expect(part).toBeGreaterThan(0);
  expect(part).toBeLessThan(all);
});

test("a click zooms in, and the path leads back", async ({ page, open }) => {
  await open(RECORDING);
  const flame = await show(page, "flame");
  const all = await boxes(flame);
  await flame.locator("[data-node]", { hasText: "forward train.py:25" }).first().click();
  await frames(page);
  const zoomed = flame.locator('[aria-selected="true"]');
  await expect(zoomed).toContainText("forward train.py:25");
  const width = await flame.locator(".flame").evaluate((element) => element.clientWidth);
  expect((await zoomed.boundingBox())!.width).toBeCloseTo(width, 0);
  const path = flame.getByRole("list", { name: "Zoomed line" });
  await expect(path).toContainText("forward train.py:25");
  await path.getByRole("button", { name: /main train\.py/ }).click();
  await expect(zoomed).toContainText("main train.py");
  await path.getByRole("button", { name: "Reset zoom" }).click();
  await frames(page);
  await expect(path).toBeHidden();
  expect(await boxes(flame)).toEqual(all);
});

test("the keyboard moves along the stacks and zooms", async ({ page, open }) => {
  await open(RECORDING);
  const flame = await show(page, "flame");
  await flame.locator("[data-node]").first().focus();
  const focused = () => page.evaluate(() => document.activeElement?.textContent ?? "");
  for (let turn = 0; turn < 9; turn++) await page.keyboard.press("ArrowDown");
  expect(await focused()).toBe("main train.py:62");
  await page.keyboard.press("ArrowRight");
  expect(await focused()).toContain("main");
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("ArrowUp");
  expect(await focused()).toBe("<module> train.py:75");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await frames(page);
  await expect(flame.locator('[aria-selected="true"]')).toHaveText("main train.py:62");
  expect(await focused(), "the focus stays on the box").toBe("main train.py:62");
  await page.keyboard.press("Escape");
  await frames(page);
  await expect(flame.locator('[aria-selected="true"]')).toHaveText("<module> train.py:75");
  expect(await flame.locator('[data-node][tabindex="0"]').count()).toBe(1);
});

test("the search highlights lines and adds up their memory", async ({ page, open }) => {
  await open(RECORDING);
  const flame = await show(page, "flame");
  await flame.getByRole("searchbox").fill("Linear.py");
  const names = await flame
    .locator(".match")
    .evaluateAll((all) => all.map((box) => box.getAttribute("aria-label")));
  expect(names.length).toBeGreaterThan(1);
  for (const name of names) expect(name).toContain("linear.py");
  const lines = foldedStacks(RECORDING).trimEnd().split("\n").slice(1);
  const matching = lines.filter((line) => line.includes("linear.py"));
  const bytes = matching.reduce((sum, line) => sum + Number(line.match(/\d+$/)?.[0]), 0);
  expect(await value(flame.locator('[data-fact="matched"]'))).toBe(bytes);
  await flame.getByRole("searchbox").fill("");
  await expect(flame.locator(".match")).toHaveCount(0);
  await expect(flame.locator('[data-fact="matched"]')).toBeEmpty();
});

test("live tensors have the line of the program and the whole stack", async ({ page, open }) => {
  await open(RECORDING);
  const live = await show(page, "live");
  const cell = live.locator("[data-row]").first().getByText("forward train.py:28");
  await expect(cell).toBeVisible();
  expect(await cell.getAttribute("title")).toMatch(
    /^forward \(.*linear\.py:134\)\n(.*\n)+<module> \(.*train\.py:75\)/,
  );
  await cell.click();
  const stack = live.getByRole("region", { name: "Call stack" });
  await expect(stack.locator("li").first()).toContainText("linear.py:134");
  await expect(stack.locator("li.program").last()).toContainText("train.py:75");
  const rows = await csvOf(page, "live");
  expect(rows.filter(({ line }) => line.endsWith("train.py:28)")).length).toBeGreaterThan(10);
});

test("charts show the program's lines of a tensor and a step", async ({ page, open }) => {
  await open(RECORDING);
  for (const id of ["memory", "tensors"]) {
    const section = await show(page, id);
    const box = (await section.locator(".time-area").first().boundingBox())!;
    const tooltip = section.locator(".time-tooltip");
    // Memory grows here; some of the steps free memory and have no stack.
    await expect(async () => {
      const across = 0.4 + Math.random() * 0.02;
      await page.mouse.move(box.x + box.width * across, box.y + box.height * (0.4 + Math.random() * 0.5));
      await frames(page);
      expect(await tooltip.textContent()).toMatch(/train\.py:\d+/);
    }).toPass({ timeout: 20_000, intervals: [50] });
  }
});

test("memory that is reserved but unallocated is shown", async ({ page, open }) => {
  await open(RECORDING);
  const memory = await show(page, "memory");
  await expect(memory.getByText("reserved but unallocated")).toBeVisible();
  const plot = memory.locator(".time-area").first();
  const box = (await plot.boundingBox())!;
  await page.mouse.move(box.x + box.width * 0.6, box.y + 20);
  await frames(page);
  await expect(memory.locator(".time-tooltip")).toContainText(/Reserved\s*[\d.]+ GiB/);
  await expect(memory.locator(".time-tooltip")).toContainText("Unallocated");
  await choosePool(page, "memory", "cpu");
  await expect(memory.getByText("reserved but unallocated")).toHaveCount(0);
});

test("a page without call stacks has no flame graph", async ({ page, open }) => {
  await open(logOf("vae-decoder"));
  await expect(page.locator("section#flame")).toHaveCount(0);
  await expect(page.locator("section#live")).toHaveCount(1);
});

for (const theme of ["light", "dark"] as const) {
  for (const width of [1280, 420]) {
    test(`the flame graph is accessible: ${theme}, ${width} px`, async ({ page, open }) => {
      await page.emulateMedia({ colorScheme: theme });
      await page.setViewportSize({ width, height: 900 });
      await open(RECORDING);
      const flame = await show(page, "flame");
      await flame.getByRole("searchbox").fill("linear");
      await frames(page);
      expect(await overflow(page), "no horizontal scrolling").toBeLessThanOrEqual(0);
      expect(await violations(page, "#flame")).toEqual([]);
    });
  }
}
