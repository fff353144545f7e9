// A flame graph as data: the bytes of each stack row, and the rectangles that are wide enough to be seen.

import type { StackRows } from "../data/stacks";

/** The nodes other than the rows of stacks: all allocations, and those whose stack was not recorded. */
export const ROOT = -1;
export const UNKNOWN_STACK = -2;

/** The allocations to add up. */
export interface Allocations {
  /** The stack of each one; -1 if unknown. */
  stacks: Int32Array;
  bytes: Float64Array;
}

export class FlameTree {
  /** The bytes of each row, including everything that it called. */
  private readonly bytes: Float64Array;
  private readonly counts: Uint32Array;
  private readonly callees = new Map<number, number[]>();
  private total = 0;
  private unknown = 0;
  private unknownCount = 0;

  constructor(
    private readonly rows: StackRows,
    private readonly allocations: Allocations,
  ) {
    const { caller } = rows;
    this.bytes = new Float64Array(caller.length);
    this.counts = new Uint32Array(caller.length);
    allocations.stacks.forEach((stack, index) => {
      const bytes = allocations.bytes[index] || 0;
      this.total += bytes;
      if (stack < 0) {
        this.unknown += bytes;
        this.unknownCount++;
        return;
      }
      this.bytes[stack] += bytes;
      this.counts[stack]++;
    });
    // A caller is an earlier row, so it is complete when it is reached.
    for (let row = caller.length - 1; row >= 0; row--) {
      if (this.counts[row] === 0) continue;
      const parent = caller[row] < 0 ? ROOT : caller[row];
      if (parent !== ROOT) {
        this.bytes[parent] += this.bytes[row];
        this.counts[parent] += this.counts[row];
      }
      const siblings = this.callees.get(parent);
      if (siblings) siblings.push(row);
      else this.callees.set(parent, [row]);
    }
    if (this.unknownCount > 0) this.callees.set(ROOT, [...(this.callees.get(ROOT) ?? []), UNKNOWN_STACK]);
    // The larger row number comes last, as on the command line.
    const order = (row: number) => (row === UNKNOWN_STACK ? Number.POSITIVE_INFINITY : row);
    for (const siblings of this.callees.values()) {
      siblings.sort((a, b) => this.bytesOf(b) - this.bytesOf(a) || order(a) - order(b));
    }
  }

  bytesOf(node: number): number {
    if (node === ROOT) return this.total;
    return node === UNKNOWN_STACK ? this.unknown : this.bytes[node];
  }

  /** The number of allocations. */
  countOf(node: number): number {
    if (node === ROOT) return this.allocations.stacks.length;
    return node === UNKNOWN_STACK ? this.unknownCount : this.counts[node];
  }

  /** The lines that a line called, the largest first. */
  childrenOf(node: number): readonly number[] {
    return this.callees.get(node) ?? [];
  }

  parentOf(node: number): number {
    if (node === UNKNOWN_STACK || node === ROOT) return ROOT;
    const caller = this.rows.caller[node];
    return caller < 0 ? ROOT : caller;
  }

  /** A node and its callers, the root first. */
  pathTo(node: number): number[] {
    const path: number[] = [];
    for (let next = node; next !== ROOT; next = this.parentOf(next)) path.push(next);
    return [ROOT, ...path.reverse()];
  }

  /** The node itself, or its innermost caller that still has bytes. */
  nearest(node: number): number {
    let found = node;
    while (found !== ROOT && this.countOf(found) === 0) found = this.parentOf(found);
    return found;
  }

  /**
   * The bytes of the nodes that match. What a match called is part of it and counts once.
   */
  matched(isMatch: (node: number) => boolean): number {
    let sum = 0;
    const pending = [...this.childrenOf(ROOT)];
    for (let node = pending.pop(); node !== undefined; node = pending.pop()) {
      if (isMatch(node)) sum += this.bytesOf(node);
      else pending.push(...this.childrenOf(node));
    }
    return sum;
  }
}

/** A rectangle: its place as shares of the width, and its row. */
export interface Box {
  node: number;
  left: number;
  width: number;
  depth: number;
  /** Whether it is a caller of the zoomed node. */
  isCaller: boolean;
}

/** The boxes of a view: the callers of the zoomed node across the whole width, the node, and what it called. */
export function boxesOf(tree: FlameTree, zoomed: number, minShare: number, maxBoxes: number): Box[] {
  const path = tree.pathTo(zoomed);
  const boxes: Box[] = path.map((node, depth) => ({
    node,
    left: 0,
    width: 1,
    depth,
    isCaller: depth < path.length - 1,
  }));
  const total = tree.bytesOf(zoomed);
  if (!(total > 0)) return boxes;
  // Row by row, so that the limit cuts the innermost rows.
  let row = [boxes[boxes.length - 1]];
  while (row.length > 0 && boxes.length < maxBoxes) {
    const next: Box[] = [];
    for (const box of row) {
      let { left } = box;
      for (const node of tree.childrenOf(box.node)) {
        const width = tree.bytesOf(node) / total;
        // Children are sorted by size: all others are smaller.
        if (width < minShare || boxes.length + next.length >= maxBoxes) break;
        next.push({ node, left, width, depth: box.depth + 1, isCaller: false });
        left += width;
      }
    }
    boxes.push(...next);
    row = next;
  }
  return boxes;
}
