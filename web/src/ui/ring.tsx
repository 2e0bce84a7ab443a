import type { ReactElement } from "react";

/** Progress ring. Hidden from screen readers, since the number is shown next to it. */
export function Ring({
  share,
  size = 28,
  color = "var(--accent)",
}: {
  share: number;
  size?: number;
  color?: string;
}): ReactElement {
  const around = 2 * Math.PI * 10;
  return (
    <svg aria-hidden viewBox="0 0 24 24" width={size} height={size} className="shrink-0 -rotate-90">
      <circle cx="12" cy="12" r="10" fill="none" stroke="var(--line)" strokeWidth="3.5" />
      <circle
        cx="12"
        cy="12"
        r="10"
        fill="none"
        stroke={color}
        strokeWidth="3.5"
        strokeLinecap="round"
        strokeDasharray={around}
        strokeDashoffset={around * (1 - share)}
        opacity={share > 0 ? 1 : 0}
        className="transition-[stroke-dashoffset] duration-500"
      />
    </svg>
  );
}
