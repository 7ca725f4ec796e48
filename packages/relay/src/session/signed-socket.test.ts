import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { cosmosSign, cosmosVerify, Rings, SigningThreads, sha256 } from "@turnpike/crypto";
import {
  decodeRelayRequest,
  encodeRelayResponse,
  type RelayResponseFields,
  relayRequestSignBytes,
  relayResponseDigest,
} from "@turnpike/protocol";
import { eventually } from "@turnpike/testkit";
import { chainParty } from "@turnpike/testkit/chain";
import type { SocketHandlers, TransportSocket } from "../transport/transport.ts";
import type { GatewaySession } from "./gateway-session.ts";
import { SessionSigners } from "./session-signers.ts";
import type { VerifyResponse } from "./signed-relay.ts";
import { SignedSocket } from "./signed-socket.ts";

const OPERATOR = chainParty("a");
const APPLICATION = chainParty("app");
const GATEWAY = chainParty("gateway");

const SESSION: GatewaySession = {
  header: {
    applicationAddress: APPLICATION.address,
    serviceId: "eth",
    sessionId: "s1",
    sessionStartBlockHeight: 1n,
    sessionEndBlockHeight: 20n,
  },
  applicationAddress: APPLICATION.address,
  suppliers: [],
  graceEndHeight: 21n,
  ring: [APPLICATION.publicKey, GATEWAY.publicKey].toSorted((a, b) => Buffer.compare(a, b)),
  signer: GATEWAY,
  isPartial: false,
};

/** The WebSocket below: what was sent, and frames that a supplier sends. */
class WireSocket implements TransportSocket {
  readonly ok = true;
  readonly bufferedBytes = 0;
  readonly sent: Uint8Array[] = [];
  isOpen = true;
  isPaused = false;
  handlers: SocketHandlers | undefined;

  listen(handlers: SocketHandlers): void {
    this.handlers = handlers;
  }

  send(bytes: string | Uint8Array): void {
    assert.ok(bytes instanceof Uint8Array);
    this.sent.push(bytes);
  }

  receive(bytes: Uint8Array): void {
    this.handlers?.message(Buffer.from(bytes));
  }

  close(code: number): void {
    this.isOpen = false;
    this.handlers?.closed(code);
  }

  ping(): void {}

  pause(): void {
    this.isPaused = true;
  }

  resume(): void {
    this.isPaused = false;
  }

  terminate(): void {
    this.isOpen = false;
  }
}

/** A frame of the supplier for these bytes, as it stands after `change`, signed by `key`. */
function frame(payload: Uint8Array, change: Partial<RelayResponseFields> = {}, key = OPERATOR.privateKey): Uint8Array {
  const fields: RelayResponseFields = {
    header: SESSION.header,
    signature: new Uint8Array(0),
    payload,
    error: undefined,
    payloadHash: sha256(payload),
    ...change,
  };
  return encodeRelayResponse({ ...fields, signature: cosmosSign(relayResponseDigest(fields), key) });
}

interface Scene extends AsyncDisposable {
  readonly wire: WireSocket;
  readonly socket: SignedSocket;
  /** Payloads that were handed over, and close codes, in their order. */
  readonly received: (string | number)[];
  readonly counted: string[];
  readonly banned: string[];
  readonly usedUp: string[];
}

const checked: VerifyResponse = async (digest, signature, publicKey) =>
  cosmosVerify(digest, signature, publicKey) ? "valid" : "invalid";

function sceneOf(verify = checked): Scene {
  const wire = new WireSocket();
  const threads = new SigningThreads({ threads: 0 });
  const signers = new SessionSigners({ maxSessions: 4 }, { threads });
  const [received, counted, banned, usedUp]: [(string | number)[], string[], string[], string[]] = [[], [], [], []];
  const socket = new SignedSocket(
    wire,
    {
      session: SESSION,
      supplier: { operatorAddress: OPERATOR.address, publicKey: OPERATOR.publicKey, urls: new Map() },
      to: {
        operatorAddress: OPERATOR.address,
        set: {
          ban: (operator) => banned.push(operator),
          usedUp: ({ header }, operator) => usedUp.push(`${header.sessionId} ${operator}`),
        },
      },
    },
    { signers, verify, count: (result) => counted.push(result) },
  );
  socket.listen({
    message: (bytes) => received.push(bytes.toString("latin1")),
    pong: () => {},
    closed: (code = 0) => received.push(code),
  });
  return {
    wire,
    socket,
    received,
    counted,
    banned,
    usedUp,
    async [Symbol.asyncDispose]() {
      signers[Symbol.dispose]();
      await threads[Symbol.asyncDispose]();
    },
  };
}

const bytes = (text: string): Buffer => Buffer.from(text, "latin1");

suite("a signed WebSocket", () => {
  test("frames of the client are signed for the session's supplier, whole and in their order, text and binary", async () => {
    await using scene = sceneOf();
    const frames = ["first", bytes("\0\xff\xfe binary"), "", "last"];
    for (const one of frames) scene.socket.send(one);
    await eventually("all are sent", () => scene.wire.sent.length === frames.length);
    const rings = new Rings();
    const payloads = scene.wire.sent.map((sent) => {
      const relay = decodeRelayRequest(sent);
      const digest = relayRequestSignBytes(sent);
      assert.ok(relay !== undefined && digest !== undefined);
      assert.ok(rings.verifyWithin(digest, relay.signature, SESSION.ring).ok, "signed by a member of the ring");
      assert.deepEqual(relay.header, SESSION.header);
      assert.equal(relay.supplierOperatorAddress, OPERATOR.address);
      return Buffer.from(relay.payload).toString("latin1");
    });
    assert.deepEqual(payloads, ["first", "\0\xff\xfe binary", "", "last"]);
    assert.equal(scene.socket.bufferedBytes, 0);
  });

  test("frames of the supplier are handed over in their order, however long each check takes, and the close comes last", async () => {
    const checks: (() => void)[] = [];
    await using scene = sceneOf(async (...signature) => {
      await new Promise<void>((resolve) => checks.push(resolve));
      return checked(...signature);
    });
    for (const text of ["one", "\0\xff", "three"]) scene.wire.receive(frame(bytes(text)));
    scene.wire.close(4000);
    for (let at = 0; at < 3; at++) {
      await eventually("a check", () => checks.length > at);
      checks[at]?.();
    }
    await eventually("the close", () => scene.received.length === 4);
    assert.deepEqual(scene.received, ["one", "\0\xff", "three", 4000]);
    assert.deepEqual(scene.counted, ["answered", "answered", "answered"]);
    assert.equal(scene.socket.isOpen, false);
  });

  const forged = {
    "of another signer": frame(bytes("x"), {}, chainParty("b").privateKey),
    "of another session": frame(bytes("x"), { header: { ...SESSION.header, sessionId: "s2" } }),
    "of no session": frame(bytes("x"), { header: undefined }),
    "whose payload is not the one that was signed": (() => {
      const fields = { header: SESSION.header, signature: new Uint8Array(0), payload: bytes("x"), error: undefined };
      const digest = relayResponseDigest({ ...fields, payloadHash: sha256(bytes("x")) });
      const signature = cosmosSign(digest, OPERATOR.privateKey);
      return encodeRelayResponse({ ...fields, payload: bytes("y"), payloadHash: sha256(bytes("x")), signature });
    })(),
  };
  for (const [what, forgery] of Object.entries(forged)) {
    test(`attack: a frame ${what} reaches no client, nor does one behind it, and its supplier is out for good`, async () => {
      await using scene = sceneOf();
      scene.wire.receive(frame(bytes("good")));
      scene.wire.receive(forgery);
      scene.wire.receive(frame(bytes("behind it")));
      await eventually("the end", () => !scene.wire.isOpen);
      scene.wire.close(1006);
      await eventually("the close", () => scene.received.at(-1) === 1006);
      assert.deepEqual(scene.received, ["good", 1006]);
      assert.deepEqual(scene.counted, ["answered", "invalid"]);
      assert.deepEqual(scene.banned, [OPERATOR.address]);
    });
  }

  test("bytes that are no relay end the connection, and say nothing of the supplier", async () => {
    await using scene = sceneOf();
    scene.wire.receive(bytes("<html>"));
    await eventually("the end", () => !scene.wire.isOpen);
    assert.deepEqual([scene.received, scene.counted, scene.banned], [[], ["invalid"], []]);
  });

  test("a frame that we had no time to check is not handed over, and says nothing of the supplier", async () => {
    await using scene = sceneOf(async () => "unchecked");
    scene.wire.receive(frame(bytes("x")));
    await eventually("the end", () => !scene.wire.isOpen);
    assert.deepEqual([scene.received, scene.counted, scene.banned], [[], ["unchecked"], []]);
  });

  test("a supplier whose share of the stake is used up serves no more of this session, by its code and by its frame", async () => {
    const expected = [`s1 ${OPERATOR.address}`];
    await using byCode = sceneOf();
    byCode.wire.close(4002);
    assert.deepEqual([byCode.usedUp, byCode.banned], [expected, []]);
    await using byFrame = sceneOf();
    const error = { codespace: "relayer_proxy", code: 7, description: "offchain rate limit hit", message: "" };
    byFrame.wire.receive(frame(new Uint8Array(0), { error }));
    await eventually("the end", () => !byFrame.wire.isOpen);
    assert.deepEqual([byFrame.usedUp, byFrame.banned, byFrame.received], [expected, [], []]);
  });

  test("attack: a supplier that sends more than is checked is not read meanwhile, by frames and by bytes", async () => {
    for (const { size, most } of [
      { size: 10, most: 256 },
      { size: 300_000, most: 4 },
    ]) {
      let release: () => void = () => {};
      const isReleased = new Promise<void>((resolve) => {
        release = resolve;
      });
      await using scene = sceneOf(async () => {
        await isReleased;
        return "valid";
      });
      const one = frame(Buffer.alloc(size));
      let frames = 0;
      for (; !scene.wire.isPaused; frames++) scene.wire.receive(one);
      assert.equal(frames, most);
      // A client that reads again must not undo it.
      scene.socket.pause();
      scene.socket.resume();
      assert.equal(scene.wire.isPaused, true);
      release();
      await eventually("all are handed over", () => scene.received.length === frames);
      assert.equal(scene.wire.isPaused, false);
    }
  });

  test("a client that does not read pauses the supplier, whatever is checked meanwhile", async () => {
    await using scene = sceneOf();
    scene.socket.pause();
    scene.wire.receive(frame(Buffer.alloc(2_000_000)));
    await eventually("it is checked", () => scene.received.length === 1);
    assert.equal(scene.wire.isPaused, true);
    scene.socket.resume();
    assert.equal(scene.wire.isPaused, false);
  });

  test("a frame that cannot be signed ends the connection: a client would miss it", async () => {
    const scene = sceneOf();
    await scene[Symbol.asyncDispose]();
    scene.socket.send("x");
    await eventually("the end", () => !scene.wire.isOpen);
    assert.deepEqual(scene.wire.sent, []);
    assert.equal(scene.socket.bufferedBytes, 0);
  });
});
