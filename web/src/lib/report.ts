/** The displayed parts of the report of a completed run. */

import type { MakerScore } from "./events";
import type { Isolation } from "./isolation";
import type { Metric, Move, Person, Spending } from "./types";

export interface Finding {
  id: string;
  claim: string;
  evidence: { section: string; quote: string }[];
  direction: string;
  strength: number;
  kind: string;
}

export interface Turn {
  round: number;
  role: string;
  content: string;
}

/** Turns of the debates, by move and conversation. */
type Logs = Record<string, Record<string, Turn[]>>;

export interface Ranked {
  rank: number;
  move_id: string;
  total_score: number;
  lowest: number;
  spread: number;
  marks: string[];
}

export interface Ranking {
  recommended: Ranked[];
  other: Ranked[];
  unscored: Unscored[];
}

interface Unscored {
  move_id: string;
  reason: string;
}

export interface Flag {
  /** `document` is a move including its debate, a finding, or a file. */
  place: { document: string; part: string; sentence: number };
  text: string;
  reason: { kind: string; findings?: string[] };
}

export interface Observation {
  move_id: string;
  log: string;
  round: number;
  role: string;
  kind: string;
}

export interface Scored {
  move_id: string;
  total_score: number;
  scores_by_agent: Record<string, MakerScore>;
  marks: string[];
}

interface Outcome {
  run_id: string;
  company: { ticker: string; name: string; sector?: string; source: string; as_of: string; warnings: string[] };
  documents: string[];
  findings: { inference: string; findings: Finding[]; tensions: { between: string[]; text: string }[] }[];
  moves: Move[];
  missing: unknown[];
  scores: Scored[];
  logs: Logs;
  provider: { kind: string; [more: string]: unknown };
  isolation: Isolation;
  spending: Spending[];
  spending_by_move: Spending[];
  spending_by_round: Spending[];
  /** Calls and debates that failed. Absent in a complete run. */
  failures?: { place: string; reason: string }[];
  warnings: string[];
  decision_makers: Person[];
  metrics: Metric[];
  top_k: number;
  best_score: number;
}

/** A chart of the company's figures by period. */
export interface FigureChart {
  title: string;
  form: "columns" | "lines";
  unit: "dollars" | "fraction";
  periods: string[];
  /** An additional figure for each period, shown below the name of the period. May be empty. */
  captions: string[];
  series: { name: string; values: (number | null)[] }[];
}

export interface Report {
  outcome: Outcome;
  ranking: Ranking;
  robustness: { standings: { move_id: string; top: number; depends_on: string[] }[]; verdict: string };
  severity: { scorers: Record<string, number>; residual: number; noise: number } | null;
  compression: { sevens_and_eights: number; spread: number; unresolved: boolean } | null;
  length_bias: number | null;
  drift: { move_id: string; before: number; after: number }[];
  before: Ranking;
  tau: number | null;
  flags: Flag[];
  observations: Observation[];
  /** Debates without isolation or with less isolation than the others. Absent in reports of older versions. */
  isolation_notice?: string | null;
  /** Source of the figures and its date. Absent in reports of older versions, like `figures`. */
  data_source?: string;
  figures?: FigureChart[];
  f1?: string;
  f2?: string;
}

export interface ResultAnswer {
  status: string;
  error: string | null;
  result: Report | null;
}

/** Returns whether resuming the run could improve the result: moves are unscored or debates ended early. */
export function isOpen({ ranking }: Pick<Report, "ranking">): boolean {
  const cut = (it: Ranked): boolean => it.marks.includes("incomplete");
  return ranking.unscored.length > 0 || [...ranking.recommended, ...ranking.other].some(cut);
}
