import { LEVELS, MEMORY_UNBOUNDED } from "./isolation-words";

/** How strongly debates are isolated from the host. */
export type IsolationLevel = keyof typeof LEVELS;

/** How the debates of a run were isolated from the host. */
export interface Isolation {
  /** Names of the back ends. */
  backend: string;
  /** Weakest isolation of a debate. */
  level: IsolationLevel;
  /** Whether no kernel limited the memory of an isolated debate. */
  memory_unbounded?: boolean;
}

/** Describes a level in the words of the report. */
export function levelText(level: IsolationLevel): string {
  return LEVELS[level];
}

/** Describes the isolation of a run in the words of the report. */
export function isolationText({ level, memory_unbounded }: Isolation): string {
  return memory_unbounded ? `${LEVELS[level]}; ${MEMORY_UNBOUNDED}` : LEVELS[level];
}
