// The answer of `ttmem summary --json`, as far as the page shows it. docs/json.md says what each field means.

export interface Summary {
  schema: number;
  source: {
    format: string;
    files: string[];
    warnings: { file: string; line: number | null; message: string }[];
    skipped_lines: number;
  };
  ranks: RankSummary[];
}

export interface RankSummary {
  rank: string | null;
  /** Which process of its log it is, counted from 1. */
  process: number;
  /** How many processes wrote its log. */
  processes: number;
  file: string;
  runs: number;
  passes: number;
  operations: { total: number; reported: number; weight: number | null; activation: number | null };
  distribution: { op: string; count: number }[];
  pools: Record<string, PoolSummary>;
  peak: PoolMoment | null;
  peaks: Record<string, PoolMoment>;
  padding: { padded_bytes: number; logical_bytes: number; overhead_pct: number | null } | null;
  suspects: { step: number; op: string | null; loc: string | null; added_per_bank: number }[];
  outside: { pool: string; step: number; change_per_bank: number }[];
  fragmentation: Record<string, Fragmentation>;
  weights: { count: number; bytes: number; kept_twice_bytes: number | null } | null;
  inputs: { count: number; bytes: number } | null;
  oom: Oom | null;
  /** The sentence on the exception that ended the program. */
  ended_by: string | null;
  faults: {
    kind: string;
    pool: string | null;
    step: number | null;
    op: string | null;
    line: number;
    ended_program: boolean;
    message: string;
  }[];
  sessions: Session[];
  phases: Phase[];
  suggestions: Suggestion[];
}

/** The sentences of a verdict or a suggestion. They are displayed as they are. */
export interface Statement {
  headline: string;
  detail: string | null;
  advice: string | null;
}

export interface Suggestion extends Statement {
  rule: string;
  urgency: "failure" | "risk" | "change" | "note";
  pool: string;
  message: string;
  saves_per_bank: number | null;
  saves_bytes: number | null;
  step: number | null;
  steps: number[];
  /** The largest; null where the evidence has no tensors. */
  tensors: SuggestionTensor[] | null;
  tensor_count: number | null;
}

/** A tensor that a suggestion is about. */
export interface SuggestionTensor {
  name: string | null;
  ssa: string | null;
  shape: number[] | null;
  dtype: string | null;
  per_bank: number | null;
  born_step: number | null;
}

export interface PoolSummary {
  banks: number | null;
  capacity_per_bank: number | null;
  peak_per_bank: number | null;
  peak_total: number | null;
  peak_step: number | null;
  caused_by_step: number | null;
  final_per_bank: number | null;
  final_total: number | null;
  final_source: "measured" | "rebuilt" | null;
  free_at_peak_per_bank: number | null;
  largest_free_at_peak_per_bank: number | null;
  quantum_per_bank: number;
  /** What a caching allocator says besides, in bytes. */
  allocator?: {
    requested_at_peak_total: number | null;
    active_at_peak_total: number | null;
    reserved_at_peak_total: number | null;
    reserved_peak_total: number | null;
  };
  /** A counter that was read now and then. */
  polled?: boolean;
  /** What the figures do not have in them, in words. */
  not_watched?: string[];
}

export interface PoolMoment {
  pool: string;
  step: number | null;
  phase: string | null;
  caused_by: {
    step: number;
    op: string | null;
    loc: string | null;
    program: string | null;
    run: number | null;
  } | null;
  caused_outside_programs: boolean;
  allocated_per_bank: number | null;
  explained_per_bank: number | null;
  unexplained_per_bank: number | null;
  by_class_per_bank: Record<string, number> | null;
  /** Where those tensors were made that running made, the most first. */
  made_in?: MadeIn[];
  live_count: number | null;
}

/** What a part of the program made of what is alive. */
export interface MadeIn {
  /** `h.*.mlp` for layers that are alike; null outside of all parts. */
  name: string | null;
  kind: string | null;
  scopes: number;
  tensors: number;
  per_bank: number;
}

export interface Oom extends Statement {
  pool: string | null;
  cause: string;
  evidence: string;
  requested_total: number | null;
  requested_per_bank: number | null;
  banks: number | null;
  free_per_bank: number | null;
  largest_free_per_bank: number | null;
  lacks_per_bank: number | null;
  overlap_bytes: number | null;
  step: number | null;
  op: string | null;
  loc: string | null;
  message: string;
}

/** Where a pool was most in pieces. */
export interface Fragmentation {
  step: number;
  free_per_bank: number;
  largest_free_per_bank: number;
  blocks: Block[] | null;
}

/** A piece of a bank. */
export interface Block {
  address: number;
  size: number;
  allocated: boolean;
}

/** A summary of a training log. */
export interface Session {
  name: string | null;
  parameters: number | null;
  device_memory_bytes: number | null;
  estimated: boolean;
  finished: boolean;
  peak_bytes: number | null;
  final_bytes: number | null;
}

export interface Phase {
  session: number;
  name: string;
  first_step: number | null;
  end_step: number | null;
  segment_peak_bytes: number | null;
  allocations_bytes: number | null;
  deallocations_bytes: number | null;
  change_bytes: number | null;
  cumulative_peak_bytes: number | null;
  cumulative_current_bytes: number | null;
  l1_peak_cb_bytes: number | null;
  l1_peak_buffer_bytes: number | null;
  l1_peak_total_bytes: number | null;
}

/** What a rank is called beside others: by its process, its tag, or its number. */
export function rankTitle({ rank, process, processes }: RankSummary, index: number): string {
  const tag = rank === null ? "" : `rank ${rank}`;
  if (processes > 1) return [`process ${process}`, tag].filter(Boolean).join(", ");
  return tag || `rank ${index}`;
}
