import type { RelayControl } from "@turnpike/relay";

/** What came of an attempt to put another configuration into effect. */
export type ReloadResult =
  | { readonly kind: "reloaded"; readonly changed: readonly string[] }
  | { readonly kind: "unchanged" }
  /** The old configuration stays in effect. Each fault names its path and what to do. */
  | { readonly kind: "refused"; readonly faults: readonly string[] };

/** What the admin API shows and changes. */
export interface AdminTarget {
  /** The relay that is in effect now. */
  readonly control: () => RelayControl;
  /** Reads the configuration again and puts it into effect. */
  reload(): Promise<ReloadResult>;
  /** The configuration in effect, without secrets and paths of URLs. */
  config(): unknown;
}
