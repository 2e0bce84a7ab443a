import type { ReactElement } from "react";

export interface RadarSeries {
  name: string;
  color: string;
  /** SVG dash pattern, so that the series differ without colour. */
  dash?: string;
  values: number[];
}

const [WIDTH, HEIGHT, REACH] = [360, 260, 92];

/** Radar chart of several series with values from 0 to 10. */
export function OverlayRadar({ axes, series }: { axes: string[]; series: RadarSeries[] }): ReactElement {
  const at = (idx: number, value: number): [number, number] => {
    const angle = (2 * Math.PI * idx) / axes.length - Math.PI / 2;
    return [WIDTH / 2 + (Math.cos(angle) * REACH * value) / 10, HEIGHT / 2 + (Math.sin(angle) * REACH * value) / 10];
  };
  const outline = (values: number[]): string =>
    values.map((value, idx) => at(idx, value).map((it) => it.toFixed(1))).join(" ");
  const descriptions = series.map(({ name, values }) => {
    const scores = values.map((value, idx) => `${axes[idx]} ${value.toFixed(1)}`);
    return `${name}: ${scores.join(", ")}`;
  });
  return (
    <svg
      role="img"
      aria-label={`Mean scores of 10. ${descriptions.join(". ")}`}
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      className="mx-auto block w-full max-w-[26rem]"
    >
      {[2.5, 5, 7.5, 10].map((it) => (
        <polygon key={it} points={outline(axes.map(() => it))} fill="none" stroke="var(--line)" />
      ))}
      {axes.map((name, idx) => {
        const [x, y] = at(idx, 10);
        return <line key={name} x1={WIDTH / 2} y1={HEIGHT / 2} x2={x} y2={y} stroke="var(--line)" />;
      })}
      {series.map((it) => (
        <polygon
          key={it.name}
          points={outline(it.values)}
          fill={it.color}
          fillOpacity={0.08}
          stroke={it.color}
          strokeWidth={2}
          strokeDasharray={it.dash}
          strokeLinejoin="round"
        />
      ))}
      {axes.map((name, idx) => {
        const [x, y] = at(idx, 11.2);
        const side = Math.abs(x - WIDTH / 2) < 8 ? "middle" : x > WIDTH / 2 ? "start" : "end";
        return (
          <text key={name} x={x} y={y + (y > HEIGHT / 2 ? 8 : 2)} textAnchor={side} fontSize={11.5} fill="var(--dim)">
            {(side === "middle" ? [name] : name.split(/[ -]/)).map((word, line) => (
              <tspan key={word} x={x} dy={line === 0 ? 0 : 12}>
                {word}
              </tspan>
            ))}
          </text>
        );
      })}
      {[5, 10].map((it) => (
        <text key={it} x={WIDTH / 2 + 4} y={at(0, it)[1] + 4} fontSize={9} fill="var(--dim)">
          {it}
        </text>
      ))}
    </svg>
  );
}
