// The L1 of a core while each step runs: the columns of `query::timeline`.

import type { L1Outline, RankHead } from "../generated/answers";
import type { Block } from "./block";

/** The flags of a step. */
export const Flag = {
  /** A program runs. */
  Runs: 1,
  /** The program's buffers are not in the input. */
  Unknown: 2,
  /** The actual headroom may be smaller. */
  AtMost: 4,
  /** The program's buffers did not fit. */
  Failed: 8,
} as const;

/** The kinds of program buffers, by number. */
export const BUFFER_KINDS = ["circular buffer", "dataflow buffer", "scratchpad"] as const;

/** The layout of a core's L1, and what is in it while each step runs. */
export class L1 {
  private stepTable: ReturnType<typeof stepTable> | undefined;
  private programTable: ReturnType<typeof programTable> | undefined;
  private tensorTable: ReturnType<typeof tensorTable> | undefined;

  constructor(
    readonly outline: L1Outline,
    private readonly block: Block<RankHead>,
  ) {}

  /** A row per step. */
  get steps() {
    this.stepTable ??= stepTable(this.block);
    return this.stepTable;
  }

  /** A row per program buffer, by step. */
  get programs() {
    this.programTable ??= programTable(this.block);
    return this.programTable;
  }

  /** The places of tensors, by tensor. */
  get tensors() {
    this.tensorTable ??= tensorTable(this.block);
    return this.tensorTable;
  }
}

function stepTable(block: Block) {
  return {
    /** The bytes between the program's buffers and the lowest tensor; NaN if unknown, negative if they overlap. */
    headroom: block.signed("l1.headroom"),
    /** The address of the lowest tensor; NaN if unknown. */
    lowest: block.sizes("l1.lowest"),
    /** The address where the program's buffers end; NaN if unknown. */
    end: block.sizes("l1.end"),
    /** See `Flag`. */
    flags: block.numbers("l1.flags"),
  };
}

function programTable(block: Block) {
  return {
    step: block.numbers("programs.step"),
    /** See `BUFFER_KINDS`. */
    kind: block.numbers("programs.kind"),
    start: block.sizes("programs.start"),
    bytes: block.sizes("programs.bytes"),
    /** A text index. */
    cores: block.numbers("programs.cores"),
    /** 1 if the buffer uses the memory of a tensor. */
    borrowed: block.numbers("programs.borrowed"),
  };
}

function tensorTable(block: Block) {
  return {
    /** NaN if unknown. */
    address: block.sizes("tensors.address"),
    /** A text index; -1 if the tensor is on all cores, or its cores are unknown. */
    cores: block.maybe("tensors.cores"),
  };
}
