import type { Span } from "@turnpike/base";
import type { Operation } from "@turnpike/catalogue";
import type { MethodTraits } from "../families/method-traits.ts";
import type { ServiceContext, SupplierQuery } from "./service-context.ts";

/** One call on its way to an answer. */
export interface Job extends SupplierQuery {
  readonly context: ServiceContext;
  /** As the catalogue declares it. */
  readonly operation: Operation | undefined;
  /** What the family knows of its method. */
  readonly traits: MethodTraits | undefined;
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

/** True for a job whose answer may change with the next block. */
export function isAboutHead({ traits, refs }: Pick<Job, "traits" | "refs">): boolean {
  if (traits === undefined) return false;
  const { by } = traits.cache;
  if (by === "head") return true;
  if (by === "block") return refs?.some((ref) => "tag" in ref && ref.tag !== "earliest") ?? true;
  return by === "never" && traits.tipOf !== undefined;
}
