import assert from "node:assert/strict";
import { connect } from "node:net";
import { after, before, suite, test } from "node:test";
import { noMetrics, silentLog, systemClock } from "@turnpike/base";
import { startPortalDb } from "@turnpike/portal-db";
import { eventually } from "@turnpike/testkit";
import { type PortalRig, startPortalRig } from "./portal-rig.ts";

/** Whether a statement of the API waits for a lock, in this database of a server that others may use. */
async function isWaiting(rig: PortalRig): Promise<boolean> {
  const waiting = await rig.superuserSql(
    `select 1 from pg_stat_activity
     where usename = 'portal_authenticator' and datname = current_database() and wait_event_type = 'Lock'`,
  );
  return waiting.length > 0;
}

suite("the management data API on a database with faults", () => {
  const modules = { clock: systemClock, log: silentLog, metrics: noMetrics };
  let rig: PortalRig;
  before(async () => {
    rig = await startPortalRig();
  });
  after(() => rig?.[Symbol.asyncDispose]());

  test("a database that refuses is 503, and served again once it does not; the answer holds no detail of it", async () => {
    const token = await rig.token("reader");
    assert.equal((await rig.call("/networks", { token })).status, 200);
    const [found] = await rig.sql<{ name: string }>("select current_database() as name");
    const name = found?.name ?? "";
    await rig.sql(`alter database ${name} connection limit 0`);
    await rig.superuserSql(
      "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'portal_authenticator' and datname = $1",
      [name],
    );
    // a connection whose end is not heard of yet may answer once
    const lost = await eventually("an error", async () => {
      const answer = await rig.call("/networks", { token });
      return answer.status === 200 ? undefined : answer;
    });
    assert.equal(lost.status, 503, lost.text);
    assert.match(lost.headers.get("retry-after") ?? "", /^\d+$/);
    assert.doesNotMatch(lost.text, /127\.0\.0\.1|5432|authenticator|terminat/);
    await rig.sql(`alter database ${name} connection limit -1`);
    assert.equal((await rig.call("/networks", { token })).status, 200);
  });

  test("calls under way end before it stops, and no new one begins", async () => {
    await using portal = await startPortalDb(rig.options, modules);
    await rig.sql("begin");
    await rig.sql("lock table networks in access exclusive mode");
    const waiting = rig.call("/networks", { as: "admin", at: portal.url });
    await eventually("the call waits for the lock", () => isWaiting(rig));
    const stopped = portal[Symbol.asyncDispose]();
    await rig.sql("commit");
    assert.equal((await waiting).status, 200);
    await stopped;
    await assert.rejects(rig.call("/networks", { at: portal.url }));
  });

  test("a client that goes away ends its statement in the database", async () => {
    // Times of its own end no statement here.
    const statementTimeoutMs = { reader: 600_000, admin: 600_000 };
    const times = { lockTimeoutMs: 600_000, requestTimeoutMs: 600_000, statementTimeoutMs };
    await using portal = await startPortalDb({ ...rig.options, ...times }, modules);
    await rig.sql("begin");
    try {
      await rig.sql("lock table networks in access exclusive mode");
      const socket = connect(portal.port, "127.0.0.1");
      socket.write(
        `GET /networks HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${await rig.token("reader")}\r\n\r\n`,
      );
      await eventually("the call waits for the lock", () => isWaiting(rig));
      socket.destroy();
      await eventually("its statement has ended", async () => !(await isWaiting(rig)));
    } finally {
      await rig.sql("commit");
    }
    assert.equal((await rig.call("/networks")).status, 200);
  });

  test("a lock that others hold is waited for, but not for long", async () => {
    await using portal = await startPortalDb({ ...rig.options, lockTimeoutMs: 50 }, modules);
    await rig.sql("begin");
    await rig.sql("lock table networks in access exclusive mode");
    const held = await rig.call("/networks", { at: portal.url });
    assert.deepEqual([held.status, held.body.code], [500, "55P03"]);
    await rig.sql("commit");
  });
});
