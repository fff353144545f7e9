// The command under test: writes reports, and gives the answers that the page must show.

import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import type { Gantt, Summary } from "../../../src/generated/answers";

const WEB = resolve(import.meta.dirname, "../../..");
const TTMEM = resolve(WEB, process.env.TTMEM_BIN ?? "../target/debug/ttmem");
const MAKE_LOG = resolve(WEB, process.env.MAKE_LOG_BIN ?? "../target/debug/make-log");
const CORPUS = resolve(WEB, "../corpus/tt_log");
/** Where this worker's files go, for as long as it runs. */
const FILES = mkdtempSync(join(tmpdir(), "ttmem-browser-"));
process.on("exit", () => rmSync(FILES, { recursive: true, force: true }));

/** Screenshots and other things to look at. */
export const KEPT = resolve(WEB, "test-results");

/** A training log. */
export function trainingLog(): string {
  return resolve(CORPUS, "../tt_train/tinyllama.log");
}

/** Evidence of another format, by its folder and name. */
export function evidence(name: string): string {
  return resolve(CORPUS, "..", name);
}

/** What the tracker recorded of a program of PyTorch; `train.py` beside it is the program. */
export function recordingOfPyTorch(): string {
  return resolve(import.meta.dirname, "../recordings/train.ttmem");
}

/** The logs of the corpus, by name. */
export function corpus(): string[] {
  return readdirSync(CORPUS)
    .filter((file) => file.endsWith(".log"))
    .map((file) => basename(file, ".log"))
    .sort();
}

export function logOf(name: string): string {
  return join(CORPUS, `${name}.log`);
}

/** A folder with the JSON files of a report alone. */
export function jsonFilesOf(name: string): string {
  return resolve(CORPUS, "../tt_json", name);
}

/** Makes a log with the test kit, once. */
export function madeLog(name: string, ...options: string[]): string {
  const log = join(FILES, `${name}.log`);
  if (!existsSync(log)) execFileSync(MAKE_LOG, [...options, "-o", log]);
  return log;
}

/** Writes a memory profile of one's own. */
export function writtenProfile(name: string, profile: unknown): string {
  const file = join(FILES, `${name}.json`);
  writeFileSync(file, JSON.stringify(profile));
  return file;
}

/** What `ttmem gantt --json` answers. */
export function ganttAnswer(file: string): Gantt {
  const output = execFileSync(TTMEM, ["gantt", "--json", file], {
    maxBuffer: 1 << 28,
    stdio: ["ignore", "pipe", "ignore"],
  });
  return JSON.parse(output.toString());
}

/** Writes the page of what ran when; its path. */
export function ganttPage(file: string): string {
  const page = join(mkdtempSync(join(FILES, "gantt-")), "page.html");
  execFileSync(TTMEM, ["gantt", file, page], { stdio: "ignore" });
  const built = process.env.TTMEM_GANTT_PAGE;
  return built ? inNewPage(page, resolve(WEB, built)) : page;
}

/** Writes a log of one's own. */
export function writtenLog(name: string, text: string): string {
  const log = join(FILES, `${name}.log`);
  writeFileSync(log, text);
  return log;
}

/** What `ttmem summary --json` answers. */
export function summary(log: string, ...options: string[]): Summary {
  const output = execFileSync(TTMEM, ["summary", "--json", log, ...options], {
    maxBuffer: 1 << 28,
    stdio: ["ignore", "pipe", "ignore"],
  });
  return JSON.parse(output.toString());
}

const written = new Map<string, string>();

/** Writes the report of a log, once; the path of the page. */
export function report(log: string, name = basename(log, ".log")): string {
  const key = `${log}\n${name}`;
  let page = written.get(key);
  if (!page) {
    const folder = join(FILES, `report-${written.size}`);
    execFileSync(TTMEM, ["report", log, "-o", folder, "--name", name], { stdio: "ignore" });
    const found = readdirSync(folder).filter((file) => file.endsWith(".html"));
    if (found.length !== 1) throw new Error(`one page was expected, not ${found.length}`);
    page = join(folder, found[0]);
    if (process.env.TTMEM_PAGE) page = inNewPage(page, resolve(WEB, process.env.TTMEM_PAGE));
    written.set(key, page);
  }
  return page;
}

/** The data of a page in a page that was built later: tests the page without building the command again. */
function inNewPage(page: string, built: string): string {
  const old = readFileSync(page, "utf8");
  const data = old.match(/<script type="application\/x-ttmem"[^>]*>[^<]*<\/script>/g)?.join("\n") ?? "";
  const title = old.match(/<title>(.*?)<\/title>/s)?.[1] ?? "";
  const folder = mkdtempSync(join(FILES, "built-"));
  const out = join(folder, basename(page));
  const text = readFileSync(built, "utf8");
  writeFileSync(
    out,
    text.replace("<!--ttmem:data-->", () => data).replace("ttmem:title", () => title),
  );
  return out;
}

/** An operation in the file of operations that stands beside the page. */
export interface Operation {
  step: number;
  mlir_op: string;
  result: string | null;
}

/** The operations of a report, without deallocations. */
export function operationsOf(log: string): Operation[] {
  const folder = join(FILES, `operations-${basename(log, ".log")}`);
  if (!existsSync(folder)) execFileSync(TTMEM, ["report", log, "-o", folder], { stdio: "ignore" });
  const file = readdirSync(folder).find((name) => name.endsWith("_operations.json"));
  return JSON.parse(readFileSync(join(folder, file ?? ""), "utf8"));
}
