import { clientKey } from "@turnpike/base";

/** Whose free calls these are: of an application, by the key that it showed, or of a client, by its address. */
export function callerOf(key: string | undefined, clientIp: string): string {
  return key === undefined ? clientKey(clientIp) : `key ${key}`;
}
