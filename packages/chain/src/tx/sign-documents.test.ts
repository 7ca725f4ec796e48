import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { suite, test } from "node:test";
import { bytesToUtf8 } from "@turnpike/base";
import { createMessage, decodeMessage, signing, tx as txs } from "@turnpike/proto";
import { readRecordedTx } from "../../test/recorded-tx.ts";
import { pocketMachine } from "../app/pocket-machine.ts";
import { signDocument } from "./sign-documents.ts";

interface Vector {
  readonly name: string;
  readonly document?: string;
  readonly fault?: string;
  readonly body?: string;
  readonly authInfo?: string;
  readonly chainId?: string;
  readonly accountNumber?: string;
  readonly sequence?: string;
}

const FILE = new URL("../../../../test/spec/chain/amino-documents.json", import.meta.url);
const vectors = (JSON.parse(readFileSync(FILE, "utf8")) as { readonly documents: readonly Vector[] }).documents;

function partsOf(vector: Vector): Required<Omit<Vector, "document" | "fault">> {
  const { name, body, authInfo, chainId = "", accountNumber = "", sequence = "" } = vector;
  if (body !== undefined && authInfo !== undefined) return { name, body, authInfo, chainId, accountNumber, sequence };
  const tx = readRecordedTx(name);
  const raw = decodeMessage(txs.TxRawSchema, Buffer.from(tx.tx_bytes, "base64"));
  assert.ok(raw.ok);
  return {
    name,
    body: Buffer.from(raw.message.bodyBytes).toString("base64"),
    authInfo: Buffer.from(raw.message.authInfoBytes).toString("base64"),
    chainId: tx.chain_id,
    accountNumber: tx.account_number,
    sequence: tx.sequence,
  };
}

function documentOf(vector: Vector): { readonly document?: string | undefined; readonly fault?: string } {
  const parts = partsOf(vector);
  const body = decodeMessage(txs.TxBodySchema, Buffer.from(parts.body, "base64"));
  const authInfo = decodeMessage(txs.AuthInfoSchema, Buffer.from(parts.authInfo, "base64"));
  assert.ok(body.ok && authInfo.ok);
  const fee = authInfo.message.fee ?? createMessage(txs.FeeSchema);
  const made = signDocument(
    { body: body.message, fee, raw: createMessage(txs.TxRawSchema) },
    signing.SignMode.LEGACY_AMINO_JSON,
    { chainId: parts.chainId, accountNumber: BigInt(parts.accountNumber), sequence: BigInt(parts.sequence) },
  );
  return made.ok ? { document: bytesToUtf8(made.bytes) } : { fault: made.fault };
}

suite("sign documents in amino JSON", () => {
  for (const vector of vectors) {
    test(`${vector.name}: ${vector.fault === undefined ? "byte for byte the SDK's" : "none, as in the SDK"}`, () => {
      const { document, fault } = documentOf(vector);
      assert.equal(document, vector.document);
      assert.equal(fault === undefined, vector.fault === undefined, fault ?? "");
    });
  }

  test("every message that the chain takes has vectors", () => {
    const taken = pocketMachine({ gasPrices: [] }).modules.flatMap(({ messages }) => Object.keys(messages ?? {}));
    const shown = new Set(vectors.map(({ name }) => name.replace(/ .*/, "")));
    assert.ok(taken.length > 40);
    assert.deepEqual(
      taken.filter((typeUrl) => !shown.has(typeUrl)),
      [],
    );
  });
});
