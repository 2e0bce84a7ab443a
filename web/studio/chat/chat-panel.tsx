import { SendHorizontal } from "lucide-react";
import { type FormEvent, type KeyboardEvent, type ReactElement, useEffect, useRef, useState } from "react";

import { useAction } from "@/actions/use-action";
import { Button } from "@/ui/button";
import { Area } from "@/ui/field";
import { Problem } from "@/ui/problem";
import type { RunRequest } from "@studio/api/types";
import type { Checkpoint } from "@studio/history/checkpoint";
import type { ThreadView } from "@studio/run/use-thread";

import { MessageView } from "./message-view";
import { conversation, messagesIn } from "./messages";

interface Props {
  view: ThreadView | null;
  selected: Checkpoint | null;
  /** Whether the newest checkpoint is selected. */
  isHead: boolean;
  isBusy: boolean;
  onStart: (request: Omit<RunRequest, "assistant_id">) => Promise<void>;
}

/** The messages of the state and those that are being streamed, with a form for the next message. */
export function ChatPanel({ view, selected, isHead, isBusy, onStart }: Props): ReactElement {
  const [text, setText] = useState("");
  const { busy, error, run } = useAction();
  const streamed = isHead && isBusy ? (view?.live?.messages ?? []) : [];
  const messages = conversation(messagesIn(selected?.values ?? {}), streamed);
  const end = useRef<HTMLDivElement>(null);
  const length = messages.reduce((sum, it) => sum + JSON.stringify(it.content).length, 0);
  useEffect(() => {
    const list = end.current;
    if (list) list.scrollTop = list.scrollHeight;
  }, [length]);
  const submit = (): void => {
    if (text.trim() === "") return;
    run(async () => {
      await onStart({ input: { messages: [{ type: "human", content: text }] } });
      setText("");
    });
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    if (!isBusy && !busy) submit();
  };
  return (
    <div className="space-y-3">
      <div
        ref={end}
        className="max-h-[28rem] space-y-3 overflow-auto"
        role="log"
        aria-label="Conversation"
        tabIndex={0}
      >
        {messages.length === 0 && <p className="py-6 text-center text-sm text-dim">No messages yet.</p>}
        {messages.map((it, idx) => (
          <MessageView key={typeof it["id"] === "string" ? it["id"] : idx} message={it} />
        ))}
      </div>
      {error !== null && <Problem title="The message could not be sent" error={error} />}
      <form
        className="flex items-end gap-2"
        onSubmit={(event: FormEvent) => {
          event.preventDefault();
          submit();
        }}
      >
        <Area
          label="Message"
          className="flex-1"
          rows={2}
          value={text}
          placeholder="Press Enter to send, Shift+Enter for a new line"
          onChange={(event) => setText(event.target.value)}
          onKeyDown={onKey}
        />
        <Button type="submit" look="solid" size="md" disabled={busy || isBusy} className="mb-px">
          <SendHorizontal aria-hidden /> Send
        </Button>
      </form>
    </div>
  );
}
