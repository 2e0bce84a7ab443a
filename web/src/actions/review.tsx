import { Plus } from "lucide-react";
import { type ReactElement, useState } from "react";

import { api } from "@/lib/api";
import { cn } from "@/lib/cn";
import type { Move, Run } from "@/lib/types";
import { useFetched } from "@/lib/use-fetched";
import { Said } from "@/text/said";
import { Badge } from "@/ui/badge";
import { Button } from "@/ui/button";
import { Panel } from "@/ui/panel";
import { Problem } from "@/ui/problem";

import { MoveForm } from "./move-form";
import { edited, kept, lacks, newMove, removed, toggled, useReviewDraft } from "./review-draft";
import { useAction } from "./use-action";

interface Props {
  run: Run;
  onDone: () => void;
}

/** A person looks at the moves before they are debated: drops, edits and adds some, and lets the run go on. */
export function Review({ run, onDone }: Props): ReactElement {
  const { value, error } = useFetched(run.id, (signal) => api.review(run.id, signal));
  if (error !== null) return <Problem title="The moves cannot be shown" error={error} />;
  if (!value) return <p className="py-10 text-center text-dim">Loading the moves…</p>;
  return <Moves run={run} proposed={value.moves} onDone={onDone} />;
}

function Moves({ run, proposed, onDone }: Props & { proposed: Move[] }): ReactElement {
  const [draft, setDraft] = useReviewDraft(run.id, proposed);
  const [editing, setEditing] = useState<string | null>(null);
  /** How often the moves were to be debated and one of them could not be. */
  const [tries, setTries] = useState(0);
  const { busy, error, run: act } = useAction();
  const going = kept(draft);
  const add = (): void => {
    const move = newMove(draft, run.config, run.ticker);
    setDraft({ ...draft, moves: [...draft.moves, move] });
    setEditing(move.move_id);
  };
  const goOn = (): void => {
    const unfit = going.find((it) => lacks(it).length > 0);
    if (unfit) {
      setTries(tries + 1);
      return setEditing(unfit.move_id);
    }
    act(async () => {
      await api.resume(run.id, { moves: going });
      setDraft(null);
      onDone();
    });
  };
  return (
    <Panel
      id="review"
      title={`${going.length} of ${draft.moves.length} moves go into debate`}
      inner="p-0"
      aside={
        <Button look="solid" size="md" disabled={busy || going.length === 0} onClick={goOn}>
          {busy ? "Going on…" : `Debate ${going.length} moves`}
        </Button>
      }
    >
      {error !== null && (
        <div className="p-4">
          <Problem title="The run does not go on" error={error} />
        </div>
      )}
      <ul className="divide-y divide-line">
        {draft.moves.map((move) => {
          const id = move.move_id;
          const first = proposed.find((it) => it.move_id === id);
          const isEdited = first !== undefined && JSON.stringify(first) !== JSON.stringify(move);
          const undo = first
            ? { name: "Undo the changes", act: isEdited ? () => setDraft(edited(draft, first)) : null }
            : { name: "Remove the move", act: () => setDraft(removed(draft, id)) };
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
                lacks={tries > 0 ? lacks(move) : []}
                tries={tries}
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
          <Plus aria-hidden /> Add a move
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
  /** What the move is edited with. */
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
            <Said text={move.thesis} />
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
