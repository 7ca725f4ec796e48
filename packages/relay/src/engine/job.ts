import type { Span } from "@turnpike/base";
import type { Operation } from "@turnpike/catalogue";
import type { BackendCall } from "@turnpike/protocol";
import { UNDECLARED } from "../families/free-call.ts";
import type { BlockRef, MethodTraits } from "../families/method-traits.ts";
import type { ServiceContext } from "./service-context.ts";

/** One call on its way to an answer. */
export interface Job {
  readonly context: ServiceContext;
  readonly call: BackendCall;
  /** As the catalogue declares it. */
  readonly operation: Operation | undefined;
  /** What the family knows of its method. */
  readonly traits: MethodTraits | undefined;
  /** The blocks that it names; undefined where its family does not say. */
  readonly refs: readonly BlockRef[] | undefined;
  /** What it does with a filter. */
  readonly filter: "create" | "use" | undefined;
  /** Whose call it is. */
  readonly client: string;
  readonly isFree: boolean;
  /** It may write, or is about a filter: it is sent once. */
  readonly isOnce: boolean;
  /** Its asker takes a large answer while it arrives. */
  readonly mayStream: boolean;
  /** Monotonic milliseconds. */
  readonly deadlineMs: number;
  readonly signal: AbortSignal | undefined;
  /** The request's span, where it is traced. */
  readonly span: Span | undefined;
}

/** Longer names of methods are not remembered. */
const MAX_NAME_LENGTH = 64;

/**
 * By which name suppliers are remembered to serve a call or not: that of its method, also where the catalogue does not
 * declare it. All that is undeclared under one name would hold one client's invention against every such method.
 */
export function rememberedName({ method, operation }: Pick<BackendCall, "method" | "operation">): string {
  const isNamed = operation === UNDECLARED && method !== undefined && method.length <= MAX_NAME_LENGTH;
  return isNamed ? method : operation;
}

/** True for a job whose answer may change with the next block. */
export function isAboutHead({ traits, refs }: Pick<Job, "traits" | "refs">): boolean {
  if (traits === undefined) return false;
  const { by } = traits.cache;
  if (by === "head") return true;
  if (by === "block") return refs?.some((ref) => "tag" in ref && ref.tag !== "earliest") ?? true;
  return by === "never" && traits.tipOf !== undefined;
}
