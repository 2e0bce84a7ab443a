import type { ReactElement } from "react";

import { Blocks } from "./blocks";
import { unescapeMarkup } from "./markdown";
import { ModelText } from "./model-text";

/** Renders a document written in the supported subset of Markdown, with its citations. */
export function Document({ text }: { text: string }): ReactElement {
  return <Blocks text={unescapeMarkup(text)} render={(it) => <ModelText text={it} />} />;
}
