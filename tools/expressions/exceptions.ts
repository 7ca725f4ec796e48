/** An expression that may take more than linear time, and why that does no harm. */
export interface Exception {
  /** File of its first place. */
  readonly file: string;
  readonly source: string;
  readonly reason: string;
}

export const EXCEPTIONS: readonly Exception[] = [];

/** Files whose constructors are not checked, and why. */
export const OTHER_CONSTRUCTORS: Readonly<Record<string, string>> = {
  "packages/postgres/src/schema-objects.ts":
    "of a schema's name in definitions that PostgreSQL prints, none of them foreign text",
  "packages/catalogue/src/documents/schema-sample.ts": "patterns of the catalogue's schemas, which are collected",
  "packages/relay/src/families/denied.ts":
    "quadratic in a method's name, which has at most 256 characters there; those for paths are linear, as each begins with a slash",
};
