import { useEffect, useLayoutEffect, useRef } from "react";

/** Distance in pixels from the end of the page that still counts as the end. */
const TOLERANCE = 120;

/** Keeps the page at its end while it grows. Starts when the page is scrolled to its end, stops when it is scrolled up. */
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
  // The browser sends its scroll event with the next frame, and the page may grow before that.
  window.dispatchEvent(new Event("scroll"));
}
