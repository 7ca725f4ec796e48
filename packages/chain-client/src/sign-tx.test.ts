import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { suite, test } from "node:test";
import { base64ToBytes, bytesToBase64 } from "@turnpike/base";
import { decodeMessage, encodeMessage, tx as txs } from "@turnpike/proto";
import { signTx, type TxOrder } from "./sign-tx.ts";
import { type ChainSigner, createChainSigner } from "./signer.ts";

const ROOT = new URL("../../../test/spec/recorded-chain/txs/", import.meta.url);

interface Recorded {
  readonly account_number: string;
  readonly chain_id: string;
  readonly tx_bytes: string;
}

suite("transactions are signed as the real command signs them", () => {
  for (const name of ["bank-send-plain", "unordered-send", "application-stake-app1"]) {
    test(name, () => {
      const recorded = JSON.parse(readFileSync(new URL(`${name}.json`, ROOT), "utf8")) as Recorded;
      const bytes = base64ToBytes(recorded.tx_bytes) ?? new Uint8Array(0);
      const decoded = decodeMessage(txs.TxSchema, bytes);
      assert.ok(decoded.ok);
      const { body, authInfo, signatures } = decoded.message;
      const [info] = authInfo?.signerInfos ?? [];
      assert.ok(body !== undefined && authInfo?.fee !== undefined && info?.publicKey !== undefined);
      const timeout = body.timeoutTimestamp;
      const timeoutNanos = timeout === undefined ? undefined : timeout.seconds * 1_000_000_000n + BigInt(timeout.nanos);
      const order: TxOrder = body.unordered
        ? { kind: "unordered", timeoutNanos: timeoutNanos ?? 0n }
        : { kind: "ordered", sequence: info.sequence, ...(timeoutNanos === undefined ? {} : { timeoutNanos }) };
      const signed: Uint8Array[] = [];
      const real = createChainSigner(new Uint8Array(32).fill(7));
      const signer: ChainSigner = {
        ...real,
        publicKey: info.publicKey.value.subarray(2),
        sign: (message) => {
          signed.push(message);
          return signatures[0] ?? new Uint8Array(0);
        },
      };
      const made = signTx(
        {
          messages: body.messages,
          chainId: recorded.chain_id,
          accountNumber: BigInt(recorded.account_number),
          order,
          gasLimit: authInfo.fee.gasLimit,
          fee: authInfo.fee.amount.map(({ denom, amount }) => ({ denom, amount: BigInt(amount) })),
          memo: body.memo,
          timeoutHeight: body.timeoutHeight,
        },
        signer,
      );
      assert.equal(bytesToBase64(made), recorded.tx_bytes);
      assert.equal(signed.length, 1);
      assert.equal(bytesToBase64(encodeMessage(txs.TxSchema, decoded.message)), recorded.tx_bytes);
    });
  }
});
