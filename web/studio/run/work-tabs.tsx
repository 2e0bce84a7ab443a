import type { ReactElement, ReactNode } from "react";

import { Tabs } from "@/ui/tabs";
import type { Schemas } from "@studio/api/types";
import { messagesIn } from "@studio/chat/messages";
import { fieldsOf } from "@studio/form/schema";
import { useStoredDraft } from "@studio/form/stored-draft";

import { CustomEvents } from "./custom-events";
import { RunList } from "./run-list";
import { RUNS, type ThreadView } from "./use-thread";

interface Props {
  graph: string;
  schemas: Schemas | null;
  view: ThreadView | null;
  form: ReactNode;
  chat: ReactNode;
  onSelect: (checkpoint: string) => void;
}

/** The input form, the chat of a graph with messages, the runs of the thread and its custom events. */
export function WorkTabs({ graph, schemas, view, form, chat, onSelect }: Props): ReactElement {
  const [chosen, setChosen] = useStoredDraft<string | null>(`tab ${graph}`, null);
  const fields = fieldsOf(schemas?.input_schema ?? null) ?? [];
  const hasMessages =
    fields.some((it) => it.kind.type === "messages") || messagesIn(view?.head?.values ?? {}).length > 0;
  const custom = view?.live?.custom ?? [];
  const count = view?.runs.length ?? 0;
  const tabs = [
    ...(hasMessages ? [{ id: "chat", title: "Chat" }] : []),
    { id: "input", title: "Input" },
    { id: "runs", title: `Runs (${count === RUNS ? `${RUNS}+` : count})` },
    ...(custom.length > 0 ? [{ id: "events", title: `Events (${custom.length})` }] : []),
  ];
  const current = tabs.some((it) => it.id === chosen) ? chosen! : tabs[0]!.id;
  return (
    <section
      aria-label="Input and runs"
      className="rounded-xl border border-line bg-panel px-4 pt-1 pb-4 shadow-(--shadow)"
    >
      <Tabs tabs={tabs} current={current} label="Input and runs" onPick={setChosen}>
        {current === "chat" && chat}
        {current === "input" && form}
        {current === "runs" && <RunList view={view} onSelect={onSelect} />}
        {current === "events" && <CustomEvents events={custom} />}
      </Tabs>
    </section>
  );
}
