import { describe, expect, it } from "vitest";

import { type Sample, addSample, fractionDone, secondsLeft } from "./estimate";

const every = (seconds: number, calls: number[]): Sample[] =>
  calls.map((it, idx) => ({ at: idx * seconds * 1000, calls: it })).reduce(addSample, [] as Sample[]);

describe("the remaining time", () => {
  it("is extrapolated from the recent rate", () => {
    expect(secondsLeft(every(2, [0, 10, 20, 30]), 130)).toBeCloseTo(20);
  });

  it("follows a change of rate", () => {
    const slow = Array.from({ length: 31 }, (_, idx) => idx * 100);
    const fast = Array.from({ length: 31 }, (_, idx) => 3000 + (idx + 1) * 10);
    // After a minute the old rate has left the window: 10 calls in 2 seconds, 1000 remaining.
    expect(secondsLeft(every(2, [...slow, ...fast]), 4310)).toBeCloseTo(200);
  });

  it("is unknown without samples or without progress", () => {
    expect(secondsLeft([], 100)).toBeNull();
    expect(secondsLeft(every(2, [5]), 100)).toBeNull();
    expect(secondsLeft(every(1, [5, 9]), 100)).toBeNull();
    expect(secondsLeft(every(2, [5, 5, 5]), 100)).toBeNull();
  });

  it("is zero when all calls are done, even if there were more than planned", () => {
    expect(secondsLeft(every(2, [90, 100]), 100)).toBe(0);
    expect(secondsLeft(every(2, [90, 104]), 100)).toBe(0);
  });

  it("discards samples when the count decreases", () => {
    expect(every(2, [50, 60, 3])).toHaveLength(1);
  });
});

describe("the fraction done", () => {
  it("is between 0 and 1", () => {
    expect(fractionDone(0, 924)).toBe(0);
    expect(fractionDone(462, 924)).toBe(0.5);
    expect(fractionDone(930, 924)).toBe(1);
    expect(fractionDone(3, 0)).toBe(0);
  });
});
