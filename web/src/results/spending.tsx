import type { ReactElement } from "react";

import { count, dollars } from "@/lib/format";
import type { Spending } from "@/lib/types";

/** Table of calls, tokens and cost by role. */
export function SpendingTable({ rows, total }: { rows: Spending[]; total?: Omit<Spending, "name"> }): ReactElement {
  const cells = (it: Omit<Spending, "name">): string[] => [
    count(it.calls),
    count(it.input_tokens),
    count(it.output_tokens),
    dollars(it.dollars),
  ];
  return (
    <div className="overflow-x-auto" role="region" aria-label="Cost by role" tabIndex={0}>
      <table className="w-full text-right text-[13px] tabular-nums">
        <thead className="text-xs text-dim">
          <tr>
            {["Role", "Calls", "Input tokens", "Output tokens", "Cost"].map((it) => (
              <th
                key={it}
                scope="col"
                className="border-b border-line py-1.5 pl-4 font-medium first:pl-0 first:text-left"
              >
                {it}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((it) => (
            <tr key={it.name}>
              <th scope="row" className="py-1 text-left font-normal">
                {it.name}
              </th>
              {cells(it).map((cell, idx) => (
                <td key={idx} className="py-1 pl-4">
                  {cell}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
        {total && (
          <tfoot className="font-semibold">
            <tr>
              <th scope="row" className="border-t border-line py-1.5 text-left">
                Total
              </th>
              {cells(total).map((cell, idx) => (
                <td key={idx} className="border-t border-line py-1.5 pl-4">
                  {cell}
                </td>
              ))}
            </tr>
          </tfoot>
        )}
      </table>
    </div>
  );
}
