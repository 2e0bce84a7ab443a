// Written by the test `page_words` of consulting-graph from the words of the report. Do not edit.

/** Descriptions of the isolation levels. */
export const LEVELS = {
  vm: "isolation: vm",
  kernel: "isolation: kernel, own kernel on top of the host's kernel",
  process: "isolation: process, shares the host's kernel",
  off: "isolation: off, NOT ISOLATED",
};

/** Warning about debates whose memory no kernel limited. */
export const MEMORY_UNBOUNDED = "memory NOT BOUNDED by a kernel";
