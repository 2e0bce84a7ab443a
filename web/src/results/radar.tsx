import type { ReactElement } from "react";

interface Axis {
  name: string;
  value: number;
}

const [WIDTH, HEIGHT, REACH] = [220, 150, 52];

/** Radar chart of values from 0 to 10. The values are also printed at the axes. */
export function Radar({ label, axes, color }: { label: string; axes: Axis[]; color: string }): ReactElement {
  const at = (idx: number, value: number): [number, number] => {
    const angle = (2 * Math.PI * idx) / axes.length - Math.PI / 2;
    return [WIDTH / 2 + (Math.cos(angle) * REACH * value) / 10, HEIGHT / 2 + (Math.sin(angle) * REACH * value) / 10];
  };
  const outline = (values: number[]): string =>
    values.map((value, idx) => at(idx, value).map((it) => it.toFixed(1))).join(" ");
  return (
    <svg
      role="img"
      aria-label={`${label}: ${axes.map((it) => `${it.name} ${it.value} of 10`).join(", ")}`}
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      className="mx-auto block w-full max-w-60"
    >
      {[2.5, 5, 7.5, 10].map((it) => (
        <polygon key={it} points={outline(axes.map(() => it))} fill="none" stroke="var(--line)" />
      ))}
      {axes.map((it, idx) => {
        const [x, y] = at(idx, 10);
        return <line key={it.name} x1={WIDTH / 2} y1={HEIGHT / 2} x2={x} y2={y} stroke="var(--line)" />;
      })}
      <polygon
        points={outline(axes.map((it) => it.value))}
        fill={color}
        fillOpacity={0.18}
        stroke={color}
        strokeWidth={1.6}
        strokeLinejoin="round"
      />
      {axes.map((it, idx) => (
        <AxisLabel key={it.name} axis={it} at={at(idx, 11.6)} />
      ))}
    </svg>
  );
}

function AxisLabel({ axis, at: [x, y] }: { axis: Axis; at: [number, number] }): ReactElement {
  const side = Math.abs(x - WIDTH / 2) < 8 ? "middle" : x > WIDTH / 2 ? "start" : "end";
  const below = y > HEIGHT / 2 + 8;
  const words = side === "middle" ? [axis.name] : axis.name.split(/[ -]/);
  const first = side === "middle" ? (below ? 8 : 0) : -((words.length - 1) * 9) / 2 - 2;
  return (
    <text x={x} y={y + first} textAnchor={side} fontSize={9} fill="var(--dim)">
      {words.map((it, idx) => (
        <tspan key={it} x={x} dy={idx === 0 ? 0 : 9}>
          {it}
        </tspan>
      ))}
      <tspan {...(side === "middle" ? { dx: 4 } : { x, dy: 11 })} fontSize={10} fontWeight={600} fill="var(--ink)">
        {axis.value}
      </tspan>
    </text>
  );
}
