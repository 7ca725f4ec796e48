import { connect, type Socket } from "node:net";
import { rapidResets } from "../../e2e/frames.ts";

/** Attacks a port from one address until its parent ends it. Arguments: the attack, the port. */
const [, , attack = "", port = "0"] = process.argv;
const FROM = "127.0.0.2";
const CONNECTIONS = 400;

/** Bytes that open a connection, and those that follow each second while it is open. */
const ATTACKS: Readonly<Record<string, { readonly first: Buffer | string; readonly drip?: string }>> = {
  "half-open": { first: "" },
  "slow-heads": { first: "POST / HTTP/1.1\r\nHost: localhost\r\n", drip: "A: b\r\n" },
  "rapid-reset": { first: rapidResets(3_000) },
};

/** Connections that the server has closed. */
let closed = 0;

function hold({ first, drip }: { readonly first: Buffer | string; readonly drip?: string }): void {
  const socket: Socket = connect({ port: Number(port), host: "127.0.0.1", localAddress: FROM });
  const timer = drip === undefined ? undefined : setInterval(() => socket.write(drip), 1_000);
  socket.on("error", () => {});
  socket.resume();
  if (first.length > 0) socket.write(first);
  socket.once("close", () => {
    closed++;
    clearInterval(timer);
    // No faster than a connection can be set up and refused, some 4,000 a second of all.
    setTimeout(() => hold({ first, ...(drip === undefined ? {} : { drip }) }), 100);
  });
}

process.once("disconnect", () => process.exit(0));
// A head has its time before it ends a connection: the count is sent when there is one.
process.on("message", () => {
  const timer = setInterval(() => {
    if (closed === 0) return;
    clearInterval(timer);
    process.send?.({ closed });
  }, 50);
});
const chosen = ATTACKS[attack];
if (chosen !== undefined) for (let at = 0; at < CONNECTIONS; at++) hold(chosen);
