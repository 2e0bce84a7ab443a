import { type FormEvent, type ReactElement, useState } from "react";

import { api } from "@/lib/api";
import { navigate } from "@/lib/router";
import type { Run } from "@/lib/types";
import { Button } from "@/ui/button";
import { Area, Check, Field, Select } from "@/ui/field";
import { Modal } from "@/ui/modal";
import { Problem } from "@/ui/problem";

import { useAction } from "./use-action";

interface Props {
  run: Run;
  /** `layer_2`, `m4` or `m4:r5`. */
  at: string;
  moves: string[];
  onClose: () => void;
}

const LAYERS = [
  { id: "layer_0", name: "Data: repeat everything" },
  { id: "layer_1", name: "Findings" },
  { id: "layer_2", name: "Moves" },
];

/** Starts a fork of a run from a chosen point, optionally with changed settings. */
export function ForkDialog({ run, at, moves, onClose }: Props): ReactElement {
  const [place, setPlace] = useState(at.split(":")[0]!);
  const [round, setRound] = useState(at.split(":r")[1] ?? "");
  const [settings, setSettings] = useState("");
  const [only, setOnly] = useState(at.startsWith("m"));
  const { busy, error, run: act } = useAction();
  const isMove = !place.startsWith("layer");
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    const set = settings
      .split("\n")
      .map((it) => it.trim())
      .filter((it) => it !== "");
    act(async () => {
      const whole = isMove && round !== "" ? `${place}:r${round}` : place;
      const started = await api.fork(run.id, { at: whole, set, only: isMove && only });
      onClose();
      navigate(`/runs/${started.analysis_id}`);
    });
  };
  return (
    <Modal title={`Fork ${run.id}`} onClose={onClose}>
      <form onSubmit={submit} className="space-y-4">
        <p className="text-sm text-dim">
          The new run keeps everything before this point and repeats the rest. The original run is not changed.
        </p>
        <div className="grid grid-cols-[1fr_8rem] gap-3">
          <Select label="Starting point" value={place} onChange={(event) => setPlace(event.target.value)}>
            {LAYERS.map((it) => (
              <option key={it.id} value={it.id}>
                {it.name}
              </option>
            ))}
            {moves.map((it) => (
              <option key={it} value={it}>
                Debate on {it}
              </option>
            ))}
          </Select>
          <Field
            label="Round"
            type="number"
            min={1}
            max={run.settings.rounds}
            placeholder="first"
            disabled={!isMove}
            value={isMove ? round : ""}
            onChange={(event) => setRound(event.target.value)}
          />
        </div>
        <Area
          label="Settings to change"
          hint="One per line, for example critic.persona=You are a cautious auditor. or models.D1.temperature=0.2"
          rows={3}
          spellCheck={false}
          value={settings}
          onChange={(event) => setSettings(event.target.value)}
        />
        <Check
          label="Only this move"
          hint="Repeat only this debate and keep the others unchanged."
          disabled={!isMove}
          checked={isMove && only}
          onChange={(event) => setOnly(event.target.checked)}
        />
        {error !== null && <Problem title="Could not start the fork" error={error} />}
        <div className="flex justify-end gap-2">
          <Button size="md" onClick={onClose}>
            Close
          </Button>
          <Button type="submit" look="solid" size="md" disabled={busy}>
            {busy ? "Starting…" : "Start fork"}
          </Button>
        </div>
      </form>
    </Modal>
  );
}
