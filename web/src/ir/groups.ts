// Groups rows by a key, such as the steps of each operation.

export class Groups {
  private readonly first: Uint32Array;
  private readonly rows: Uint32Array;

  /** Groups rows 0, 1, 2 … by their keys, which are below `size`; rows with negative keys are skipped. */
  constructor(keys: ArrayLike<number>, size: number) {
    this.first = new Uint32Array(size + 1);
    for (let row = 0; row < keys.length; row++) if (keys[row] >= 0) this.first[keys[row] + 1]++;
    for (let key = 0; key < size; key++) this.first[key + 1] += this.first[key];
    this.rows = new Uint32Array(this.first[size]);
    const next = this.first.slice();
    for (let row = 0; row < keys.length; row++) if (keys[row] >= 0) this.rows[next[keys[row]]++] = row;
  }

  /** The rows with a key, in order. */
  get(key: number): Uint32Array {
    return this.rows.subarray(this.first[key], this.first[key + 1]);
  }
}

/** The index of the first number that is at least `min`, in a sorted array. */
export function lowerBound(numbers: Uint32Array, min: number): number {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (numbers[middle] < min) low = middle + 1;
    else high = middle;
  }
  return low;
}
