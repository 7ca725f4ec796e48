import { createHash, randomBytes } from "node:crypto";
import { AppError } from "@turnpike/base";
import { encodeRelayRequest, encodeRelayResponse, relayBytes, relayHash } from "@turnpike/protocol";
import type { RelayStore } from "@turnpike/supplier";
import { SeenRequests } from "../../../packages/supplier/src/verification/seen-requests.ts";
import { OPERATOR, openTestStore, scratchFolder, testHeader } from "../../../packages/supplier/test/sessions.ts";
import { serveParent } from "../../lib/child.ts";

/** Operations of this child: what a supplier keeps of relays, or the least that could stand in its place. */
export type RelayMemoryOperations = {
  /** Opens the evidence, and has one relay in its session. */
  readonly open: (params: undefined) => Promise<void>;
  /** Appends relays to that session, and resolves with the bytes of one. */
  readonly append: (params: { readonly relays: number }) => Promise<number>;
  /** Seals the session: every digest of its trie is computed. */
  readonly seal: (params: undefined) => Promise<void>;
  /** Keeps a hash and a place of each relay and a name of its request, and nothing else. */
  readonly keepNames: (params: { readonly relays: number }) => Promise<void>;
};

const AT_ONCE = 32;
const MOST_SEEN = 4_000_000;
/** A ring signature of two members. */
const RING_BYTES = 199;
const PAYLOAD_BYTES = 300;
const SESSION = "ab".repeat(32);

const owned = new AsyncDisposableStack();
const header = testHeader(SESSION);
const seen = new SeenRequests(MOST_SEEN);
const places = new Map<string, number>();
const names = new Set<string>();
let store: RelayStore | undefined;

function relayOf(): Uint8Array {
  const request = encodeRelayRequest({
    header,
    supplierOperatorAddress: OPERATOR,
    signature: randomBytes(RING_BYTES),
    payload: randomBytes(PAYLOAD_BYTES),
  });
  const response = encodeRelayResponse({
    header,
    signature: randomBytes(64),
    payload: new Uint8Array(0),
    error: undefined,
    payloadHash: randomBytes(32),
  });
  const relay = relayBytes(request, response);
  if (relay === undefined) throw new AppError("INTERNAL");
  return relay;
}

function nameOf(relay: Uint8Array): string {
  return createHash("sha256").update(relay).digest().toString("latin1", 0, 16);
}

async function append(relays: number): Promise<number> {
  let bytes = 0;
  for (let at = 0; at < relays; at += AT_ONCE) {
    const group = Array.from({ length: Math.min(AT_ONCE, relays - at) }, relayOf);
    bytes += group.reduce((sum, { length }) => sum + length, 0);
    const results = await Promise.all(
      group.map(async (relay) => {
        if (!seen.add(nameOf(relay))) throw new AppError("INTERNAL", { message: "A relay's name was there." });
        return store?.append({ operatorAddress: OPERATOR, header, relay });
      }),
    );
    if (results.some((result) => result !== "mined")) {
      throw new AppError("INTERNAL", { message: `Relays were not mined: ${results.join(" ")}` });
    }
  }
  return bytes / relays;
}

serveParent<RelayMemoryOperations>(
  {
    async open() {
      const { folder } = owned.use(await scratchFolder());
      store = owned.use(await openTestStore(folder));
      await append(1);
    },
    append: ({ relays }) => append(relays),
    async seal() {
      await store?.session(OPERATOR, SESSION)?.seal();
    },
    keepNames({ relays }) {
      for (let i = 0; i < relays; i++) {
        const relay = relayOf();
        places.set(Buffer.from(relayHash(relay)).toString("latin1"), i * relay.length);
        names.add(nameOf(relay));
      }
      return Promise.resolve();
    },
  },
  owned,
);
