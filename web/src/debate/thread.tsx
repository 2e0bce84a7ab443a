import { motion, useReducedMotion } from "motion/react";
import type { ReactElement } from "react";

import { cn } from "@/lib/cn";
import { words } from "@/lib/format";
import type { Flag, Observation, Turn } from "@/lib/report";
import { ModelText } from "@/text/model-text";
import { Badge } from "@/ui/badge";

interface Props {
  turn: Turn;
  /** Display name of the speaker. */
  speaker: string;
  color: string;
  flags: Flag[];
  observations: Observation[];
  /** Whether the turn arrived while the debate was displayed. */
  fresh: boolean;
}

const REASONS: Record<string, string> = {
  unknown_finding: "this finding does not exist",
  only_in_data: "not in the cited finding, but in the data",
  not_in_data: "not in the data",
  unsupported: "in neither the findings nor the data",
};

const OBSERVATIONS: Record<string, string> = {
  capitulation: "conceded without new facts",
  disagreement_collapse: "second turn in a row with nothing new",
  repetition: "repeats an earlier turn",
};

export function reasonText(reason: Flag["reason"]): string {
  const findings = reason.findings?.join(", ");
  if (findings && reason.kind === "only_in_findings") return `stated only by ${findings}; not in the data`;
  if (findings) return `not in the cited finding, but in ${findings}`;
  return REASONS[reason.kind] ?? words(reason.kind);
}

/** One turn of a debate, with its flags and observations. */
export function TurnView({ turn, speaker, color, flags, observations, fresh }: Props): ReactElement {
  const still = useReducedMotion();
  const critic = turn.role === "critic";
  return (
    <motion.article
      initial={fresh && !still ? { opacity: 0, y: 8 } : false}
      animate={{ opacity: 1, y: 0 }}
      transition={{ duration: 0.3 }}
      className={cn("rounded-lg border-l-2 px-3 py-2", critic ? "bg-sunk/70" : "bg-panel")}
      style={{ borderColor: color }}
    >
      <header className="mb-1 flex flex-wrap items-center gap-1.5">
        <span className="text-xs font-semibold" style={{ color }}>
          {speaker}
        </span>
        {observations.map((it) => (
          <Badge key={it.kind} tone="warn">
            {OBSERVATIONS[it.kind] ?? words(it.kind)}
          </Badge>
        ))}
      </header>
      <p className="text-[13.5px] leading-[1.55] whitespace-pre-wrap">
        <ModelText text={turn.content} doubts={flags.map((it) => it.text)} />
      </p>
      {flags.length > 0 && (
        <ul className="mt-1.5 space-y-0.5 text-xs text-bad">
          {flags.map((it) => (
            <li key={`${it.text}${it.place.sentence}`}>
              <b className="font-mono font-medium">{it.text}</b>: {reasonText(it.reason)}
            </li>
          ))}
        </ul>
      )}
    </motion.article>
  );
}
