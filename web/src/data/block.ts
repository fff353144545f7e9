// A block of data in the page: a JSON header and columns.
//
// A block is zlib data, base64-encoded in a script element. Unpacked, it consists of the length of the JSON (four bytes),
// the JSON, and the bytes of the columns in the order of the JSON. `crates/ttmem-report/src/page/block.rs` writes the
// blocks and documents the encoding.

/** The layout of a column in its block. */
interface Entry {
  name: string;
  /** The type of the values; see the methods of `Block`. */
  kind: "number" | "maybe" | "size" | "signed" | "bytes";
  rows: number;
  /** Bytes per row. */
  width: number;
  /** Each row is the zigzag-encoded difference from the preceding one. */
  delta?: boolean;
  /** Rows are indices into a dictionary with this many rows of eight bytes. */
  dictionary?: number;
}

interface Head {
  columns: Entry[];
}

/** An unpacked block. Columns are decoded on request. */
export class Block<Meta = unknown> {
  readonly meta: Meta;
  private readonly entries = new Map<string, { entry: Entry; offset: number }>();

  constructor(private readonly bytes: Uint8Array) {
    const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
    const head = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length))) as Meta & Head;
    let offset = 4 + length;
    for (const entry of head.columns) {
      this.entries.set(entry.name, { entry, offset });
      offset += entry.rows * entry.width + (entry.dictionary ?? 0) * 8;
    }
    this.meta = head;
  }

  /** The number of rows of a column. */
  rows(name: string): number {
    return this.find(name).entry.rows;
  }

  /** A column of integers below 2^32. */
  numbers(name: string): Uint32Array {
    const { entry, offset } = this.find(name);
    if (entry.width > 4 || entry.dictionary !== undefined) return Uint32Array.from(this.wide(name));
    const out = this.small(offset, entry.rows, entry.width);
    if (!entry.delta) return out;
    let sum = 0;
    for (let row = 0; row < out.length; row++) {
      const value = out[row];
      // Zigzag in integer arithmetic: this runs for every step of a log.
      sum = (sum + ((value >>> 1) ^ -(value & 1))) >>> 0;
      out[row] = sum;
    }
    return out;
  }

  /** A column of integers; -1 if missing. */
  maybe(name: string): Int32Array {
    const values = this.numbers(name);
    const out = new Int32Array(values.buffer);
    for (let row = 0; row < out.length; row++) out[row]--;
    return out;
  }

  /** A column of sizes in bytes; NaN if unknown, so that sums with it are unknown too. */
  sizes(name: string): Float64Array {
    const values = this.wide(name);
    for (let row = 0; row < values.length; row++) {
      values[row] = values[row] === 0 ? Number.NaN : values[row] - 1;
    }
    return values;
  }

  /** A column of differences in bytes; NaN if unknown. */
  signed(name: string): Float64Array {
    return this.wide(name, (value) => (value === 0 ? Number.NaN : unzigzag(value - 1)));
  }

  /** A column of raw bytes. */
  raw(name: string): Uint8Array {
    const { entry, offset } = this.find(name);
    return this.bytes.subarray(offset, offset + entry.rows);
  }

  private find(name: string): { entry: Entry; offset: number } {
    const found = this.entries.get(name);
    if (!found) throw new Error(`the page has no column ${name}`);
    return found;
  }

  /** Decodes the numbers of a column and applies `then` to each. */
  private wide(name: string, then: (value: number) => number = (value) => value): Float64Array {
    const { entry, offset } = this.find(name);
    const step = entry.delta ? (value: number) => unzigzag(value) : then;
    const out = new Float64Array(entry.rows);
    if (entry.dictionary !== undefined) {
      // Few distinct numbers: each one is converted only once.
      const words = this.planes(offset, entry.dictionary, 8).map(step);
      const places = this.small(offset + entry.dictionary * 8, entry.rows, entry.width);
      for (let row = 0; row < out.length; row++) out[row] = words[places[row]];
    } else {
      const values =
        entry.width > 4
          ? this.planes(offset, entry.rows, entry.width)
          : this.small(offset, entry.rows, entry.width);
      for (let row = 0; row < out.length; row++) out[row] = step(values[row]);
    }
    if (!entry.delta) return out;
    let sum = 0;
    for (let row = 0; row < out.length; row++) {
      sum += out[row];
      out[row] = then(sum);
    }
    return out;
  }

  /** Numbers of up to four bytes, stored as byte planes: all lowest bytes first, then the next higher ones, and so on. */
  private small(offset: number, rows: number, width: number): Uint32Array {
    const out = new Uint32Array(rows);
    for (let plane = 0; plane < width; plane++) {
      const bytes = this.bytes.subarray(offset + plane * rows, offset + (plane + 1) * rows);
      const shift = plane * 8;
      for (let row = 0; row < rows; row++) out[row] |= bytes[row] << shift;
    }
    return out;
  }

  /** Like `small`, for numbers of any width. */
  private planes(offset: number, rows: number, width: number): Float64Array {
    const out = new Float64Array(rows);
    let unit = 1;
    for (let plane = 0; plane < width; plane++) {
      const start = offset + plane * rows;
      for (let row = 0; row < rows; row++) out[row] += this.bytes[start + row] * unit;
      unit *= 256;
    }
    return out;
  }
}

function unzigzag(value: number): number {
  return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
}

/** Unpacks the block with a name; `null` if the page has none. */
export async function unpack<Meta>(name: string): Promise<Block<Meta> | null> {
  const element = document.getElementById(`ttmem-${name}`);
  if (!element) return null;
  const packed = fromBase64(element.textContent ?? "");
  // Remove the text: it is large and no longer needed.
  element.remove();
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Block<Meta>(new Uint8Array(await new Response(stream).arrayBuffer()));
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const native = (Uint8Array as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }).fromBase64;
  if (native) return native(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let index = 0; index < binary.length; index++) bytes[index] = binary.charCodeAt(index);
  return bytes;
}
