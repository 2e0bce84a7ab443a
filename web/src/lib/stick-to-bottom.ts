import { useEffect, useLayoutEffect, useRef } from "react";

/** Distance in pixels from the end of the page that still counts as the end. */
const TOLERANCE = 120;

/** Keeps the page scrolled to its end while it grows, if the user has scrolled there. */
export function useStickToBottom(content: string | number): void {
  const isAtBottom = useRef(false);
  useEffect(() => {
    const update = (): void => {
      const below = document.documentElement.scrollHeight - window.innerHeight - window.scrollY;
      isAtBottom.current = window.scrollY > 0 && below < TOLERANCE;
    };
    update();
    window.addEventListener("scroll", update, { passive: true });
    return () => window.removeEventListener("scroll", update);
  }, []);
  useLayoutEffect(() => {
    if (isAtBottom.current) window.scrollTo({ top: document.documentElement.scrollHeight });
  }, [content]);
}
