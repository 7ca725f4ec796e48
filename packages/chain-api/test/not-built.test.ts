import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { silentLog } from "@turnpike/base";
import { decodeMessage, encodeMessage, tx as txs } from "@turnpike/proto";
import { readRecordedTx } from "@turnpike/testkit/fixtures";
import { ChainApi } from "../src/services/chain-api.ts";
import { testApi } from "./chain-api.ts";

const NOTHING = new Uint8Array(0);

/** A recorded transfer with another message, or another fee. */
function changed(change: (parts: { body: txs.TxBody; authInfo: txs.AuthInfo }) => void): Uint8Array {
  const raw = decodeMessage(txs.TxRawSchema, Buffer.from(readRecordedTx("bank-send-plain").tx_bytes, "base64"));
  assert.ok(raw.ok);
  const body = decodeMessage(txs.TxBodySchema, raw.message.bodyBytes);
  const authInfo = decodeMessage(txs.AuthInfoSchema, raw.message.authInfoBytes);
  assert.ok(body.ok && authInfo.ok);
  const parts = { body: body.message, authInfo: authInfo.message };
  change(parts);
  const bodyBytes = encodeMessage(txs.TxBodySchema, parts.body);
  const authInfoBytes = encodeMessage(txs.AuthInfoSchema, parts.authInfo);
  return encodeMessage(txs.TxRawSchema, { ...raw.message, bodyBytes, authInfoBytes });
}

// Grants of authz that are not generic: modules/authz/authz.test.ts.
suite("what decision 0009 lists as not built", () => {
  const { application, source, options } = testApi();

  test("queries of feegrant and circuit are unknown", async () => {
    const api = new ChainApi(options, { application, source, log: silentLog });
    for (const path of ["feegrant.v1beta1.Query/Allowances", "circuit.v1.Query/X"]) {
      const [service] = path.split("/");
      const answer = await api.call(`/cosmos.${path}`, NOTHING, undefined);
      assert.ok(!answer.ok);
      assert.deepEqual([answer.status, answer.text], [12, `unknown service cosmos.${service}`]);
    }
  });

  test("messages of feegrant and circuit, and a fee granter, are refused with the listed codes", () => {
    for (const typeUrl of ["/cosmos.feegrant.v1beta1.MsgGrantAllowance", "/cosmos.circuit.v1.MsgTripCircuitBreaker"]) {
      const { code, codespace, log } = application.check(
        changed(({ body }) => {
          const [first] = body.messages;
          assert.ok(first);
          first.typeUrl = typeUrl;
        }),
      );
      assert.deepEqual([code, codespace], [2, "sdk"]);
      assert.equal(log, `unable to resolve type URL ${typeUrl}: tx parse error`);
    }
    const granted = application.check(
      changed(({ authInfo }) => {
        assert.ok(authInfo.fee);
        authInfo.fee.granter = "pokt1lvrxptamh6ws83x64x4m3stx0p5m94d72nfxh8";
      }),
    );
    assert.deepEqual([granted.code, granted.log], [18, "fee grants are not enabled: invalid request"]);
  });
});
