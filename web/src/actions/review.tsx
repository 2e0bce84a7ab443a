import { type ReactElement, useEffect, useState } from "react";

import { api } from "@/lib/api";
import { cn } from "@/lib/cn";
import type { Move, Run } from "@/lib/types";
import { Said } from "@/text/said";
import { Badge } from "@/ui/badge";
import { Button } from "@/ui/button";
import { Panel } from "@/ui/panel";
import { Problem } from "@/ui/problem";

import { MoveForm } from "./move-form";
import { useAction } from "./use-action";

/** A person looks at the moves before they are debated: drops some, edits some, and lets the run go on. */
export function Review({ run, onDone }: { run: Run; onDone: () => void }): ReactElement {
  const [moves, setMoves] = useState<Move[] | null>(null);
  const [dropped, setDropped] = useState<ReadonlySet<string>>(new Set());
  const [editing, setEditing] = useState<string | null>(null);
  const [unread, setUnread] = useState<unknown>(null);
  const { busy, error, run: act } = useAction();
  useEffect(() => {
    api.review(run.id).then((it) => setMoves(it.moves), setUnread);
  }, [run.id]);
  if (unread !== null) return <Problem title="The moves cannot be shown" error={unread} />;
  if (!moves) return <p className="py-10 text-center text-dim">Loading the moves…</p>;

  const kept = moves.filter((it) => !dropped.has(it.move_id));
  const toggle = (id: string): void =>
    setDropped((it) => (it.has(id) ? new Set([...it].filter((one) => one !== id)) : new Set([...it, id])));
  const goOn = (): void =>
    act(async () => {
      await api.resume(run.id, { moves: kept });
      onDone();
    });
  return (
    <Panel
      id="review"
      title={`${kept.length} of ${moves.length} moves go into debate`}
      inner="p-0"
      aside={
        <Button look="solid" size="md" disabled={busy || kept.length === 0} onClick={goOn}>
          {busy ? "Going on…" : `Debate ${kept.length} moves`}
        </Button>
      }
    >
      {error !== null && (
        <div className="p-4">
          <Problem title="The run does not go on" error={error} />
        </div>
      )}
      <ul className="divide-y divide-line">
        {moves.map((move) => {
          const out = dropped.has(move.move_id);
          return (
            <li key={move.move_id} className="px-4 py-3">
              <div className="flex flex-wrap items-start gap-3">
                <div className={cn("min-w-0 flex-1 basis-64", out && "text-dim line-through")}>
                  <p className="flex flex-wrap items-center gap-2 text-xs text-dim">
                    <span className="font-mono">{move.move_id}</span> {move.persona}{" "}
                    <Badge>{move.risk_level} risk</Badge>
                  </p>
                  <h3 className="font-medium">{move.title}</h3>
                  <p className="mt-0.5 text-[13px] text-dim">
                    <Said text={move.thesis} />
                  </p>
                </div>
                <div className="flex gap-2">
                  <Button
                    disabled={out}
                    aria-label={`Edit ${move.move_id}`}
                    aria-expanded={editing === move.move_id}
                    onClick={() => setEditing(editing === move.move_id ? null : move.move_id)}
                  >
                    Edit
                  </Button>
                  <Button aria-label={`${out ? "Keep" : "Drop"} ${move.move_id}`} onClick={() => toggle(move.move_id)}>
                    {out ? "Keep" : "Drop"}
                  </Button>
                </div>
              </div>
              {editing === move.move_id && !out && (
                <MoveForm
                  move={move}
                  onCancel={() => setEditing(null)}
                  onSave={(next) => {
                    setMoves(moves.map((it) => (it.move_id === next.move_id ? next : it)));
                    setEditing(null);
                  }}
                />
              )}
            </li>
          );
        })}
      </ul>
    </Panel>
  );
}
