// The L1 of a core: the figures, the headroom over time and the map match `ttmem summary`.

import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import type { Locator, Page } from "@playwright/test";
import { count } from "../../src/format";
import type { L1Moment } from "../../src/generated/answers";
import {
  csvOf,
  expect,
  follow,
  frames,
  NO_NUMBER,
  sectionsOf,
  show,
  showAll,
  test,
  value,
  values,
  wordsOf,
} from "./support/page";
import { corpusFile, KEPT, recordingOfL1, summary } from "./support/tool";

const ALL = ["blocks", "sharded", "clash", "too-large"];
const FREE = ["headroom", "hole", "gap"];

/** The rows of the table, with numbers. */
async function segments(page: Page) {
  const rows = await csvOf(page, "l1");
  return rows.map((row) => ({
    ...row,
    part: row.part,
    content: row.content,
    start: row.address === "" ? Number.NaN : Number(row.address),
    end: row.end === "" ? Number.NaN : Number(row.end),
    bytes: Number(row.bytes),
  }));
}

const facts = (page: Page): Locator => page.locator('#l1 [data-fact="l1-step"]');
const title = (page: Page): Locator => page.locator("#l1 .l1-title");

for (const name of ALL) {
  test(`${name}: the figures of the summary`, async ({ page, open }) => {
    const file = recordingOfL1(name);
    const l1 = summary(file).ranks[0].l1!;
    await open(file);
    const ids = await sectionsOf(page);
    expect(ids.indexOf("l1")).toBe(ids.indexOf("memory") + 1);
    const section = await show(page, "l1");
    expect(await values(section.locator('[data-fact="l1-peak"]'))).toEqual([
      l1.peak?.bytes,
      l1.size_per_core,
    ]);
    expect(await value(section.locator('[data-fact="l1-headroom"]'))).toBe(l1.lowest_headroom?.headroom);
    for (const { name, bytes } of l1.peak!.parts) {
      expect(await value(section.locator(`[data-part="${name}"]`)), name).toBe(bytes);
    }
    const isBound = l1.unknown_programs > 0;
    await expect(section.getByText("at least")).toHaveCount(isBound ? 1 : 0);
    await expect(section.locator('[data-fact="l1-note"]')).toHaveText(l1.note === null ? [] : [l1.note]);
    // The step with the lowest headroom is one click away.
    const { step, op } = l1.lowest_headroom!;
    await section.locator(".card", { hasText: "Lowest headroom" }).getByRole("button").click();
    await frames(page);
    await expect(title(page)).toContainText(`while step ${count(step)}, ${op}`);
    await expect(section.locator(".time-flag")).toHaveText(`while step ${count(step)} runs`);
    expect(new URL(page.url()).hash).toContain(`op=${step}`);
  });

  test(`${name}: the map at many steps`, async ({ page, open }) => {
    const file = recordingOfL1(name);
    const { operations, l1 } = summary(file).ranks[0];
    const { size_per_core: size, small_region_per_core: small } = l1!;
    await open(file);
    await show(page, "l1");
    const lowest = l1!.lowest_headroom!.step;
    // About ten steps, and the one with the lowest headroom.
    const stride = Math.ceil(operations.total / 10);
    for (let step = lowest % stride; step < operations.total; step += stride) {
      const at = summary(file, "--at", String(step)).ranks[0].l1!.at!;
      await follow(page, `#op=${step}`);
      await expect(title(page)).toContainText(`step ${count(step)}, ${at.op}`);
      const rows = await segments(page);
      compare(rows, at, size!, small!);
      expect(await value(facts(page))).toBe(Math.abs(at.headroom!));
      // The map has a block for each row with an address.
      const placed = rows.filter(({ start }) => !Number.isNaN(start));
      await expect(page.locator("#l1 .l1-segment")).toHaveCount(placed.length);
    }
  });
}

/** Compares the segments of the fullest core with the summary. */
function compare(
  rows: Awaited<ReturnType<typeof segments>>,
  at: L1Moment,
  size: number,
  small: number,
): void {
  const sum = (parts: string[]) =>
    rows.filter(({ part }) => parts.includes(part)).reduce((sum, { bytes }) => sum + bytes, 0);
  expect(sum(["tensor"])).toBe(at.tensors);
  expect(sum(["L1_SMALL", "small tensor"])).toBe(small);
  const [overlap, room] = ["overlap", "headroom"].map((part) => rows.find((row) => row.part === part));
  if (at.headroom! < 0) expect(overlap?.bytes).toBe(-at.headroom!);
  else expect(room?.bytes).toBe(at.headroom);
  if (at.headroom! >= 0) {
    expect([room?.start, room?.end]).toEqual([at.program_end, at.lowest_tensor]);
    // Nothing overlaps, so the segments cover all addresses once.
    const own = rows.filter(({ start, content }) => !Number.isNaN(start) && !content.startsWith("in "));
    let next = size;
    for (const { start, end } of own) {
      expect(end).toBe(next);
      next = start;
    }
    expect(next).toBe(0);
  }
  if (at.circular_buffers !== null) {
    const own = rows.filter(({ content }) => !content.startsWith("in "));
    const bytes = (part: string) =>
      own.filter((row) => row.part === part).reduce((sum, { bytes }) => sum + bytes, 0);
    expect(bytes("circular buffer")).toBe(at.circular_buffers);
    expect(bytes("dataflow buffer")).toBe(at.dataflow_buffers);
    expect(bytes("scratchpad")).toBe(at.scratchpads);
  }
}

test("cores differ: the grid selects one, with the mouse and the keyboard", async ({ page, open }) => {
  const file = recordingOfL1("blocks");
  const { step, headroom } = summary(file).ranks[0].l1!.lowest_headroom!;
  await open(file, { hash: `#op=${step}` });
  const section = await show(page, "l1");
  const cores = section.locator("button.l1-core");
  await expect(cores).toHaveCount(64);
  const pressed = section.locator('.l1-core[aria-pressed="true"]');
  await expect(pressed).toHaveAttribute("aria-label", /^Core \(0, 0\), A: headroom /);
  const buffers = section.locator(".l1-segment.l1-dataflow");
  const most = await buffers.count();
  expect(most).toBeGreaterThan(0);
  const list = section.locator(".l1-classes li");
  expect(await list.count()).toBeGreaterThan(1);
  const classes = await list.allTextContents();
  const counts = classes.map((text) => Number(text.match(/(\d+) cores?:/)?.[1]));
  expect(counts.reduce((sum, cores) => sum + cores, 0)).toBe(64);
  // The last core has fewer buffers, and more headroom.
  await cores.last().click();
  await expect(title(page)).toContainText("Core (7, 7)");
  expect(await buffers.count()).toBeLessThan(most);
  expect(await value(facts(page))).toBeGreaterThan(headroom!);
  await page.keyboard.press("ArrowLeft");
  await expect(title(page)).toContainText("Core (6, 7)");
  await page.keyboard.press("ArrowUp");
  await expect(pressed).toBeFocused();
  await expect(title(page)).toContainText("Core (6, 6)");
  // The choice stays at another step; one tab stop for all cores.
  await section.getByRole("button", { name: "Previous program" }).click();
  await frames(page);
  await expect(title(page)).not.toContainText(`step ${step},`);
  await expect(section.locator('button.l1-core[tabindex="0"]')).toHaveCount(1);
  // Steps without a program and shards: all cores are equal.
  await follow(page, "#op=0");
  await expect(section.locator(".l1-cores")).toBeHidden();
  await expect(facts(page)).toContainText("No program runs");
  await expect(facts(page)).toContainText("All 64 cores are equal");
});

test("a segment selects its row, and a row its segment", async ({ page, open }) => {
  await page.setViewportSize({ width: 1500, height: 900 });
  await open(recordingOfL1("blocks"), { hash: "#op=22" });
  const section = await show(page, "l1");
  const tensor = section.locator(".l1-segment.l1-tensor").first();
  await expect(tensor).toHaveAttribute(
    "title",
    /^tensor, .*\n.*\n.*\naddresses .*\nallocated by step .*\non all cores$/,
  );
  await tensor.click();
  const selected = section.locator('[role="row"][aria-selected="true"]');
  await expect(selected).toContainText("tensor");
  await expect(section.locator(".l1-segment.selected")).toHaveCount(1);
  await section.getByRole("grid").focus();
  await page.keyboard.press("End");
  await page.keyboard.press("Enter");
  await expect(section.locator(".l1-segment.selected")).toHaveAttribute("title", /^reserved, /);
  // The step that allocated a tensor.
  const link = section.locator(".table-cell button.link").first();
  const step = (await link.textContent())!;
  await link.click();
  await frames(page);
  await expect(title(page)).toContainText(`while ${step},`);
});

test("the chart: the tooltip, the pin and the zoom of the other charts", async ({ page, open }) => {
  const file = recordingOfL1("blocks");
  await open(file);
  const section = await show(page, "l1");
  const area = section.locator(".time-area");
  await area.evaluate((element) => element.scrollIntoView({ block: "center" }));
  const box = (await area.boundingBox())!;
  const { operations, l1 } = summary(file).ranks[0];
  const { step, op } = l1!.lowest_headroom!;
  const at = { x: box.x + (step / operations.total) * box.width, y: box.y + 60 };
  await page.mouse.move(at.x, at.y);
  const tooltip = section.locator(".time-tooltip");
  await expect(tooltip).toContainText(`while step ${step} runs`);
  await expect(tooltip).toContainText(op!);
  await expect(tooltip).toContainText(
    /Headroom224\.7 KiB.*Program buffers end892,256.*Lowest tensor1,122,304/,
  );
  await page.mouse.click(at.x, at.y);
  await frames(page);
  await expect(title(page)).toContainText(`while step ${step},`);
  await expect(page.locator("#memory .time-flag")).toHaveText(`before step ${step}`);
  await section.getByRole("application").focus();
  await page.keyboard.press("ArrowRight");
  await frames(page);
  await expect(title(page)).toContainText(`while step ${step + 1},`);
  await page.keyboard.press("+");
  await frames(page);
  await expect(section.getByRole("button", { name: "Reset zoom" })).toBeEnabled();
  // Right after a step, the map shows that step.
  await follow(page, `#op=${step + 1}&side=early`);
  await expect(title(page)).toContainText(`while step ${step},`);
  await follow(page, `#op=${operations.total}`);
  await expect(title(page)).toContainText(`while step ${operations.total - 1},`);
});

test("a step that failed: the overlap, and a link from the verdict to the map", async ({ page, open }) => {
  const file = recordingOfL1("clash");
  const [{ oom, l1 }] = summary(file).ranks;
  await open(file);
  const verdict = page.locator("#overview .verdict");
  await expect(verdict).toContainText(oom!.headline);
  expect(oom!.ways_out.length).toBeGreaterThan(0);
  await expect(verdict.locator("[data-fact=ways-out] li")).toHaveText(oom!.ways_out.map(({ text }) => text));
  const lines = oom!.clash!.lines;
  await expect(verdict.locator("[data-fact=clash] dt")).toHaveText(lines.map(({ label }) => label));
  await expect(verdict.locator("[data-fact=clash] dd")).toHaveText(lines.map(({ text }) => text));
  await verdict.getByRole("button", { name: "map of L1" }).click();
  await frames(page);
  const section = page.locator("#l1");
  await expect(section).toBeInViewport();
  await expect(title(page)).toContainText(`step ${oom!.step}, ttnn.softmax, tries to run`);
  await expect(facts(page)).toContainText(
    `Program buffers would end at ${count(l1!.lowest_headroom!.program_end!)}`,
  );
  await expect(section.locator(".l1-segment.l1-overlap")).toHaveText("overlap 733.3 KiB");
  await expect(section.locator(".chart-legend")).toContainText("overlap: does not fit");
  await expect(section.locator(".card.bad")).toHaveCount(2);
});

test("an estimate that does not fit: the verdict, and tensors without gaps", async ({ page, open }) => {
  const file = recordingOfL1("too-large");
  const { verdict, lowest_headroom: lowest } = summary(file).ranks[0].l1!;
  await open(file, { hash: `#op=${lowest!.step}` });
  const box = page.locator("#overview .verdict");
  for (const text of [verdict!.headline, verdict!.detail!, verdict!.advice!])
    await expect(box).toContainText(text);
  await show(page, "l1");
  await expect(facts(page)).toContainText("Estimate: nothing ran, so tensors have no addresses");
  await expect(title(page)).toContainText("would run");
  const rows = await segments(page);
  expect(rows.filter(({ part }) => FREE.includes(part))).toEqual([]);
});

test("unknown program buffers and shards on other cores", async ({ page, open }) => {
  await open(recordingOfL1("sharded"), { hash: "#op=4" });
  const section = await show(page, "l1");
  await expect(section.locator(".chart-legend")).toContainText("at most");
  await expect(section.locator(".l1-segment.l1-headroom")).toContainText("program buffers unknown");
  await expect(facts(page)).toContainText("headroom at most");
  const empty = section.locator(".l1-segment.l1-empty");
  await expect(empty).toHaveCount(1);
  await expect(empty).toHaveAttribute("title", /no shard on this core.*\n[\s\S]*same addresses on all cores/);
  await section.getByRole("button", { name: /^Core \(0, 4\)/ }).click();
  await expect(empty).toHaveCount(3);
  // The same addresses, whichever core is selected.
  await expect(facts(page)).toContainText("lowest tensor at 925,696");
});

test("a capture without the layout of L1 has the figures and says what is missing", async ({
  page,
  open,
}) => {
  const file = corpusFile("ttnn_graph/linear-report.json");
  const l1 = summary(file).ranks[0].l1!;
  expect(l1.size_per_core).toBeNull();
  await open(file);
  const section = await show(page, "l1");
  expect(await value(section.locator('[data-fact="l1-peak"]'))).toBe(l1.peak?.bytes);
  await expect(section.locator('[data-fact="l1-note"]')).toHaveText(l1.note!);
  await expect(section.locator(".l1-map, .chart")).toHaveCount(0);
});

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

for (const name of ALL) {
  test(`${name}: accessible, printable, at any width, without odd numbers`, async ({ page, open }) => {
    const file = recordingOfL1(name);
    const { step } = summary(file).ranks[0].l1!.lowest_headroom!;
    mkdirSync(join(KEPT, "screenshots"), { recursive: true });
    await open(file, { hash: `#op=${step}` });
    for (const theme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme: theme });
      for (const width of theme === "light" ? [1400, 700, 420] : [1400, 700]) {
        await page.setViewportSize({ width, height: 900 });
        const section = await show(page, "l1");
        const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        expect(over, `${width} pixels`).toBeLessThanOrEqual(0);
        await section.screenshot({ path: join(KEPT, "screenshots", `l1-${name}-${theme}-${width}.png`) });
      }
      await page.setViewportSize({ width: 1280, height: 900 });
      await show(page, "l1");
      await page.evaluate(axe);
      expect(await violations(page), theme).toEqual([]);
    }
    await showAll(page);
    expect(await wordsOf(page)).not.toMatch(NO_NUMBER);
    mkdirSync(join(KEPT, "print"), { recursive: true });
    const pdf = await page.pdf({ path: join(KEPT, "print", `l1-${name}.pdf`), format: "A4" });
    const pages = pdf.toString("latin1").match(/\/Type\s*\/Page\b(?!s)/g) ?? [];
    expect(pages.length).toBeLessThanOrEqual(3);
  });
}

/** The violations that axe finds in the section. */
function violations(page: Page): Promise<string[]> {
  return page.evaluate(async () => {
    interface Axe {
      run(of: string, options: unknown): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }>;
    }
    const { axe } = window as unknown as { axe: Axe };
    const rules = { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"] };
    const { violations } = await axe.run("#l1", { runOnly: rules, resultTypes: ["violations"] });
    return violations.flatMap(({ id, nodes }) =>
      nodes.slice(0, 3).map(({ html }) => `${id}: ${html.slice(0, 160)}`),
    );
  });
}
