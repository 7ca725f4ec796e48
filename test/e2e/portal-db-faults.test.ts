import assert from "node:assert/strict";
import { connect } from "node:net";
import { test } from "node:test";
import { startPortalRig } from "./portal-rig.ts";

test("a database that refuses is 503, and served again once it does not; nothing of it is told", {
  timeout: 30_000,
}, async () => {
  await using rig = await startPortalRig();
  const token = await rig.token("reader");
  assert.equal((await rig.call("/networks", { token })).status, 200);
  const [found] = await rig.sql<{ name: string }>("select current_database() as name");
  const name = found?.name ?? "";
  await rig.sql(`alter database ${name} connection limit 0`);
  await rig.sql(
    "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'portal_authenticator' and datname = $1",
    [name],
  );
  let lost = await rig.call("/networks", { token });
  // a connection whose end is not heard of yet may answer once
  for (let at = 0; lost.status === 200 && at < 10; at++) lost = await rig.call("/networks", { token });
  assert.equal(lost.status, 503, lost.text);
  assert.match(lost.headers.get("retry-after") ?? "", /^\d+$/);
  assert.doesNotMatch(lost.text, /127\.0\.0\.1|5432|authenticator|terminat/);
  await rig.sql(`alter database ${name} connection limit -1`);
  assert.equal((await rig.call("/networks", { token })).status, 200);
});

test("calls under way end before it stops, and no new one begins", { timeout: 30_000 }, async () => {
  const rig = await startPortalRig();
  await rig.sql("begin");
  await rig.sql("lock table networks in access exclusive mode");
  const waiting = rig.call("/networks", { as: "admin" });
  const isWaiting =
    "select 1 from pg_stat_activity where usename = 'portal_authenticator' and wait_event_type = 'Lock'";
  while ((await rig.sql(isWaiting)).length === 0);
  const stopped = rig.portal[Symbol.asyncDispose]();
  await rig.sql("commit");
  assert.equal((await waiting).status, 200);
  await stopped;
  await assert.rejects(rig.call("/networks"));
  await rig[Symbol.asyncDispose]();
});

test("a client that goes away ends its statement in the database", { timeout: 30_000 }, async () => {
  await using rig = await startPortalRig();
  await rig.sql("begin");
  await rig.sql("lock table networks in access exclusive mode");
  const socket = connect(rig.portal.port, "127.0.0.1");
  socket.write(`GET /networks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${await rig.token("reader")}\r\n\r\n`);
  const waiting = "select 1 from pg_stat_activity where usename = 'portal_authenticator' and wait_event_type = 'Lock'";
  while ((await rig.sql(waiting)).length === 0);
  socket.destroy();
  while ((await rig.sql(waiting)).length > 0);
  await rig.sql("commit");
  assert.equal((await rig.call("/networks")).status, 200);
});

test("a lock that others hold is waited for, but not for long", { timeout: 30_000 }, async () => {
  await using rig = await startPortalRig({ lockTimeoutMs: 50 });
  await rig.sql("begin");
  await rig.sql("lock table networks in access exclusive mode");
  const held = await rig.call("/networks");
  assert.deepEqual([held.status, held.body.code], [500, "55P03"]);
  await rig.sql("commit");
});
