import { Bot, Cog, User, Wrench } from "lucide-react";
import type { ReactElement } from "react";

import { cn } from "@/lib/cn";
import { Blocks } from "@/text/blocks";
import { JsonView } from "@studio/ui/json-view";

import { type Message, roleOf, textOf, toolCallsOf } from "./messages";
import { usageOf, usageText } from "./usage";

const ROLES: Record<string, { word: string; icon: typeof Bot; className: string }> = {
  human: { word: "Person", icon: User, className: "bg-accent-soft ml-auto" },
  ai: { word: "Model", icon: Bot, className: "bg-sunk" },
  tool: { word: "Tool", icon: Wrench, className: "border border-line" },
};

/** One message, rendered as text. */
export function MessageView({ message }: { message: Message }): ReactElement {
  const {
    word,
    icon: Icon,
    className,
  } = ROLES[roleOf(message)] ?? {
    word: roleOf(message),
    icon: Cog,
    className: "border border-line",
  };
  const name = typeof message["name"] === "string" ? message["name"] : null;
  const text = textOf(message);
  const usage = usageOf(message);
  return (
    <article aria-label={word} className={cn("w-fit max-w-[88%] rounded-xl px-3.5 py-2.5", className)}>
      <p className="mb-1 flex items-center gap-1.5 text-xs text-dim">
        <Icon aria-hidden size={13} /> {name ? `${word} · ${name}` : word}
        {usage && ` · ${usageText(usage)}`}
      </p>
      {text !== "" &&
        (roleOf(message) === "ai" ? (
          <Blocks text={text} render={(it) => it} />
        ) : (
          <p className="text-sm whitespace-pre-wrap">{text}</p>
        ))}
      {toolCallsOf(message).map((it, idx) => (
        <div key={it.id ?? idx} className="mt-2 rounded-lg border border-line bg-panel px-3 py-2">
          <p className="flex items-center gap-1.5 text-[13px] font-medium">
            <Wrench aria-hidden size={13} className="text-accent" /> Calls {it.name}
          </p>
          <div className="mt-1">
            <JsonView value={it.args} />
          </div>
        </div>
      ))}
    </article>
  );
}
