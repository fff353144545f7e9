// Uploading: by drag and drop or by choosing files; each then goes its way to a report, a few at a time.

import { fill, h } from "../dom";
import { size } from "../format";
import type { Job } from "../generated/answers";
import * as api from "./api";
import { hasEnded, hasFailed, lacksMemoryData, SETTINGS, type Stage, shareDone, wordsOf } from "./stage";

/** So many files are on their way at the same time. */
const AT_ONCE = 4;
/** How often a job is asked for: often at first, since most are short. */
const PAUSES_MS = [100, 150, 250, 500];

export interface Uploads {
  element: HTMLElement;
  /** What the server takes. */
  setLimit(bytes: number): void;
  /** Goes on with what was begun before this page was opened. */
  follow(job: Job): void;
}

/** `done` is called when there is a new report. */
export function uploads(done: () => void): Uploads {
  let limit = Number.POSITIVE_INFINITY;
  const turns = queue(AT_ONCE);
  const rows = h("ul", { class: "uploads", "aria-label": "Uploads" });
  const input = h("input", { type: "file", multiple: true, hidden: true });
  const button = h("button", { type: "button", onclick: () => input.click() }, "Choose files");
  const note = h("p", { class: "note" });
  const zone = h("div", { class: "drop" }, h("p", {}, "Drop a log here, or ", button), note, input);
  const element = h("section", { id: "upload", "aria-label": "Upload" }, zone, rows);

  const add = (files: Iterable<File>) => {
    for (const file of files) {
      const row = uploadRow(file.name);
      rows.prepend(row.element);
      if (file.size > limit) {
        row.show({ at: "refused", message: `It has ${size(file.size)}: up to ${size(limit)} are taken.` });
        continue;
      }
      void turns(() => send(file, row));
    }
  };
  const send = async (file: File, row: Row) => {
    if (row.signal.aborted) return;
    try {
      const sent = (bytes: number) => row.show({ at: "sending", sent: bytes, of: file.size });
      sent(0);
      await watch(await api.upload(file, sent, row.signal), row);
    } catch (error) {
      row.show({ at: "refused", message: error instanceof Error ? error.message : String(error) });
    }
  };
  const watch = async (job: Job, row: Row) => {
    let now = job;
    for (let asked = 0; ; asked++) {
      row.show({ at: "job", job: now });
      if (now.state === "done") done();
      if (now.state === "done" || now.state === "failed") return;
      const pause = PAUSES_MS[Math.min(asked, PAUSES_MS.length - 1)];
      await new Promise((wait) => setTimeout(wait, pause));
      now = await api.job(job.id);
    }
  };

  input.addEventListener("change", () => {
    add(input.files ?? []);
    // So that the same file can be chosen again.
    input.value = "";
  });
  acceptDrops(zone, (files) => limit > 0 && add(files));
  return {
    element,
    setLimit(bytes) {
      limit = bytes;
      element.hidden = bytes === 0;
      fill(note, `Logs, packed logs (gzip, zstd) and profiles (.ttmem), up to ${size(bytes)}.`);
    },
    follow(job) {
      const row = uploadRow(job.file);
      rows.prepend(row.element);
      watch(job, row).catch((error: Error) => row.show({ at: "refused", message: error.message }));
    },
  };
}

interface Row {
  element: HTMLElement;
  /** Is told when the reader cancels. */
  signal: AbortSignal;
  show(stage: Stage): void;
}

function uploadRow(name: string): Row {
  const cancelled = new AbortController();
  const words = h("span", { class: "words", role: "status" });
  const bar = h("progress", { max: 1, "aria-label": `Progress of ${name}` });
  const cancel = h("button", { type: "button", class: "cancel", "aria-label": `Cancel ${name}` }, "Cancel");
  const more = h("div", { class: "more" });
  const element = h("li", {}, h("strong", { title: name }, name), bar, words, cancel, more);
  const show = (stage: Stage) => {
    words.textContent = wordsOf(stage);
    const share = shareDone(stage);
    if (share === null) bar.removeAttribute("value");
    else bar.value = share;
    bar.hidden = hasEnded(stage) || stage.at === "waiting";
    cancel.hidden = stage.at !== "sending" && stage.at !== "waiting";
    element.classList.toggle("failed", hasFailed(stage));
    element.classList.toggle("done", hasEnded(stage) && !hasFailed(stage));
    fill(more, stage.at === "job" ? whatNext(stage.job) : null);
  };
  cancel.addEventListener("click", () => {
    cancelled.abort();
    show({ at: "refused", message: "Cancelled." });
  });
  show({ at: "waiting" });
  return { element, signal: cancelled.signal, show };
}

/** A link to the report, or what to do so that the next log has memory data in it. */
function whatNext({ state, report, page, error }: Job): HTMLElement | null {
  if (state === "done" && page) return h("a", { href: page, "aria-label": `Open ${report}` }, "Open");
  if (!lacksMemoryData(error)) return null;
  const copy = h("button", { type: "button" }, "Copy");
  copy.addEventListener("click", () => {
    const said = (text: string) => {
      copy.textContent = text;
    };
    // Not everywhere: a browser gives it to pages of this machine and to encrypted ones.
    const copied = navigator.clipboard?.writeText(SETTINGS) ?? Promise.reject();
    copied.then(
      () => said("Copied"),
      () => said("Select it and copy"),
    );
  });
  const block = h("pre", { tabindex: 0, "aria-label": "Settings to paste" }, SETTINGS);
  return h("div", { class: "settings" }, h("p", {}, "Set this and run the program again:"), block, copy);
}

/** Runs a few things at once and the others after them. */
export function queue(most: number): (task: () => Promise<void>) => Promise<void> {
  const waiting: (() => void)[] = [];
  let running = 0;
  return async (task) => {
    if (running === most) await new Promise<void>((turn) => waiting.push(turn));
    else running++;
    try {
      await task();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else running--;
    }
  };
}

/** Takes files that are dropped anywhere on the page. */
function acceptDrops(zone: HTMLElement, take: (files: FileList) => void): void {
  let inside = 0;
  const mark = (change: number) => {
    inside = change === 0 ? 0 : inside + change;
    zone.classList.toggle("over", inside > 0);
  };
  const hasFiles = (event: DragEvent) => event.dataTransfer?.types.includes("Files") ?? false;
  addEventListener("dragenter", (event) => hasFiles(event) && mark(1));
  addEventListener("dragleave", (event) => hasFiles(event) && mark(-1));
  addEventListener("dragover", (event) => {
    // Else the browser would open the file.
    if (hasFiles(event)) event.preventDefault();
  });
  addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    mark(0);
    if (event.dataTransfer) take(event.dataTransfer.files);
  });
}
