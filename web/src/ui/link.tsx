import type { AnchorHTMLAttributes, ReactElement } from "react";

import { go } from "@/lib/router";

/** A link within the page: an ordinary link that does not load the page anew. */
export function Link({
  href,
  onClick,
  ...rest
}: AnchorHTMLAttributes<HTMLAnchorElement> & { href: string }): ReactElement {
  return (
    <a
      href={href}
      onClick={(event) => {
        onClick?.(event);
        if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
        event.preventDefault();
        go(href);
      }}
      {...rest}
    />
  );
}
