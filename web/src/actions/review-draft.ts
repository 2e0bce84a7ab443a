/** What a person makes of the moves before they are debated. It is kept in the tab, so that a reload loses nothing. */

import { useState } from "react";

import type { Config, Move } from "@/lib/types";
import { moveNumber } from "@/run/board";

export interface ReviewDraft {
  /** All moves as they are now, with those that are dropped. */
  moves: Move[];
  dropped: string[];
}

export const edited = (draft: ReviewDraft, move: Move): ReviewDraft => ({
  ...draft,
  moves: draft.moves.map((it) => (it.move_id === move.move_id ? move : it)),
});

export const toggled = (draft: ReviewDraft, id: string): ReviewDraft => ({
  ...draft,
  dropped: draft.dropped.includes(id) ? draft.dropped.filter((it) => it !== id) : [...draft.dropped, id],
});

export const removed = (draft: ReviewDraft, id: string): ReviewDraft => ({
  moves: draft.moves.filter((it) => it.move_id !== id),
  dropped: draft.dropped.filter((it) => it !== id),
});

/** A new move with the number after all others: also after those that an analyst owed. */
export function newMove(draft: ReviewDraft, config: Config, ticker: string): Move {
  const taken = [...draft.moves.map((it) => it.move_id), ...config.analysts.flatMap((it) => it.moves)];
  return {
    move_id: `m${Math.max(0, ...taken.map(moveNumber)) + 1}`,
    agent_id: "reviewer",
    persona: "Reviewer",
    ticker,
    title: "",
    risk_level: "medium",
    thesis: "",
    why_now: "",
    reasoning: [],
    citations: [],
    steps: [{ action: "", owner: "", timeframe: "" }],
    cost: "",
    downside: "",
    mitigation: "",
    falsifiers: [],
    kpi: "",
  };
}

/** The moves that go into debate, without what was left empty in their lists. */
export function kept(draft: ReviewDraft): Move[] {
  return draft.moves.filter((it) => !draft.dropped.includes(it.move_id)).map(tidy);
}

function tidy(move: Move): Move {
  const full = (texts: string[]): string[] => texts.map((it) => it.trim()).filter((it) => !blank(it));
  return {
    ...move,
    reasoning: full(move.reasoning),
    citations: full(move.citations),
    falsifiers: full(move.falsifiers),
    steps: move.steps.filter((it) => !isEmpty(it)),
  };
}

const blank = (text: string): boolean => text.trim() === "";

const isEmpty = (step: Move["steps"][number]): boolean => blank(step.action + step.owner + step.timeframe);

/** Without what a move cannot be debated; everything else is the server's to judge. */
export function lacks(move: Move): string[] {
  return [
    ...(blank(move.title) ? ["a title"] : []),
    ...(blank(move.thesis) ? ["a thesis"] : []),
    ...move.steps.flatMap((it, idx) => (blank(it.action) && !isEmpty(it) ? [`what step ${idx + 1} does`] : [])),
  ];
}

/** The draft of a run's review: as it was left in this tab, or the moves as they are proposed. */
export function useReviewDraft(run: string, proposed: Move[]): [ReviewDraft, (draft: ReviewDraft | null) => void] {
  const name = `consulting.review.${run}`;
  const [draft, setDraft] = useState<ReviewDraft>(() => stored(name) ?? { moves: proposed, dropped: [] });
  return [
    draft,
    (next) => {
      if (next === null) return sessionStorage.removeItem(name);
      sessionStorage.setItem(name, JSON.stringify(next));
      setDraft(next);
    },
  ];
}

function stored(name: string): ReviewDraft | null {
  return JSON.parse(sessionStorage.getItem(name) ?? "null") as ReviewDraft | null;
}
