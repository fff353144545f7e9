// Using the server: signing in, searching and sorting the list, uploading a log, and opening its page.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { basename, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { Page } from "@playwright/test";
import { showAll } from "./support/page";
import { expect, type Server, test } from "./support/server";
import { KEPT, logOf, madeLog, summary } from "./support/tool";

const MALFORMED = resolve(import.meta.dirname, "../../../corpus/tt_log/malformed");

test.use({ offline: false });

async function signIn(page: Page, { address, origin }: Server): Promise<void> {
  await page.goto(address);
  await expect(page.getByRole("heading", { name: "ttmem reports" })).toBeVisible();
  expect(page.url(), "the token is no longer in the address").toBe(`${origin}/`);
}

/** The names of the reports, in order. */
function names(page: Page): Promise<string[]> {
  return page.locator("tbody tr").evaluateAll((rows) => rows.map((row) => row.dataset.report ?? ""));
}

test("the list is searched and sorted, and links to the pages and back", async ({ page, server }) => {
  for (const log of ["vae-decoder", "oom-fragmentation", "llm-decode"]) server.store(logOf(log));
  await signIn(page, server);
  await expect(page.locator("tbody tr")).toHaveCount(3);
  expect(await names(page)).toEqual(["llm-decode", "oom-fragmentation", "vae-decoder"]);

  const row = page.locator('[data-report="oom-fragmentation"]');
  await expect(row.getByText("OOM: fragmentation")).toBeVisible();
  const { pools } = summary(logOf("oom-fragmentation")).ranks[0];
  const peak = Number(await row.locator('[data-title="Peak"] data').getAttribute("value"));
  expect(peak).toBe(pools.DRAM.peak_per_bank);
  await expect(row.locator('[data-title="Used"]')).toHaveText("93%");
  expect(pools.DRAM.level).toBe("full");
  await expect(row.locator('[data-title="Used"] .full')).toHaveClass("full bad");

  const column = (name: string) => page.getByRole("columnheader", { name }).getByRole("button");
  await column("Report").click();
  await expect(page.getByRole("columnheader", { name: "Report" })).toHaveAttribute("aria-sort", "ascending");
  await column("Report").click();
  expect(await names(page)).toEqual(["vae-decoder", "oom-fragmentation", "llm-decode"]);
  await column("Used").click();
  expect((await names(page))[0]).toBe("oom-fragmentation");
  await expect(column("Used")).toBeFocused();

  await page.getByLabel("Search").fill("OOM frag");
  expect(await names(page)).toEqual(["oom-fragmentation"]);
  await expect(page.getByText("1 of 3")).toBeVisible();
  await page.getByLabel("Search").fill("nothing of the kind");
  await expect(page.getByText("No reports match “nothing of the kind”.")).toBeVisible();
  await page.getByLabel("Search").fill("");

  await page.getByRole("link", { name: "vae-decoder", exact: true }).click();
  await expect(page.locator("#app:not([aria-busy]) main")).toBeVisible();
  await expect(page.locator("h1")).toHaveText("vae-decoder");
  await showAll(page);
  // The server's policy allows everything the page does.
  const download = page.waitForEvent("download");
  await page.locator("#operations").getByRole("button", { name: "Save as CSV" }).click();
  expect(readFileSync(await (await download).path(), "utf8")).toContain("ttnn.");
  await page.getByRole("link", { name: "All reports" }).click();
  await expect(page.locator("tbody tr")).toHaveCount(3);
});

test("an uploaded log becomes a report with a page", async ({ page, server }) => {
  await signIn(page, server);
  await expect(page.getByText("No reports yet")).toBeVisible();
  await page.locator('input[type="file"]').setInputFiles(logOf("vae-decoder"));
  const upload = page.getByRole("list", { name: "Uploads" }).getByRole("listitem");
  await expect(upload.getByText("Done", { exact: true })).toBeVisible();
  await expect(page.locator("tbody tr")).toHaveCount(1);
  await upload.getByRole("link", { name: "Open vae-decoder" }).click();
  await expect(page.locator("#app:not([aria-busy]) main")).toBeVisible();
  await expect(page.locator("h1")).toHaveText("vae-decoder");
  const { pools } = summary(logOf("vae-decoder")).ranks[0];
  const shown = page.locator('#overview [data-pool="DRAM"] [data-fact="peak"] data').first();
  expect(Number(await shown.getAttribute("value"))).toBe(pools.DRAM.peak_per_bank);
});

test("several logs are dropped at once, with progress", async ({ page, server }) => {
  await signIn(page, server);
  const logs = [madeLog("dropped-large", "repeated", "--ops", "5000"), logOf("trace"), logOf("two-graphs")];
  const seen = await watchWords(page);
  await drop(page, logs);
  const uploads = page.getByRole("list", { name: "Uploads" });
  await expect(uploads.getByText("Done", { exact: true })).toHaveCount(3);
  await expect.poll(async () => (await names(page)).sort()).toEqual(["dropped-large", "trace", "two-graphs"]);
  const words = (await seen()).join("\n");
  expect(words).toMatch(/Uploading: [\d.]+ MiB of [\d.]+ MiB/);
  expect(words).toMatch(/queued for reading|Reading: |Writing the report/);
  await expect(uploads.locator("progress:visible")).toHaveCount(0);
});

test("a log without memory data shows what to set", async ({ page, server }) => {
  await signIn(page, server);
  await page.locator('input[type="file"]').setInputFiles(join(MALFORMED, "no-memory-operations.log"));
  await expect(page.getByText(/no memory data; the log has/)).toBeVisible();
  await expect(page.getByLabel("Settings")).toContainText("export TT_RUNTIME_MEMORY_LOG_LEVEL=any");
  await page.locator('input[type="file"]').setInputFiles(join(MALFORMED, "binary.log"));
  await expect(page.getByText(/unknown format/)).toBeVisible();
  await expect(page.getByLabel("Settings"), "only for the first").toHaveCount(1);
  await expect(page.locator("tbody tr")).toHaveCount(0);
});

test.describe("with a small limit", () => {
  test.use({ options: ["--max-upload", "100kB"] });

  test("a log that is too large is not sent", async ({ page, server }) => {
    await signIn(page, server);
    await expect(page.getByText("up to 97.7 KiB")).toBeVisible();
    const requests: string[] = [];
    page.on("request", (request) => requests.push(request.method()));
    await page.locator('input[type="file"]').setInputFiles(logOf("llm-decode"));
    await expect(page.getByText("the limit is 97.7 KiB")).toBeVisible();
    expect(requests).not.toContain("POST");
  });
});

test("a link on another site signs in too", async ({ page, server, guard }) => {
  // `127.0.0.1` and `localhost` are different sites.
  const other = createServer((_, answer) => {
    answer.setHeader("content-type", "text/html");
    answer.end(`<link rel="icon" href="data:,"><a href="${server.address}">the reports</a>`);
  });
  await new Promise<void>((ready) => other.listen(0, "127.0.0.1", ready));
  const { port } = other.address() as { port: number };
  try {
    await page.goto(`http://127.0.0.1:${port}/`);
    await page.getByRole("link", { name: "the reports" }).click();
    await expect(page.getByRole("heading", { name: "ttmem reports" })).toBeVisible();
    await expect(page.getByText("No reports yet")).toBeVisible();
    expect(page.url()).toBe(`${server.origin}/`);
    // A page of that site can neither read reports nor upload.
    await page.goto(`http://127.0.0.1:${port}/`);
    const reached = await page.evaluate(async (origin) => {
      const read = fetch(`${origin}/api/reports`, { credentials: "include" });
      const sent = fetch(`${origin}/api/upload?name=x`, {
        method: "POST",
        body: "x",
        credentials: "include",
      });
      return Promise.all([read, sent].map((request) => request.then(() => true).catch(() => false)));
    }, server.origin);
    expect(reached).toEqual([false, false]);
  } finally {
    other.close();
  }
  const isExpected = (complaint: string) =>
    complaint.includes(`127.0.0.1:${port}`) || /CORS|Failed to load resource/.test(complaint);
  guard.splice(0, guard.length, ...guard.filter((complaint) => !isExpected(complaint)));
});

test("a local file redirects to the server, as the command opens it", async ({ page, server, guard }) => {
  const file = join(server.home, "open.html");
  writeFileSync(file, `<!doctype html><meta http-equiv="refresh" content="0; url=${server.address}">`);
  await page.goto(pathToFileURL(file).href, { waitUntil: "commit" });
  await expect(page.getByText("No reports yet")).toBeVisible();
  expect(page.url()).toBe(`${server.origin}/`);
  guard.splice(0, guard.length, ...guard.filter((complaint) => !complaint.includes("file://")));
});

test("without the token the page says what to open", async ({ page, server, guard }) => {
  const answer = await page.goto(`${server.origin}/reports/vae-decoder`);
  expect(answer?.status()).toBe(401);
  await expect(page.getByText("Open the complete address that ttmem serve printed")).toBeVisible();
  guard.splice(0, guard.length, ...guard.filter((complaint) => !complaint.includes("401")));
});

test("a restarted server is reported", async ({ page, server, context, guard }) => {
  await signIn(page, server);
  await context.clearCookies();
  await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
  await expect(page.getByRole("alert")).toHaveText(/no longer signed in/);
  guard.splice(0, guard.length, ...guard.filter((complaint) => !complaint.includes("401")));
});

const HOSTILE = `<img src=x onerror=window.hacked=1> "'&🦀 \u202eright to left ${"N".repeat(60)}`;
const LONG = "a-very-long-name-".repeat(6);

test("hostile and long names are harmless", async ({ page, server }) => {
  for (const name of [HOSTILE, LONG]) server.store(logOf("oom-capacity"), name);
  await signIn(page, server);
  await expect(page.locator("tbody tr")).toHaveCount(2);
  expect((await names(page)).some((name) => name.includes("onerror=window.hacked=1"))).toBe(true);
  expect(await page.evaluate(() => (window as { hacked?: unknown }).hacked)).toBeUndefined();
  await expect(page.locator("tbody img")).toHaveCount(0);
  for (const width of [1280, 700, 360]) {
    await page.setViewportSize({ width, height: 900 });
    const room = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    expect(room[0], `no wider than ${width}`).toBeLessThanOrEqual(room[1]);
  }
  await page
    .getByRole("link", { name: /onerror/ })
    .first()
    .click();
  await expect(page.locator("h1")).toContainText("onerror=window.hacked=1");
});

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

interface Axe {
  run(
    context: Document,
    options: unknown,
  ): Promise<{ violations: { id: string; nodes: { html: string; any: { message: string }[] }[] }[] }>;
}

for (const colorScheme of ["light", "dark"] as const) {
  test(`${colorScheme}: contrast, labels and roles (WCAG 2 A and AA), and screenshots`, async ({
    page,
    server,
  }) => {
    await page.emulateMedia({ colorScheme });
    const logs = [
      "vae-decoder",
      "oom-fragmentation",
      "llm-decode",
      "two-ranks-info-only",
      "info-only",
      "trace",
    ];
    for (const log of logs) server.store(logOf(log));
    server.store(logOf("oom-capacity"), LONG);
    await signIn(page, server);
    const upload = page.locator('input[type="file"]');
    await upload.setInputFiles(join(MALFORMED, "no-memory-operations.log"));
    await expect(page.getByLabel("Settings")).toBeVisible();
    await upload.setInputFiles(logOf("two-graphs"));
    await expect(page.getByText("Done", { exact: true })).toBeVisible();
    mkdirSync(join(KEPT, "screenshots"), { recursive: true });
    for (const width of [1280, 700, 390]) {
      await page.setViewportSize({ width, height: 900 });
      const path = join(KEPT, "screenshots", `serve-${colorScheme}-${width}.png`);
      await page.screenshot({ path, fullPage: true });
    }
    await page.setViewportSize({ width: 1280, height: 900 });
    // The page's policy does not allow axe as a script element.
    const found = await page.evaluate(
      `${axe}; axe.run(document, ${JSON.stringify({
        runOnly: { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"] },
        resultTypes: ["violations"],
      })})`,
    );
    const { violations } = found as Awaited<ReturnType<Axe["run"]>>;
    const messages = violations.flatMap(({ id, nodes }) =>
      nodes.slice(0, 3).map(({ html, any }) => `${id}: ${html.slice(0, 90)} ${any[0]?.message ?? ""}`),
    );
    expect(messages).toEqual([]);
    await page.getByRole("button", { name: /^Use the (dark|light) theme$/ }).click();
    const other = colorScheme === "dark" ? "light" : "dark";
    await expect(page.locator("html")).toHaveAttribute("data-theme", other);
  });
}

test("screenshots of the empty list and of a served report", async ({ page, server }) => {
  mkdirSync(join(KEPT, "screenshots"), { recursive: true });
  await signIn(page, server);
  await expect(page.getByText("No reports yet")).toBeVisible();
  await page.screenshot({ path: join(KEPT, "screenshots", "serve-empty.png") });
  server.store(logOf("vae-decoder"));
  await page.goto(`${server.origin}/reports/vae-decoder`);
  await expect(page.locator("#app:not([aria-busy]) main")).toBeVisible();
  await page.screenshot({ path: join(KEPT, "screenshots", "serve-report.png") });
});

/** Drops files on the page. */
async function drop(page: Page, files: string[]): Promise<void> {
  const contents = files.map((file) => [basename(file), readFileSync(file, "base64")]);
  const transfer = await page.evaluateHandle(async (contents) => {
    const transfer = new DataTransfer();
    for (const [name, base64] of contents) {
      const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
      transfer.items.add(new File([bytes], name));
    }
    return transfer;
  }, contents);
  for (const event of ["dragenter", "dragover", "drop"]) {
    await page.dispatchEvent(".drop", event, { dataTransfer: transfer });
    if (event === "dragover") await expect(page.locator(".drop")).toHaveClass(/over/);
  }
  await expect(page.locator(".drop")).not.toHaveClass(/over/);
}

/** Records all status texts of uploads. */
async function watchWords(page: Page): Promise<() => Promise<string[]>> {
  await page.evaluate(() => {
    const seen = new Set<string>();
    (window as { seen?: Set<string> }).seen = seen;
    const note = () => {
      for (const words of document.querySelectorAll(".words")) seen.add(words.textContent ?? "");
    };
    new MutationObserver(note).observe(document.body, {
      childList: true,
      subtree: true,
      characterData: true,
    });
  });
  return () => page.evaluate(() => [...((window as { seen?: Set<string> }).seen ?? [])]);
}
