import { rm } from "node:fs/promises";
import { createConnection, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { AppError, type Clock, isRecord, readPidFile, writePidFile } from "@turnpike/base";

export interface OperatorLockOptions {
  readonly operatorAddress: string;
  /** State folder of this process, named to another one that wants the key. */
  readonly folder: string;
  /** The file that holds the folder's own lock. */
  readonly lockFile: string;
  /** Also keep processes with other state folders on this machine from the key; true by default. */
  readonly isMachineWide?: boolean;
}

interface Holder {
  readonly pid: number;
  /** RFC 3339. */
  readonly startedAt: string;
  readonly folder: string;
}

const MOST_HOLDER_BYTES = 8_192;
const ASK_MS = 2_000;

function held(operatorAddress: string, holder: Partial<Holder> | undefined): AppError {
  const { pid, startedAt, folder } = holder ?? {};
  const process = pid === undefined ? "another process" : `process ${pid}`;
  const since = startedAt === undefined ? "" : `, started ${startedAt}`;
  const place = folder === undefined ? "" : `, with the state folder ${folder}`;
  const stop = pid === undefined ? "" : ` Stop it first (\`kill ${pid}\`).`;
  return new AppError("OPERATOR_KEY_HELD", {
    message: `The operator key ${operatorAddress} is held by ${process}${since}${place}.${stop}`,
    detail: { operatorAddress, pid, startedAt, folder },
  });
}

/**
 * A file that is there while its process is: one of a process that has died, or whose number another one has by now, is
 * replaced.
 */
async function lockFile(file: string, refuse: (pid: number | undefined) => AppError): Promise<AsyncDisposable> {
  for (let attempt = 1; ; attempt++) {
    try {
      await writePidFile(file, process.pid, "wx");
      return {
        async [Symbol.asyncDispose]() {
          if ((await readPidFile(file))?.pid === process.pid) await rm(file, { force: true });
        },
      };
    } catch (error) {
      if (!isRecord(error) || error.code !== "EEXIST") throw error;
      const holder = await readPidFile(file);
      if (holder !== undefined || attempt === 3) throw refuse(holder?.pid);
      await rm(file, { force: true });
    }
  }
}

function parseHolder(text: string): Holder | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isRecord(value)) return undefined;
  const { pid, startedAt, folder } = value;
  return typeof pid === "number" && typeof startedAt === "string" && typeof folder === "string"
    ? { pid, startedAt, folder }
    : undefined;
}

/** Asks the process that listens who it is. */
function askHolder(path: string): Promise<Holder | undefined> {
  return new Promise((found) => {
    const socket = createConnection(path);
    let text = "";
    socket.setTimeout(ASK_MS, () => socket.destroy());
    socket.setEncoding("utf8");
    socket.on("data", (part) => {
      text += String(part);
      if (text.length > MOST_HOLDER_BYTES) socket.destroy();
    });
    socket.on("error", () => {});
    socket.on("close", () => found(parseHolder(text)));
  });
}

function listen(server: Server, path: string): Promise<boolean> {
  return new Promise((done, fail) => {
    server.once("error", (error: NodeJS.ErrnoException) => (error.code === "EADDRINUSE" ? done(false) : fail(error)));
    server.listen(path, () => done(true));
  });
}

/** An abstract socket of Linux: it has no file, and is gone with its process however that ends. */
async function lockSocket(operatorAddress: string, own: Holder): Promise<AsyncDisposable> {
  const path = `\0turnpike-operator-${operatorAddress}`;
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.end(JSON.stringify(own));
  });
  if (!(await listen(server, path))) throw held(operatorAddress, await askHolder(path));
  server.unref();
  return {
    [Symbol.asyncDispose]: () => new Promise((done) => void server.close(() => done())),
  };
}

/**
 * Holds an operator's key for this process: two that claim for one key would replace each other's claims, and pay for it. The
 * lock is of the state folder and of the machine; a process on another machine, or in a container with a network of its own,
 * is not seen.
 * @throws AppError OPERATOR_KEY_HELD, which names the holder
 */
export async function lockOperator(
  { operatorAddress, folder, lockFile: file, isMachineWide = true }: OperatorLockOptions,
  { clock }: { readonly clock: Clock },
): Promise<AsyncDisposable> {
  await using stack = new AsyncDisposableStack();
  const place = resolve(folder);
  // Before the file: of two that find the file of a dead process only one gets as far as replacing it.
  if (isMachineWide && process.platform === "linux") {
    const startedAt = new Date(clock.nowMs() - process.uptime() * 1_000).toISOString();
    stack.use(await lockSocket(operatorAddress, { pid: process.pid, startedAt, folder: place }));
  } else if (isMachineWide) {
    const shared = join(tmpdir(), `turnpike-operator-${operatorAddress}.lock`);
    stack.use(await lockFile(shared, (pid) => held(operatorAddress, pid === undefined ? {} : { pid })));
  }
  stack.use(
    await lockFile(file, (pid) => held(operatorAddress, { ...(pid === undefined ? {} : { pid }), folder: place })),
  );
  const owned = stack.move();
  return { [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
