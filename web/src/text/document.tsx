import { type ReactElement, useMemo } from "react";

import { type Block, blocks, spans } from "./markdown";
import { ModelText } from "./model-text";

/**
 * Renders a document written in the supported subset of Markdown. Produces only text elements, never links or images.
 */
export function Document({ text }: { text: string }): ReactElement {
  const parts = useMemo(() => blocks(text), [text]);
  return (
    <div className="max-w-[100ch] space-y-3 text-sm">
      {parts.map((it, idx) => (
        <BlockView key={idx} block={it} />
      ))}
    </div>
  );
}

function BlockView({ block }: { block: Block }): ReactElement {
  switch (block.kind) {
    case "heading":
      return block.level === 1 ? (
        <p className="text-base font-semibold">{block.text}</p>
      ) : (
        <p className="pt-2 font-semibold">{block.text}</p>
      );
    case "rule":
      return <hr className="border-line" />;
    case "quote":
      return (
        <blockquote className="rounded-md bg-warn-soft px-3 py-2">
          <Inline text={block.text} />
        </blockquote>
      );
    case "list": {
      const List = block.ordered ? "ol" : "ul";
      return (
        <List className={`space-y-1 pl-5 ${block.ordered ? "list-decimal" : "list-disc"} marker:text-dim`}>
          {block.items.map((it, idx) => (
            <li key={idx}>
              <Inline text={it} />
            </li>
          ))}
        </List>
      );
    }
    case "table":
      return <Table head={block.head} rows={block.rows} />;
    case "paragraph":
      return (
        <p>
          <Inline text={block.text} />
        </p>
      );
  }
}

function Table({ head, rows }: { head: string[]; rows: string[][] }): ReactElement {
  return (
    <div className="overflow-x-auto" role="group" aria-label="Table" tabIndex={0}>
      <table className="w-full text-left text-xs tabular-nums">
        <thead>
          <tr>
            {head.map((it, idx) => {
              const Cell = it === "" ? "td" : "th";
              return (
                <Cell
                  key={idx}
                  scope={it === "" ? undefined : "col"}
                  className="border-b border-edge px-2 py-1 font-semibold"
                >
                  {it}
                </Cell>
              );
            })}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, idx) => (
            <tr key={idx}>
              {row.map((it, cell) => (
                <td key={cell} className="border-b border-line px-2 py-1">
                  <Inline text={it} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Inline({ text }: { text: string }): ReactElement {
  return (
    <>
      {spans(text).map((it, idx) => {
        if (it.kind === "bold") {
          return (
            <strong key={idx}>
              <ModelText text={it.text} />
            </strong>
          );
        }
        return it.kind === "code" ? (
          <code key={idx} className="font-mono text-[0.9em]">
            {it.text}
          </code>
        ) : (
          <ModelText key={idx} text={it.text} />
        );
      })}
    </>
  );
}
