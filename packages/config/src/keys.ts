import { type TSchema, Type } from "typebox";
import type { SchemaNode } from "./describe.ts";

/**
 * Builders for the kinds of values that the schema uses. `x-expected` is what an error message says was expected. `x-secret`
 * keeps a value out of messages and shown configurations: `true` all of it, `"url"` all but scheme and host.
 */

const URL_PATTERN = "^https?://[^\\s/]+(/\\S*)?$";

/** A TCP port; 0 lets the system choose. */
export const port = (fallback: number | undefined, description: string) =>
  Type.Integer({
    minimum: 0,
    maximum: 65_535,
    ...(fallback === undefined ? {} : { default: fallback }),
    description,
  });

/** An integer with a default and bounds. */
export const integer = (fallback: number, minimum: number, maximum: number, description: string) =>
  Type.Integer({ minimum, maximum, default: fallback, description });

/** A number that may have a fraction. Never money: fees caps in gwei only. */
export const decimal = (fallback: number, minimum: number, maximum: number, description: string) =>
  Type.Number({ minimum, maximum, default: fallback, description });

/** A text with a default. */
export const text = (fallback: string, description: string) =>
  Type.String({ minLength: 1, maxLength: 512, default: fallback, description });

/** A text without a default. */
export const textOf = (description: string) => Type.String({ minLength: 1, maxLength: 2048, description });

/** `true` or `false`. */
export const flag = (fallback: boolean, description: string) => Type.Boolean({ default: fallback, description });

/** Bounds of a listener's connections: in total, and of one client. */
export const connections = (inTotal: number, ofClient: number) => ({
  maxConnections: integer(
    inTotal,
    1,
    1_000_000,
    "Maximum open connections. For one more, the idlest of the client with the most is closed.",
  ),
  maxConnectionsPerClient: integer(
    ofClient,
    1,
    1_000_000,
    "Maximum open connections of one client address (IPv6: each /64). For one more, its idlest is closed, or the new one when none was idle for 5 seconds. `trustedProxies` have no such bound.",
  ),
});

/** Proxies of a listener that reads no `X-Forwarded-For`. */
export const connectingProxies = () =>
  list(
    Type.String({ minLength: 2, maxLength: 64, description: "IP address or CIDR block." }),
    64,
    "Proxies that connect for many clients: only `maxConnections` bounds their connections. Empty: none.",
  );

/** One of a few words. */
export const oneOf = <const T extends readonly [string, ...string[]]>(
  words: T,
  description: string,
  fallback?: T[number],
) =>
  Type.Unsafe<T[number]>(
    Type.Enum([...words], { description, ...(fallback === undefined ? {} : { default: fallback }) }),
  );

/** An http or https URL. Like every URL here it may hold a password or a key, also where it is none for want of a scheme. */
export const url = (description: string) =>
  Type.String({
    pattern: URL_PATTERN,
    maxLength: 2048,
    description,
    "x-expected": "an http:// or https:// URL",
    "x-secret": "url",
  });

/** A WebSocket or http URL. */
export const anyUrl = (description: string) =>
  Type.String({
    pattern: "^(https?|wss?)://[^\\s/]+(/\\S*)?$",
    maxLength: 2048,
    description,
    "x-expected": "an http://, https://, ws:// or wss:// URL",
    "x-secret": "url",
  });

/** A PostgreSQL URL. */
export const databaseUrl = (description: string) =>
  Type.String({
    pattern: "^postgres(ql)?://\\S+$",
    maxLength: 2048,
    description,
    "x-expected": "a postgres:// URL",
    "x-secret": "url",
  });

/** An EVM address, as it is spelled. */
export const address = (description: string, fallback?: string) =>
  Type.Unsafe<`0x${string}`>(
    Type.String({
      pattern: "^0x[0-9a-fA-F]{40}$",
      description,
      "x-expected": "an address: 0x and 40 hex digits (quote it in YAML)",
      ...(fallback === undefined ? {} : { default: fallback }),
    }),
  );

/** A private key of secp256k1. */
export const privateKey = (description: string) =>
  Type.Unsafe<`0x${string}`>(
    Type.String({
      pattern: "^0x[0-9a-fA-F]{64}$",
      description,
      "x-expected": "a private key: 0x and 64 hex digits (quote it in YAML)",
      "x-secret": true,
    }),
  );

/** The form of a key that a facilitator knows a seller by. */
export const SELLER_KEY_PATTERN = "^[!-~]{1,512}$";

/** A key that a facilitator knows a seller by. */
export const sellerKey = () =>
  Type.String({
    pattern: SELLER_KEY_PATTERN,
    description:
      "Key by which the facilitator knows this gateway as a seller: sent to it as `Authorization: Bearer` in mode `remote`. TURNPIKE_SELLER_KEY sets it too, and counts before `sellerKeyFile`. No default: without one none is sent.",
    "x-expected": "1 to 512 printable ASCII characters without spaces",
    "x-secret": true,
  });

/** An object whose keys are all known. It may be left out when each of its keys has a default. */
export const section = <T extends Record<string, TSchema>>(keys: T, description: string) =>
  Type.Object(keys, { additionalProperties: false, default: {}, description });

/** An object whose keys are all known. It has no default. */
export const entry = <T extends Record<string, TSchema>>(keys: T, description: string) =>
  Type.Object(keys, { additionalProperties: false, description });

/** The defaults of an object's keys, all the way down. Keys without one are left out. */
export function defaultsOf({ properties }: { readonly properties: Readonly<Record<string, TSchema>> }): object {
  return Object.fromEntries(
    Object.entries(properties).flatMap(([key, { properties: inner, default: fallback }]: [string, SchemaNode]) => {
      if (fallback === undefined) return [];
      return [[key, inner === undefined ? fallback : defaultsOf({ properties: inner })]];
    }),
  );
}

/** A list, empty by default. */
export const list = <T extends TSchema>(items: T, maxItems: number, description: string) =>
  Type.Array(items, { maxItems, default: [], description });

/** A map by service id, empty by default. */
export const byService = <T extends TSchema>(value: T, description: string) =>
  Type.Unsafe<Record<string, Type.Static<T>>>({
    type: "object",
    patternProperties: { "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$": value },
    additionalProperties: false,
    default: {},
    description,
    "x-map": "a service id: lower-case letters, digits and -",
  });

/** A price in US dollars above 0, as text: money is no float. */
export const priceUsd = (description: string, fallback?: string) =>
  Type.String({
    pattern: "^(?!0+(\\.0+)?$)(0|[1-9][0-9]{0,6})(\\.[0-9]{1,12})?$",
    ...(fallback === undefined ? {} : { default: fallback }),
    description,
    "x-expected": 'a price in US dollars above 0 and below 10 million, such as "3200.50" (quote it in YAML)',
  });

/** The same key without a default: left out, that of another section counts. */
const override = <T extends TSchema>(schema: T, of: string) => {
  const { default: _, description: text = "", ...rest }: { default?: unknown; description?: string } = schema;
  const description = `${text} No default of its own: that is \`${of}\`.`;
  return Type.Optional(Type.Unsafe<Type.Static<T>>({ ...rest, description }));
};

/** {@link override} of each key of a section. */
export const overrides = <T extends Record<string, TSchema>>(keys: T, section: string) =>
  Object.fromEntries(Object.entries(keys).map(([key, schema]) => [key, override(schema, `${section}.${key}`)])) as {
    [K in keyof T]: ReturnType<typeof override<T[K]>>;
  };
