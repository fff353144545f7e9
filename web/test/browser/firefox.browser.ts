// The pages in Firefox. Playwright only supports its own Firefox build; this uses the system's through WebDriver BiDi.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "@playwright/test";
import { type Browser, launch } from "puppeteer-core";
import { start } from "./support/server";
import { corpusFile, ganttPage, KEPT, logOf, report, summary } from "./support/tool";

// One worker, so that Firefox starts only once: starting takes longer than all tests here.
test.describe.configure({ mode: "default" });

let firefox: Browser;
test.beforeAll(async () => {
  const executablePath = process.env.FIREFOX ?? "/usr/bin/firefox-esr";
  firefox = await launch({ browser: "firefox", executablePath, headless: true });
});
test.afterAll(() => firefox.close());

for (const name of ["vae-decoder", "oom-fragmentation", "two-ranks-info-only"]) {
  test(`${name}: works in Firefox, from a file`, async () => {
    const log = logOf(name);
    const page = await firefox.newPage();
    await page.setViewport({ width: 1280, height: 900 });
    const bad: string[] = [];
    page.on("pageerror", (error) => bad.push(error.message));
    page.on("console", (message) => {
      if (["error", "warn"].includes(message.type())) bad.push(message.text());
    });
    await page.goto(`${pathToFileURL(report(log))}#op=5`);
    await page.waitForSelector("#live[id] [data-fact=allocated] data");
    for (const id of ["memory", "tensors", "padding", "operations", "ir", "overview"]) {
      await page.$eval(`#${id}`, (section) => section.scrollIntoView());
      await page.waitForFunction((id) => !document.getElementById(id)?.classList.contains("waiting"), {}, id);
    }
    const [rank] = summary(log, "--at", "5").ranks;
    const held = await page.$eval("#live [data-fact=allocated] data", (data) => data.getAttribute("value"));
    expect(Number(held)).toBe(rank.at?.pools.DRAM.allocated_per_bank);
    const peak = await page.$eval("[data-pool=DRAM] [data-fact=peak] data", (data) =>
      data.getAttribute("value"),
    );
    expect(Number(peak)).toBe(rank.pools.DRAM.peak_per_bank);
    expect(await page.$$eval("#memory canvas", (all) => all.length)).toBeGreaterThan(0);
    expect(bad).toEqual([]);
    mkdirSync(join(KEPT, "screenshots"), { recursive: true });
    await page.screenshot({ path: join(KEPT, "screenshots", `firefox-${name}.png`) as `${string}.png` });
    await page.close();
  });
}

test("the gantt page works in Firefox, from a file", async () => {
  const page = await firefox.newPage();
  await page.setViewport({ width: 1280, height: 900 });
  const bad: string[] = [];
  page.on("pageerror", (error) => bad.push(error.message));
  page.on("console", (message) => {
    if (["error", "warn"].includes(message.type())) bad.push(message.text());
  });
  await page.goto(pathToFileURL(ganttPage(corpusFile("memory_profile/threads.json"))).href);
  await page.waitForSelector('.gantt-chart[data-bars="9"]');
  await page.$eval("[data-list=hot-paths] button", (button) => (button as HTMLElement).click());
  await page.waitForSelector(".gantt-chosen .gantt-name");
  expect(await page.$eval(".gantt-chosen .gantt-name", ({ textContent }) => textContent)).toBe("prefetch");
  expect(bad).toEqual([]);
  await page.screenshot({ path: join(KEPT, "screenshots", "firefox-gantt.png") as `${string}.png` });
  await page.close();
});

test.describe("the server", () => {
  test("works in Firefox", async () => {
    const server = await start();
    const page = await firefox.newPage();
    let code: number | null = null;
    try {
      server.store(logOf("vae-decoder"));
      const bad: string[] = [];
      page.on("pageerror", (error) => bad.push(error.message));
      page.on("console", (message) => message.type() === "error" && bad.push(message.text()));
      await page.goto(server.address);
      await page.waitForSelector('[data-report="vae-decoder"]');
      expect(page.url()).toBe(`${server.origin}/`);
      const input = await page.$('input[type="file"]');
      await input?.uploadFile(logOf("trace"));
      await page.waitForSelector('[data-report="trace"]');
      await page.goto(`${server.origin}/reports/trace`);
      await page.waitForSelector("[data-pool=DRAM] [data-fact=peak] data");
      expect(bad).toEqual([]);
    } finally {
      await page.close();
      code = await server.stop();
    }
    expect(code, "the server's exit code").toBe(0);
  });
});
