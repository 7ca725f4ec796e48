import assert from "node:assert/strict";
import { test } from "node:test";
import { bytesToHex0x, utf8ToBytes } from "@turnpike/base";
import { keccak256 } from "@turnpike/crypto";
import { CALLS } from "./abi.ts";
import { TOPIC_AUTHORIZATION_CANCELED, TOPIC_AUTHORIZATION_USED, TOPIC_TRANSFER } from "./logs.ts";

const hashOf = (signature: string): string => bytesToHex0x(keccak256(utf8ToBytes(signature)));

test("selectors and topics are the hashes of their signatures", () => {
  const names = {
    getBlockNumber: "getBlockNumber()",
    getCurrentBlockTimestamp: "getCurrentBlockTimestamp()",
    name: "name()",
    version: "version()",
    decimals: "decimals()",
    domainSeparator: "DOMAIN_SEPARATOR()",
  } as const satisfies Record<keyof typeof CALLS, string>;
  for (const [key, signature] of Object.entries(names)) {
    assert.equal(CALLS[key as keyof typeof CALLS], hashOf(signature).slice(0, 10));
  }
  assert.equal(TOPIC_TRANSFER, hashOf("Transfer(address,address,uint256)"));
  assert.equal(TOPIC_AUTHORIZATION_USED, hashOf("AuthorizationUsed(address,bytes32)"));
  assert.equal(TOPIC_AUTHORIZATION_CANCELED, hashOf("AuthorizationCanceled(address,bytes32)"));
});
