// The progress of an upload, as text and as a share.

import { size } from "../format";
import type { Failure, Job } from "../generated/answers";

/** The state of an upload. */
export type Stage =
  | { at: "waiting" }
  | { at: "sending"; sent: number; of: number }
  | { at: "job"; job: Job }
  | { at: "refused"; message: string };

/** The status text of an upload. */
export function wordsOf(stage: Stage): string {
  switch (stage.at) {
    case "waiting":
      return "Queued";
    case "sending":
      return `Uploading: ${size(stage.sent)} of ${size(stage.of)}`;
    case "refused":
      return stage.message;
    case "job":
      return wordsOfJob(stage.job);
  }
}

function wordsOfJob({ state, read_bytes, size_bytes, error }: Job): string {
  switch (state) {
    case "queued":
      return "Uploaded, queued for reading";
    case "reading":
      return `Reading: ${size(read_bytes)} of ${size(size_bytes)}`;
    case "writing":
      return "Writing the report";
    case "done":
      return "Done";
    case "failed":
      return error?.message ?? "The file could not be read.";
  }
}

/** The finished share of the current step, from 0 to 1; `null` if it is unknown or the upload has ended. */
export function shareDone(stage: Stage): number | null {
  if (stage.at === "sending") return stage.of > 0 ? stage.sent / stage.of : null;
  if (stage.at !== "job") return null;
  const { state, read_bytes, size_bytes } = stage.job;
  return state === "reading" && size_bytes > 0 ? read_bytes / size_bytes : null;
}

export function hasEnded(stage: Stage): boolean {
  return stage.at === "refused" || (stage.at === "job" && ["done", "failed"].includes(stage.job.state));
}

export function hasFailed(stage: Stage): boolean {
  return stage.at === "refused" || (stage.at === "job" && stage.job.state === "failed");
}

/** The settings that add memory data to a log. */
export const SETTINGS = `export TTMLIR_RUNTIME_LOGGER_LEVEL=DEBUG
export TT_RUNTIME_MEMORY_LOG_LEVEL=any
export TTXLA_LOGGER_LEVEL=DEBUG
python model.py > model.log 2>&1`;

/** Whether the upload failed because the log has no memory data. */
export function lacksMemoryData(error: Failure | null): boolean {
  return error?.kind === "no_memory_data";
}
