// temporary
export type StoredRow = {
  name: string,
  kind: StoredKind,
  folder: string,
  written: string | null,
  format: string | null,
  ranks: number | null,
  operations: number | null,
  peak: AboutPeak | null,
  shown: ShownPeak | null,
  oom: string | null,
  bytes: number,
  source: SourceId | null,
  page: string | null,
};
export type Job = {
  id: string,
  file: string,
  size_bytes: number,
  state: JobState,
  read_bytes: number,
  report: string | null,
  page: string | null,
  error: Failure | null,
};
export type JobState = "queued" | "reading" | "writing" | "done" | "failed";
export type ServerInfo = {
  name: string,
  version: string,
  max_upload_bytes: number,
};
export type Failure = {
  kind: FailureKind,
  exit_code: number,
  message: string,
};
export type FailureKind = "no_memory_data" | "not_there" | "unreadable" | "full" | "bug" | "ended";
export type Block = {
  address: number,
  size: number,
  allocated: boolean,
};
export type Class = "weight" | "input" | "argument" | "activation" | "parameter" | "gradient" | "optimizer" | "kv_cache" | "buffer" | "temporary" | "unknown";
export type GraphHead = {
  name: string | null,
  stages: Array<GraphStage>,
};
export type GraphStage = {
  stage: string,
  first: number,
  lines: number,
};
export type RankHead = {
  steps: number,
  has_tensors: boolean,
  classes: Array<string>,
  pools: Array<PoolOutline>,
  modules: Array<GraphHead>,
};
export type PageHead = {
  name: string,
  generator: string,
  summary: Summary,
  verdicts: Array<Verdict | null>,
};
export type Verdict = {
  verdict: string,
  advice: string,
};
export type GanttPageHead = {
  name: string,
  file: string,
  generator: string,
  ranks: Array<string | null>,
};
export type GanttHead = {
  rank: string | null,
  began_unix_ns: number | null,
  first_ns: number,
  last_ns: number,
  kinds: Array<string>,
  lanes: Array<Lane>,
  further_calls: number,
  hot_paths: Array<HotPath>,
  chain: ChainTotals,
  overlaps: Overlaps,
  unit_ns: number,
  pools: Array<GanttPool>,
};
export type GanttPool = {
  name: string,
  extent: Extent,
  quantum: number,
  has_tensors: boolean,
};
export type AboutPeak = {
  pool: string,
  per_bank: number | null,
  capacity_per_bank: number | null,
  total: number | null,
  capacity_total: number | null,
  of: Extent | null,
  level: Level | null,
};
export type Extent = "bank" | "core" | "device";
export type ShownPeak = {
  bytes: number,
  capacity: number | null,
  of: Extent,
};
export type RankOutline = {
  steps: number,
  has_tensors: boolean,
  classes: Array<string>,
  pools: Array<PoolOutline>,
};
export type PoolOutline = {
  name: string,
  extent: Extent,
  quantum: number,
  peak_moment: number | null,
  fragmented: Array<FragmentedMoment> | null,
};
export type FragmentedMoment = {
  moment: number,
  free: number,
  largest_free: number,
};
export type Summary = {
  schema: number,
  source: SourceSummary,
  ranks: Array<RankSummary>,
};
export type SourceSummary = {
  format: string,
  files: Array<string>,
  warnings: Array<WarningSummary>,
  skipped_lines: number,
};
export type WarningSummary = {
  file: string,
  line: number | null,
  message: string,
};
export type RankSummary = {
  rank: string | null,
  process: number,
  processes: number,
  file: string,
  device: DeviceKind | null,
  runs: number,
  passes: number,
  chosen_runs: ChosenRuns | null,
  operations: Counts,
  distribution: Array<OpCount>,
  pools: Record<string, PoolSummary>,
  peak: PoolMoment | null,
  peaks: Record<string, PoolMoment>,
  at: AtMoment | null,
  padding: PaddingSummary | null,
  suspects: Array<Suspect>,
  outside: Array<Outside>,
  fragmentation: Record<string, Fragmentation>,
  weights: Weights | null,
  inputs: Declared | null,
  oom: Oom | null,
  faults: Array<FaultSummary>,
  sessions: Array<SessionSummary>,
  phases: Array<PhaseSummary>,
  expected: Array<ExpectedSummary>,
  checkpoints?: Array<Checkpoint>,
  ran?: Array<Ran>,
  suggestions: Array<Suggestion>,
};
export type Checkpoint = {
  name: string,
  time_ns: number,
  step: number,
  pools: Record<string, number | null>,
};
export type Ran = {
  name: string,
  kind: string,
  depth: number,
  calls: number,
  running: number,
  time_ns: number | null,
  longest_ns: number | null,
  peak_bytes: number | null,
  allocated_bytes: number | null,
  kept_bytes: number | null,
  change_bytes: number | null,
};
export type ExpectedSummary = {
  class: Class,
  expected_bytes: number,
  from: string,
  how: string,
  measured_bytes: number | null,
  measured_step: number | null,
  measured_by_pool: Record<string, number> | null,
  difference_bytes: number | null,
  difference_pct: number | null,
  note: string | null,
};
export type Suggestion = {
  rule: string,
  pool: string,
  message: string,
  saves_per_bank: number | null,
  saves_bytes: number | null,
  step: number | null,
};
export type ChosenRuns = {
  first: number,
  last: number,
  of: number,
};
export type Counts = {
  total: number,
  reported: number,
  weight: number | null,
  activation: number | null,
};
export type OpCount = {
  op: string,
  count: number,
};
export type PoolSummary = {
  banks: number | null,
  extent: Extent,
  capacity_per_bank: number | null,
  peak_per_bank: number | null,
  level: Level | null,
  peak_total: number | null,
  peak_step: number | null,
  caused_by_step: number | null,
  final_per_bank: number | null,
  final_total: number | null,
  final_source: string | null,
  free_at_peak_per_bank: number | null,
  largest_free_at_peak_per_bank: number | null,
  quantum_per_bank: number,
  allocator?: AllocatorLevels | null,
  polled?: boolean,
  peak_source?: string | null,
  highest_sample_per_bank?: number | null,
  not_watched?: Array<string>,
};
export type AllocatorLevels = {
  requested_at_peak_total: number | null,
  active_at_peak_total: number | null,
  reserved_at_peak_total: number | null,
  reserved_peak_total: number | null,
};
export type PoolMoment = {
  pool: string,
  step: number | null,
  phase: string | null,
  caused_by: Caused | null,
  caused_outside_programs: boolean,
  allocated_per_bank: number | null,
  free_per_bank: number | null,
  largest_free_per_bank: number | null,
  explained_per_bank: number | null,
  unexplained_per_bank: number | null,
  by_class_per_bank: Record<string, number> | null,
  residue: Array<ResidueRow> | null,
  live_count: number | null,
  made_in?: Array<MadeIn> | null,
  live: Array<LiveTensor> | null,
  blocks: Array<Block> | null,
};
export type MadeIn = {
  name: string | null,
  kind: string | null,
  scopes: number,
  tensors: number,
  per_bank: number,
};
export type Caused = {
  step: number,
  op: string | null,
  loc: string | null,
  program: string | null,
  run: number | null,
};
export type ResidueRow = {
  op: string | null,
  per_bank: number,
  steps: number,
  first_uses: number,
  at_steps: Array<number>,
  note: string | null,
};
export type LiveTensor = {
  name: string | null,
  ssa: string | null,
  program: string | null,
  run: number | null,
  also: Array<string>,
  op: string | null,
  loc: string | null,
  made_in?: string | null,
  class: Class,
  shape: Array<number> | null,
  dtype: string | null,
  per_bank: number | null,
  padded_bytes: number | null,
  logical_bytes: number | null,
  born_step: number | null,
  dies_step: number | null,
  gone_before_step: number | null,
};
export type AtMoment = {
  step: number,
  op: string | null,
  loc: string | null,
  pools: Record<string, PoolMoment>,
};
export type PaddingSummary = {
  padded_bytes: number,
  logical_bytes: number,
  overhead_pct: number | null,
  top: Array<PaddedTensor>,
};
export type PaddedTensor = {
  name: string | null,
  op: string | null,
  loc: string | null,
  shape: Array<number>,
  padded_shape: Array<number> | null,
  dtype: string,
  padded_bytes: number,
  logical_bytes: number,
  overhead_bytes: number,
  overhead_pct: number | null,
};
export type Suspect = {
  step: number,
  op: string | null,
  loc: string | null,
  shape: Array<number> | null,
  dtype: string | null,
  added_per_bank: number,
};
export type Outside = {
  pool: string,
  step: number,
  change_per_bank: number,
};
export type Fragmentation = {
  step: number,
  free_per_bank: number,
  largest_free_per_bank: number,
  severity: Severity,
  blocks: Array<Block> | null,
};
export type Weights = {
  count: number,
  bytes: number,
  kept_twice_bytes: number | null,
  largest: Array<Weight>,
};
export type Weight = {
  name: string,
  shape: Array<number>,
  dtype: string,
  bytes: number | null,
  kept_twice: boolean | null,
};
export type Declared = {
  count: number,
  bytes: number,
};
export type Oom = {
  pool: string | null,
  cause: string,
  evidence: string,
  requested_total: number | null,
  requested_per_bank: number | null,
  banks: number | null,
  free_per_bank: number | null,
  largest_free_per_bank: number | null,
  allocated_per_bank?: number | null,
  within?: string | null,
  overlap_bytes: number | null,
  step: number | null,
  op: string | null,
  loc: string | null,
  belongs_to: Array<OwnerSummary>,
  message: string,
};
export type OwnerSummary = {
  part: string,
  ssa: string,
  name: string | null,
  shape: Array<number>,
  dtype: string,
  widened: boolean,
};
export type FaultSummary = {
  kind: string,
  pool: string | null,
  step: number | null,
  op: string | null,
  line: number | null,
  ended_program: boolean,
  message: string,
};
export type SessionSummary = {
  name: string | null,
  parameters: number | null,
  dtype: string | null,
  device_memory_bytes: number | null,
  estimated: boolean,
  finished: boolean,
  line: number | null,
  peak_bytes: number | null,
  level: Level | null,
  fits: boolean | null,
  final_bytes: number | null,
};
export type PhaseSummary = {
  session: number,
  name: string,
  first_step: number | null,
  end_step: number | null,
  segment_peak_bytes: number | null,
  allocations_bytes: number | null,
  deallocations_bytes: number | null,
  change_bytes: number | null,
  cumulative_peak_bytes: number | null,
  cumulative_current_bytes: number | null,
  l1_peak_cb_bytes: number | null,
  l1_peak_buffer_bytes: number | null,
  l1_peak_total_bytes: number | null,
};
export type Gantt = {
  schema: number,
  file: string,
  format: string,
  ranks: Array<RankGantt>,
};
export type RankGantt = {
  rank: string | null,
  began_unix_ns: number | null,
  first_ns: number,
  last_ns: number,
  kinds: Array<string>,
  lanes: Array<Lane>,
  further_calls: number,
  hot_paths: Array<HotPath>,
  chain: ChainTotals,
  overlaps: Overlaps,
  scopes: ScopeColumns,
  calls: CallColumns,
  chain_calls: Array<number>,
  memory: Array<MemoryColumns>,
  snapshots: SnapshotColumns,
};
export type GanttOutline = {
  rank: string | null,
  began_unix_ns: number | null,
  first_ns: number,
  last_ns: number,
  kinds: Array<string>,
  lanes: Array<Lane>,
  further_calls: number,
  hot_paths: Array<HotPath>,
  chain: ChainTotals,
  overlaps: Overlaps,
};
export type Lane = {
  name: string,
  rows: number,
};
export type ScopeColumns = {
  name: Array<string>,
  parent: Array<number | null>,
  kind: Array<number>,
};
export type CallColumns = {
  scope: Array<number>,
  lane: Array<number>,
  row: Array<number>,
  parent: Array<number | null>,
  began_ns: Array<number>,
  ended_ns: Array<number | null>,
  still_ran: Array<boolean>,
  allocated: Array<number | null>,
  freed: Array<number | null>,
  change: Array<number | null>,
  peak: Array<number | null>,
  kept: Array<number | null>,
  loc: Array<string | null>,
};
export type HotPath = {
  scope: number,
  path: string,
  count: number,
  timed: number,
  total_ns: number | null,
  own_ns: number | null,
  longest_ns: number | null,
  longest_call: number | null,
  change: number | null,
};
export type ChainTotals = {
  time_ns: number,
  calls: number,
};
export type Overlaps = {
  time_ns: number,
  sets: number,
  longest: Array<Overlap>,
};
export type Overlap = {
  lanes: number,
  time_ns: number,
  count: number,
  from_ns: number,
  until_ns: number,
  calls: Array<number>,
};
export type MemoryColumns = {
  pool: string,
  banks: number | null,
  extent: Extent,
  quantum: number,
  at_ns: Array<number>,
  per_bank: Array<number>,
};
export type SnapshotColumns = {
  name: Array<string | null>,
  at_ns: Array<number>,
};
export type Level = "ok" | "high" | "full";
export type DeviceKind = "tenstorrent" | "torch";
export type SourceId = {
  path: string,
  size: number,
  hash: string,
};
export type Stored = {
  name: string,
  kind: StoredKind,
  folder: string,
  written: string | null,
  format: string | null,
  ranks: number | null,
  operations: number | null,
  peak: AboutPeak | null,
  shown: ShownPeak | null,
  oom: string | null,
  bytes: number,
  source: SourceId | null,
};
export type StoredKind = "report" | "run";
export type Severity = "negligible" | "minor" | "notable";
