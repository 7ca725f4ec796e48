import assert from "node:assert/strict";
import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import { concatBytes } from "@turnpike/base";
import { decodeMessage, encodeMessage } from "@turnpike/proto";
import type { Context } from "../../../src/state/context.ts";
import type { Module } from "../../../src/state/module.ts";
import { Overlay } from "../../../src/state/overlay.ts";

/** The encoded form of a message that is right, and its type. */
export interface Sample {
  readonly schema: DescMessage;
  readonly bytes: Uint8Array;
}

/** A sample of a message. */
export function sampleOf<Desc extends DescMessage>(schema: Desc, message: MessageShape<Desc>): Sample {
  return { schema, bytes: encodeMessage(schema, message) };
}

/** Numbers that look random and are the same in every run. */
function sequence(seed: number): (below: number) => number {
  let state = BigInt(seed) + 1n;
  return (below) => {
    state = (state * 6_364_136_223_846_793_005n + 1_442_695_040_888_963_407n) % 2n ** 64n;
    return Number((state >> 33n) % BigInt(Math.max(below, 1)));
  };
}

function bent(bytes: Uint8Array, next: (below: number) => number): Uint8Array {
  const at = next(bytes.length);
  const length = next(12);
  switch (next(5)) {
    case 0:
      return bytes.map((byte, i) => (i === at ? next(256) : byte));
    case 1:
      return bytes.slice(0, at);
    case 2:
      return concatBytes(bytes.slice(0, at), bytes.slice(at + length));
    case 3:
      return concatBytes(bytes, bytes.slice(at, at + length * 20));
    default:
      return concatBytes(
        bytes.slice(0, at),
        Uint8Array.from({ length }, () => next(256)),
        bytes.slice(at),
      );
  }
}

/**
 * Runs messages that are nearly right: each must end in a value or a fault with a code and a text, and write nothing when it
 * fails.
 */
export function assertOnlyFaults(
  module: Module,
  ctx: Context,
  samples: readonly Sample[],
  count: number,
): { readonly taken: number; readonly refused: number } {
  let taken = 0;
  let refused = 0;
  for (let i = 0; i < count; i++) {
    const next = sequence(i);
    const { schema, bytes } = samples[i % samples.length] ?? assert.fail();
    let changed = bytes;
    for (let times = next(3); times >= 0; times--) changed = bent(changed, next);
    const decoded = decodeMessage(schema, changed);
    const handler = module.messages?.[`/${schema.typeName}`] ?? assert.fail(schema.typeName);
    if (!decoded.ok) {
      refused++;
      continue;
    }
    assert.ok(handler.signers(decoded.message).length > 0);
    const fault = handler.validate(decoded.message);
    const ran =
      fault === undefined
        ? handler.run({ ...ctx, state: new Overlay(ctx.state), events: [] }, decoded.message)
        : { ok: false as const, fault };
    if (ran.ok) taken++;
    else {
      refused++;
      assert.ok(ran.fault.code > 0 && ran.fault.codespace !== "" && ran.fault.text !== "");
    }
  }
  return { taken, refused };
}
