import { connect } from "node:net";

/** A connection on which nothing happens for so long is taken for one that would stay for ever. */
const HUNG_MS = 30_000;

/** What came back on one connection, up to its end. */
export interface Outcome {
  /** All bytes, without `Date` fields. */
  readonly text: string;
  /** True when the server half-closed; false after a reset. */
  readonly isEnded: boolean;
}

/** Sends these pieces, each in a packet of its own as far as may be, half-closes, and reads until the server ends. */
export function exchange(port: number, pieces: readonly Buffer[]): Promise<Outcome> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true, noDelay: true });
    const parts: Buffer[] = [];
    let isEnded = false;
    socket.on("data", (part: Buffer) => parts.push(part));
    socket.on("end", () => {
      isEnded = true;
    });
    socket.on("error", () => {});
    socket.setTimeout(HUNG_MS, () => {
      parts.push(Buffer.from(" and then nothing"));
      socket.destroy();
    });
    socket.on("close", () => {
      const text = Buffer.concat(parts).toString("latin1");
      resolve({ text: text.replace(/Date: [^\r]*\r\n/g, ""), isEnded });
    });
    let at = 0;
    const send = (): void => {
      if (!socket.writable) return;
      const piece = pieces[at++];
      if (piece === undefined) {
        socket.end();
        return;
      }
      socket.write(piece);
      setImmediate(send);
    };
    socket.once("connect", send);
  });
}

/** Cuts bytes at these places, which ascend. */
export function cutAt(bytes: Buffer, places: readonly number[]): readonly Buffer[] {
  return [0, ...places].map((from, i) => bytes.subarray(from, places[i] ?? bytes.length));
}
