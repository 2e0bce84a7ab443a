/** Estimates what a fork costs from what the forked run has cost. */

import type { Report } from "@/lib/report";
import type { Config, Spending } from "@/lib/types";
import { moveNumber } from "@/run/board";

export interface ForkPlan {
  /** `layer_0`, `layer_1`, `layer_2` or a move. */
  place: string;
  /** First repeated round; only for a move. */
  round: number;
  /** Whether only the debate at the fork point is repeated. */
  only: boolean;
}

type Amount = Omit<Spending, "name">;

const NOTHING: Amount = { calls: 0, input_tokens: 0, output_tokens: 0, dollars: 0 };

/** Adds the parts, each multiplied by `share`. An unknown cost makes the sum unknown. */
function sum(parts: readonly Amount[], share = 1): Amount {
  return parts.reduce<Amount>(
    (all, it) => ({
      calls: all.calls + it.calls * share,
      input_tokens: all.input_tokens + it.input_tokens * share,
      output_tokens: all.output_tokens + it.output_tokens * share,
      dollars: all.dollars === null || it.dollars === null ? null : all.dollars + it.dollars * share,
    }),
    NOTHING,
  );
}

/** Returns the calls, tokens and dollars that the run spent on the part that the fork repeats. */
export function forkEstimate({ outcome }: Report, config: Config, { place, round, only }: ForkPlan): Amount {
  if (place.startsWith("layer_")) {
    const kept = [
      ...(place === "layer_0" ? [] : config.synthesizers),
      ...(place === "layer_2" ? config.inferences : []),
    ];
    return sum(outcome.spending.filter((it) => !kept.some(({ id }) => id === it.name)));
  }
  const tokens = (it: Amount): number => it.input_tokens + it.output_tokens;
  const debates = tokens(sum(outcome.spending_by_move));
  const before = tokens(sum(outcome.spending_by_round.filter((it) => it.name !== "0" && Number(it.name) < round)));
  const share = debates > 0 ? (debates - before) / debates : 1;
  const own = outcome.spending_by_move.filter((it) => it.name === place);
  const later = outcome.spending_by_move.filter((it) => moveNumber(it.name) > moveNumber(place));
  return sum([sum(own, share), ...(only ? [] : later)]);
}
