// Rows by a number that they have, such as the steps of each operation.

export class Groups {
  private readonly first: Uint32Array;
  private readonly rows: Uint32Array;

  /** Puts rows 0, 1, 2 … together by their keys, which are below `size`; negative keys are none. */
  constructor(keys: ArrayLike<number>, size: number) {
    this.first = new Uint32Array(size + 1);
    for (let row = 0; row < keys.length; row++) if (keys[row] >= 0) this.first[keys[row] + 1]++;
    for (let key = 0; key < size; key++) this.first[key + 1] += this.first[key];
    this.rows = new Uint32Array(this.first[size]);
    const next = this.first.slice();
    for (let row = 0; row < keys.length; row++) if (keys[row] >= 0) this.rows[next[keys[row]]++] = row;
  }

  /** The rows that have a key, in order. */
  get(key: number): Uint32Array {
    return this.rows.subarray(this.first[key], this.first[key + 1]);
  }
}

/** The place of the first number that is not below `least`, among numbers in order. */
export function lowerBound(numbers: Uint32Array, least: number): number {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (numbers[middle] < least) low = middle + 1;
    else high = middle;
  }
  return low;
}
