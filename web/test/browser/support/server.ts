// A separate server for each test. Any request to another host, console message or dialog fails the test.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { test as base, expect } from "@playwright/test";

export { expect };

const TTMEM = resolve(import.meta.dirname, "../../..", process.env.TTMEM_BIN ?? "../target/debug/ttmem");

export interface Server {
  /** The address that it printed, with the token. */
  address: string;
  /** Without path and token. */
  origin: string;
  token: string;
  home: string;
  /** Stores a report of a log with `ttmem report`. */
  store(log: string, name?: string): void;
  stop(): Promise<number | null>;
}

/** Starts a server with an empty `TTMEM_HOME`. */
export async function start(options: string[] = []): Promise<Server> {
  const home = mkdtempSync(join(tmpdir(), "ttmem-serve-"));
  const env = { ...process.env, TTMEM_HOME: home };
  const child = spawn(TTMEM, ["serve", "--no-open", "--port", "0", ...options], {
    env,
    stdio: ["ignore", "pipe", "ignore"],
  });
  const address = await firstLine(child);
  const url = new URL(address);
  return {
    address,
    origin: url.origin,
    token: url.searchParams.get("token") ?? "",
    home,
    store(log, name) {
      const named = name === undefined ? [] : ["--name", name];
      execFileSync(TTMEM, ["report", log, ...named], { env, stdio: "ignore" });
    },
    async stop() {
      const ended = new Promise<number | null>((end) => child.once("exit", end));
      child.kill("SIGTERM");
      const code = child.exitCode ?? (await ended);
      rmSync(home, { recursive: true, force: true });
      return code;
    },
  };
}

async function firstLine(child: ChildProcess): Promise<string> {
  if (!child.stdout) throw new Error("the server has no output");
  for await (const line of createInterface(child.stdout)) return line;
  throw new Error("the server printed no address");
}

export const test = base.extend<{ options: string[]; server: Server; guard: string[] }>({
  options: [[], { option: true }],
  server: async ({ options }, use) => {
    const server = await start(options);
    await use(server);
    expect(await server.stop(), "the server's exit code").toBe(0);
  },
  /** The page's forbidden actions; a test removes those it expects. */
  guard: [
    async ({ page, server }, use) => {
      const complaints: string[] = [];
      page.on("request", (request) => {
        const url = request.url();
        const isOwn = url.startsWith(`${server.origin}/`) || /^(data|blob):/.test(url);
        if (!isOwn) complaints.push(`request to ${url}`);
      });
      page.on("pageerror", (error) => complaints.push(`error: ${error.message}`));
      page.on("console", (message) => {
        if (["error", "warning"].includes(message.type())) complaints.push(`console: ${message.text()}`);
      });
      page.on("dialog", (dialog) => {
        complaints.push(`dialog: ${dialog.message()}`);
        void dialog.dismiss();
      });
      await use(complaints);
      expect(complaints, "forbidden actions of the page").toEqual([]);
    },
    { auto: true },
  ],
});

test.use({ offline: false });
