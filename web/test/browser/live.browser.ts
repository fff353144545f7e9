// The live tensors at any moment match `ttmem summary --at`.

import type { Page } from "@playwright/test";
import { count } from "../../src/format";
import type { LiveTensor, PoolMoment } from "../../src/generated/answers";
import {
  choosePool,
  csvOf,
  expect,
  follow,
  frames,
  randomNumbers,
  recordsOf,
  show,
  test,
} from "./support/page";
import { corpusFile, logOf, madeLog, screenText, summary } from "./support/tool";

/** The logs, the rank, and the number of random positions to check. */
const CASES: { name: string; log: () => string; rank?: number; positions: number }[] = [
  { name: "vae-decoder", log: () => logOf("vae-decoder"), positions: 50 },
  { name: "llm-decode", log: () => logOf("llm-decode"), positions: 50 },
  { name: "two-graphs", log: () => logOf("two-graphs"), positions: 12 },
  { name: "oom-fragmentation", log: () => logOf("oom-fragmentation"), positions: 12 },
  { name: "submit-states", log: () => logOf("submit-states"), positions: 12 },
  { name: "a random log", log: () => madeLog("random", "random", "--seed", "7", "--keep"), positions: 12 },
  {
    name: "the second of two ranks",
    log: () => madeLog("ranks", "random", "--seed", "5", "--ranks", "2"),
    rank: 1,
    positions: 8,
  },
];

for (const { name, log, rank: index = 0, positions } of CASES) {
  test(`${name}: the live set at ${positions} random moments`, async ({ page, open }) => {
    const first = summary(log()).ranks[index];
    const rank = first.rank === null ? "" : `&rank=${encodeURIComponent(first.rank)}`;
    await open(log(), rank === "" ? {} : { hash: `#${rank}` });
    await show(page, "live");
    expect(first.peak?.live, "the log has tensors").toBeTruthy();
    compare(await look(page), first.peak!);
    expect(await csvOf(page, "live"), "the downloaded file").toEqual((await look(page)).rows);

    const end = first.operations.total;
    for (const [turn, at] of randomPositions(end, positions).entries()) {
      const { pools } = summary(log(), "--at", String(at)).ranks[index].at!;
      for (const [pool, moment] of Object.entries(pools)) {
        // Pools that were never used are only checked now and then.
        if (first.pools[pool].peak_step === null && turn % 10 > 0) continue;
        const when = at === end ? "at the end" : `before step ${count(at)}`;
        compare(await go(page, `#op=${at}&pool=${pool}${rank}`, `Live in ${pool} ${when}`), moment);
      }
    }
  });
}

const FILES = [logOf("vae-decoder"), logOf("oom-fragmentation"), logOf("llm-decode")];
const RECORDINGS = [corpusFile("guides/batch256.ttmem"), corpusFile("guides/grows.ttmem")];

test("similar tensors share a row, as on the screen", async ({ page, open }) => {
  for (const file of [...FILES, ...RECORDINGS]) {
    const [table] = screenText(file)
      .split(/^ +live, largest first.*$/m)[1]
      .split("\n\n");
    const lines = table
      .trim()
      .split("\n")
      .map((line) => line.trim());
    const titles = lines.filter((line) => !line.startsWith("…")).map((line) => line.split(/ {2,}/)[0]);
    expect(titles.length).toBeGreaterThan(2);
    await open(file);
    const live = await show(page, "live");
    const names = await live.locator("[data-row] > :first-child").allTextContents();
    for (const [at, title] of titles.entries()) {
      if (title === "–") {
        expect(names[at], file).toBe("unnamed");
        continue;
      }
      // The screen cuts long names.
      const [head, tail = ""] = title.split("…");
      expect(names[at].startsWith(head) && names[at].endsWith(tail), `${file}: ${names[at]}, ${title}`).toBe(
        true,
      );
    }
    // Tensors that lie between free blocks are grouped too.
    const between = Object.values(summary(file).ranks[0].fragmentation).find(
      ({ survivors }) => survivors.length > 1,
    );
    if (!between) continue;
    const rows = (await show(page, "fragmentation")).locator('[data-fact="survivors"] [data-row]');
    const groups = await rows.count();
    expect(groups).toBeLessThan(between.survivors.length);
    const group = rows.filter({ hasText: " × " }).first();
    const members = Number.parseInt((await group.textContent()) ?? "", 10);
    await group.locator("> :first-child").click();
    await expect(page.locator('[data-fact="survivors"] [role=treegrid]')).toHaveAttribute(
      "aria-rowcount",
      String(groups + members + 1),
    );
  }
});

test("a group expands with the mouse and the keyboard", async ({ page, open }) => {
  await open(logOf("oom-fragmentation"));
  const live = await show(page, "live");
  const grid = live.getByRole("treegrid");
  const rows = grid.locator("[data-row]");
  const group = rows.filter({ hasText: "13 × " });
  const count = Number(await grid.getAttribute("aria-rowcount"));
  const sizes = () =>
    rows.locator("data").evaluateAll((all) => all.map((data) => data.getAttribute("value")));
  await expect(group).toHaveAttribute("aria-expanded", "false");
  await group.locator("> :nth-child(3)").click();
  await expect(group).toHaveAttribute("aria-expanded", "true");
  await expect(grid).toHaveAttribute("aria-rowcount", String(count + 13));
  await expect(grid.locator('[aria-level="2"]').first()).toContainText("%64");
  // The tiles of its tensors are selected.
  await expect(live.locator(".tile.selected")).toHaveCount(13);
  await grid.focus();
  await page.keyboard.press("Enter");
  await expect(grid).toHaveAttribute("aria-rowcount", String(count));
  await page.keyboard.press("ArrowRight");
  await expect(group).toHaveAttribute("aria-expanded", "true");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await expect(grid.locator("[aria-selected=true]")).toContainText("%65");
  await page.keyboard.press("Enter");
  await expect(live.locator(".tile.selected")).toHaveText(/%65/);
  await page.keyboard.press("ArrowLeft");
  await expect(group).toHaveAttribute("aria-selected", "true");
  await page.keyboard.press("ArrowLeft");
  await expect(grid).toHaveAttribute("aria-rowcount", String(count));
  const natural = await sizes();
  // Sorting keeps the tensors of a group together.
  await group.locator("> :nth-child(3)").click();
  await grid.getByRole("button", { name: "Name" }).click();
  const names = await rows.locator("> :first-child").allTextContents();
  const at = names.findIndex((name) => name.startsWith("13 × "));
  expect(names.slice(at + 1, at + 3)).toEqual(["%64", "%65"]);
  for (const _ of [1, 2]) await grid.getByRole("button", { name: "Name" }).click();
  await group.locator("> :nth-child(3)").click();
  expect(await sizes()).toEqual(natural);
  // A group that was expanded stays so at another moment, and a tile leads to its tensor.
  await live.locator(".tile", { hasText: "%66" }).click();
  await expect(group).toHaveAttribute("aria-expanded", "true");
  await expect(grid.locator("[aria-selected=true]")).toContainText("%66");
  await follow(page, "#op=106");
  await expect(rows.filter({ hasText: "12 × " })).toHaveAttribute("aria-expanded", "true");
});

test("the columns stay the same while the moment changes", async ({ page, open }) => {
  await open(logOf("vae-decoder"));
  const live = await show(page, "live");
  const heads = () => live.getByRole("columnheader").allTextContents();
  const before = await heads();
  await live.getByRole("button", { name: "Padding" }).click();
  for (const step of [0, 1, 20, 60, 196]) {
    await follow(page, `#op=${step}`);
    expect(await heads(), `step ${step}`).toEqual(before);
  }
  const sorted = live.locator('[aria-sort="descending"]');
  await expect(sorted).toHaveText("Padding");
  // Another pool has other columns. An order that no heading shows is not kept.
  await open(corpusFile("ttnn_graph/linear.json"));
  await show(page, "live");
  await live.getByRole("button", { name: "Padding" }).click();
  await choosePool(page, "live", "L1");
  await expect(sorted).toHaveCount((await heads()).includes("Padding") ? 1 : 0);
});

test("the names of tiles are cut at the front", async ({ page, open }) => {
  for (const file of [logOf("vae-decoder"), RECORDINGS[0]]) {
    await open(file);
    const tiles = (await show(page, "live")).locator(".tile:has(b)");
    const cut = await tiles.evaluateAll((all) =>
      all
        .map((tile) => ({
          label: tile.querySelector("b")!,
          name: (tile as HTMLElement).title.split("\n")[0],
        }))
        .filter(({ label, name }) => label.textContent !== "" && label.textContent !== name)
        .map(({ label, name }) => ({
          isEnd: label.textContent?.startsWith("…") && name.endsWith(label.textContent.slice(1)),
          isWhole: label.scrollWidth <= label.clientWidth + 1,
        })),
    );
    expect(cut.length).toBeGreaterThan(0);
    expect(cut.every(({ isEnd, isWhole }) => isEnd && isWhole)).toBe(true);
  }
});

test("a narrow window has the most important columns", async ({ page, open }) => {
  await page.setViewportSize({ width: 700, height: 900 });
  for (const file of [logOf("vae-decoder"), logOf("llm-decode"), RECORDINGS[0]]) {
    await open(file);
    for (const [section, heads] of [
      ["live", ["Name", "Allocated by"]],
      ["operations", ["Step", "Operation", "Change", "Before"]],
    ] as const) {
      const table = await show(page, section);
      const shown = await table.getByRole("columnheader").allTextContents();
      for (const head of heads) expect(shown, file).toContain(head);
      expect(
        shown.some((head) => /^Size|^Change/.test(head)),
        file,
      ).toBe(true);
      const { scrollWidth, clientWidth } = await table
        .locator(".virtual")
        .evaluate(({ scrollWidth, clientWidth }) => ({ scrollWidth, clientWidth }));
      expect(scrollWidth, `${file}, ${section}`).toBeLessThanOrEqual(clientWidth);
      await expect(table.locator(".table-hidden")).toHaveText(/^Not enough room for columns .*\.$/);
    }
    const boxes = page.locator("#padding .table-box");
    if ((await boxes.count()) === 0) continue;
    await show(page, "padding");
    const room = await boxes.evaluate(({ scrollWidth, clientWidth }) => clientWidth - scrollWidth);
    expect(room, `${file}, padding`).toBeGreaterThanOrEqual(0);
  }
  // The CSV file has all columns, and a wider window shows them again.
  expect(Object.keys((await csvOf(page, "live"))[0])).toContain("logical_bytes");
  await page.setViewportSize({ width: 1440, height: 900 });
  await frames(page);
  await show(page, "live");
  await expect(page.locator("#live .table-hidden")).toBeHidden();
});

/** The first, the last and random positions, always the same ones. */
function randomPositions(end: number, many: number): number[] {
  const next = randomNumbers(end);
  const found = new Set([0, end]);
  while (found.size < Math.min(many, end + 1)) found.add(Math.floor(next() * (end + 1)));
  return [...found];
}

/** The content of the section. */
interface Shown {
  facts: (number | null)[];
  rows: Record<string, string>[];
}

/** Follows a link, waits until the heading matches, and reads the section. */
async function go(page: Page, hash: string, heading: string): Promise<Shown> {
  const { title, facts, csv } = await page.evaluate(read, { hash, heading });
  expect(title).toBe(heading);
  return { facts, rows: recordsOf(csv) };
}

/** Reads the section in its current state. */
async function look(page: Page): Promise<Shown> {
  const { facts, csv } = await page.evaluate(read, null);
  return { facts, rows: recordsOf(csv) };
}

/** Reads the facts and all rows of the table, as `Save as CSV` would save them, but without a download. Runs in the page,
 * in one call with the link to follow, since the tests check about 300 moments. */
async function read(link: { hash: string; heading: string } | null) {
  const live = document.querySelector("#live")!;
  const title = live.querySelector("h2");
  if (link) {
    location.hash = link.hash;
    for (let frame = 0; frame < 300 && title?.textContent !== link.heading; frame++) {
      await new Promise(requestAnimationFrame);
    }
  }
  const bytes = (fact: string) => {
    const data = live.querySelector<HTMLDataElement>(`[data-fact="${fact}"] data`);
    return data ? Number(data.value) : null;
  };
  const { createObjectURL } = URL;
  const { click } = HTMLAnchorElement.prototype;
  let saved: Blob | MediaSource | undefined;
  URL.createObjectURL = (blob) => {
    saved = blob;
    return createObjectURL(blob);
  };
  HTMLAnchorElement.prototype.click = () => {};
  const button = [...live.querySelectorAll("button")].find(
    ({ textContent }) => textContent === "Save as CSV",
  );
  button?.click();
  URL.createObjectURL = createObjectURL;
  HTMLAnchorElement.prototype.click = click;
  return {
    title: title?.textContent,
    facts: [bytes("allocated"), bytes("explained"), bytes("unexplained")],
    csv: saved instanceof Blob ? await saved.text() : "",
  };
}

function compare({ facts, rows }: Shown, moment: PoolMoment): void {
  const where = `${moment.pool} at ${moment.step}`;
  const { allocated_per_bank: allocated, explained_per_bank: explained } = moment;
  expect(facts, where).toEqual([allocated, explained, moment.unexplained_per_bank]);
  expect(moment.live).toHaveLength(moment.live_count ?? -1);
  expect(rows.map(pick), where).toEqual((moment.live ?? []).map(asText));
}

const FIELDS = [
  "name",
  "class",
  "shape",
  "dtype",
  "per_bank",
  "padded_bytes",
  "logical_bytes",
  "op",
  "born_step",
  "dies_step",
] as const;

const pick = (row: Record<string, string>): string[] => FIELDS.map((field) => row[field]);

/** A tensor as in the CSV file: unknown values are empty. */
function asText(tensor: LiveTensor): string[] {
  return FIELDS.map((field) => {
    const value = tensor[field];
    if (Array.isArray(value)) return value.join("x") || "scalar";
    return value === null ? "" : String(value);
  });
}

test("the field with the step shows all digits", async ({ page, open }) => {
  await open(logOf("vae-decoder"));
  const field = (await show(page, "live")).getByLabel("Go to step");
  for (const step of ["733027", "123456789"]) {
    const isCut = await field.evaluate((element, step) => {
      const input = element as HTMLInputElement;
      input.value = step;
      return input.scrollWidth > input.clientWidth;
    }, step);
    expect(isCut, step).toBe(false);
  }
});
