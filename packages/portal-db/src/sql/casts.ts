import { type Refusal, refusal } from "../query/refusal.ts";

/**
 * Types that a client may cast to. `regclass` and its like would turn a cast into a look at the catalogue, and types of
 * the schema into a look at the schema.
 */
const CASTS: ReadonlyMap<string, string> = new Map(
  [
    ["text", "text"],
    ["varchar", "varchar"],
    ["character varying", "varchar"],
    ["smallint", "smallint"],
    ["int2", "smallint"],
    ["integer", "integer"],
    ["int", "integer"],
    ["int4", "integer"],
    ["bigint", "bigint"],
    ["int8", "bigint"],
    ["numeric", "numeric"],
    ["decimal", "numeric"],
    ["real", "real"],
    ["float4", "real"],
    ["double precision", "double precision"],
    ["float8", "double precision"],
    ["boolean", "boolean"],
    ["bool", "boolean"],
    ["json", "json"],
    ["jsonb", "jsonb"],
    ["uuid", "uuid"],
    ["date", "date"],
    ["time", "time"],
    ["timetz", "timetz"],
    ["timestamp", "timestamp"],
    ["timestamptz", "timestamptz"],
    ["timestamp with time zone", "timestamptz"],
    ["timestamp without time zone", "timestamp"],
    ["interval", "interval"],
  ].map(([name = "", type = ""]) => [name, type]),
);

/** Text search configurations of PostgreSQL 15 to 18. Others would name objects of the catalogue. */
const LANGUAGES: ReadonlySet<string> = new Set(
  (
    "simple arabic armenian basque catalan danish dutch english finnish french german greek hindi hungarian indonesian " +
    "irish italian lithuanian nepali norwegian portuguese romanian russian serbian spanish swedish tamil turkish yiddish"
  ).split(" "),
);

/** The type of a cast as SQL. @throws Refusal 42704 for one that is not offered. */
export function castType(name: string): string {
  const type = CASTS.get(name.toLowerCase());
  if (type !== undefined) return type;
  throw undefinedObject(`type "${name}" is not offered for a cast`, [...CASTS.keys()]);
}

/** A language of full-text search. @throws Refusal 42704 for one that is not offered. */
export function languageName(name: string): string {
  if (LANGUAGES.has(name.toLowerCase())) return name.toLowerCase();
  throw undefinedObject(`text search configuration "${name}" does not exist`, [...LANGUAGES]);
}

function undefinedObject(message: string, offered: readonly string[]): Refusal {
  return refusal(400, "42704", message, { hint: `Offered: ${offered.join(", ")}.` });
}
