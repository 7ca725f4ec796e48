import type { Profiler } from "node:inspector";

/** Time that a thread spent in the functions of one file. */
export interface FileTime {
  /** URL of the file, `node:…` for Node's own; `(program)` and `(garbage collector)` are what V8 calls so. */
  readonly file: string;
  readonly micros: number;
}

const IDLE = "(idle)";

/**
 * Time of each file's own functions in a profile, without idle time. Native functions have no file: their time is that of
 * the function that called them.
 */
export function timeByFile({ nodes, samples = [], timeDeltas = [] }: Profiler.Profile): readonly FileTime[] {
  const fileOf = new Map<number, string>();
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const visit = (id: number, above: string): void => {
    const node = byId.get(id);
    if (node === undefined) return;
    const { url, functionName } = node.callFrame;
    const isRoot = above === "";
    const file =
      url !== "" ? url : functionName.startsWith("(") && functionName !== "(anonymous)" ? functionName : above;
    fileOf.set(id, file);
    for (const child of node.children ?? []) visit(child, isRoot && functionName === "(root)" ? "(root)" : file);
  };
  const [root] = nodes;
  if (root !== undefined) visit(root.id, "");
  const found = new Map<string, number>();
  for (const [at, id] of samples.entries()) {
    const file = fileOf.get(id) ?? "(root)";
    if (file !== IDLE) found.set(file, (found.get(file) ?? 0) + (timeDeltas[at] ?? 0));
  }
  return [...found].map(([file, micros]) => ({ file, micros })).sort((a, b) => b.micros - a.micros);
}
