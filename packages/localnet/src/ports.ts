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

/** A port that is free now, for programs that cannot choose one themselves. Another program may be quicker. */
export async function freePort(host = "127.0.0.1"): Promise<number> {
  const port = await tryListen(host, 0);
  if (port === undefined) throw new AppError("PORT_IN_USE", { message: `No port is free on ${host}.` });
  return port;
}
