import { type VariantProps, cva } from "class-variance-authority";
import type { HTMLAttributes, ReactElement } from "react";

import { cn } from "@/lib/cn";

const looks = cva(
  "inline-flex items-center gap-1 rounded-full px-2 py-0.5 text-xs leading-4 font-medium whitespace-nowrap [&_svg]:size-3",
  {
    variants: {
      tone: {
        plain: "bg-sunk text-dim",
        accent: "bg-accent-soft text-accent",
        good: "bg-good-soft text-good",
        warn: "bg-warn-soft text-warn",
        bad: "bg-bad-soft text-bad",
      },
    },
    defaultVariants: { tone: "plain" },
  },
);

export type Tone = NonNullable<VariantProps<typeof looks>["tone"]>;

export function Badge({
  tone,
  className,
  ...rest
}: HTMLAttributes<HTMLSpanElement> & VariantProps<typeof looks>): ReactElement {
  return <span className={cn(looks({ tone }), className)} {...rest} />;
}
