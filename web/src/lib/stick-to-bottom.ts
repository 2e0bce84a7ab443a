import { useEffect, useLayoutEffect, useRef } from "react";

/** So near to the end of the page counts as there, in pixels. */
const NEAR = 120;

/** Keeps the end of the page in sight while it grows, for whoever has scrolled there. */
export function useEndInSight(grown: string | number): void {
  const isThere = useRef(false);
  useEffect(() => {
    const look = (): void => {
      const below = document.documentElement.scrollHeight - window.innerHeight - window.scrollY;
      isThere.current = window.scrollY > 0 && below < NEAR;
    };
    look();
    window.addEventListener("scroll", look, { passive: true });
    return () => window.removeEventListener("scroll", look);
  }, []);
  useLayoutEffect(() => {
    if (isThere.current) window.scrollTo({ top: document.documentElement.scrollHeight });
  }, [grown]);
}
