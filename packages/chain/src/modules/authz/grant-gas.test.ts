import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { accountAddress, cosmosPublicKey, privateKeyFromSecret } from "@turnpike/crypto";
import { authz, createMessage, encodeMessage, packAny } from "@turnpike/proto";
import { bytesOfAddress } from "../../../test/recorded-tx.ts";
import type { Context } from "../../state/context.ts";
import { GasMeter } from "../../state/gas.ts";
import { Overlay } from "../../state/overlay.ts";
import { type GrantKey, removeGrant, setGrant } from "./grants.ts";

const bytesOfKey = (name: string): Uint8Array =>
  bytesOfAddress(accountAddress(cosmosPublicKey(privateKeyFromSecret(Buffer.from(name)))));
const granter = bytesOfKey("a");
const grantee = bytesOfKey("b");
const SEND = "/cosmos.bank.v1beta1.MsgSend";
const state = new Overlay({ get: () => undefined, range: () => [] });
const block = {
  chainId: "pocket",
  heightBlocks: 1n,
  timeNanos: 0n,
  hash: new Uint8Array(0),
  proposer: new Uint8Array(0),
};

function gasOf(run: (ctx: Context) => void): bigint {
  const gas = new GasMeter();
  run({ block, mode: "deliver", state, gas, events: [] });
  return gas.used;
}

const keyOf = (typeUrl: string): GrantKey => ({ granter, grantee, typeUrl });
const grantOf = (typeUrl: string, ends: boolean): authz.Grant =>
  createMessage(authz.GrantSchema, {
    authorization: packAny(
      authz.GenericAuthorizationSchema,
      createMessage(authz.GenericAuthorizationSchema, { msg: typeUrl }),
    ),
    ...(ends ? { expiration: { seconds: 2_000_000_000n } } : {}),
  });

// Sums of the SDK's store gas (x/authz/keeper 0.53.7): reads 1,000 + 3 a byte, writes 2,000 + 30 a byte, deletes 1,000.
const KEY = BigInt(1 + 21 + 21 + SEND.length);
const QUEUE_KEY = BigInt(1 + 29 + 21 + 21);
const QUEUE_ITEM = BigInt(2 + SEND.length);
const read = (key: bigint, value = 0n): bigint => 1000n + 3n * (key + value);
const write = (key: bigint, value = 0n): bigint => 2000n + 30n * (key + value);
const sizeOf = (grant: authz.Grant): bigint => BigInt(encodeMessage(authz.GrantSchema, grant).length);

suite("gas of grants", () => {
  test("granted and taken back without an end", () => {
    const grant = grantOf(SEND, false);
    assert.equal(
      gasOf((ctx) => setGrant(ctx, keyOf(SEND), grant)),
      read(KEY) + write(KEY, sizeOf(grant)),
    );
    assert.equal(
      gasOf((ctx) => removeGrant(ctx, keyOf(SEND))),
      read(KEY, sizeOf(grant)) + 1000n,
    );
  });

  test("granted, granted again and taken back with an end: the queue is read and written, too", () => {
    const grant = grantOf(SEND, true);
    const stored = write(KEY, sizeOf(grant));
    assert.equal(
      gasOf((ctx) => setGrant(ctx, keyOf(SEND), grant)),
      read(KEY) + read(QUEUE_KEY) + write(QUEUE_KEY, QUEUE_ITEM) + stored,
    );
    assert.equal(
      gasOf((ctx) => setGrant(ctx, keyOf(SEND), grant)),
      read(KEY, sizeOf(grant)) + stored,
    );
    assert.equal(
      gasOf((ctx) => removeGrant(ctx, keyOf(SEND))),
      read(KEY, sizeOf(grant)) + read(QUEUE_KEY, QUEUE_ITEM) + 20n + write(QUEUE_KEY) + 1000n,
    );
  });
});
