/** Findings by id, from a report or from the documents F1 and F2. */

import type { Finding, Report } from "@/lib/report";

export type Findings = ReadonlyMap<string, Finding>;

const HEADING = /^## (F\d+-\d+) \((.*)\)$/;
const EVIDENCE = /^- Evidence, (.*?): "(.*)"$/;

/** Parses a findings document; lines in any other format are skipped. */
export function readFindings(document: string): Finding[] {
  const found: Finding[] = [];
  for (const line of document.split("\n")) {
    const heading = HEADING.exec(line);
    if (heading) {
      const [kind = "", direction = "", strength = ""] = heading[2]!.split(", ");
      found.push({
        id: heading[1]!,
        claim: "",
        evidence: [],
        kind,
        direction,
        strength: Number.parseInt(strength.replace("strength ", ""), 10) || 0,
      });
    } else if (line.startsWith("## ")) {
      // Other sections, such as tensions, do not belong to a finding.
      found.push({ id: "", claim: "", evidence: [], kind: "", direction: "", strength: 0 });
    } else {
      addLine(found.at(-1), line);
    }
  }
  return found.filter((it) => it.id !== "");
}

function addLine(finding: Finding | undefined, line: string): void {
  if (!finding || line.trim() === "") return;
  const evidence = EVIDENCE.exec(line);
  if (evidence) finding.evidence.push({ section: evidence[1]!, quote: evidence[2]! });
  else finding.claim = finding.claim === "" ? line : `${finding.claim} ${line}`;
}

export function findingsOf(report: Report): Findings {
  return byId(report.outcome.findings.flatMap((it) => it.findings));
}

export function byId(findings: readonly Finding[]): Findings {
  return new Map(findings.map((it) => [it.id, it]));
}
