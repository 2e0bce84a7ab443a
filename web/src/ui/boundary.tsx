import { Component, type ReactNode } from "react";

import { Problem } from "./problem";

/** Shows what went wrong where a part of the page cannot be drawn, in place of nothing at all. */
export class Boundary extends Component<{ children: ReactNode }, { error: unknown }> {
  override state = { error: null };

  static getDerivedStateFromError(error: unknown): { error: unknown } {
    return { error };
  }

  override render(): ReactNode {
    if (this.state.error === null) return this.props.children;
    return <Problem whole title="This page cannot be shown" error={this.state.error} />;
  }
}
