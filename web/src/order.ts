// Sorts many rows: stable, with unknown values last in both directions.

/** The sort key of a row; NaN, null and the empty string mean unknown. */
export type SortKey = number | string | null;

/** Whether a sort key is known. */
export function hasValue(key: SortKey): boolean {
  return key !== null && key !== "" && !Number.isNaN(key);
}

/** Returns the rows in the order of their keys; rows with equal keys keep their order. */
export function sorted(
  rows: Uint32Array,
  keyOf: (row: number) => SortKey,
  descending: boolean,
): Uint32Array<ArrayBuffer> {
  const keys = numericKeys(rows, keyOf);
  if (descending) for (let at = 0; at < keys.length; at++) keys[at] = -keys[at];
  return byRadix(rows, keys);
}

/** Converts the keys to numbers: a string becomes its index among all distinct strings, sorted. */
function numericKeys(rows: Uint32Array, keyOf: (row: number) => SortKey): Float64Array {
  const keys = new Float64Array(rows.length);
  const numberOf = new Map<string, number>();
  let texts: Uint32Array | undefined;
  for (let at = 0; at < rows.length; at++) {
    const key = keyOf(rows[at]);
    if (typeof key === "number") {
      keys[at] = key;
    } else if (key === null || key === "") {
      keys[at] = Number.NaN;
    } else {
      texts ??= new Uint32Array(rows.length);
      let number = numberOf.get(key);
      if (number === undefined) {
        number = numberOf.size + 1;
        numberOf.set(key, number);
      }
      texts[at] = number;
    }
  }
  if (texts) {
    const places = placesOf([...numberOf.keys()]);
    for (let at = 0; at < keys.length; at++) if (texts[at] > 0) keys[at] = places[texts[at] - 1];
  }
  return keys;
}

/** The index of each string in sorted order. */
function placesOf(texts: string[]): Uint32Array {
  const order = texts.map((_, at) => at).sort((a, b) => (texts[a] < texts[b] ? -1 : 1));
  const places = new Uint32Array(texts.length);
  for (let place = 0; place < order.length; place++) places[order[place]] = place;
  return places;
}

/**
 * Radix sort, sixteen bits at a time from the lowest: it is stable and calls no comparison function. The bits of a float
 * sort like the number once the sign is inverted.
 */
function byRadix(rows: Uint32Array, keys: Float64Array): Uint32Array<ArrayBuffer> {
  const bits = sortableBits(keys);
  let from = new Uint32Array(rows.length);
  for (let at = 0; at < from.length; at++) from[at] = at;
  let to = new Uint32Array(rows.length);
  const places = new Uint32Array(0x10000);
  for (let digit = 0; digit < 4; digit++) {
    places.fill(0);
    for (let at = 0; at < rows.length; at++) places[bits[at * 4 + digit]]++;
    // All keys have the same value in this digit.
    if (rows.length > 0 && places[bits[digit]] === rows.length) continue;
    let place = 0;
    for (let value = 0; value < places.length; value++) {
      const many = places[value];
      places[value] = place;
      place += many;
    }
    for (let at = 0; at < rows.length; at++) to[places[bits[from[at] * 4 + digit]]++] = from[at];
    [from, to] = [to, from];
  }
  for (let at = 0; at < from.length; at++) from[at] = rows[from[at]];
  return from;
}

/** Each number as four 16-bit digits, lowest first, that sort like the number; NaN is the highest. */
function sortableBits(keys: Float64Array): Uint16Array {
  const numbers = new Float64Array(keys.length);
  const words = new Uint32Array(numbers.buffer);
  for (let at = 0; at < keys.length; at++) {
    // Adding 0 turns -0 into 0.
    numbers[at] = keys[at] + 0;
    const low = at * 2;
    const high = low + 1;
    if (Number.isNaN(keys[at])) {
      words[low] = words[high] = 0xffffffff;
    } else if (words[high] >>> 31) {
      words[low] = ~words[low];
      words[high] = ~words[high];
    } else {
      words[high] |= 0x80000000;
    }
  }
  return new Uint16Array(words.buffer);
}
