// Opens a page in headless Chromium and measures it: the time from navigation until it is drawn, and frames per second while it
// is used.

import { createRequire } from "node:module";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(new URL("../web/package.json", import.meta.url));
const { chromium } = require("@playwright/test");

const ROUNDS = Number(process.env.ROUNDS ?? 5);
const PLAY_MS = 3000;

/**
 * Prints one line of JSON about a page. It is drawn when the element `selector` has a number above 0 in its attribute
 * `data-NAME`. `prepare` returns a function that is called with 0, 1, 2 … to use the page.
 */
export async function measure(file, selector, name, prepare) {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"],
  });
  try {
    const url = pathToFileURL(resolve(file)).href;
    const inFreshPage = async (use) => {
      const context = await browser.newContext({ offline: true, viewport: { width: 1280, height: 900 } });
      const page = await context.newPage();
      page.on("pageerror", (error) => {
        throw error;
      });
      await page.addInitScript(watch, [selector, name]);
      await page.goto(url, { waitUntil: "commit" });
      const result = await use(page);
      await context.close();
      return result;
    };
    const drawn = [];
    for (let round = 0; round < ROUNDS; round++) drawn.push(await inFreshPage(opened));
    drawn.sort((a, b) => a - b);
    const played = await inFreshPage((page) => play(page, prepare));
    console.log(JSON.stringify({ drawn: drawn[Math.floor(ROUNDS / 2)], ...played }));
  } finally {
    await browser.close();
  }
}

/** Runs in the page, before its own scripts: when it was drawn and two frames have passed, since navigation. */
function watch([selector, name]) {
  const frame = () => new Promise(requestAnimationFrame);
  window.measured = (async () => {
    while (!(Number(document.querySelector(selector)?.dataset[name]) > 0)) await frame();
    await frame();
    await frame();
    return performance.now();
  })();
}

function opened(page) {
  return page.evaluate(() => window.measured);
}

/** Uses the page as fast as the browser takes it, and counts frames. */
async function play(page, prepare) {
  await opened(page);
  const turnOnce = await prepare(page);
  await page.waitForTimeout(400);
  await page.evaluate(() => {
    window.frames_ = [];
    const note = (time) => {
      window.frames_.push(time);
      window.noting = requestAnimationFrame(note);
    };
    window.noting = requestAnimationFrame(note);
  });
  const end = Date.now() + PLAY_MS;
  for (let turn = 0; Date.now() < end; turn++) await turnOnce(turn);
  const frames = await page.evaluate(() => {
    cancelAnimationFrame(window.noting);
    return window.frames_;
  });
  const gaps = frames.slice(1).map((time, at) => time - frames[at]);
  return {
    fps: gaps.length / ((frames.at(-1) - frames[0]) / 1000),
    slowest: Math.max(...gaps),
    long: gaps.filter((gap) => gap > 1000 / 30 + 2).length,
  };
}
