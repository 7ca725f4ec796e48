import assert from "node:assert/strict";
import { test } from "node:test";
import type { ServiceId } from "@turnpike/base";
import { virtualClock } from "@turnpike/testkit";
import { service, standInPayment, standInRelay } from "../../test/stand-ins.ts";
import { noSubscriptions } from "../generation.ts";
import { Readiness } from "./readiness.ts";

const eth = service("eth");
const stranger = service("my-api", { families: [], paid: false, isUnlisted: true });

function readiness(lacking: Readonly<Record<string, readonly string[]>>) {
  const relay = standInRelay([]);
  for (const [id, missing] of Object.entries(lacking)) relay.lacking.set(id, [...missing]);
  const services = new Map([eth, stranger].map((one) => [one.id, one]));
  return new Readiness(
    { checkTimeoutMs: 60_000, keepMs: 0 },
    { services, payment: standInPayment(), relay, subscriptions: noSubscriptions, checks: [], clock: virtualClock() },
  );
}

test("a service that a stranger registered does not make a gateway ready whose own have no supplier", async () => {
  const down = readiness({ eth: ["a healthy supplier"], "my-api": [] });
  assert.deepEqual(await down.gateway(), ["service"]);
  assert.equal(down.serves("my-api" as ServiceId), true);
  assert.deepEqual(await readiness({ eth: [], "my-api": ["a session with suppliers"] }).gateway(), []);
});

test("where there are no others, they count", async () => {
  assert.deepEqual(await readiness({ "my-api": [] }).gateway(), []);
  assert.deepEqual(await readiness({ "my-api": ["a session with suppliers"] }).gateway(), ["service"]);
});
