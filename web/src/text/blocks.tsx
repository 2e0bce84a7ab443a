import { Fragment, type ReactElement, type ReactNode, useMemo } from "react";

import { type Block, blocks, spans } from "./markdown";

/** Renders plain text. */
type Render = (text: string) => ReactNode;

/**
 * Renders text in the supported subset of Markdown. Produces only text elements, never links or images. `render`
 * renders the plain parts.
 */
export function Blocks({ text, render }: { text: string; render: Render }): ReactElement {
  const parts = useMemo(() => blocks(text), [text]);
  return (
    <div className="max-w-[100ch] space-y-3 text-sm">
      {parts.map((it, idx) => (
        <BlockView key={idx} block={it} render={render} />
      ))}
    </div>
  );
}

function BlockView({ block, render }: { block: Block; render: Render }): ReactElement {
  switch (block.kind) {
    case "heading":
      return block.level === 1 ? (
        <p className="text-base font-semibold">{block.text}</p>
      ) : (
        <p className="pt-2 font-semibold">{block.text}</p>
      );
    case "code":
      return (
        <pre
          className="overflow-x-auto rounded-md bg-sunk px-3 py-2 font-mono text-[13px]"
          role="group"
          aria-label="Code"
          tabIndex={0}
        >
          {block.text}
        </pre>
      );
    case "rule":
      return <hr className="border-line" />;
    case "quote":
      return (
        <blockquote className="rounded-md bg-warn-soft px-3 py-2">
          <Inline text={block.text} render={render} />
        </blockquote>
      );
    case "list": {
      const List = block.ordered ? "ol" : "ul";
      return (
        <List className={`space-y-1 pl-5 ${block.ordered ? "list-decimal" : "list-disc"} marker:text-dim`}>
          {block.items.map((it, idx) => (
            <li key={idx}>
              <Inline text={it} render={render} />
            </li>
          ))}
        </List>
      );
    }
    case "table":
      return <Table head={block.head} rows={block.rows} render={render} />;
    case "paragraph":
      return (
        <p>
          <Inline text={block.text} render={render} />
        </p>
      );
  }
}

function Table({ head, rows, render }: { head: string[]; rows: string[][]; render: Render }): ReactElement {
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
                  <Inline text={it} render={render} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Inline({ text, render }: { text: string; render: Render }): ReactElement {
  return (
    <>
      {spans(text).map((it, idx) => {
        if (it.kind === "bold") return <strong key={idx}>{render(it.text)}</strong>;
        return it.kind === "code" ? (
          <code key={idx} className="font-mono text-[0.9em]">
            {it.text}
          </code>
        ) : (
          <Fragment key={idx}>{render(it.text)}</Fragment>
        );
      })}
    </>
  );
}
