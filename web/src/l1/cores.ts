// Sets of cores, and the classes of cores with the same content.

import type { Contents } from "./contents";

/** A core, as (x, y). */
export type Core = readonly [x: number, y: number];

/** A rectangle of cores: its first and last core, both included. */
export interface CoreRange {
  first: Core;
  last: Core;
}

/** The maximum number of cores that are drawn. A larger grid in the input is not one of a device. */
const MAX_CORES = 1024;

/** Parses a set of cores: `{[0-0 - 7-5], [0-6 - 6-7]}`. `null` if it can't be read, or if it is empty. */
export function parseCores(text: string | null): CoreRange[] | null {
  const numbers = (text?.match(/\d+/g) ?? []).map(Number);
  // A single core may be written without its last core.
  if (numbers.length === 2) numbers.push(...numbers);
  if (numbers.length === 0 || numbers.length % 4 !== 0 || !numbers.every(Number.isSafeInteger)) return null;
  const ranges: CoreRange[] = [];
  for (let at = 0; at < numbers.length; at += 4) {
    const [x, y, lastX, lastY] = numbers.slice(at, at + 4);
    ranges.push({
      first: [Math.min(x, lastX), Math.min(y, lastY)],
      last: [Math.max(x, lastX), Math.max(y, lastY)],
    });
  }
  return ranges;
}

/** Whether a core is in a set; `null` stands for all cores. */
export function hasCore(ranges: readonly CoreRange[] | null, [x, y]: Core): boolean {
  return (
    ranges === null ||
    ranges.some(({ first, last }) => x >= first[0] && x <= last[0] && y >= first[1] && y <= last[1])
  );
}

/** `(3, 5)` */
export function coreText([x, y]: Core): string {
  return `(${x}, ${y})`;
}

/** `(0, 0) to (7, 5), (0, 6) to (6, 7)` */
export function coresText(ranges: readonly CoreRange[]): string {
  return ranges
    .map(({ first, last }) => {
      const isOne = first[0] === last[0] && first[1] === last[1];
      return isOne ? coreText(first) : `${coreText(first)} to ${coreText(last)}`;
    })
    .join(", ");
}

/** Cores with the same content while a step runs. */
export interface CoreClass {
  cores: Core[];
  /** The address where the program's buffers end on these cores. */
  end: number;
  /** The size of the program's buffers on these cores. */
  bytes: number;
  /** The number of sharded tensors with a shard on these cores. */
  shards: number;
}

export interface CoreClasses {
  /** The number of cores in x and y direction; `null` if unknown. */
  grid: Core | null;
  /** In the order of their first cores, row by row. */
  classes: CoreClass[];
  /** The class of each core, row by row. */
  classOf: Uint16Array;
}

/** Groups the cores by their content. Without a grid, there is one class with the core (0, 0). */
export function classesOf(contents: Contents): CoreClasses {
  const grid = gridOf(contents);
  const [width, height] = grid ?? [1, 1];
  const differing = [...contents.buffers, ...contents.tensors].filter(({ cores }) => cores !== null);
  const classes = new Map<string, CoreClass & { index: number }>();
  const classOf = new Uint16Array(width * height);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const core: Core = [x, y];
      const key = differing.map(({ cores }) => (hasCore(cores, core) ? "1" : "0")).join("");
      let found = classes.get(key);
      if (!found) {
        found = { cores: [], index: classes.size, ...contentOn(contents, core) };
        classes.set(key, found);
      }
      found.cores.push(core);
      classOf[y * width + x] = found.index;
    }
  }
  return { grid, classes: [...classes.values()], classOf };
}

/** The grid of the device or, if it is unknown, a grid that has all cores of the content. */
function gridOf({ outline, buffers, tensors }: Contents): Core | null {
  const fits = ([x, y]: Core) => x > 0 && y > 0 && x * y <= MAX_CORES;
  if (outline.grid) return fits(outline.grid) ? outline.grid : null;
  const last = [...buffers, ...tensors].flatMap(({ cores }) => cores ?? []).map(({ last }) => last);
  if (last.length === 0) return null;
  const max = (axis: 0 | 1) => last.reduce((max, core) => Math.max(max, core[axis]), 0) + 1;
  const grid: Core = [max(0), max(1)];
  return fits(grid) ? grid : null;
}

function contentOn(contents: Contents, core: Core): Omit<CoreClass, "cores"> {
  const { buffers, outline, region, tensors } = contents;
  let [end, bytes] = [region?.end ?? outline.reserved, region ? region.end - region.start : 0];
  for (const buffer of buffers) {
    if (buffer.borrowed || !hasCore(buffer.cores, core)) continue;
    end = Math.max(end, buffer.start + buffer.bytes);
    bytes += buffer.bytes;
  }
  const shards = tensors.filter(({ cores }) => cores !== null && hasCore(cores, core)).length;
  return { end, bytes, shards };
}

/** The indices of the classes, those whose program buffers end highest first. */
export function fullestFirst(classes: readonly CoreClass[]): number[] {
  const order = (a: CoreClass, b: CoreClass) => b.end - a.end || b.bytes - a.bytes || b.shards - a.shards;
  return [...classes.keys()].sort((a, b) => order(classes[a], classes[b]) || a - b);
}
