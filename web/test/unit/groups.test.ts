import { describe, expect, test } from "vitest";
import { commonLocation, layerNames, locationsOf, otherLocations, pattern } from "../../src/groups";
import { TensorGroups, type Tensors } from "../../src/live/groups";

describe("a pattern", () => {
  test("has whole words at both ends", () => {
    expect(pattern(["layers.0.q.weight", "layers.11.q.weight"])).toBe("layers.*.q.weight");
    expect(pattern(["weight_1", "weight_12"])).toBe("weight_*");
    expect(pattern(["cache", "cache"])).toBe("cache");
    expect(pattern(["größe.1", "größe.2"])).toBe("größe.*");
    expect(pattern(["constructor.0", "constructor.1"])).toBe("constructor.*");
  });

  test("is omitted if it says nothing", () => {
    expect(pattern(["a.a", "a.a.a"])).toBe(null);
    expect(pattern(["%60", "%61"])).toBe(null);
    expect(pattern(["", ""])).toBe("");
    expect(pattern([])).toBe(null);
  });

  test("of locations is inside their quotes", () => {
    expect(commonLocation(['"cache.0"', '"cache.1"'])).toBe('"cache.*"');
    expect(commonLocation(['fused["a"]', 'fused["a"]'])).toBe('fused["a"]');
    expect(commonLocation(['fused["a.0", "b"]', 'fused["a.1", "b"]'])).toBe(null);
    expect(commonLocation([])).toBe(null);
  });
});

test("a location stands for several", () => {
  expect(locationsOf(['"a"', '"a"'])).toEqual({ loc: '"a"', locations: 1 });
  expect(locationsOf(['"cache.0"', '"cache.1"'])).toEqual({ loc: '"cache.*"', locations: 2 });
  expect(locationsOf(['"b"', 'fused["a"]', '"b"'])).toEqual({ loc: '"b"', locations: 2 });
  expect(locationsOf([])).toEqual({ loc: null, locations: 0 });
  expect(otherLocations('"b"', 3)).toBe(2);
  expect(otherLocations('"b"', 1)).toBe(0);
  expect(otherLocations('"cache.*"', 9)).toBe(0);
});

test("layers are alike and their neighbors are not", () => {
  const names = ["model", "h.0", "h.0.mlp", "h.1", "h.1.mlp.0", "features.0", "0", "1.h.12.x", "a..3.b"];
  const layers = layerNames(names);
  expect(names.map(layers)).toEqual([
    ...["model", "h.*", "h.*.mlp", "h.*", "h.*.mlp.0", "features.0", "0", "1.h.*.x", "a..*.b"],
  ]);
});

interface Row {
  name?: string;
  part?: string;
  loc?: string;
  bytes?: number;
  step?: number;
  freed?: number;
  gone?: number;
}

function groupsOf(list: Row[]): TensorGroups {
  const layers = layerNames(list.flatMap(({ part }) => part ?? []));
  const tensors: Tensors = {
    count: list.length,
    name: (row) => list[row].name ?? null,
    part: (row) => list[row].part ?? null,
    layers: (row) => (list[row].part === undefined ? null : layers(list[row].part ?? "")),
    className: () => "activation",
    shape: () => null,
    dtype: () => null,
    perBank: (row) => list[row].bytes ?? Number.NaN,
    op: () => "ttnn.full",
    loc: (row) => list[row].loc ?? null,
    step: (row) => list[row].step ?? Number.NaN,
    freedBy: (row) => list[row].freed ?? null,
    goneBefore: (row) => list[row].gone ?? null,
    key: (row) => `${list[row].bytes} ${tensors.layers(row)} ${list[row].step !== undefined}`,
  };
  return new TensorGroups(tensors);
}

/** The titles of all tensors, the largest group first. */
function titles(list: Row[]): string[] {
  const groups = groupsOf(list);
  return Array.from(groups.show(Uint32Array.from(list.keys())), (row) => groups.title(row));
}

describe("groups of tensors", () => {
  test("come before larger tensors if they are larger together", () => {
    const list = [{ name: "a", bytes: 100 }, ...Array(4).fill({ bytes: 40, step: 1 })];
    const groups = groupsOf(list);
    const rows = groups.show(Uint32Array.of(0, 1, 2, 3, 4));
    const sizes = Array.from(rows, (row) => groups.sum(row, (tensor) => list[tensor].bytes ?? 0));
    expect(sizes).toEqual([160, 100]);
    expect(groups.membersOf(rows[0])).toEqual(Uint32Array.of(1, 2, 3, 4));
    expect(groups.membersOf(rows[1])).toBe(null);
    expect([0, 1, 4].map((tensor) => groups.groupOf(tensor))).toEqual([null, rows[0], rows[0]]);
  });

  test("are those of the shown tensors only", () => {
    const groups = groupsOf(Array(4).fill({ bytes: 40 }));
    const [row] = groups.show(Uint32Array.of(0, 1, 2));
    expect(groups.membersOf(row)).toHaveLength(3);
    expect([...groups.show(Uint32Array.of(2))]).toEqual([2]);
    expect(groups.groupOf(2)).toBe(null);
    expect([...groups.show(Uint32Array.of(3, 2))]).toEqual([row]);
    expect(groups.show(new Uint32Array())).toHaveLength(0);
  });

  test("of unknown size come last", () => {
    expect(titles([{ name: "a" }, { name: "a" }, { name: "b", bytes: 1 }])).toEqual(["b", "2 × a"]);
  });

  test("are titled by names, parts or locations", () => {
    const three = (of: (at: number) => Row) =>
      titles([0, 1, 2].map((at) => ({ bytes: 4, step: at, ...of(at) })));
    expect(three(() => ({}))).toEqual(["3 tensors"]);
    expect(three((at) => ({ name: `layers.${at}.w` }))).toEqual(["3 × layers.*.w"]);
    expect(three((at) => ({ name: `%${at}`, loc: `"cache.${at}"` }))).toEqual(['3 × "cache.*"']);
    const parts = [0, 1].flatMap((at) => [
      { part: `h.${at}.mlp`, bytes: 4 },
      { part: `h.${at}`, bytes: 8 },
    ]);
    expect(titles(parts)).toEqual(["2 × (in h.*)", "2 × (in h.*.mlp)"]);
    expect(titles([{ part: "h.0.mlp" }])).toEqual(["(in h.0.mlp)"]);
    expect(titles([{}])).toEqual(["unnamed"]);
  });

  test("say what freed them", () => {
    const freed = (...list: Row[]) => {
      const groups = groupsOf(list.map((row) => ({ bytes: 4, ...row })));
      return groups.freedBy(groups.show(Uint32Array.from(list.keys()))[0]);
    };
    expect(freed({}, {})).toBe("never");
    expect(freed({ freed: 12 }, {})).toBe("1 of 2 never");
    expect(freed({ freed: 12 }, { freed: 12 })).toBe("step 12");
    expect(freed({ freed: 1200 }, { freed: 3 })).toBe("steps 3 and 1,200");
    expect(freed({ freed: 1200 }, { freed: 3 }, { freed: 4 })).toBe("steps 3–1,200");
    expect(freed({ freed: 12 }, { gone: 20 })).toBe(null);
    expect(freed({ gone: 20 })).toBe("before step 20");
  });

  test("of 100,000 tensors are found quickly", () => {
    const list = Array.from({ length: 100_000 }, (_, at) => ({ name: `layers.${at}.w`, bytes: at % 20_000 }));
    const groups = groupsOf(list);
    const all = Uint32Array.from(list.keys());
    groups.show(all);
    const start = performance.now();
    expect(groups.show(all)).toHaveLength(20_000);
    // A move of the pin; usually 10 ms.
    expect(performance.now() - start).toBeLessThan(500);
  });
});
