// Tables and pools: no shape is cut next to empty space, no column is empty, and the pool that matters comes first.

import type { Page } from "@playwright/test";
import { hasRoom } from "../../src/data/summary";
import { choosePool, expect, show, showAll, test } from "./support/page";
import { corpus, corpusFile, logOf, recordingOfPyTorch, summary, trainingLog } from "./support/tool";

/** The columns with shapes. */
const SHAPES = ["Shape", "Result", "Operands"];
const OOM_OF_CUDA = corpusFile("ttmem/0.1.0/cuda_oom.ttmem");

/** The width that headings reserve for the arrow of a sorted column. */
const ARROW = 16;

/** The shapes that are cut, and the room in the columns next to them, which no text needs. */
function cutShapes(page: Page): Promise<{ text: string; room: number; lacks: number }[]> {
  return page.evaluate(
    ({ names, arrow }) => {
      const range = document.createRange();
      const widthOf = (cell: Element) => {
        range.selectNodeContents(cell);
        const style = getComputedStyle(cell);
        return (
          range.getBoundingClientRect().width +
          Number.parseFloat(style.paddingLeft) +
          Number.parseFloat(style.paddingRight)
        );
      };
      return [...document.querySelectorAll('[role="grid"], [role="treegrid"]')].flatMap((grid) => {
        const heads = [...grid.querySelectorAll('[role="columnheader"]')];
        const rows = [...grid.querySelectorAll("[data-row]")].map((row) => [...row.children]);
        const slack = heads.map((head, column) => {
          const cells = [head, ...rows.map((row) => row[column])];
          return Math.min(...cells.map((cell) => cell.getBoundingClientRect().width - widthOf(cell)));
        });
        const roomAt = (column: number) =>
          heads[column]?.classList.contains("number") ? 0 : Math.max(0, (slack[column] ?? 0) - arrow);
        return rows.flatMap((row) =>
          row
            .map((cell, column) => ({
              column,
              text: cell.textContent ?? "",
              lacks: cell.scrollWidth - cell.clientWidth,
              room: roomAt(column - 1) + roomAt(column + 1),
            }))
            .filter(({ column, lacks }) => lacks > 0 && names.includes(heads[column].textContent ?? "")),
        );
      });
    },
    { names: SHAPES, arrow: ARROW },
  );
}

/** The columns without a value, of all tables of the page. */
function emptyColumns(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const texts = (cells: Iterable<Element>) =>
      Array.from(cells, ({ textContent }) => textContent?.trim() ?? "");
    const of = (table: Element, heads: string, rows: string): string[] => {
      const bodies = Array.from(table.querySelectorAll(rows), (row) => [...row.children]);
      const filled = (cells: Element[]) =>
        cells.some((cell) => cell.childElementCount > 0 && cell.textContent === "") ||
        texts(cells).some((text) => !["", "–", "?", "unknown"].includes(text));
      return texts(table.querySelectorAll(heads)).filter(
        (_, column) => bodies.length > 0 && !filled(bodies.map((row) => row[column])),
      );
    };
    const visible = (table: Element) => table.getBoundingClientRect().height > 0;
    // Rows that are scrolled out of a long table may have values.
    const isComplete = (table: Element) =>
      table.querySelectorAll("[data-row]").length + 1 === Number(table.getAttribute("aria-rowcount"));
    return [
      ...[...document.querySelectorAll('[role="grid"], [role="treegrid"]')]
        .filter((table) => visible(table) && isComplete(table))
        .flatMap((table) => of(table, '[role="columnheader"]', "[data-row]")),
      ...[...document.querySelectorAll("table")]
        .filter(visible)
        .flatMap((table) => of(table, "thead th", "tbody tr")),
    ];
  });
}

for (const width of [1400, 700]) {
  test(`at ${width} pixels, no shape is cut next to empty space`, async ({ page, open }) => {
    await page.setViewportSize({ width, height: 900 });
    for (const name of ["vae-decoder", "llm-decode", "oom-fragmentation", "two-graphs"]) {
      await open(logOf(name));
      for (const section of ["live", "weights", "operations"]) await show(page, section);
      const cut = await cutShapes(page);
      expect(
        cut.filter(({ room, lacks }) => room >= lacks),
        name,
      ).toEqual([]);
      // Shapes of tensors and weights are never cut: they are short enough.
      const live = await page.locator("#live, #weights").evaluateAll((sections) =>
        sections.flatMap((section) => {
          const heads = Array.from(
            section.querySelectorAll('[role="columnheader"]'),
            ({ textContent }) => textContent,
          );
          const cells = [
            ...section.querySelectorAll(`[data-row] > :nth-child(${heads.indexOf("Shape") + 1})`),
          ];
          return cells
            .filter((cell) => cell.scrollWidth > cell.clientWidth)
            .map(({ textContent }) => textContent);
        }),
      );
      expect(live, name).toEqual([]);
    }
    await page.setViewportSize({ width: 1280, height: 900 });
  });
}

test("no table has a column without a value", async ({ page, open }) => {
  const files = [...corpus().map(logOf), trainingLog(), recordingOfPyTorch(), OOM_OF_CUDA];
  for (const file of files) {
    await open(file);
    await showAll(page);
    expect(await emptyColumns(page), file).toEqual([]);
  }
});

test("a column without a value is hidden, and shown again when it has one", async ({ page, open }) => {
  await open(OOM_OF_CUDA);
  await show(page, "live");
  const heads = () => page.locator("#live [role=columnheader]").allTextContents();
  const before = await heads();
  // No tensor of the recording has a known shape. CSV files keep the columns.
  expect(before).not.toContain("Shape");
  expect(before).not.toContain("Data size");
  await open(recordingOfPyTorch());
  await show(page, "live");
  expect(await heads()).toEqual([
    ...[
      "Name",
      "Class",
      "Shape",
      "Dtype",
      "Size",
      "Line",
      "Allocated by",
      "At step",
      "Freed by",
      "Data size",
    ],
  ]);
  await open(logOf("vae-decoder"));
  await show(page, "live");
  expect(await heads()).toContain("Padding");
  await choosePool(page, "live", "L1");
  await expect(page.locator("#live")).toContainText("No live tensors.");
  await choosePool(page, "live", "DRAM");
  expect(await heads()).toContain("Padding");
});

test("the pool that matters comes first in cards, tabs and selectors", async ({ page, open }) => {
  for (const file of [OOM_OF_CUDA, ...["oom-l1-small", "circular-buffers-clash", "vae-decoder"].map(logOf)]) {
    const [rank] = summary(file).ranks;
    const names = Object.keys(rank.pools).filter((name) => hasRoom(rank.pools[name]));
    expect(names[0]).toBe(rank.oom?.pool ?? "DRAM");
    await open(file);
    const cards = page.locator("#overview [data-pool]");
    expect(await cards.evaluateAll((all) => all.map((card) => card.getAttribute("data-pool")))).toEqual(
      names,
    );
    await show(page, "memory");
    expect(await page.locator("#memory [role=tab]").allTextContents()).toEqual(names);
    const selected = page.locator("#memory [role=tab][aria-selected=true]");
    await expect(selected).toHaveText(names[0]);
    await show(page, "live");
    expect(await page.locator("#live .tabs button").allTextContents()).toEqual(names);
    await expect(page.locator("#live .tabs button[aria-pressed=true]")).toHaveText(names[0]);
    // The arrow keys follow the order of the tabs.
    await selected.focus();
    await page.keyboard.press("ArrowRight");
    await expect(selected).toHaveText(names[1]);
    await page.keyboard.press("ArrowLeft");
    await expect(selected).toHaveText(names[0]);
    await page.keyboard.press("ArrowLeft");
    await expect(selected).toHaveText(names[names.length - 1]);
  }
  await open(OOM_OF_CUDA);
  await show(page, "gantt");
  expect(await page.locator(".gantt-pool option").allTextContents()).toEqual(["cuda:0", "cpu", "host"]);
});
