import { type ReactElement, useEffect, useState } from "react";

import { KeyPrompt } from "@/actions/key-prompt";
import { key } from "@/lib/http";
import { usePageLocation } from "@/lib/router";
import { Boundary } from "@/ui/boundary";
import { Link } from "@/ui/link";
import { ThemeButton } from "@/ui/theme-button";

import { HomePage } from "./home-page";
import icon from "./icon.svg";
import { JobPage } from "./job-page";

export function App(): ReactElement {
  const id = usePageLocation().query.get("job");
  const [access, setAccess] = useState<"open" | "key required" | "key rejected">("open");
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    key.onRejected = () => setAccess(key.get() === null ? "key required" : "key rejected");
  }, []);
  const retry = (): void => {
    setAccess("open");
    setAttempt((it) => it + 1);
  };
  return (
    <>
      <header className="sticky top-0 z-20 border-b border-line bg-panel/95 backdrop-blur">
        <a
          href="#main"
          className="absolute left-2 -translate-y-20 rounded-md bg-accent px-3 py-2 text-sm text-on-accent focus:translate-y-2"
        >
          Skip to content
        </a>
        <div className="mx-auto flex h-14 max-w-[1200px] items-center gap-4 px-4 sm:px-6">
          <Link href="/" className="flex items-center gap-2.5 font-semibold">
            <img src={icon} alt="" width={26} height={26} /> Agent sandbox
          </Link>
          <div className="ml-auto">
            <ThemeButton />
          </div>
        </div>
      </header>
      <main id="main" tabIndex={-1} className="mx-auto max-w-[1200px] px-4 py-6 outline-none sm:px-6">
        <Boundary key={`${id} ${attempt}`}>{id === null ? <HomePage /> : <JobPage id={id} />}</Boundary>
      </main>
      {access !== "open" && <KeyPrompt rejected={access === "key rejected"} onKey={retry} />}
    </>
  );
}
