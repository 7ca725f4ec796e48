import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** A way to the database that can be cut. */
export interface Wire extends AsyncDisposable {
  readonly url: string;
  cut(): void;
  fix(): void;
}

/** Starts a way to where a URL leads. */
export async function startWire(to: string): Promise<Wire> {
  const target = new URL(to);
  const open = new Set<Socket>();
  let isCut = false;
  const server = createServer((near) => {
    if (isCut) {
      near.destroy();
      return;
    }
    const far = connect(Number(target.port), target.hostname);
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(one);
      one.on("error", () => other.destroy());
      one.on("close", () => {
        open.delete(one);
        other.destroy();
      });
      one.pipe(other);
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = new URL(to);
  url.port = String((server.address() as AddressInfo).port);
  const drop = (): void => {
    for (const socket of open) socket.destroy();
  };
  return {
    url: url.href,
    cut() {
      isCut = true;
      drop();
    },
    fix() {
      isCut = false;
    },
    async [Symbol.asyncDispose]() {
      drop();
      server.close();
      await once(server, "close");
    },
  };
}
