// Opens a page of what ran when in headless Chromium and says how fast it is: from navigation to drawn bars, and frames per
// second while it is zoomed in and out and dragged. Prints one line of JSON.
//
// node bench/gantt.mjs page.html
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(new URL("../web/package.json", import.meta.url));
const { chromium } = require("@playwright/test");

const ROUNDS = Number(process.env.ROUNDS ?? 5);
const PLAY_MS = 3000;

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"],
});
try {
  const url = pathToFileURL(resolve(process.argv[2])).href;
  const drawn = [];
  for (let round = 0; round < ROUNDS; round++) drawn.push(await inFreshPage(opened, url));
  drawn.sort((a, b) => a - b);
  console.log(JSON.stringify({ drawn: drawn[Math.floor(ROUNDS / 2)], ...(await inFreshPage(play, url)) }));
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

/** Runs in the page, before its own scripts: when bars were drawn and two frames have passed, since navigation. */
function watch() {
  const frame = () => new Promise(requestAnimationFrame);
  window.measured = (async () => {
    while (!(Number(document.querySelector(".gantt-chart")?.dataset.bars) > 0)) await frame();
    await frame();
    await frame();
    return performance.now();
  })();
}

function opened(page) {
  return page.evaluate(() => window.measured);
}

/** Zooms in and out and drags, as fast as the browser takes it, and counts frames. */
async function play(page) {
  await opened(page);
  const box = await page.locator(".gantt-rows").boundingBox();
  await page.mouse.move(box.x + box.width * 0.6, box.y + box.height / 2);
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
  for (let turn = 0; Date.now() < end; turn++) {
    const isIn = turn % 80 < 40;
    await page.mouse.wheel(0, isIn ? -60 : 60);
    if (turn % 20 === 0) await page.mouse.down();
    await page.mouse.move(box.x + box.width * (0.5 + 0.2 * Math.sin(turn / 7)), box.y + box.height * 0.5);
    if (turn % 20 === 10) await page.mouse.up();
  }
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
