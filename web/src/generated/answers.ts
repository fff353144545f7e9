// Generated from the Rust types; `make bless` updates this file. Do not edit it.

/** A peak in a few words. */
export type AboutPeak = {
  /** The pool. */
  pool: string,
  /** The highest use of a bank. */
  per_bank: number | null,
  /** The size of a bank. */
  capacity_per_bank: number | null,
  /** The highest use of the device. */
  total: number | null,
  /** What the device has. */
  capacity_total: number | null,
  /** What the peak is a peak of. Reports of earlier versions do not have it. */
  of: Extent | null,
  /** How close it is to the capacity. */
  level: Level | null,
};

/** The levels that a caching allocator tells apart, in bytes of the device. */
export type AllocatorLevels = {
  /** What the program asked for, when most was allocated. */
  requested_at_peak_total: number | null,
  /** What was allocated or waited for a stream then. */
  active_at_peak_total: number | null,
  /** What the allocator had from the driver then. */
  reserved_at_peak_total: number | null,
  /** The most that it had from the driver. */
  reserved_peak_total: number | null,
};

/** A moment that was asked for. */
export type AtMoment = {
  /** The position. */
  step: number,
  /** The operation that follows. */
  op: string | null,
  /** Its location. */
  loc: string | null,
  /** Every pool then. */
  pools: Record<string, PoolMoment>,
};

/** A piece of a bank. */
export type Block = {
  /** Where it begins. */
  address: number,
  /** Its bytes. */
  size: number,
  /** Whether something lies in it. */
  allocated: boolean,
};

/** Calls in the order in which they began. */
export type CallColumns = {
  /** The scope. */
  scope: Array<number>,
  /** The lane. */
  lane: Array<number>,
  /** The row within the lane. */
  row: Array<number>,
  /** Inside of which call. */
  parent: Array<number | null>,
  /** When it began. */
  began_ns: Array<number>,
  /** When it ended. */
  ended_ns: Array<number | null>,
  /** Whether it still ran when the recording ended. One that neither ended nor ran is known by its time only. */
  still_ran: Array<boolean>,
  /** What it allocated. */
  allocated: Array<number | null>,
  /** What it gave back. */
  freed: Array<number | null>,
  /** By how much there was more after it than before. */
  change: Array<number | null>,
  /** The most that it held above what was there when it began. */
  peak: Array<number | null>,
  /** What it allocated and did not give back. */
  kept: Array<number | null>,
  /** Where it is called from. */
  loc: Array<string | null>,
};

/** The step that brought a pool to where it is. */
export type Caused = {
  /** The step. */
  step: number,
  /** Its operation. */
  op: string | null,
  /** Its location. */
  loc: string | null,
  /** The program it ran in. */
  program: string | null,
  /** The top-level run. */
  run: number | null,
};

/** The longest chain of calls without overlap. */
export type ChainTotals = {
  /** How long its calls take together. */
  time_ns: number,
  /** How many calls there are in it. */
  calls: number,
};

/** A moment that the program has named. */
export type Checkpoint = {
  /** Its name. */
  name: string,
  /** When it was, since the recording began. */
  time_ns: number,
  /** The position. */
  step: number,
  /** What was allocated in each pool then. */
  pools: Record<string, number | null>,
};

/** Runs that were chosen, by their numbers from 1. */
export type ChosenRuns = {
  /** The first. */
  first: number,
  /** The last. */
  last: number,
  /** Of how many. */
  of: number,
};

/** What a tensor is to the model. */
export type Class = "weight" | "input" | "argument" | "activation" | "parameter" | "gradient" | "optimizer" | "kv_cache" | "buffer" | "temporary" | "unknown";

/** How many operations there are. */
export type Counts = {
  /** All, deallocations included. */
  total: number,
  /** Without deallocate and get_device. */
  reported: number,
  /** Of the reported: those that make or load constants. */
  weight: number | null,
  /** Of the reported: all others. */
  activation: number | null,
};

/** The inputs. */
export type Declared = {
  /** How many. */
  count: number,
  /** The bytes of their elements. */
  bytes: number,
};

/** A kind of device. */
export type DeviceKind = "tenstorrent" | "torch";

/** What is expected of a class of tensors, and what it took. */
export type ExpectedSummary = {
  /** The class. */
  class: Class,
  /** What is expected, on the device. */
  expected_bytes: number,
  /** Who expects it: `recording` or `request`. */
  from: string,
  /** How it was computed. */
  how: string,
  /** The most that the class took at one moment, in all pools together. */
  measured_bytes: number | null,
  /** The position at which that was first reached. */
  measured_step: number | null,
  /** What it took in each pool then. */
  measured_by_pool: Record<string, number> | null,
  /** What was measured less what is expected. */
  difference_bytes: number | null,
  /** The same in percent of what is expected. */
  difference_pct: number | null,
  /** Why it was not measured, and what to do about it. */
  note: string | null,
};

/** What a size is a size of. */
export type Extent = "bank" | "core" | "device";

/** Why a task came to nothing. */
export type Failure = {
  kind: FailureKind,
  /** What the command exits with after the same. */
  exit_code: number,
  message: string,
};

/** What kind of failure it is. */
export type FailureKind = "no_memory_data" | "not_there" | "unreadable" | "full" | "bug" | "ended";

/** An error. */
export type FaultSummary = {
  /** What kind. */
  kind: string,
  /** The pool. */
  pool: string | null,
  /** The step. */
  step: number | null,
  /** The operation. */
  op: string | null,
  /** The line. */
  line: number | null,
  /** Whether the program never came to its end. */
  ended_program: boolean,
  /** The message. */
  message: string,
};

/** Fragmentation. */
export type Fragmentation = {
  /** The position where it is worst. */
  step: number,
  /** What is free there. */
  free_per_bank: number,
  /** The largest piece of it. */
  largest_free_per_bank: number,
  /** How much it matters. */
  severity: Severity,
  /** How a bank is cut up there, where the evidence has block tables. */
  blocks: Array<Block> | null,
};

/** What is free at a moment, and the largest piece of it, in each bank. */
export type FragmentedMoment = {
  /** When. */
  moment: number,
  /** What is free. */
  free: number,
  /** The largest piece of it. */
  largest_free: number,
};

/** What ran when. */
export type Gantt = {
  /** The version of this answer. */
  schema: number,
  /** The file. */
  file: string,
  /** Its format. */
  format: string,
  /** The ranks that have calls. */
  ranks: Array<RankGantt>,
};

/** What is said of a rank besides its columns. */
export type GanttHead = {
  unit_ns: number,
  pools: Array<GanttPool>,
  /** The label of the rank. */
  rank: string | null,
  /** When time 0 was, in nanoseconds of Unix time. */
  began_unix_ns: number | null,
  /** When the first thing happened. */
  first_ns: number,
  /** When the last thing happened. */
  last_ns: number,
  /** The kinds of scopes, by the numbers that `scopes.kind` has. */
  kinds: Array<string>,
  /** Threads and streams. */
  lanes: Array<Lane>,
  /** Calls that are not kept one by one: they are in no column, but in the hot paths. */
  further_calls: number,
  /** The scopes that take most time, the first most. */
  hot_paths: Array<HotPath>,
  /** The longest chain of innermost calls of which none overlaps another. */
  chain: ChainTotals,
  /** What ran at once on different lanes. */
  overlaps: Overlaps,
};

export type GanttPageHead = {
  name: string,
  file: string,
  generator: string,
  ranks: Array<string | null>,
};

export type GanttPool = {
  name: string,
  extent: Extent,
  quantum: number,
  has_tensors: boolean,
};

/** A graph of a rank. */
export type GraphHead = {
  name: string | null,
  stages: Array<GraphStage>,
};

export type GraphStage = {
  stage: string,
  /** The first of its lines among those of all graphs. */
  first: number,
  lines: number,
};

/** A scope that takes time. */
export type HotPath = {
  /** The scope. */
  scope: number,
  /** Its name, after those of the scopes around it. */
  path: string,
  /** How often it was called. */
  count: number,
  /** Of how many calls it is known how long they took. */
  timed: number,
  /** How long those took together. */
  total_ns: number | null,
  /** The same without the calls inside of them; null, too, where some are not kept one by one. */
  own_ns: number | null,
  /** The longest. */
  longest_ns: number | null,
  /** Which call that was; the first, where no length is known; null where it is not kept. */
  longest_call: number | null,
  /** By how much they left more memory in use. */
  change: number | null,
};

/** A job as the interface says it. */
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

/** How far a job is. */
export type JobState = "queued" | "reading" | "writing" | "done" | "failed";

/** A thread or stream. */
export type Lane = {
  /** Its name. */
  name: string,
  /** How many rows its calls take. */
  rows: number,
};

/** How close the peak of a pool comes to its capacity. */
export type Level = "ok" | "high" | "full";

/** A tensor that is alive. */
export type LiveTensor = {
  /** What people call it, or its name in the program. */
  name: string | null,
  /** Its name where it was born. */
  ssa: string | null,
  /** The program where it was born. */
  program: string | null,
  /** The top-level run. */
  run: number | null,
  /** Its other names. */
  also: Array<string>,
  /** The operation that made it. */
  op: string | null,
  /** Where that stands. */
  loc: string | null,
  /** The part of the program that it was made in; not there where the program names none. */
  made_in?: string | null,
  /** What it is to the model. */
  class: Class,
  /** Its shape. */
  shape: Array<number> | null,
  /** Its element. */
  dtype: string | null,
  /** What it takes of each bank. */
  per_bank: number | null,
  /** What it takes of the device, padding included. */
  padded_bytes: number | null,
  /** What its elements take. */
  logical_bytes: number | null,
  /** The step that made it. */
  born_step: number | null,
  /** The step that ended it. */
  dies_step: number | null,
  /** It went between two programs: it is gone before this step. */
  gone_before_step: number | null,
};

/** What a part of the program made of what is alive: activations, what is temporary, and what nobody knows. */
export type MadeIn = {
  /** The part: `h.*.mlp` for layers that are alike; null for what was made outside of all parts. */
  name: string | null,
  /** `operation`, `forward`, `backward` or `optimizer`. */
  kind: string | null,
  /** How many parts have that name. */
  scopes: number,
  /** How many tensors. */
  tensors: number,
  /** What they take of each bank. */
  per_bank: number,
};

/** What a pool held. */
export type MemoryColumns = {
  /** The pool. */
  pool: string,
  /** In how many banks it lies. */
  banks: number | null,
  /** What its sizes are sizes of. */
  extent: Extent,
  /** The step of rounding. */
  quantum: number,
  /** When it changed. */
  at_ns: Array<number>,
  /** To what, in each bank. Of several changes at one time the highest and the last are here. */
  per_bank: Array<number>,
};

/** The error that ended the program. */
export type Oom = {
  /** The pool. */
  pool: string | null,
  /** Why. */
  cause: string,
  /** Where the numbers are from. */
  evidence: string,
  /** What was asked for, of the device. */
  requested_total: number | null,
  /** What was asked for, of each bank. */
  requested_per_bank: number | null,
  /** Over how many banks. */
  banks: number | null,
  /** What was free of each. */
  free_per_bank: number | null,
  /** The largest piece of it. */
  largest_free_per_bank: number | null,
  /** How many more bytes of each bank would have been enough. */
  lacks_per_bank: number | null,
  /** What tensors held then; not there where the evidence is not a recording. */
  allocated_per_bank?: number | null,
  /** The part of the program that the step ran in; not there where the program names none. */
  within?: string | null,
  /** Circular buffers: how many bytes they and the buffers both need. */
  overlap_bytes: number | null,
  /** The step. */
  step: number | null,
  /** Its operation. */
  op: string | null,
  /** Its location. */
  loc: string | null,
  /** The tensors of just that size. */
  belongs_to: Array<OwnerSummary>,
  /** The message. */
  message: string,
  /** What happened or was found, in one sentence. */
  headline: string,
  /** Further facts; `None` where the headline has all of them. */
  detail: string | null,
  /** What to do; `None` where there is nothing to do, or it is unknown what helps. */
  advice: string | null,
};

/** How often an operation ran. */
export type OpCount = {
  /** Its name. */
  op: string,
  /** How often. */
  count: number,
};

/** A change between programs. */
export type Outside = {
  /** The pool. */
  pool: string,
  /** The position. */
  step: number,
  /** What changed in each bank. */
  change_per_bank: number,
};

/** Scopes that ran at once. */
export type Overlap = {
  /** How many lanes. */
  lanes: number,
  /** How long, all together. */
  time_ns: number,
  /** How many times. */
  count: number,
  /** When the longest time began. */
  from_ns: number,
  /** When it ended. */
  until_ns: number,
  /** The calls that ran then, one of each lane, eight at most. */
  calls: Array<number>,
};

/** What ran at once. */
export type Overlaps = {
  /** How long two or more lanes were in calls. */
  time_ns: number,
  /** How many different sets of scopes ran at once. */
  sets: number,
  /** Those that lasted longest. */
  longest: Array<Overlap>,
};

/** A tensor of the size that did not fit. */
export type OwnerSummary = {
  /** `result`, `operand` or `argument`. */
  part: string,
  /** Its name in the program. */
  ssa: string,
  /** What people call it. */
  name: string | null,
  /** Its shape. */
  shape: Array<number>,
  /** Its element. */
  dtype: string,
  /** It has that size only with elements twice as wide as declared. */
  widened: boolean,
};

/** A tensor with padding. */
export type PaddedTensor = {
  /** Its name. */
  name: string | null,
  /** The operation that made it. */
  op: string | null,
  /** Where that stands. */
  loc: string | null,
  /** Its shape. */
  shape: Array<number>,
  /** The shape that it is padded to. */
  padded_shape: Array<number> | null,
  /** Its element. */
  dtype: string,
  /** All bytes. */
  padded_bytes: number,
  /** The bytes of the elements. */
  logical_bytes: number,
  /** The difference. */
  overhead_bytes: number,
  /** The same in percent of the elements. */
  overhead_pct: number | null,
};

/** Padding. */
export type PaddingSummary = {
  /** All bytes. */
  padded_bytes: number,
  /** The bytes of the elements. */
  logical_bytes: number,
  /** The first beyond the second, in percent of the second. */
  overhead_pct: number | null,
  /** The tensors with most padding. */
  top: Array<PaddedTensor>,
};

export type PageHead = {
  name: string,
  generator: string,
  summary: Summary,
};

/** A phase. */
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

/** A pool at a moment. */
export type PoolMoment = {
  /** The pool. */
  pool: string,
  /** The position. */
  step: number | null,
  /** The phase. */
  phase: string | null,
  /** The step that brought it there. */
  caused_by: Caused | null,
  /** It was brought there between two programs, by no step. */
  caused_outside_programs: boolean,
  /** What the device says is allocated. */
  allocated_per_bank: number | null,
  /** What is free. */
  free_per_bank: number | null,
  /** The largest piece of it. */
  largest_free_per_bank: number | null,
  /** What the tensors add up to. */
  explained_per_bank: number | null,
  /** The rest; negative where the tensors add up to more. */
  unexplained_per_bank: number | null,
  /** What the tensors add up to, by class. */
  by_class_per_bank: Record<string, number> | null,
  /** The unexplained bytes, by the operations that left them behind. */
  residue: Array<ResidueRow> | null,
  /** How many tensors are alive. */
  live_count: number | null,
  /** Where those were made that running made, the most first; not there where the program names no parts. */
  made_in?: Array<MadeIn> | null,
  /** The tensors, largest first. */
  live: Array<LiveTensor> | null,
  /** How a bank is cut up, where the evidence has block tables. */
  blocks: Array<Block> | null,
};

/** What is said of a pool besides its columns. */
export type PoolOutline = {
  /** Its name. */
  name: string,
  /** What its sizes are sizes of. */
  extent: Extent,
  /** The step of rounding. */
  quantum: number,
  /** When its peak was first reached; null where nothing was ever allocated. */
  peak_moment: number | null,
  /**
   * When its free memory was most in pieces, the worst moment first: empty where it was always in one piece, null where
   * the evidence does not state it.
   */
  fragmented: Array<FragmentedMoment> | null,
};

/** A pool. */
export type PoolSummary = {
  /** In how many banks it lies. */
  banks: number | null,
  /** What its sizes are sizes of, those that are called `per_bank`. */
  extent: Extent,
  /** The size of a bank. */
  capacity_per_bank: number | null,
  /** The highest use of a bank. */
  peak_per_bank: number | null,
  /** How close that is to the capacity. */
  level: Level | null,
  /** The highest use of the device; by its own rule, where the evidence has one. */
  peak_total: number | null,
  /** The position of the peak. */
  peak_step: number | null,
  /** The step before it. */
  caused_by_step: number | null,
  /** What is allocated at the end. */
  final_per_bank: number | null,
  /** The same of the device. Evidence that knows nothing of what was there before may say less than nothing. */
  final_total: number | null,
  /** `measured` or `rebuilt`. */
  final_source: string | null,
  /** What was free at the peak. */
  free_at_peak_per_bank: number | null,
  /** The largest piece of it. */
  largest_free_at_peak_per_bank: number | null,
  /** The step of rounding. */
  quantum_per_bank: number,
  /** What a caching allocator says besides; not there where there is none. */
  allocator?: AllocatorLevels | null,
  /** It is a counter that was read now and then, beside pools whose every change was seen; not there where it is not. */
  polled?: boolean,
  /**
   * Where the peak is from, if the pool was only sampled: `counted` is the evidence's own figure, `sampled` the highest
   * sample, which is a lower bound. Not there where every change was seen.
   */
  peak_source?: string | null,
  /** The highest sample of such a pool. */
  highest_sample_per_bank?: number | null,
  /** What is not in these figures, in words; not there where nothing is known to be missing. */
  not_watched?: Array<string>,
};

/** A part of the program, and what its calls came to that have ended: what they and the calls inside of them did. */
export type Ran = {
  /** Its name. */
  name: string,
  /** `operation`, `forward`, `backward` or `optimizer`. */
  kind: string,
  /** How many others it is inside of: those above it with less. */
  depth: number,
  /** How often it ran to its end. */
  calls: number,
  /** How many calls still ran when the evidence ended. */
  running: number,
  /** How long, in all; `None` where the length of a call is not known. */
  time_ns: number | null,
  /** How long the longest call took; `None` likewise. */
  longest_ns: number | null,
  /** The most that one call held above what was there when it began. */
  peak_bytes: number | null,
  /** What they allocated, in all. */
  allocated_bytes: number | null,
  /** What they had made and left behind, each when it ended, in all. */
  kept_bytes: number | null,
  /** What they allocated less what they gave back. */
  change_bytes: number | null,
};

/** What ran when, on one rank. */
export type RankGantt = {
  /** The tree of what the program does. */
  scopes: ScopeColumns,
  /** What it did. */
  calls: CallColumns,
  /** The calls of the longest chain, in order. */
  chain_calls: Array<number>,
  /** What the pools held. */
  memory: Array<MemoryColumns>,
  /** The moments that somebody wanted to look at. */
  snapshots: SnapshotColumns,
  /** The label of the rank. */
  rank: string | null,
  /** When time 0 was, in nanoseconds of Unix time. */
  began_unix_ns: number | null,
  /** When the first thing happened. */
  first_ns: number,
  /** When the last thing happened. */
  last_ns: number,
  /** The kinds of scopes, by the numbers that `scopes.kind` has. */
  kinds: Array<string>,
  /** Threads and streams. */
  lanes: Array<Lane>,
  /** Calls that are not kept one by one: they are in no column, but in the hot paths. */
  further_calls: number,
  /** The scopes that take most time, the first most. */
  hot_paths: Array<HotPath>,
  /** The longest chain of innermost calls of which none overlaps another. */
  chain: ChainTotals,
  /** What ran at once on different lanes. */
  overlaps: Overlaps,
};

export type RankHead = {
  /** The compiled graphs, with the lines of the block `ir` that their texts are. */
  modules: Array<GraphHead>,
  /** How many steps there are. */
  steps: number,
  /** Whether the evidence has tensors. */
  has_tensors: boolean,
  /** The classes, by the numbers that `tensors.class` has. */
  classes: Array<string>,
  /** The pools, by number. */
  pools: Array<PoolOutline>,
};

/** The answer for one rank. */
export type RankSummary = {
  /** Its label. */
  rank: string | null,
  /** Which process of its log it is, counted from 1. */
  process: number,
  /** How many processes wrote its log. */
  processes: number,
  /** The file it is in. */
  file: string,
  /** The kind of device it ran on. */
  device: DeviceKind | null,
  /** Top-level program runs. */
  runs: number,
  /** How often the sequence of programs ran. */
  passes: number,
  /** Which of the runs the answer is about, where not all of them. */
  chosen_runs: ChosenRuns | null,
  /** The operations. */
  operations: Counts,
  /** The reported operations by name, the most frequent first. */
  distribution: Array<OpCount>,
  /** The pools. */
  pools: Record<string, PoolSummary>,
  /** The pool that matters most at its peak: the one that ran out, or DRAM. */
  peak: PoolMoment | null,
  /** Every pool at its peak. */
  peaks: Record<string, PoolMoment>,
  /** The moment that was asked for. */
  at: AtMoment | null,
  /** The padding of what is alive at the DRAM peak. */
  padding: PaddingSummary | null,
  /** The steps that added most. */
  suspects: Array<Suspect>,
  /** Changes that belong to no step. */
  outside: Array<Outside>,
  /** Where free memory was most in pieces. */
  fragmentation: Record<string, Fragmentation>,
  /** The weights. */
  weights: Weights | null,
  /** The inputs. */
  inputs: Declared | null,
  /** The error that ended the program. */
  oom: Oom | null,
  /**
   * The sentence on the exception that ended the program. Where `oom` is set as well, it is the same error as Python
   * reports it, or a later one.
   */
  ended_by: string | null,
  /** All errors. */
  faults: Array<FaultSummary>,
  /** The sessions of phases. */
  sessions: Array<SessionSummary>,
  /** The phases of all sessions, in order. */
  phases: Array<PhaseSummary>,
  /** What is expected of classes of tensors, and what they took. */
  expected: Array<ExpectedSummary>,
  /** The moments that the program has named, in order; not there where there are none. */
  checkpoints?: Array<Checkpoint>,
  /** What ran, in order, as the program names it; not there where it names nothing. */
  ran?: Array<Ran>,
  /** What could be changed, what matters most first. */
  suggestions: Array<Suggestion>,
};

/** Bytes that no tensor explains. */
export type ResidueRow = {
  /** The operation that left them behind; null where it was none, or one of several. */
  op: string | null,
  /** How many, in each bank. */
  per_bank: number,
  /** In how many steps. */
  steps: number,
  /** In how many of them it ran with these types and attributes for the first time. */
  first_uses: number,
  /** Which steps: when it stayed behind. */
  at_steps: Array<number>,
  /** What is known where there is no operation. */
  note: string | null,
};

/** The tree of what a program does. */
export type ScopeColumns = {
  /** Names. */
  name: Array<string>,
  /** Inside of which scope. */
  parent: Array<number | null>,
  /** What it is. */
  kind: Array<number>,
};

/** The answer at `/api`. */
export type ServerInfo = {
  name: string,
  version: string,
  /** The size of the largest upload that is accepted. */
  max_upload_bytes: number,
};

/** A session of phases. */
export type SessionSummary = {
  /** What people call it. */
  name: string | null,
  /** The parameters of the model. */
  parameters: number | null,
  /** Their element. */
  dtype: string | null,
  /** The memory of the device. */
  device_memory_bytes: number | null,
  /** Nothing was allocated: the figures are what would have been. */
  estimated: boolean,
  /** Whether its end was reached. */
  finished: boolean,
  /** The line that it begins on, from 1. */
  line: number | null,
  /** The highest use of all phases that are known. */
  peak_bytes: number | null,
  /** How close that is to the memory of the device. */
  level: Level | null,
  /** Whether it is below the memory of the device. */
  fits: boolean | null,
  /** The use at the end. */
  final_bytes: number | null,
};

/** How much fragmentation matters. */
export type Severity = "negligible" | "minor" | "notable";

/** A peak as it is shown. */
export type ShownPeak = {
  /** The bytes. */
  bytes: number,
  /** What there is, of the same. */
  capacity: number | null,
  /** What both are sizes of. */
  of: Extent,
};

/** Moments that somebody wanted to look at. */
export type SnapshotColumns = {
  /** What they are called. */
  name: Array<string | null>,
  /** When. */
  at_ns: Array<number>,
};

/** A source: equal if it is the same file with, as far as anybody looks, the same content. */
export type SourceId = {
  /** The file, as an absolute path. */
  path: string,
  /** Its size in bytes. */
  size: number,
  /** The XXH3 hash (128 bits, hexadecimal) of its first and its last 64 KiB. */
  hash: string,
};

/** What was read. */
export type SourceSummary = {
  /** The name of the format. */
  format: string,
  /** The files, as they were named. */
  files: Array<string>,
  /** What people should know. */
  warnings: Array<WarningSummary>,
  /** Lines that were not understood. */
  skipped_lines: number,
};

/** How a report came about. */
export type StoredKind = "report" | "run";

/** A row of the list: what `ttmem list --json` says, and where the rest is. */
export type StoredRow = {
  /** The address of its page: one that is there, or that can be made. */
  page: string | null,
  /** Its name. */
  name: string,
  /** How it came about. */
  kind: StoredKind,
  /** Its folder. */
  folder: string,
  /** When it was last written. */
  written: string | null,
  /** The format of the evidence; not known of folders that the seeds' tool wrote, as all that follows. */
  format: string | null,
  /** How many ranks there are. */
  ranks: number | null,
  /** The operations, without deallocate and get_device. */
  operations: number | null,
  /** The peak that matters most. */
  peak: AboutPeak | null,
  /** That peak as a list shows it. */
  shown: ShownPeak | null,
  /** Why memory ran out, where it did. */
  oom: string | null,
  /** The same as a sentence. */
  oom_headline: string | null,
  /** What its files take. */
  bytes: number,
  /** What it was made from, where that is remembered. */
  source: SourceId | null,
};

/** What could be changed, and what that would save. */
export type Suggestion = {
  /** The name of the suggestion. */
  rule: string,
  /** How urgent it is. */
  urgency: Urgency,
  /** The pool that it is about. */
  pool: string,
  /** All of its sentences in one text. */
  message: string,
  /** By how much the peak of the pool would be lower, in each bank. */
  saves_per_bank: number | null,
  /** The same of the device. */
  saves_bytes: number | null,
  /** The first of the steps that it is about. */
  step: number | null,
  /** The steps that it is about, the earliest first. */
  steps: Array<number>,
  /** The number of these steps, listed or not. */
  step_count: number,
  /** The tensors that it is about, largest first; `None` where the evidence has no tensors. */
  tensors: Array<SuggestionTensor> | null,
  /** The number of these tensors, listed or not. */
  tensor_count: number | null,
  /** What happened or was found, in one sentence. */
  headline: string,
  /** Further facts; `None` where the headline has all of them. */
  detail: string | null,
  /** What to do; `None` where there is nothing to do, or it is unknown what helps. */
  advice: string | null,
};

/** A tensor that a suggestion is about. */
export type SuggestionTensor = {
  /** Its name, or its name in the program. */
  name: string | null,
  /** Its name in the program. */
  ssa: string | null,
  /** Its shape. */
  shape: Array<number> | null,
  /** Its element. */
  dtype: string | null,
  /** Its size in each bank. */
  per_bank: number | null,
  /** The step that made it. */
  born_step: number | null,
};

/** The answer. */
export type Summary = {
  /** The version of this form. */
  schema: number,
  /** What was read. */
  source: SourceSummary,
  /** The answer for each rank. */
  ranks: Array<RankSummary>,
};

/** A step that added much. */
export type Suspect = {
  /** The step. */
  step: number,
  /** Its operation. */
  op: string | null,
  /** Its location. */
  loc: string | null,
  /** The shape of its first result. */
  shape: Array<number> | null,
  /** The element of its first result. */
  dtype: string | null,
  /** What it added to each bank of DRAM (of the first pool, where there is no DRAM). */
  added_per_bank: number,
};

/** How urgent a suggestion is, the most urgent first. */
export type Urgency = "failure" | "risk" | "change" | "note";

/** A warning. */
export type WarningSummary = {
  /** The file. */
  file: string,
  /** The line, from 1. */
  line: number | null,
  /** What is wrong. */
  message: string,
};

/** A weight. */
export type Weight = {
  /** What people call it. */
  name: string,
  /** Its shape. */
  shape: Array<number>,
  /** Its element. */
  dtype: string,
  /** The bytes of its elements. */
  bytes: number | null,
  /** What was computed from it is on the device, too, at the DRAM peak. */
  kept_twice: boolean | null,
};

/** The weights. */
export type Weights = {
  /** How many. */
  count: number,
  /** The bytes of their elements. */
  bytes: number,
  /** Those of them that are on the device in two forms at the DRAM peak. */
  kept_twice_bytes: number | null,
  /** The largest. */
  largest: Array<Weight>,
};
