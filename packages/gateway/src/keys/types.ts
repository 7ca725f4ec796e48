import type { ServiceId } from "@turnpike/base";

/** What is left of one quota: at most `limit` calls in each period. */
export interface QuotaStanding {
  readonly limit: number;
  readonly used: number;
  /** Length of the period, as the header's window. */
  readonly windowSeconds: number;
  /** Until the period ends, at least 1. */
  readonly resetSeconds: number;
}

/** The answer of {@link KeyedApplication.consume}; `standing` is of the quota with the least left, undefined without any. */
type QuotaVerdict =
  | { readonly ok: true; readonly standing: QuotaStanding | undefined }
  | { readonly ok: false; readonly standing: QuotaStanding };

/** An application that a key stands for. Its limits are those of now: they change while it is held. */
export interface KeyedApplication {
  readonly id: string;
  readonly accountId: string;
  /** Calls in any second; undefined for no limit. */
  readonly perSecond: number | undefined;
  /** Calls in any second of all applications of the account; undefined for no limit. */
  readonly accountPerSecond: number | undefined;
  /** Counts calls against the quotas of application and account, or against none. {@link served} or {@link refused} must follow. */
  consume(items: number): QuotaVerdict;
  /** Counts calls that were consumed. */
  served(serviceId: ServiceId, items: number): void;
  /** Counts refused calls; `isConsumed` releases what {@link consume} counted. */
  refused(serviceId: ServiceId, items: number, isConsumed: boolean): void;
  /** Counts those of the served calls that failed. */
  failed(serviceId: ServiceId, items: number): void;
}

/**
 * What a key stands for. `unknown`: nothing. `unavailable`: that cannot be found out now. `unasked`: it is not known here,
 * and the database was not to be asked.
 */
export type FoundApplication = KeyedApplication | "unknown" | "unavailable" | "unasked";

/** Applications by their keys. Without a database it may still know some. */
export interface Applications {
  /** Finds by the key as presented. Never throws. With `mayAsk` false only what is known here is looked at. */
  find(key: string, mayAsk: boolean): FoundApplication | Promise<FoundApplication>;
}
