import { X } from "lucide-react";
import type { ReactElement } from "react";

import { Button } from "@/ui/button";
import { Panel } from "@/ui/panel";

import { Changes } from "./changes";
import type { Checkpoint } from "./checkpoint";
import { diff } from "./diff";
import { labelOf } from "./labels";
import { divergence } from "./tree";

interface Props {
  all: readonly Checkpoint[];
  left: Checkpoint;
  right: Checkpoint;
  onClose: () => void;
}

/** The steps of two branches after their common part, and the differences between their states. */
export function ComparePanel({ all, left, right, onClose }: Props): ReactElement {
  const split = divergence(all, left.id, right.id);
  const last = split.common.at(-1);
  return (
    <Panel
      id="compare-branches"
      title="Comparison of two branches"
      aside={
        <Button look="ghost" size="icon" className="size-8" aria-label="Close the comparison" onClick={onClose}>
          <X aria-hidden />
        </Button>
      }
    >
      <p className="text-[13px] text-dim">
        {last ? `Same until step ${last.step} (${labelOf(all, last)}).` : "The branches have no common checkpoint."}
      </p>
      <div className="mt-2 grid grid-cols-2 gap-3">
        <Steps title="Other branch" all={all} steps={split.left} className="bg-bad-soft" />
        <Steps title="Selected" all={all} steps={split.right} className="bg-good-soft" />
      </div>
      <h3 className="mt-4 mb-2 text-[13px] font-semibold">Differences of the states</h3>
      <Changes changes={diff(left.values, right.values)} none="Both states are the same." />
    </Panel>
  );
}

interface StepsProps {
  title: string;
  all: readonly Checkpoint[];
  steps: readonly Checkpoint[];
  className: string;
}

function Steps({ title, all, steps, className }: StepsProps): ReactElement {
  return (
    <section aria-label={title} className={`rounded-md px-3 py-2 ${className}`}>
      <h3 className="text-xs font-semibold">{title}</h3>
      <ol className="mt-1 space-y-0.5 text-[13px]">
        {steps.map((it) => (
          <li key={it.id} className="flex gap-2">
            <span className="font-mono text-xs tabular-nums">{it.step}</span>
            {labelOf(all, it)}
          </li>
        ))}
        {steps.length === 0 && <li className="text-dim">No further steps</li>}
      </ol>
    </section>
  );
}
