// Tests the pages in a real browser: the system's Chromium, from file://, without network access.

import { defineConfig } from "@playwright/test";

export default defineConfig({
  testDir: "test/browser",
  // Not `.spec.ts`: Vitest would run those files too.
  testMatch: "*.browser.ts",
  outputDir: "test-results",
  fullyParallel: true,
  workers: 2,
  timeout: 60_000,
  // Uploads take several seconds next to other tests.
  expect: { timeout: 20_000 },
  forbidOnly: true,
  reporter: [["list"]],
  use: {
    viewport: { width: 1280, height: 900 },
    offline: true,
    trace: "off",
    // Opening a new window takes longer than many tests. Reports keep no state outside their document; cookies and
    // storage are cleared after each test.
    reuseContext: true,
    launchOptions: {
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
    },
  },
  projects: [{ name: "chromium", use: { browserName: "chromium" } }],
});
