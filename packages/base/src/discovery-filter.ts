/** What resources are asked for; each that is given must hold (x402's bazaar extension, optional discovery endpoints). */
export interface DiscoveryFilter {
  /** Protocol of the resource, such as `http`; all of ours are that. */
  readonly type?: string | undefined;
  /** Receiver of a payment option. The next two must hold for the same option. */
  readonly payTo?: string | undefined;
  readonly scheme?: string | undefined;
  readonly network?: string | undefined;
  /** Key of an extension, such as `bazaar`. */
  readonly extensions?: string | undefined;
}
