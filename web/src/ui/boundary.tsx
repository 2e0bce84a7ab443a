import { Component, type ReactNode } from "react";

import { Problem } from "./problem";

/** Error boundary that shows the error instead of an empty page. */
export class Boundary extends Component<{ children: ReactNode }, { error: unknown }> {
  override state = { error: null };

  static getDerivedStateFromError(error: unknown): { error: unknown } {
    return { error };
  }

  override render(): ReactNode {
    if (this.state.error === null) return this.props.children;
    return <Problem whole title="This page could not be displayed" error={this.state.error} />;
  }
}
