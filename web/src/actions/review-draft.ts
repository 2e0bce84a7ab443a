/** Draft of a review. It is stored in the tab, so that a reload loses nothing. */

import { useState } from "react";

import type { Config, Move } from "@/lib/types";
import { moveNumber } from "@/run/board";

export interface ReviewDraft {
  /** All moves in their current state, including dropped ones. */
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

/** Creates a move with the next free number; ids reserved for analysts are not reused. */
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

/** Returns the moves to be debated, without empty list items. */
export function movesToDebate(draft: ReviewDraft): Move[] {
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

/** Returns the required parts that a move is missing; the server validates everything else. */
export function missingParts(move: Move): string[] {
  return [
    ...(blank(move.title) ? ["a title"] : []),
    ...(blank(move.thesis) ? ["a thesis"] : []),
    ...move.steps.flatMap((it, idx) => (blank(it.action) && !isEmpty(it) ? [`the action of step ${idx + 1}`] : [])),
  ];
}

/** The draft of a review, restored from this tab or initialised with the proposed moves. */
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
