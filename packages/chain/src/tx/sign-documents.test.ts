import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { suite, test } from "node:test";
import { bytesToUtf8 } from "@turnpike/base";
import { AnySchema, createMessage, decodeMessage, signing, tx as txs } from "@turnpike/proto";
import { readRecordedTx } from "@turnpike/testkit/fixtures";
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

  const FACTS = { chainId: "pocket", accountNumber: 7n, sequence: 3n };
  const raw = createMessage(txs.TxRawSchema, { bodyBytes: new Uint8Array([1]), authInfoBytes: new Uint8Array([2, 3]) });
  const signed = (
    body: Parameters<typeof createMessage<typeof txs.TxBodySchema>>[1],
    mode: signing.SignMode = signing.SignMode.LEGACY_AMINO_JSON,
  ) =>
    signDocument({ raw, body: createMessage(txs.TxBodySchema, body), fee: createMessage(txs.FeeSchema) }, mode, FACTS);

  test("attack: parts that the document does not hold could be added to a signed transaction: they are refused", () => {
    const any = createMessage(AnySchema, { typeUrl: "/x", value: new Uint8Array(0) });
    assert.ok(signed({ memo: "m" }).ok);
    for (const body of [{ extensionOptions: [any] }, { nonCriticalExtensionOptions: [any] }]) {
      const made = signed(body);
      assert.ok(!made.ok && made.fault.includes("extension options"));
    }
    const body = createMessage(txs.TxBodySchema);
    body.$unknown = [{ no: 2_047, wireType: 2, data: new Uint8Array([0]) }];
    const mode = signing.SignMode.LEGACY_AMINO_JSON;
    const made = signDocument({ raw, body, fee: createMessage(txs.FeeSchema) }, mode, FACTS);
    assert.ok(!made.ok && made.fault.includes("TagNum: 2047"));
  });

  test("there is none for a time-out that JSON cannot express", () => {
    const timeoutTimestamp = { seconds: 1n << 62n, nanos: 0 };
    assert.deepEqual(signed({ timeoutTimestamp }), { ok: false, fault: "time out of range" });
  });

  test("other modes: the bytes as sent with chain and account, and none for an unknown mode", () => {
    const direct = signed({}, signing.SignMode.DIRECT);
    assert.ok(direct.ok);
    // SignDoc: body_bytes 1, auth_info_bytes 2, chain_id 3, account_number 4.
    assert.equal(Buffer.from(direct.bytes).toString("hex"), "0a0101120202031a06706f636b65742007");
    const fault = "unsupported sign mode SIGN_MODE_TEXTUAL";
    assert.deepEqual(signed({}, signing.SignMode.TEXTUAL), { ok: false, fault });
  });

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
