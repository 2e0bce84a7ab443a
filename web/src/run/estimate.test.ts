import { describe, expect, it } from "vitest";

import { type Sample, remember, secondsLeft, share } from "./estimate";

const every = (seconds: number, calls: number[]): Sample[] =>
  calls.map((it, idx) => ({ at: idx * seconds * 1000, calls: it })).reduce(remember, [] as Sample[]);

describe("the time that is left", () => {
  it("is what remains at the pace of late", () => {
    expect(secondsLeft(every(2, [0, 10, 20, 30]), 130)).toBeCloseTo(20);
  });

  it("follows a change of pace", () => {
    const slow = Array.from({ length: 31 }, (_, idx) => idx * 100);
    const fast = Array.from({ length: 31 }, (_, idx) => 3000 + (idx + 1) * 10);
    // After a minute at the new pace the old one is forgotten: 10 calls in 2 seconds, 1000 to go.
    expect(secondsLeft(every(2, [...slow, ...fast]), 4310)).toBeCloseTo(200);
  });

  it("is not known before anything was measured, nor while nothing happens", () => {
    expect(secondsLeft([], 100)).toBeNull();
    expect(secondsLeft(every(2, [5]), 100)).toBeNull();
    expect(secondsLeft(every(1, [5, 9]), 100)).toBeNull();
    expect(secondsLeft(every(2, [5, 5, 5]), 100)).toBeNull();
  });

  it("is nothing when all calls are answered, also when there were more than planned", () => {
    expect(secondsLeft(every(2, [90, 100]), 100)).toBe(0);
    expect(secondsLeft(every(2, [90, 104]), 100)).toBe(0);
  });

  it("begins anew when the count falls", () => {
    expect(every(2, [50, 60, 3])).toHaveLength(1);
  });
});

describe("the share that is done", () => {
  it("lies between nothing and all", () => {
    expect(share(0, 924)).toBe(0);
    expect(share(462, 924)).toBe(0.5);
    expect(share(930, 924)).toBe(1);
    expect(share(3, 0)).toBe(0);
  });
});
