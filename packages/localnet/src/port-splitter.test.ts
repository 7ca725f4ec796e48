import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer as createHttp, get } from "node:http";
import { connect as connectHttp2, createServer as createHttp2 } from "node:http2";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { suite, test } from "node:test";
import { silentLog } from "@turnpike/base";
import { type PortSplitterOptions, startPortSplitter } from "./port-splitter.ts";
import { freePort } from "./ports.ts";

interface Listening extends AsyncDisposable {
  readonly port: number;
}

async function listening(server: Server): Promise<Listening> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      const closed = once(server, "close");
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

const http1 = (): Promise<Listening> => listening(createHttp((req, res) => void req.pipe(res)));
const http2 = (): Promise<Listening> => listening(createHttp2((req, res) => void req.pipe(res)) as unknown as Server);

const start = (more: Pick<PortSplitterOptions, "http1" | "http2"> & Partial<PortSplitterOptions>) =>
  startPortSplitter({ host: "127.0.0.1", port: 0, ...more }, { log: silentLog });

function ask1(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    get({ host: "127.0.0.1", port, agent: false }, (res) => {
      res.resume();
      res.on("end", () => resolve(`${res.httpVersion} ${res.statusCode}`));
    }).on("error", reject);
  });
}

async function ask2(port: number, body: Buffer): Promise<Buffer> {
  const session = connectHttp2(`http://127.0.0.1:${port}`);
  const failed = once(session, "error").then(([error]) => Promise.reject(error));
  const stream = session.request({ ":method": "POST" });
  stream.end(body);
  const parts: Buffer[] = [];
  stream.on("data", (part: Buffer) => parts.push(part));
  stream.on("error", () => {});
  try {
    await Promise.race([once(stream, "close"), failed]);
    return Buffer.concat(parts);
  } finally {
    failed.catch(() => {});
    session.close();
  }
}

/** Sends texts one by one, and gives what comes back until the connection is closed. */
async function talk(port: number, texts: readonly string[]): Promise<string> {
  const socket = connect({ host: "127.0.0.1", port, noDelay: true });
  let back = "";
  socket.on("data", (part: Buffer) => {
    back += part.toString("latin1");
  });
  socket.on("error", () => {});
  const closed = once(socket, "close");
  await once(socket, "connect");
  for (const text of texts) await new Promise<void>((done) => socket.write(text, () => setImmediate(done)));
  await closed;
  return back;
}

suite("one port for two servers", () => {
  test("HTTP/2 and HTTP/1.1 clients each reach their server, large bodies whole", async () => {
    await using one = await http1();
    await using two = await http2();
    await using splitter = await start({ http1: one, http2: two });
    const body = Buffer.alloc(5_000_000, 7);
    const [first, second, echoed] = await Promise.all([
      ask1(splitter.port),
      ask1(splitter.port),
      ask2(splitter.port, body),
    ]);
    assert.deepEqual([first, second], ["1.1 200", "1.1 200"]);
    assert.equal(Buffer.compare(echoed, body), 0);
  });

  test("the first bytes may come one at a time, and words that begin like the preface are HTTP/1.1", async () => {
    await using one = await http1();
    await using two = await http2();
    await using splitter = await start({ http1: one, http2: two });
    const rest = " / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    for (const verb of ["POST", "PUT", "PATCH", "PROPFIND"]) {
      assert.match(await talk(splitter.port, [...verb.split(""), rest]), /^HTTP\/1\.1 200 /, verb);
    }
    assert.match(await talk(splitter.port, ["\u0000junk\r\n\r\n"]), /^HTTP\/1\.1 400 /);
  });

  test("one server being down leaves the other serving", async () => {
    await using one = await http1();
    const dead = await freePort();
    await using splitter = await start({ http1: one, http2: { port: dead } });
    const nothing = await ask2(splitter.port, Buffer.from("x")).catch(() => Buffer.alloc(0));
    assert.equal(nothing.length, 0);
    assert.equal(await ask1(splitter.port), "1.1 200");
    await using two = await http2();
    await using other = await start({ http1: { port: dead }, http2: two });
    assert.equal(await talk(other.port, ["GET / HTTP/1.1\r\nHost: x\r\n\r\n"]), "");
    assert.equal((await ask2(other.port, Buffer.from("x"))).toString(), "x");
  });

  test("a connection that does not say what it speaks is closed in time", async () => {
    await using one = await http1();
    await using splitter = await start({ http1: one, http2: one, firstBytesTimeoutMs: 20 });
    assert.equal(await talk(splitter.port, []), "");
    assert.equal(await talk(splitter.port, ["PRI * HTTP"]), "");
  });

  test("whoever does not read holds back whoever writes", async () => {
    const total = 134_217_728;
    const chunk = Buffer.alloc(65_536);
    let written = 0;
    const server = createServer((socket) => {
      const more = (): void => {
        while (written < total && socket.writable) {
          written += chunk.length;
          if (!socket.write(chunk)) return;
        }
        socket.end();
      };
      socket.once("data", (first: Buffer) => {
        if (first.toString().startsWith("echo")) {
          socket.end(first);
          return;
        }
        socket.on("drain", more);
        more();
      });
    });
    await using source = await listening(server);
    await using splitter = await start({ http1: source, http2: source });
    const slow = connect(splitter.port, "127.0.0.1");
    slow.pause();
    slow.write("flood");
    for (let i = 0; i < 50; i++) assert.equal(await talk(splitter.port, ["echo"]), "echo");
    assert.ok(written > 0 && written < total / 2, `${written} bytes were taken`);
    let received = 0;
    slow.on("data", (part: Buffer) => {
      received += part.length;
    });
    slow.resume();
    await once(slow, "end");
    assert.equal(received, total);
  });

  test("connections are counted and bounded, and end with the splitter", async () => {
    await using one = await http1();
    const splitter = await start({ http1: one, http2: one, maxConnections: 2 });
    const sockets = [0, 1, 2].map(() => connect(splitter.port, "127.0.0.1").on("error", () => {}));
    await Promise.race(sockets.map((socket) => once(socket, "close")));
    assert.equal(splitter.connections(), 2);
    const ended = Promise.all(sockets.filter(({ closed }) => !closed).map((socket) => once(socket, "close")));
    await splitter[Symbol.asyncDispose]();
    await ended;
    assert.equal(splitter.connections(), 0);
    await assert.rejects(start({ http1: one, http2: one, port: one.port }), { code: "PORT_IN_USE" });
  });
});
