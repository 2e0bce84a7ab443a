// Renders React hooks without a browser.
import { load, URL } from "./packages.mjs";

globalThis.IS_REACT_ACT_ENVIRONMENT = false;
export const React = load("react");
const { create } = load("react-test-renderer");

/** Renders a component. `unmount()` on the result removes it. */
export const render = (component, properties) => create(React.createElement(component, properties));

/** Renders a component that uses `useStream`. `current` is what the hook returned last. */
export function renderStream(parameters) {
  const { useStream } = load("@langchain/langgraph-sdk/react");
  const rendered = { current: undefined };
  rendered.root = render(() => {
    rendered.current = useStream({ apiUrl: URL, apiKey: null, ...parameters });
    return null;
  });
  return rendered;
}
