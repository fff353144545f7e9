// A sample of a table's rows, for measuring its columns.

/** All rows, or about `most` at equal distances, including the last. */
export function sampleOf(rows: Uint32Array, most: number): Uint32Array {
  const step = Math.ceil(rows.length / most);
  return step <= 1 ? rows : rows.filter((_, at) => (rows.length - 1 - at) % step === 0);
}
