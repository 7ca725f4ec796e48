import { randomInt } from "node:crypto";
import { createServer } from "node:net";
import { AppError } from "@turnpike/base";

function tryListen(host: string, port: number): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EADDRINUSE" || error.code === "EACCES") resolve(undefined);
      else reject(error);
    });
    server.listen({ host, port, exclusive: true }, () => {
      const address = server.address();
      const taken = typeof address === "object" && address !== null ? address.port : port;
      server.close(() => resolve(taken));
    });
  });
}

/** True when a program could listen on this port now. */
export async function isPortFree(port: number, host = "127.0.0.1"): Promise<boolean> {
  return (await tryListen(host, port)) !== undefined;
}

/** Ports to choose from: `count` of them, from `first` on. */
export interface PortRange {
  readonly first: number;
  readonly count: number;
}

/**
 * Below those that the system gives out by itself (from 32768 on under Linux, from 49152 on macOS and Windows). A program that is started
 * again needs its port back; meanwhile a connection of anybody, even one that looks for that program, may be given it.
 * Above 10080, the last one here that `fetch` refuses to ask.
 */
const FREE_PORTS: PortRange = { first: 10_081, count: 16_000 };

// each process begins somewhere else and never looks back, so that two ports of one program cannot be the same
let at = randomInt(FREE_PORTS.count);

/**
 * A port of 127.0.0.1 that is free now, for programs that cannot choose one themselves. Another program may be quicker.
 * @throws AppError PORT_IN_USE when none of the range is free
 */
export async function freePort({ first, count }: PortRange = FREE_PORTS): Promise<number> {
  for (let tries = 0; tries < count; tries++) {
    const port = first + (at++ % count);
    if (await isPortFree(port)) return port;
  }
  throw new AppError("PORT_IN_USE", { message: `No port from ${first} to ${first + count - 1} is free.` });
}
