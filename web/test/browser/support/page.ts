// Helpers for report pages: opening them, showing sections, reading tables and numbers. Any request, console message or
// dialog fails the test.

import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";
import { test as base, type Download, expect, type Locator, type Page } from "@playwright/test";
import { report } from "./tool";

export { expect };

/** The ids of the sections that every page of a Tenstorrent log has, in order. */
export const SECTIONS = [
  "overview",
  "memory",
  "live",
  "tensors",
  "padding",
  "fragmentation",
  "consumers",
  "weights",
  "distribution",
  "operations",
  "ir",
];

export const test = base.extend<{ guard: undefined; open: (log: string, options?: Open) => Promise<void> }>({
  guard: [
    async ({ page, context }, use) => {
      const complaints: string[] = [];
      let own = "";
      // Only a page from file:// may be loaded; its own data: and blob: URLs are not requests.
      const isOwn = (url: string) => /^(data|blob):/.test(url) || url.split("#")[0] === own;
      await context.route("**/*", (route) => {
        const { url, isNavigationRequest } = ask(route.request());
        if (own === "" && isNavigationRequest && url.startsWith("file:")) own = url.split("#")[0];
        return isOwn(url) ? route.continue() : route.abort();
      });
      page.on("request", (request) => {
        const { url, isNavigationRequest } = ask(request);
        if (isNavigationRequest && url.startsWith("file:")) own = url.split("#")[0];
        if (!isOwn(url)) complaints.push(`request to ${url}`);
      });
      page.on("websocket", (socket) => complaints.push(`web socket to ${socket.url()}`));
      page.on("pageerror", (error) => complaints.push(`error: ${error.message}\n${error.stack ?? ""}`));
      page.on("console", (message) => {
        if (["error", "warning"].includes(message.type())) complaints.push(`console: ${message.text()}`);
      });
      page.on("dialog", (dialog) => {
        complaints.push(`dialog: ${dialog.message()}`);
        void dialog.dismiss();
      });
      page.on("popup", (popup) => complaints.push(`another window: ${popup.url()}`));
      await use(undefined);
      expect(complaints, "forbidden actions of the page").toEqual([]);
    },
    { auto: true },
  ],
  open: async ({ page }, use) => {
    await use((log, options) => open(page, log, options));
  },
});

function ask(request: { url(): string; isNavigationRequest(): boolean }) {
  return { url: request.url(), isNavigationRequest: request.isNavigationRequest() };
}

interface Open {
  /** The name of the report. */
  name?: string;
  /** With its `#`. */
  hash?: string;
}

/** Opens the report of a log and waits until it is unpacked. */
export async function open(page: Page, log: string, { name, hash = "" }: Open = {}): Promise<void> {
  // From another page, so that a change of the hash alone reloads the page.
  if (page.url() !== "about:blank") await page.goto("about:blank");
  await page.goto(pathToFileURL(report(log, name)).href + hash);
  await expect(page.locator("#app:not([aria-busy]) main")).toBeVisible();
  await frames(page);
}

/** Waits for two frames: the first changes the page, the second shows it. */
export async function frames(page: Page): Promise<void> {
  await page.evaluate(
    () => new Promise<void>((done) => requestAnimationFrame(() => requestAnimationFrame(() => done()))),
  );
}

/** Scrolls to a section and waits until it is drawn. */
export async function show(page: Page, id: string): Promise<Locator> {
  const section = page.locator(`section#${id}`);
  // In one call, since most tests show many sections.
  await section.evaluate(async (element) => {
    // The next frame, or a second without one: a page in the background draws none.
    const frame = () =>
      new Promise((done) => {
        requestAnimationFrame(done);
        setTimeout(done, 1000);
      });
    const isDrawn = () =>
      element.querySelector(".section-body > *") && !element.textContent?.includes("Unpacking the graphs");
    element.scrollIntoView({ block: "start" });
    const end = performance.now() + 20_000;
    while (!isDrawn()) {
      if (performance.now() > end) throw new Error(`#${element.id}: not drawn after 20 seconds`);
      await frame();
    }
    await frame();
    await frame();
  });
  return section;
}

/** Scrolls through all sections and waits until they are drawn. */
export async function showAll(page: Page): Promise<void> {
  await page.evaluate(async () => {
    // The next frame, or a second without one: a page in the background draws none.
    const frame = () =>
      new Promise((done) => {
        requestAnimationFrame(done);
        setTimeout(done, 1000);
      });
    for (const section of document.querySelectorAll("main section[id]")) {
      section.scrollIntoView({ block: "start" });
      // The first frame notifies the page, the second draws the section.
      await frame();
      await frame();
    }
  });
  await expect(page.getByText("Unpacking the graphs")).toHaveCount(0);
  await expect(page.locator("main .section-body:empty")).toHaveCount(0);
  await frames(page);
}

/** The ids of the sections of the page, in order. */
export function sectionsOf(page: Page): Promise<string[]> {
  return page.locator("main section[id]").evaluateAll((sections) => sections.map(({ id }) => id));
}

/** The values of an element's `data` elements, in bytes. */
export function values(element: Locator): Promise<number[]> {
  return element
    .locator("data")
    .evaluateAll((all) => all.map((data) => Number((data as HTMLDataElement).value)));
}

/** The first number that an element shows; `null` if it shows "unknown". */
export async function value(element: Locator): Promise<number | null> {
  const found = await values(element);
  if (found.length > 0) return found[0];
  await expect(element).toContainText("unknown");
  return null;
}

/** Sets the hash like a link, and waits until the page is updated. */
export async function follow(page: Page, hash: string): Promise<void> {
  await page.evaluate((hash) => {
    location.hash = hash;
  }, hash);
  await frames(page);
}

/** Selects a pool with the buttons of a section. */
export async function choosePool(page: Page, section: string, pool: string): Promise<void> {
  await page.locator(`#${section} .section-head`).getByText(pool, { exact: true }).click();
  await frames(page);
}

/** All visible text, labels and tooltips. */
export function wordsOf(page: Page): Promise<string> {
  return page.evaluate(() => {
    const labels = [...document.querySelectorAll("[aria-label], [title]")].flatMap((element) => [
      element.getAttribute("aria-label") ?? "",
      element.getAttribute("title") ?? "",
    ]);
    // biome-ignore lint/performance/useDomNodeTextContent: only visible text counts.
    return [document.body.innerText, ...labels].join("\n");
  });
}

/** Text that shows that a value was not formatted properly. */
export const NO_NUMBER = /\b(NaN|undefined|null|Infinity|\[object \w+\])\b/;

/** The rows of a table, downloaded with `Save as CSV`. */
export async function csvOf(page: Page, section: string): Promise<Record<string, string>[]> {
  const waiting = page.waitForEvent("download");
  await page.locator(`#${section}`).getByRole("button", { name: "Save as CSV" }).click();
  return recordsOf(await textOf(await waiting));
}

/** Parses CSV with a header row. */
export function recordsOf(csv: string): Record<string, string>[] {
  const [head, ...rows] = parseCsv(csv);
  return rows.map((row) => Object.fromEntries(head.map((name, at) => [name, row[at]])));
}

export async function textOf(download: Download): Promise<string> {
  return readFile(await download.path(), "utf8");
}

/** Parses CSV (RFC 4180). */
export function parseCsv(text: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n|$)/g)) {
    if (end === "" && row.length === 0) break;
    row.push(quoted?.replaceAll('""', '"') ?? plain);
    if (end === ",") continue;
    rows.push(row);
    row = [];
  }
  return rows;
}

/** A reproducible random number generator, from 0 to below 1. */
export function randomNumbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    // mulberry32
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}
