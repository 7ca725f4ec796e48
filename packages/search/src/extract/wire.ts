import type { Extracted, RawPage } from "../types.ts";
import type { PageLimits } from "./limits.ts";

/** What a thread is started with. */
export type WorkerLimits = PageLimits;

/** One page for a thread; it has one at a time. */
export interface ExtractRequest {
  readonly id: number;
  readonly page: RawPage;
}

/** What a thread says: `started` when its libraries are loaded, so that loading does not count as the page's time. */
export type ExtractReply =
  | { readonly id: number; readonly started: true }
  | { readonly id: number; readonly extracted: Extracted };
