import type { ReactElement } from "react";

import { statementDollars } from "@/lib/format";
import type { FigureChart as Chart } from "@/lib/report";

const [WIDTH, HEIGHT, TOP, LINE] = [480, 150, 18, 14];
const COLORS = ["var(--dm-0)", "var(--dm-1)", "var(--dm-2)", "var(--critic)"];

/** A chart of the company's figures: stacked columns or lines by period. */
export function FigureChart({ chart }: { chart: Chart }): ReactElement {
  const { periods, series } = chart;
  const sums = periods.map((_, idx) => series.reduce((sum, it) => sum + (it.values[idx] ?? 0), 0));
  const values = series.flatMap((it) => it.values.filter((value) => value !== null));
  const low = Math.min(0, ...values);
  const high = Math.max(low + 1e-9, ...(chart.form === "columns" ? sums : values));
  const slot = WIDTH / Math.max(1, periods.length);
  const x = (idx: number): number => slot * (idx + 0.5);
  const y = (value: number): number => TOP + (HEIGHT * (high - value)) / (high - low);
  const labels = periods.map((it, idx) => `${it} ${chart.captions[idx] ?? ""}`.trim().split(/\s+/));
  const height = TOP + HEIGHT + LINE * Math.max(...labels.map((it) => it.length)) + 8;
  return (
    <figure className="min-w-0">
      <figcaption className="text-sm font-semibold">{chart.title}</figcaption>
      {series.length > 1 && (
        <p className="mt-1 flex flex-wrap gap-x-4 gap-y-1 text-[13px]">
          {series.map((it, idx) => (
            <span key={it.name} className="flex items-center gap-1.5">
              <span aria-hidden className="size-2.5" style={{ background: color(idx) }} /> {it.name}
            </span>
          ))}
        </p>
      )}
      <svg role="img" aria-label={description(chart)} viewBox={`0 0 ${WIDTH} ${height}`} className="mt-2 block w-full">
        <line x1={0} x2={WIDTH} y1={y(0)} y2={y(0)} stroke="var(--line)" />
        {chart.form === "columns"
          ? periods.map((period, idx) => <Column key={period} {...{ chart, idx, x: x(idx), y, slot }} />)
          : series.map((it, idx) => <Line key={it.name} {...{ chart, idx, x, y }} />)}
        {labels.map((words, idx) =>
          words.map((word, line) => (
            <text
              key={`${idx} ${line}`}
              x={x(idx)}
              y={TOP + HEIGHT + LINE * (line + 1)}
              textAnchor="middle"
              fontSize={11}
              fill="var(--dim)"
            >
              {word}
            </text>
          )),
        )}
      </svg>
    </figure>
  );
}

interface ColumnProps {
  chart: Chart;
  idx: number;
  x: number;
  y: (value: number) => number;
  slot: number;
}

function Column({ chart, idx, x, y, slot }: ColumnProps): ReactElement {
  const width = Math.min(70, slot * 0.62);
  const values = chart.series.map((it) => it.values[idx] ?? 0);
  const sumOf = (n: number): number => values.slice(0, n).reduce((sum, it) => sum + it, 0);
  const parts = chart.series.map((it, part) => {
    const [base, value] = [sumOf(part), values[part] ?? 0];
    const [top, bottom] = [y(base + Math.max(0, value)), y(base + Math.min(0, value))];
    return <rect key={it.name} x={x - width / 2} y={top} width={width} height={bottom - top} fill={color(part)} />;
  });
  const sum = sumOf(values.length);
  return (
    <g>
      {parts}
      <text x={x} y={y(sum) - 5} textAnchor="middle" fontSize={11} fill="var(--ink)">
        {format(chart, sum)}
      </text>
    </g>
  );
}

interface LineProps {
  chart: Chart;
  idx: number;
  x: (idx: number) => number;
  y: (value: number) => number;
}

function Line({ chart, idx, x, y }: LineProps): ReactElement {
  const points = (chart.series[idx]?.values ?? []).flatMap((value, at) => (value === null ? [] : [{ at, value }]));
  const ends = [points[0], points[points.length - 1]].filter((it) => it !== undefined);
  return (
    <g>
      <polyline
        points={points.map((it) => `${x(it.at).toFixed(1)},${y(it.value).toFixed(1)}`).join(" ")}
        fill="none"
        stroke={color(idx)}
        strokeWidth={2}
      />
      {ends.map((it) => (
        <text key={it.at} x={x(it.at)} y={y(it.value) - 6} textAnchor="middle" fontSize={11} fill="var(--ink)">
          {format(chart, it.value)}
        </text>
      ))}
    </g>
  );
}

function color(idx: number): string {
  return COLORS[Math.min(idx, COLORS.length - 1)] ?? "var(--ink)";
}

function format(chart: Chart, value: number): string {
  if (chart.unit === "fraction") return `${(value * 100).toFixed(1)}%`;
  return statementDollars(value);
}

function description(chart: Chart): string {
  const line = (it: Chart["series"][number]): string => {
    const values = chart.periods.map((period, idx) => {
      const value = it.values[idx];
      return `${period} ${value == null ? "unknown" : format(chart, value)}`;
    });
    return `${it.name}: ${values.join(", ")}`;
  };
  return `${chart.title}. ${chart.series.map(line).join(". ")}`;
}
