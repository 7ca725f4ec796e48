import { randomInt } from "node:crypto";
import { AppError } from "@turnpike/base";
import { isPortFree } from "./ports.ts";

/** An address to listen on. */
export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

/**
 * Ports to which no browser sends requests, nor opens WebSockets: of the list "bad port" of the Fetch Standard (2.9), those
 * that every browser has and that need no rights. Node's `fetch` keeps to the same list.
 */
const BLOCKED_PORTS: readonly number[] = [6665, 6666, 6667, 6668, 6669];
const TRIES = 20;

/** All of 127.0.0.0/8 is loopback on Linux; elsewhere only its first address has an interface. */
function loopbackAddress(): string {
  if (process.platform !== "linux") return "127.0.0.1";
  const part = (): number => randomInt(1, 255);
  return `127.${part()}.${part()}.${part()}`;
}

/**
 * A loopback address for a program that must not be reached by web pages and cannot check who asks: on a port that browsers
 * refuse, and where the system can, at an address of 127.0.0.0/8 that cannot be guessed.
 * @throws AppError PORT_IN_USE when all of these ports are taken
 */
export async function blockedAddress(): Promise<ListenAddress> {
  const first = randomInt(BLOCKED_PORTS.length);
  for (let tries = 0; tries < TRIES; tries++) {
    const host = loopbackAddress();
    const port = BLOCKED_PORTS[(first + tries) % BLOCKED_PORTS.length] ?? 0;
    if (await isPortFree(port, host)) return { host, port };
  }
  throw new AppError("PORT_IN_USE", {
    message: `The local chain needs one of the ports ${BLOCKED_PORTS.join(", ")}. End a program that has one of them.`,
  });
}
