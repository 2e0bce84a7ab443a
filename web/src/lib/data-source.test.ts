import { expect, test } from "vitest";

import { isSynthetic } from "./data-source";

test("only companies without included figures are synthetic", () => {
  const included_tickers = ["AAPL", "NVDA"];
  expect(isSynthetic({ data: "included", included_tickers }, "NVDA")).toBe(false);
  expect(isSynthetic({ data: "included", included_tickers }, "ACME")).toBe(true);
  expect(isSynthetic({ data: "synthetic", included_tickers }, "NVDA")).toBe(true);
  expect(isSynthetic({ data: "edgar", included_tickers }, "ACME")).toBe(false);
});
