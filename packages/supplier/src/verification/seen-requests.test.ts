import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { decodeRingSignature, encodeRingSignature, Rings, sha256 } from "@turnpike/crypto";
import { chainParty } from "@turnpike/testkit/chain";
import { requestName } from "../evidence/request-name.ts";
import { SeenRequests } from "./seen-requests.ts";

const DIGEST = sha256(Buffer.from("request"));
const RING = ["app", "gateway", "other"].map((name) => chainParty(name).publicKey);
const rings = new Rings();
const sign = (): Uint8Array => rings.sign(DIGEST, RING, chainParty("gateway").privateKey);

suite("requests that were seen", () => {
  test("a signature is the same in every form that it holds in, and each new one of the same call is another", () => {
    const signature = sign();
    const name = requestName(DIGEST, signature);
    const ring = decodeRingSignature(signature) ?? assert.fail();
    const turn = <T>([first, ...rest]: readonly T[]): T[] => [...rest, first ?? assert.fail()];
    // Begun at the next member: anyone with the signature can compute the challenge before it.
    const turned = { ...ring, responses: turn(ring.responses), members: turn(ring.members) };
    for (const challenge of [ring.challenge, new Uint8Array(32)]) {
      assert.equal(requestName(DIGEST, encodeRingSignature({ ...turned, challenge })), name);
    }
    assert.equal(requestName(DIGEST, Buffer.concat([signature, Buffer.from("more")])), name);
    assert.notEqual(requestName(DIGEST, sign()), name);
    assert.notEqual(requestName(sha256(Buffer.from("another")), signature), name);
  });

  test("are bounded: when there is no room left, new ones are refused", () => {
    const seen = new SeenRequests(2);
    assert.deepEqual([seen.add("a"), seen.add("a"), seen.add("b"), seen.add("c")], [true, false, true, false]);
    seen.delete("a");
    assert.deepEqual([seen.add("c"), seen.size], [true, 2]);
  });
});
