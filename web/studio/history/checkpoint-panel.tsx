import { GitBranch, Pencil, Play } from "lucide-react";
import { type ReactElement, useState } from "react";

import { useAction } from "@/actions/use-action";
import { when } from "@/lib/format";
import { Button } from "@/ui/button";
import { Panel } from "@/ui/panel";
import { Problem } from "@/ui/problem";
import { Tabs } from "@/ui/tabs";
import { messagesIn } from "@studio/chat/messages";
import { totalUsage, usageText } from "@studio/chat/usage";
import { useStoredDraft } from "@studio/form/stored-draft";
import { JsonView } from "@studio/ui/json-view";

import { Changes } from "./changes";
import type { Checkpoint } from "./checkpoint";
import { diff } from "./diff";
import { EditDialog } from "./edit-dialog";
import { branchName } from "./labels";
import { TaskList } from "./task-list";
import { leavesOf, pathTo } from "./tree";

interface Props {
  thread: string;
  all: readonly Checkpoint[];
  checkpoint: Checkpoint;
  isBusy: boolean;
  onFork: () => Promise<void>;
  onEdited: (checkpoint: string) => void;
  onCompare: (other: string) => void;
}

/** The selected checkpoint: what changed, its state, its tasks, and the actions that start from it. */
export function CheckpointPanel(props: Props): ReactElement {
  const { thread, all, checkpoint, isBusy, onFork, onEdited, onCompare } = props;
  const [tab, setTab] = useStoredDraft("checkpoint tab", "changes");
  const [editing, setEditing] = useState(false);
  const { busy, error, run } = useAction();
  const parent = all.find((it) => it.id === checkpoint.parent);
  const usage = totalUsage(messagesIn(checkpoint.values));
  const canFork = checkpoint.next.length > 0 && checkpoint.id !== all.at(-1)?.id;
  // Branches that contain the checkpoint do not differ from it.
  const others = leavesOf(all).filter((it) => !pathTo(all, it.id).some((one) => one.id === checkpoint.id));
  return (
    <Panel
      id="checkpoint"
      title={`Checkpoint ${checkpoint.step}`}
      aside={
        <div className="flex flex-wrap gap-1.5">
          <Button disabled={isBusy} onClick={() => setEditing(true)}>
            <Pencil aria-hidden /> Edit
          </Button>
          {canFork && (
            <Button disabled={isBusy || busy} onClick={() => run(onFork)}>
              <Play aria-hidden /> Run from here
            </Button>
          )}
        </div>
      }
    >
      <p className="text-xs text-dim">
        {checkpoint.createdAt && when(checkpoint.createdAt)}
        {checkpoint.next.length > 0 ? ` · next: ${checkpoint.next.join(", ")}` : " · complete"}
        {usage && ` · ${usageText(usage)}`}
      </p>
      {error !== null && <Problem title="The run could not be started" error={error} />}
      {others.length > 0 && (
        <div className="mt-2 flex items-center gap-2 text-[13px]">
          <GitBranch aria-hidden size={14} className="shrink-0 text-dim" />
          <label htmlFor="compare">Compare with</label>
          <select
            id="compare"
            value=""
            onChange={(event) => onCompare(event.target.value)}
            className="h-8 min-w-0 flex-1 rounded-md border border-edge bg-panel px-2"
          >
            <option value="">Choose a branch</option>
            {others.map((it) => (
              <option key={it.id} value={it.id}>
                {branchName(all, it)}
              </option>
            ))}
          </select>
        </div>
      )}
      <div className="mt-2">
        <Tabs
          tabs={[
            { id: "changes", title: "Changes" },
            { id: "state", title: "State" },
            { id: "tasks", title: `Tasks (${checkpoint.tasks.length})` },
          ]}
          current={tab}
          label="Checkpoint"
          onPick={setTab}
        >
          {tab === "changes" && (
            <Changes
              changes={diff(parent?.values ?? {}, checkpoint.values)}
              none="The state did not change in this step."
            />
          )}
          {tab === "state" && <JsonView value={checkpoint.values} />}
          {tab === "tasks" && <TaskList tasks={checkpoint.tasks} />}
        </Tabs>
      </div>
      <p className="mt-3 font-mono text-xs text-dim">{checkpoint.id}</p>
      {editing && (
        <EditDialog thread={thread} checkpoint={checkpoint} onClose={() => setEditing(false)} onEdited={onEdited} />
      )}
    </Panel>
  );
}
