/** How strongly debates are isolated from the host, weakest last. */
export type IsolationLevel = "vm" | "kernel" | "process" | "off";

/** Describes a level in the words of the report. */
export function isolationText(level: IsolationLevel): string {
  switch (level) {
    case "vm":
      return "isolation: vm";
    case "kernel":
      return "isolation: kernel, in a process on the host's kernel";
    case "process":
      return "isolation: process, shares the host's kernel";
    case "off":
      return "not isolated";
  }
}
