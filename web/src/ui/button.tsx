import { type VariantProps, cva } from "class-variance-authority";
import type { ButtonHTMLAttributes, ReactElement } from "react";

import { cn } from "@/lib/cn";

export const buttonLook = cva(
  "inline-flex shrink-0 items-center justify-center gap-1.5 rounded-md font-medium whitespace-nowrap transition-colors " +
    "disabled:cursor-not-allowed disabled:opacity-55 [&_svg]:size-4 [&_svg]:shrink-0",
  {
    variants: {
      look: {
        solid: "bg-accent text-on-accent hover:bg-accent/90",
        outline: "border border-line bg-panel text-ink hover:bg-sunk",
        ghost: "text-ink hover:bg-sunk",
        danger: "border border-bad/40 bg-panel text-bad hover:bg-bad-soft",
      },
      size: { sm: "h-8 px-2.5 text-[13px]", md: "h-9 px-3.5 text-sm", lg: "h-11 px-5 text-base", icon: "size-9" },
    },
    defaultVariants: { look: "outline", size: "sm" },
  },
);

type Props = ButtonHTMLAttributes<HTMLButtonElement> & VariantProps<typeof buttonLook>;

export function Button({ look, size, className, type = "button", ...rest }: Props): ReactElement {
  return <button type={type} className={cn(buttonLook({ look, size }), className)} {...rest} />;
}
