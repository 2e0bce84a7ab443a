import type { ReactElement } from "react";

import { Blocks } from "./blocks";
import { ModelText } from "./model-text";

/** Renders a document written in the supported subset of Markdown, with its citations. */
export function Document({ text }: { text: string }): ReactElement {
  return <Blocks text={text} render={(it) => <ModelText text={it} />} />;
}
