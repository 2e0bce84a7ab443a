import { Plus } from "lucide-react";
import { type ReactElement, useState } from "react";

import { api } from "@/lib/api";
import { cn } from "@/lib/cn";
import { counted } from "@/lib/format";
import type { Move, Run } from "@/lib/types";
import { useFetched } from "@/lib/use-fetched";
import { ModelText } from "@/text/model-text";
import { Badge } from "@/ui/badge";
import { Button } from "@/ui/button";
import { Panel } from "@/ui/panel";
import { Problem } from "@/ui/problem";

import { MoveForm } from "./move-form";
import { edited, movesToDebate, missingParts, newMove, removed, toggled, useReviewDraft } from "./review-draft";
import { useAction } from "./use-action";

interface Props {
  run: Run;
  onDone: () => void;
}

/** Review of the moves before the debates: the reviewer drops, edits and adds moves, then continues the run. */
export function Review({ run, onDone }: Props): ReactElement {
  const { value, error } = useFetched(run.id, (signal) => api.review(run.id, signal));
  if (error !== null) return <Problem title="Could not load the moves" error={error} />;
  if (!value) return <p className="py-10 text-center text-dim">Loading the moves…</p>;
  return <Moves run={run} proposed={value.moves} onDone={onDone} />;
}

function Moves({ run, proposed, onDone }: Props & { proposed: Move[] }): ReactElement {
  const [draft, setDraft] = useReviewDraft(run.id, proposed);
  const [editing, setEditing] = useState<string | null>(null);
  /** Number of submissions that failed because a move was incomplete. */
  const [attempts, setAttempts] = useState(0);
  const { busy, error, run: act } = useAction();
  const accepted = movesToDebate(draft);
  const add = (): void => {
    const move = newMove(draft, run.config, run.ticker);
    setDraft({ ...draft, moves: [...draft.moves, move] });
    setEditing(move.move_id);
  };
  const submit = (): void => {
    const incomplete = accepted.find((it) => missingParts(it).length > 0);
    if (incomplete) {
      setAttempts(attempts + 1);
      return setEditing(incomplete.move_id);
    }
    act(async () => {
      await api.resume(run.id, { moves: accepted });
      setDraft(null);
      onDone();
    });
  };
  return (
    <Panel
      id="review"
      title={`${accepted.length} of ${draft.moves.length} moves will be debated`}
      inner="p-0"
      aside={
        <Button look="solid" size="md" disabled={busy || accepted.length === 0} onClick={submit}>
          {busy ? "Starting…" : `Debate ${counted(accepted.length, "move")}`}
        </Button>
      }
    >
      {error !== null && (
        <div className="p-4">
          <Problem title="Could not continue the run" error={error} />
        </div>
      )}
      <ul className="divide-y divide-line">
        {draft.moves.map((move) => {
          const id = move.move_id;
          const first = proposed.find((it) => it.move_id === id);
          const isEdited = first !== undefined && JSON.stringify(first) !== JSON.stringify(move);
          const undo = first
            ? { name: "Undo changes", act: isEdited ? () => setDraft(edited(draft, first)) : null }
            : { name: "Remove move", act: () => setDraft(removed(draft, id)) };
          return (
            <Item
              key={id}
              move={move}
              mark={first ? (isEdited ? "edited" : null) : "added"}
              isOut={draft.dropped.includes(id)}
              isOpen={editing === id}
              onOpen={() => setEditing(editing === id ? null : id)}
              onToggle={() => setDraft(toggled(draft, id))}
            >
              <MoveForm
                move={move}
                missingParts={attempts > 0 ? missingParts(move) : []}
                attempts={attempts}
                onChange={(next) => setDraft(edited(draft, next))}
                onClose={() => setEditing(null)}
                undo={undo}
              />
            </Item>
          );
        })}
      </ul>
      <div className="border-t border-line p-3">
        <Button onClick={add}>
          <Plus aria-hidden /> Add move
        </Button>
      </div>
    </Panel>
  );
}

interface ItemProps {
  move: Move;
  mark: string | null;
  isOut: boolean;
  isOpen: boolean;
  onOpen: () => void;
  onToggle: () => void;
  /** The edit form. */
  children: ReactElement;
}

function Item({ move, mark, isOut, isOpen, onOpen, onToggle, children }: ItemProps): ReactElement {
  return (
    <li className="px-4 py-3">
      <div className="flex flex-wrap items-start gap-3">
        <div className={cn("min-w-0 flex-1 basis-64", isOut && "text-dim line-through")}>
          <p className="flex flex-wrap items-center gap-2 text-xs text-dim">
            <span className="font-mono">{move.move_id}</span> {move.persona} <Badge>{move.risk_level} risk</Badge>
            {mark && <Badge tone="accent">{mark}</Badge>}
          </p>
          <h3 className="font-medium">{move.title || "Untitled"}</h3>
          <p className="mt-0.5 text-[13px] text-dim">
            <ModelText text={move.thesis} />
          </p>
        </div>
        <div className="flex gap-2">
          <Button
            disabled={isOut}
            aria-label={`Edit ${move.move_id}`}
            aria-expanded={isOpen && !isOut}
            onClick={onOpen}
          >
            Edit
          </Button>
          <Button aria-label={`${isOut ? "Keep" : "Drop"} ${move.move_id}`} onClick={onToggle}>
            {isOut ? "Keep" : "Drop"}
          </Button>
        </div>
      </div>
      {isOpen && !isOut && children}
    </li>
  );
}
