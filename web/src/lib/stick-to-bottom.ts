import { useEffect, useLayoutEffect, useRef } from "react";

/** Distance in pixels from the end of the page that still counts as the end. */
const TOLERANCE = 120;

/** Keeps the page scrolled to its end while it grows, from when it is scrolled there until the user scrolls up. */
export function useStickToBottom(content: string | number): void {
  const isAtBottom = useRef(false);
  useEffect(() => {
    let last = window.scrollY;
    const update = (): void => {
      const y = window.scrollY;
      const below = document.documentElement.scrollHeight - window.innerHeight - y;
      // The page may have grown since it was scrolled to its end.
      isAtBottom.current = below < TOLERANCE ? y > 0 : isAtBottom.current && y >= last;
      last = y;
    };
    update();
    window.addEventListener("scroll", update, { passive: true });
    return () => window.removeEventListener("scroll", update);
  }, []);
  useLayoutEffect(() => {
    if (isAtBottom.current) scrollToBottom();
  }, [content]);
}

/** Scrolls to the end of the page. */
export function scrollToBottom(): void {
  window.scrollTo({ top: document.documentElement.scrollHeight });
  // The browser reports the scroll with the next frame, before which the page may grow.
  window.dispatchEvent(new Event("scroll"));
}
