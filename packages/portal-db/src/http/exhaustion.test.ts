import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { after, before, suite, test } from "node:test";
import { noMetrics, silentLog, systemClock } from "@turnpike/base";
import pg from "pg";
import { startTestServer, type TestServer } from "../database/test-support.ts";
import { type PortalDb, type PortalDbOptions, startPortalDb } from "../portal-db.ts";
import { mintToken } from "../tokens/mint.ts";

const KEY = { kid: undefined, algorithm: "HS256", material: "k".repeat(16) + "e".repeat(16) } as const;

interface Rig extends AsyncDisposable {
  readonly portal: PortalDb;
  readonly token: string;
  readonly owner: pg.Client;
  /** The status of a read; 0 when there is none in time. */
  status(target: string): Promise<number>;
  /** A connection that has sent this much of a request. */
  open(head: string): Promise<Socket>;
}

suite("what callers cannot use up", { timeout: 60_000 }, () => {
  let server: TestServer;
  before(async () => {
    server = await startTestServer();
  });
  after(() => server[Symbol.asyncDispose]());

  const start = async (over: Partial<PortalDbOptions> = {}): Promise<Rig> => {
    await using stack = new AsyncDisposableStack();
    const { owner: ownerUrl, url } = await server.database();
    const portal = stack.use(
      await startPortalDb(
        {
          host: "127.0.0.1",
          port: 0,
          databaseUrl: url,
          poolSize: 4,
          maxRows: 1_000,
          maxBodyBytes: 1_048_576,
          maxHeaderBytes: 65_536,
          requestTimeoutMs: 10_000,
          statementTimeoutMs: { reader: 5_000, admin: 5_000 },
          lockTimeoutMs: 4_000,
          connectTimeoutMs: 1_000,
          maxConnections: 100,
          maxInFlight: 2,
          corsOrigins: [],
          perTokenPerSecond: 10_000,
          refusedPerAddressPerSecond: 10_000,
          revealCreatedHash: false,
          keys: [KEY],
          audience: "postgrest",
          maxLifetimeSeconds: 86_400,
          ...over,
        },
        { clock: systemClock, log: silentLog, metrics: noMetrics },
      ),
    );
    const { token } = await mintToken(
      { role: "admin", accountId: undefined, lifetimeSeconds: 600, audience: "postgrest", key: KEY },
      { clock: systemClock },
    );
    const owner = new pg.Client({ connectionString: ownerUrl });
    await owner.connect();
    stack.defer(() => owner.end());
    const owned = stack.move();
    return {
      portal,
      token,
      owner,
      async status(target) {
        const answer = await fetch(`${portal.url}${target}`, {
          headers: { authorization: `Bearer ${token}` },
          signal: AbortSignal.timeout(8_000),
        }).catch(() => undefined);
        await answer?.text();
        return answer?.status ?? 0;
      },
      async open(head) {
        const socket = connect(portal.port, "127.0.0.1");
        socket.on("error", () => undefined);
        await once(socket, "connect");
        socket.write(head.replace("TOKEN", token));
        return socket;
      },
      [Symbol.asyncDispose]: () => owned.disposeAsync(),
    };
  };

  const until = async (condition: () => Promise<boolean>): Promise<void> => {
    while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 10));
  };
  const waiting = async ({ owner }: Rig, count: number): Promise<boolean> => {
    const found = await owner.query("select from pg_stat_activity where usename = 'portal_authenticator' and wait_event_type = 'Lock'");
    return found.rows.length === count;
  };

  test("clients that go away while their statement runs leave room for others", async () => {
    await using rig = await start();
    await rig.owner.query("begin; lock table portal.networks in access exclusive mode");
    const sockets = [
      await rig.open("GET /networks HTTP/1.1\r\nhost: x\r\nauthorization: Bearer TOKEN\r\n\r\n"),
      await rig.open("GET /networks HTTP/1.1\r\nhost: x\r\nauthorization: Bearer TOKEN\r\n\r\n"),
    ];
    await until(() => waiting(rig, 2));
    for (const socket of sockets) socket.destroy();
    await until(() => waiting(rig, 0));
    await rig.owner.query("rollback");
    await until(async () => (await rig.status("/networks")) !== 503);
    assert.equal(await rig.status("/networks"), 200);
  });

  test("clients that go away in the midst of a body leave room for others", async () => {
    await using rig = await start();
    const head =
      "POST /organizations HTTP/1.1\r\nhost: x\r\nauthorization: Bearer TOKEN\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{";
    for (let at = 0; at < 3; at++) {
      const socket = await rig.open(head);
      await new Promise((resolve) => setTimeout(resolve, 100));
      socket.destroy();
    }
    await until(async () => (await rig.status("/networks")) !== 503);
    assert.equal(await rig.status("/networks"), 200);
  });

  test("a list of revocations that cannot be read holds nobody up for longer than a statement", async () => {
    await using rig = await start({ poolSize: 1, statementTimeoutMs: { reader: 300, admin: 300 } });
    await rig.owner.query("begin; lock table portal_private.revoked_tokens in access exclusive mode");
    assert.equal(await rig.status("/networks"), 503);
    await rig.owner.query("rollback");
    await until(async () => (await rig.status("/networks")) === 200);
  });
});
