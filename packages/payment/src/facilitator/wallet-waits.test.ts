import assert from "node:assert/strict";
import { test } from "node:test";
import { bytesToHex, silentLog, systemClock, utf8ToBytes } from "@turnpike/base";
import { sha256 } from "@turnpike/crypto";
import { eventually } from "@turnpike/testkit";
import {
  type FacilitatorBend,
  MERCHANTS,
  NETWORK,
  newNonce,
  newPayer,
  openFacilitator,
  postTo,
  type Reply,
  type Sender,
  settleBody,
} from "../../test/facilitator-fixtures.ts";
import { testLedger } from "../../test/ledger-fixtures.ts";
import { WalletPlaces } from "../engine/wallet-places.ts";
import { createFacilitatorServer } from "./server.ts";

const ledger = testLedger({ poolSize: 8 });

const KEY = "the-key-of-a-seller";
const SELLER = {
  name: "shop",
  keySha256: bytesToHex(sha256(utf8ToBytes(KEY))),
  receivers: [],
  settlementsPerDay: 1_000,
  settlementsPerPayer: 1_000,
};
const KEYLESS = { settlementsPerDay: 10_000, settlementsPerPayer: 10_000, settlementsPerReceiver: 10_000 };

/** A facilitator whose wallets have their places in the ledger, and waits that end only with the bench. */
async function open(bend: FacilitatorBend = {}) {
  const bench = openFacilitator(ledger(), {
    sellers: { ownReceivers: [], sellers: [SELLER], keyless: KEYLESS },
    ...bend,
  });
  const stopping = new AbortController();
  const rpc = {
    host: "node",
    // Each account has code of its own.
    batch: async (calls: readonly { readonly params: readonly unknown[] }[]) =>
      calls.map(({ params }) => ({ ok: true as const, result: String(params[0]).toLowerCase() })),
  };
  const places = new WalletPlaces(
    { network: NETWORK, chainTimeoutMs: 10_000, maxWaitMs: 600_000 },
    { rpc, ledger: ledger(), clock: systemClock, log: silentLog, signal: stopping.signal },
  );
  bench.settler.reserve = (...args) => places.reserve(...args);
  const opts = { host: "127.0.0.1", port: 0, trustedProxies: [], maxBodyBytes: 65_536, maxConcurrentRequests: 256 };
  const listening = await createFacilitatorServer(opts, { facilitator: bench.facilitator, log: silentLog });
  const post = (body: string, sender: Sender = {}): Promise<Reply> => postTo(listening.url, "settle", body, sender);
  return {
    bench,
    post,
    async [Symbol.asyncDispose]() {
      stopping.abort();
      await listening[Symbol.asyncDispose]();
    },
  };
}

test("attack: four clients with 64 payments each of one wallet hold few places, and spend their tokens on the others", async () => {
  await using to = await open({ unpaidPerClient: () => ({ burst: 32, perSecond: 0.001 }) });
  const clients = ["127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"].map((localAddress) => {
    const from = newPayer();
    to.bench.wallets.add(from);
    return { localAddress, from };
  });
  const blocked = Promise.withResolvers<void>();
  to.bench.settler.instead = () => blocked.promise;
  const answers: string[] = [];
  let checks = 0;
  to.bench.onCheck = async () => void checks++;
  const attack = (): Promise<void>[] =>
    clients.flatMap(({ localAddress, from }) =>
      Array.from({ length: 64 }, async () => {
        const { status, said } = await to.post(settleBody(from, newNonce(), MERCHANTS[0]), { localAddress });
        answers.push(`${status} ${said}`);
      }),
    );
  const attacks = attack();
  await eventually("all but the places and as many that wait twice are refused", () => answers.length >= 4 * (64 - 3));
  assert.equal(answers.length, 4 * (64 - 3));
  assert.deepEqual([...new Set(answers)], ["429 PAYMENT_RATE_LIMITED"]);
  assert.ok(checks <= 4 * 32, "a client without tokens is refused before its payment is looked at");
  const checksBefore = checks;
  attacks.push(...attack());
  await eventually("the others are refused again", () => answers.length >= 4 * (128 - 3));
  assert.equal(checks, checksBefore, "their tokens are spent");
  to.bench.settler.instead = undefined;
  const honest = await to.post(settleBody(newPayer(), newNonce(), MERCHANTS[1]), { authorization: `Bearer ${KEY}` });
  assert.equal(honest.said, "good");
  const keyless = await to.post(settleBody(newPayer(), newNonce(), MERCHANTS[1]), { localAddress: "127.0.0.6" });
  assert.equal(keyless.said, "good");
  blocked.resolve();
  await to[Symbol.asyncDispose]();
  await Promise.all(attacks);
});

test("attack: clients without a seller's key, however many, leave half of the places to sellers with one", async () => {
  await using to = await open();
  const blocked = Promise.withResolvers<void>();
  let begun = 0;
  let refused = 0;
  to.bench.settler.instead = async () => {
    begun++;
    await blocked.promise;
  };
  const attacks = Array.from({ length: 10 }, (_, at) => `127.0.1.${at + 1}`).flatMap((localAddress) =>
    Array.from({ length: 64 }, async () => {
      const { status } = await to.post(settleBody(newPayer(), newNonce(), MERCHANTS[0]), { localAddress });
      if (status === 429 || status === 503) refused++;
    }),
  );
  await eventually("each is begun or refused", () => begun + refused >= 640);
  assert.equal(begun, 128);
  to.bench.settler.instead = undefined;
  const honest = await Promise.all(
    Array.from({ length: 40 }, () =>
      to.post(settleBody(newPayer(), newNonce(), MERCHANTS[1]), { authorization: `Bearer ${KEY}` }),
    ),
  );
  assert.ok(honest.every(({ said }) => said === "good"));
  blocked.resolve();
  await Promise.all(attacks);
});
