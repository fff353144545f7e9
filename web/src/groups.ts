// Names of groups: the pattern that names or locations follow, and layers without their numbers. The rules are those of
// the crate `query` (groups.rs and analyze/scopes.rs), so that the page groups tensors like `ttmem summary`.

/** Maximum nesting depth of modules. A malicious file could nest deeper. */
const MAX_DEPTH = 64;
/** A pattern with at most this many letters is not useful. */
const MIN_LETTERS = 2;

const SEPARATOR = /[._/:-]/;

/** What names have in common at both ends, with `*` for the rest: `layers.*.weight`; `null` if that is too little. */
export function pattern(names: readonly string[]): string | null {
  if (names.length === 0) return null;
  const [first] = names;
  let [start, end, shortest] = [first.length, first.length, first.length];
  let isSame = true;
  for (const name of names) {
    if (name === first) continue;
    isSame = false;
    start = Math.min(start, commonStart(first, name, start));
    end = Math.min(end, commonEnd(first, name, end));
    shortest = Math.min(shortest, name.length);
  }
  if (isSame) return first;
  // Whole words only: `weight_1` and `weight_12` share `weight_`, and not `weight_1`.
  while (start > 0 && !SEPARATOR.test(first[start - 1])) start--;
  end = Math.max(0, Math.min(end, shortest - start));
  while (end > 0 && !SEPARATOR.test(first[first.length - end])) end--;
  const [head, tail] = [first.slice(0, start), first.slice(first.length - end)];
  const letters = (head + tail).match(/\p{L}/gu)?.length ?? 0;
  return letters > MIN_LETTERS ? `${head}*${tail}` : null;
}

function commonStart(a: string, b: string, most: number): number {
  let length = 0;
  while (length < most && length < b.length && a[length] === b[length]) length++;
  return length;
}

function commonEnd(a: string, b: string, most: number): number {
  let length = 0;
  while (length < most && length < b.length && a[a.length - 1 - length] === b[b.length - 1 - length])
    length++;
  return length;
}

/** The location that steps share, or the pattern that their locations follow: `"cache.*"`. */
export function commonLocation(locations: readonly string[]): string | null {
  const [first] = locations;
  if (first === undefined) return null;
  if (locations.every((location) => location === first)) return first;
  // Fused locations and call sites are nested, and have no simple pattern.
  const inner = locations.map((location) => location.match(/^"([^"]*)"$/)?.[1]);
  if (!inner.every((text) => text !== undefined)) return null;
  const common = pattern(inner);
  return common === null ? null : `"${common}"`;
}

/** A location that stands for several: the common one, their pattern, or the first; and the number of different ones. */
export function locationsOf(all: readonly string[]): { loc: string | null; locations: number } {
  const different = [...new Set(all)];
  return { loc: commonLocation(different) ?? different[0] ?? null, locations: different.length };
}

/** The number of locations that a location does not stand for; 0 for a pattern, which stands for all. */
export function otherLocations(loc: string, locations: number): number {
  return loc.includes("*") ? 0 : Math.max(0, locations - 1);
}

/**
 * Returns a function that replaces the numbers of layers in the names of modules: `h.0.mlp` becomes `h.*.mlp`. A number
 * without a name before it is kept, and so is the number of a module that contains no others.
 */
export function layerNames(modules: Iterable<string>): (name: string) => string {
  const blocks = new Set<string>();
  for (const name of modules) {
    let at = -1;
    for (let depth = 0; depth < MAX_DEPTH; depth++) {
      at = name.indexOf(".", at + 1);
      if (at < 0) break;
      blocks.add(name.slice(0, at));
    }
  }
  return (name) => {
    let end = 0;
    let isNamed = false;
    const parts = name.split(".").map((part, index) => {
      end += part.length + (index > 0 ? 1 : 0);
      const isNumber = /^[0-9]+$/.test(part);
      const isLayer = isNumber && isNamed && blocks.has(name.slice(0, end));
      isNamed ||= !isNumber;
      return isLayer ? "*" : part;
    });
    return parts.join(".");
  };
}
