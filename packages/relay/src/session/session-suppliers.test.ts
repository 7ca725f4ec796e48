import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { type Log, noMetrics, type ServiceId, silentLog, systemClock } from "@turnpike/base";
import { SigningThreads } from "@turnpike/crypto";
import { relayEngineDefaults } from "../create-relay-engine.ts";
import type { GatewaySession } from "./gateway-session.ts";
import type { SessionListener, SessionSource } from "./session-source.ts";
import { SessionSuppliers } from "./session-suppliers.ts";

const SERVICE = "eth" as ServiceId;

/** The session of some suppliers; of a session nothing else is used here. */
function sessionOf(sessionId: string, urls: readonly string[]): GatewaySession {
  return {
    header: {
      applicationAddress: "app",
      serviceId: SERVICE,
      sessionId,
      sessionStartBlockHeight: 1n,
      sessionEndBlockHeight: 20n,
    },
    suppliers: urls.map((url, at) => ({
      operatorAddress: `op${at}`,
      publicKey: new Uint8Array(33),
      urls: new Map([["json_rpc", url]]),
    })),
  } as unknown as GatewaySession;
}

suite("suppliers of sessions", () => {
  test("at private addresses are not asked, and logged once each, unless the operator allows them", async () => {
    const urls = [
      "https://127.0.0.1:8545/",
      "http://169.254.169.254/latest/meta-data/",
      "http://0x7f.1/",
      "http://[::ffff:10.0.0.1]:80/",
      "https://93.184.215.14/",
      "https://supplier.example/",
    ];
    for (const allowPrivateSuppliers of [undefined, true]) {
      let sessions = [sessionOf("s1", urls)];
      const listeners = new Set<SessionListener>();
      const source = {
        sessionsOf: () => sessions,
        hasApplication: () => true,
        isCurrent: () => true,
        onChange(listener: SessionListener) {
          listeners.add(listener);
          return { [Symbol.dispose]: () => void listeners.delete(listener) };
        },
      } as unknown as SessionSource;
      const warned: unknown[] = [];
      const log: Log = { ...silentLog, warn: ({ operator }) => void warned.push(operator) };
      await using threads = new SigningThreads({ threads: 0 });
      const allowed = allowPrivateSuppliers === undefined ? {} : { allowPrivateSuppliers };
      await using suppliers = new SessionSuppliers(
        { ...relayEngineDefaults, extraRelaysPercent: 10, ...allowed },
        { source, threads, clock: systemClock, metrics: noMetrics, log },
      );
      const set = suppliers.of([SERVICE]).get(SERVICE) ?? assert.fail();
      const operators = () => set.endpoints().map(({ operator }) => operator);
      const all = urls.map((_, at) => `op${at}`);
      assert.deepEqual(operators(), allowPrivateSuppliers === true ? all : ["op4", "op5"]);
      sessions = [sessionOf("s2", urls)];
      for (const listener of listeners) listener(SERVICE, []);
      assert.deepEqual(warned, allowPrivateSuppliers === true ? [] : ["op0", "op1", "op2", "op3"]);
    }
  });
});
