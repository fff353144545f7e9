// Opens report pages in headless Chromium and says how fast they are: from navigation to a drawn chart and a filled
// table, and frames per second while the mouse moves over the chart. Prints one line of JSON for each page.
//
// node bench/page.mjs page.html …
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(new URL("../web/package.json", import.meta.url));
const { chromium } = require("@playwright/test");

const ROUNDS = Number(process.env.ROUNDS ?? 5);
const HOVER_MS = 3000;

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
  ],
});
try {
  for (const file of process.argv.slice(2)) {
    const url = pathToFileURL(resolve(file)).href;
    const opened = [];
    for (let round = 0; round < ROUNDS; round++) opened.push(await inFreshPage(open, url));
    const smooth = await inFreshPage(hover, url);
    console.log(JSON.stringify({ file, ...mediansOf(opened), ...smooth }));
  }
} finally {
  await browser.close();
}

async function inFreshPage(measure, url) {
  const context = await browser.newContext({ offline: true, viewport: { width: 1280, height: 900 } });
  const page = await context.newPage();
  page.on("pageerror", (error) => {
    throw error;
  });
  await page.addInitScript(watch);
  await page.goto(url, { waitUntil: "commit" });
  const result = await measure(page);
  await context.close();
  return result;
}

/**
 * Runs in the page, before its own scripts. All times are milliseconds since the navigation began.
 *
 * `chart`: the page is no longer busy, the canvas of the chart has pixels of a curve (any two colors), and two frames
 * have passed. `table`: the table of operations was scrolled into view then, has rows, and two frames have passed.
 */
function watch() {
  const frame = () => new Promise(requestAnimationFrame);
  const until = async (isSo) => {
    while (!isSo()) await frame();
  };
  const isDrawn = () => {
    const canvas = document.querySelector("#memory canvas");
    if (!canvas || canvas.width === 0 || document.querySelector("#app[aria-busy]")) return false;
    const { width, height } = canvas;
    const pixels = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, width, height).data.buffer);
    return pixels.some((pixel) => pixel !== pixels[0]);
  };
  window.measured = (async () => {
    await until(() => document.querySelector("#app:not([aria-busy]) main"));
    const unpacked = performance.now();
    // The chart is below what a window shows at first.
    document.querySelector("#memory").scrollIntoView();
    await until(isDrawn);
    await frame();
    await frame();
    const chart = performance.now();
    const operations = document.querySelector("#operations");
    operations.scrollIntoView();
    await until(() => operations.querySelector("[data-row]"));
    await frame();
    await frame();
    return { unpacked, chart, table: performance.now() };
  })();
}

async function open(page) {
  return page.evaluate(() => window.measured);
}

/** Moves the mouse over the chart as fast as the browser takes it, and counts frames. */
async function hover(page) {
  await page.evaluate(() => window.measured);
  const plot = page.locator("#memory .time-area").first();
  await plot.scrollIntoViewIfNeeded();
  const box = await plot.boundingBox();
  await page.mouse.move(box.x + 5, box.y + box.height / 2);
  await page.evaluate(() => {
    const frames = [];
    const note = (time) => {
      frames.push(time);
      window.noting = requestAnimationFrame(note);
    };
    window.frames_ = frames;
    window.noting = requestAnimationFrame(note);
  });
  const end = Date.now() + HOVER_MS;
  let moves = 0;
  while (Date.now() < end) {
    // Back and forth, slowly enough that each frame has a new place.
    const share = Math.abs(((moves * 0.004) % 2) - 1);
    await page.mouse.move(box.x + box.width * share, box.y + box.height * (0.3 + 0.4 * share));
    moves++;
  }
  const frames = await page.evaluate(() => {
    cancelAnimationFrame(window.noting);
    return window.frames_;
  });
  const gaps = frames.slice(1).map((time, at) => time - frames[at]);
  gaps.sort((a, b) => a - b);
  const seconds = (frames.at(-1) - frames[0]) / 1000;
  return {
    fps: gaps.length / seconds,
    slowest: gaps.at(-1),
    // Frames that took longer than 30 in a second leave room for.
    long: gaps.filter((gap) => gap > 1000 / 30 + 2).length,
    frames: gaps.length,
    moves: moves / seconds,
  };
}

function mediansOf(rows) {
  const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];
  return Object.fromEntries(Object.keys(rows[0]).map((key) => [key, median(rows.map((row) => row[key]))]));
}
