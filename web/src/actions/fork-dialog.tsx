import { type FormEvent, type ReactElement, useState } from "react";

import { api } from "@/lib/api";
import { count, dollars, short } from "@/lib/format";
import type { Report } from "@/lib/report";
import { navigate } from "@/lib/router";
import type { Run } from "@/lib/types";
import { Button } from "@/ui/button";
import { Area, Check, Field, Select } from "@/ui/field";
import { Modal } from "@/ui/modal";
import { Problem } from "@/ui/problem";

import { agentsOf, changedSettings, draftOf } from "./agent-settings";
import { type ForkPlan, forkEstimate } from "./fork-estimate";
import { useAction } from "./use-action";

interface Props {
  run: Run;
  /** Null while the run is not complete. */
  report: Report | null;
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
export function ForkDialog({ run, report, at, moves, onClose }: Props): ReactElement {
  const agents = agentsOf(run.config);
  const [place, setPlace] = useState(at.split(":")[0]!);
  const [round, setRound] = useState(at.split(":r")[1] ?? "");
  const [agent, setAgent] = useState(() => draftOf(run.config.critic));
  const [settings, setSettings] = useState("");
  const [only, setOnly] = useState(at.startsWith("m"));
  const { busy, error, run: act } = useAction();
  const isMove = !place.startsWith("layer");
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    const lines = settings
      .split("\n")
      .map((it) => it.trim())
      .filter((it) => it !== "");
    act(async () => {
      const whole = isMove && round !== "" ? `${place}:r${round}` : place;
      const set = [...changedSettings(run.config, agent), ...lines];
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
        <fieldset className="space-y-3 rounded-lg border border-line p-3">
          <legend className="px-1 text-[13px] font-medium">Change an agent</legend>
          <Select
            label="Agent"
            value={agent.id}
            onChange={(event) => {
              const next = agents.find((it) => it.id === event.target.value);
              if (next) setAgent(draftOf(next));
            }}
          >
            {agents.map((it) => (
              <option key={it.id} value={it.id}>
                {it.name}
              </option>
            ))}
          </Select>
          <Area
            label="Persona"
            rows={4}
            value={agent.persona}
            onChange={(event) => setAgent({ ...agent, persona: event.target.value })}
          />
          <div className="grid grid-cols-[1fr_8rem] gap-3">
            <Field
              label="Model"
              hint={
                run.settings.provider === "scripted" ? "Not used, because a script answers in this run." : undefined
              }
              spellCheck={false}
              value={agent.model}
              onChange={(event) => setAgent({ ...agent, model: event.target.value })}
            />
            <Field
              label="Temperature"
              type="number"
              min={0}
              max={2}
              step="any"
              value={agent.temperature}
              onChange={(event) => setAgent({ ...agent, temperature: event.target.value })}
            />
          </div>
        </fieldset>
        <details>
          <summary className="text-sm font-medium text-accent">Other settings</summary>
          <Area
            className="mt-2"
            label="Settings to change"
            hint="One per line, for example rounds=3 or models.D1.temperature=0.2"
            rows={3}
            spellCheck={false}
            value={settings}
            onChange={(event) => setSettings(event.target.value)}
          />
        </details>
        <Check
          label="Only this move"
          hint="Repeat only this debate and keep the others unchanged."
          disabled={!isMove}
          checked={isMove && only}
          onChange={(event) => setOnly(event.target.checked)}
        />
        <Estimate run={run} report={report} plan={{ place, round: Number(round) || 1, only }} />
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

/** Estimated cost of the fork, from the cost of the calls that it repeats. */
function Estimate({ run, report, plan }: { run: Run; report: Report | null; plan: ForkPlan }): ReactElement {
  if (!report) return <p className="text-sm text-dim">The cost can be estimated when the run is complete.</p>;
  const { calls, input_tokens, output_tokens, dollars: cost } = forkEstimate(report, run.config, plan);
  const price = run.settings.provider === "scripted" ? "free of charge" : dollars(cost);
  return (
    <p role="status" className="rounded-md bg-sunk px-3 py-2 text-sm">
      Estimate: about <b className="font-semibold">{count(Math.round(calls))} calls</b>,{" "}
      {short(input_tokens + output_tokens)} tokens, <b className="font-semibold">{price}</b>.
      <span className="block text-xs text-dim">Based on what this run spent on the same part, with its models.</span>
    </p>
  );
}
