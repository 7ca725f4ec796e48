import type { AnyRequest } from "../http/request.ts";

/** The header that carries an application's key. */
const HEADER = "x-api-key";
const RELAY = "/relay/";
/** Before a key in a path. No service can have this id: it would be out of reach there. */
const KEY = "key/";

/** What follows `/relay/` in a path, split and not decoded. */
interface RelayPlace {
  readonly id: string;
  /** What follows the id: empty, or from its slash on. */
  readonly path: string;
  /** The key in the path; undefined without one. */
  readonly key: string | undefined;
}

/**
 * Reads `/relay/{id}…`, and with `takesKeys` also `/relay/key/{key}/{id}…`: the key stands before the id, so that no path
 * of a chain can look like one. Undefined for all other paths.
 */
export function relayPlace(path: string, takesKeys: boolean): RelayPlace | undefined {
  if (!path.startsWith(RELAY)) return undefined;
  if (!takesKeys || !path.startsWith(KEY, RELAY.length)) return idAt(path, RELAY.length, undefined);
  const from = RELAY.length + KEY.length;
  const slash = path.indexOf("/", from);
  if (slash === -1) return { id: "", path: "", key: path.slice(from) };
  return idAt(path, slash + 1, path.slice(from, slash));
}

function idAt(path: string, from: number, key: string | undefined): RelayPlace {
  const slash = path.indexOf("/", from);
  const end = slash === -1 ? path.length : slash;
  return { id: path.slice(from, end), path: path.slice(end), key };
}

/**
 * The key that a request carries, undefined without one. Two that differ are no key: the text of both is one that no
 * application has.
 */
export function presentedKey({ headers }: Pick<AnyRequest, "headers">, inPath: string | undefined): string | undefined {
  const header = headers[HEADER];
  if (header === undefined) return inPath;
  const text = typeof header === "string" ? header : header.join();
  return inPath === undefined || inPath === text ? text : `${inPath} ${text}`;
}
