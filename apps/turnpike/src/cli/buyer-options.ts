/** Adds a value to those of an option that may be repeated. */
export const collect = (value: string, before: readonly string[]): readonly string[] => [...before, value];

/** Description of `--network`. */
export const NETWORK_TEXT =
  "network to pay on, such as eip155:8453 for Base; may be repeated (else networks of the key file, else that of turnpike up, " +
  "else test networks alone)";
