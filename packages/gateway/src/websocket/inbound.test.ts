import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { Inbound } from "./inbound.ts";

const TEXT = 1;
const PONG = 10;
const FRAGMENT_BYTES = 128;

/** A frame of a client. */
function frame(opcode: number, isLast: boolean, size: number): Buffer {
  const first = (isLast ? 0x80 : 0) | opcode;
  const payload = Buffer.alloc(size + 4, 0x7f);
  if (size < 126) return Buffer.concat([Buffer.from([first, 0x80 | size]), payload]);
  const wide = Buffer.alloc(size < 65_536 ? 2 : 8);
  wide.writeUIntBE(size, wide.length === 2 ? 0 : 2, wide.length === 2 ? 2 : 6);
  return Buffer.concat([Buffer.from([first, 0x80 | (wide.length === 2 ? 126 : 127)]), wide, payload]);
}

test("however the bytes are cut: what is held is what came since the last whole message", () => {
  const size = fc.oneof(fc.nat(200), fc.constantFrom(0, 125, 126, 65_535, 65_536));
  const one = fc.record({ isControl: fc.boolean(), isLast: fc.boolean(), size });
  fc.assert(
    fc.property(fc.array(one, { maxLength: 12 }), fc.array(fc.integer({ min: 1, max: 70_000 })), (frames, cuts) => {
      const inbound = new Inbound();
      let held = 0;
      const cut = [...cuts];
      for (const { isControl, isLast, size: bytes } of frames) {
        const whole = isControl ? frame(PONG, true, bytes % 126) : frame(TEXT, isLast, bytes);
        for (let at = 0; at < whole.length; ) {
          const part = whole.subarray(at, at + (cut.shift() ?? whole.length));
          inbound.read(part);
          at += part.length;
          if (at < whole.length) assert.equal(inbound.heldBytes, held + at);
        }
        if (!isControl) held = isLast ? 0 : held + whole.length + FRAGMENT_BYTES;
        assert.equal(inbound.heldBytes, held);
      }
    }),
  );
});

test("frames that come together, and the age of what follows a whole message in the same bytes", () => {
  const inbound = new Inbound();
  const next = frame(TEXT, true, 10).subarray(0, 9);
  inbound.read(Buffer.concat([frame(TEXT, false, 300), frame(PONG, true, 4), frame(TEXT, false, 1).subarray(0, 3)]));
  assert.deepEqual([inbound.tick(), inbound.tick()], [1, 2]);
  inbound.read(Buffer.concat([frame(TEXT, false, 1).subarray(3), frame(TEXT, true, 0), next]));
  assert.equal(inbound.heldBytes, 9);
  assert.equal(inbound.tick(), 1, "another message");
  inbound.read(frame(TEXT, true, 10).subarray(9));
  assert.equal(inbound.tick(), 0);
});
