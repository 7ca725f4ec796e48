import type { DescMessage } from "@bufbuild/protobuf";
import { isRecord } from "@turnpike/base";
import { decodeMessage, methodAt } from "@turnpike/proto";
import type { QueryWork, ThreadWork } from "./messages.ts";

/** Work that takes longer is heavy: more than a dozen usual queries together. */
const HEAVY_MS = 25;
/** Weight of the newest run in what a kind of work is expected to take. */
const NEWEST_WEIGHT = 0.2;
/** Pages with more entries, and offsets behind which a page begins, are work of another kind than short ones. */
const LONG_ENTRIES = 500n;
/** Requests above this size are not looked into. */
const MAX_REQUEST_BYTES = 4_096;

/** Length of the list part that a query reads. */
type Shape = "short" | "long";

function hasPages(input: DescMessage): boolean {
  return input.fields.some(({ message }) => message?.typeName === "cosmos.base.query.v1beta1.PageRequest");
}

function shapeOf({ data }: QueryWork, input: DescMessage): Shape {
  if (!hasPages(input)) return "short";
  const decoded = data.length > MAX_REQUEST_BYTES ? undefined : decodeMessage(input, data);
  const pagination: unknown = decoded?.ok === true ? Object.entries(decoded.message).find(isPage)?.[1] : undefined;
  // Without a request all entries are counted.
  if (!isRecord(pagination)) return "long";
  const { limit, offset, countTotal, key } = pagination;
  const isLong = (value: unknown): boolean => typeof value === "bigint" && value > LONG_ENTRIES;
  const counts = (countTotal === true || limit === 0n) && key instanceof Uint8Array && key.length === 0;
  return counts || isLong(limit) || isLong(offset) ? "long" : "short";
}

const isPage = ([name]: readonly [string, unknown]): boolean => name === "pagination";

/** Work of which each run takes about as long. */
export interface WorkKind {
  readonly name: string;
  /** Expected of it before its first run. */
  readonly shape: Shape;
}

/**
 * Expected times of work by its kind, measured with every run: by which long work is distinguished from short work before it begins. Kinds are the
 * methods of the chain, so that they are few.
 */
export class WorkCosts {
  readonly #expectedMs = new Map<string, number>();

  /** Undefined: of no kind that is measured. */
  kindOf(work: ThreadWork): WorkKind | undefined {
    if (work.kind === "simulate") return undefined;
    if (work.kind === "read-json") return { name: `read-json ${work.typeName}`, shape: "short" };
    if (work.kind === "json") return { name: `json ${work.typeName}`, shape: "short" };
    const method = methodAt(work.path);
    if (method === undefined) return undefined;
    const shape = shapeOf(work, method.input);
    return { name: `${work.path} ${shape}`, shape };
  }

  /** True for work that takes long, as far as is known. */
  isHeavy({ name, shape }: WorkKind): boolean {
    const expectedMs = this.#expectedMs.get(name);
    return expectedMs === undefined ? shape === "long" : expectedMs > HEAVY_MS;
  }

  /** Reports what a run took. */
  ran({ name }: WorkKind, runMs: number): void {
    const expectedMs = this.#expectedMs.get(name) ?? runMs;
    this.#expectedMs.set(name, expectedMs + (runMs - expectedMs) * NEWEST_WEIGHT);
  }
}
