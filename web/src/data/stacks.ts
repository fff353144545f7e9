// The call stacks of a rank: source lines, and rows that consist of a line and the calling row.

import type { Block } from "./block";
import type { Lines } from "./lines";

/** The columns of the stacks. A caller is always an earlier row. */
export interface StackRows {
  /** The innermost line. */
  frame: Uint32Array;
  /** The calling row; -1 for an outermost line. */
  caller: Int32Array;
}

export class Stacks implements StackRows {
  readonly frame: Uint32Array;
  readonly caller: Int32Array;
  /** The line to show for a stack, which is the innermost one of the user's program if there is one. */
  private readonly line: Uint32Array;
  private readonly frames: {
    function: Uint32Array;
    file: Uint32Array;
    line: Uint32Array;
    library: Uint32Array;
  };
  private readonly ofOps: Int32Array;
  private readonly restored: Map<number, number>;

  constructor(
    block: Block,
    private readonly texts: Lines,
  ) {
    this.frame = block.numbers("stacks.frame");
    this.caller = block.maybe("stacks.caller");
    this.line = block.numbers("stacks.line");
    this.frames = {
      function: block.numbers("frames.function"),
      file: block.numbers("frames.file"),
      line: block.numbers("frames.line"),
      library: block.numbers("frames.library"),
    };
    this.ofOps = block.maybe("ops.stack");
    const stacks = block.maybe("restored.stack");
    this.restored = new Map(
      Array.from(block.numbers("restored.tensor"), (tensor, row) => [tensor, stacks[row]]),
    );
  }

  /** The stack of an operation; -1 if unknown. */
  ofOp(op: number): number {
    return this.ofOps[op];
  }

  /** The stack of a tensor that was allocated in an earlier file of the recording; `undefined` for other tensors. */
  ofRestored(tensor: number): number | undefined {
    return this.restored.get(tensor);
  }

  /** The lines of a stack, innermost first. */
  framesOf(stack: number): number[] {
    const frames: number[] = [];
    for (let row = stack; row >= 0; row = this.caller[row]) frames.push(this.frame[row]);
    return frames;
  }

  /** The line to show for a stack. */
  lineOf(stack: number): number {
    return this.line[stack];
  }

  /** Whether a line is not in the user's program. */
  isLibrary(frame: number): boolean {
    return this.frames.library[frame] === 1;
  }

  functionOf(frame: number): string {
    return this.texts.get(this.frames.function[frame]);
  }

  /** `/srv/train/model.py:28`, or the file alone if the line is unknown; `null` if there is no source file. */
  placeOf(frame: number): string | null {
    const file = this.texts.get(this.frames.file[frame]);
    const line = this.frames.line[frame];
    if (file === "" || file === "??") return null;
    return line === 0 ? file : `${file}:${line}`;
  }

  /** `forward model.py:28` */
  shortName(frame: number): string {
    const place = this.placeOf(frame);
    const name = this.functionOf(frame);
    return place === null ? name : `${name} ${place.replace(/^.*[/\\]/, "")}`;
  }

  /** `forward (/srv/train/model.py:28)` */
  fullName(frame: number): string {
    const place = this.placeOf(frame);
    const name = this.functionOf(frame);
    return place === null ? name : `${name} (${place})`;
  }
}
