// A block of data in the page: JSON about it, and columns.
//
// A block is base64 of zlib in a script element. Unpacked, it is the length of the JSON (four bytes), the JSON, and
// the bytes of the columns in the order in which the JSON lists them. `crates/ttmem-report/src/page/block.rs` writes
// it; what is said there of the encoding is not said again here.

/** How a column lies in its block. */
interface Entry {
  name: string;
  /** What the numbers are: see `Block`'s methods. */
  kind: "number" | "maybe" | "size" | "signed" | "bytes";
  rows: number;
  /** Bytes per row. */
  width: number;
  /** Each row is the difference to the one before, zigzag. */
  delta?: boolean;
  /** Rows are numbers of rows of a dictionary, which has so many rows of eight bytes. */
  dictionary?: number;
}

interface Head {
  columns: Entry[];
}

/** A block, unpacked. Columns are decoded when they are asked for. */
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

  /** How many rows a column has. */
  rows(name: string): number {
    return this.find(name).entry.rows;
  }

  /** Whole numbers below 2^32. */
  numbers(name: string): Uint32Array {
    const { entry, offset } = this.find(name);
    if (entry.width > 4 || entry.dictionary !== undefined) return Uint32Array.from(this.wide(name));
    const out = this.small(offset, entry.rows, entry.width);
    if (!entry.delta) return out;
    let sum = 0;
    for (let row = 0; row < out.length; row++) {
      const value = out[row];
      // Zigzag, in whole numbers: this runs over every step of a log.
      sum = (sum + ((value >>> 1) ^ -(value & 1))) >>> 0;
      out[row] = sum;
    }
    return out;
  }

  /** Whole numbers that may be missing: -1. */
  maybe(name: string): Int32Array {
    const values = this.numbers(name);
    const out = new Int32Array(values.buffer);
    for (let row = 0; row < out.length; row++) out[row]--;
    return out;
  }

  /** Bytes; what is not known is NaN, so that sums with it are not known either. */
  sizes(name: string): Float64Array {
    const values = this.wide(name);
    for (let row = 0; row < values.length; row++) {
      values[row] = values[row] === 0 ? Number.NaN : values[row] - 1;
    }
    return values;
  }

  /** Differences of bytes; what is not known is NaN. */
  signed(name: string): Float64Array {
    return this.wide(name, (value) => (value === 0 ? Number.NaN : unzigzag(value - 1)));
  }

  /** Bytes as they are. */
  raw(name: string): Uint8Array {
    const { entry, offset } = this.find(name);
    return this.bytes.subarray(offset, offset + entry.rows);
  }

  private find(name: string): { entry: Entry; offset: number } {
    const found = this.entries.get(name);
    if (!found) throw new Error(`this page has no column ${name}`);
    return found;
  }

  /** The numbers of a column as they were before they were packed, each of them changed by `then`. */
  private wide(name: string, then: (value: number) => number = (value) => value): Float64Array {
    const { entry, offset } = this.find(name);
    const step = entry.delta ? (value: number) => unzigzag(value) : then;
    const out = new Float64Array(entry.rows);
    if (entry.dictionary !== undefined) {
      // Few different numbers: what is done to each is done once.
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

  /** Numbers of at most four bytes whose lowest bytes stand together, then the next higher ones, and so on. */
  private small(offset: number, rows: number, width: number): Uint32Array {
    const out = new Uint32Array(rows);
    for (let plane = 0; plane < width; plane++) {
      const bytes = this.bytes.subarray(offset + plane * rows, offset + (plane + 1) * rows);
      const shift = plane * 8;
      for (let row = 0; row < rows; row++) out[row] |= bytes[row] << shift;
    }
    return out;
  }

  /** The same for numbers of any width. */
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

/** Unpacks the block of that name; `null` where the page has none. */
export async function unpack<Meta>(name: string): Promise<Block<Meta> | null> {
  const element = document.getElementById(`ttmem-${name}`);
  if (!element) return null;
  const packed = fromBase64(element.textContent ?? "");
  // The text is not needed again, and is large.
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
